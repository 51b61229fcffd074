"""Gradient flows of many seeds in the span of the spikes, on few points, to long times.

Parameters: ``{"activation", "tokens", "prior", "heads", "sigma", "dim", "seed", "block",
"block_size", "base_points", "tau_first", "tau_max", "tau_points", "losses", "end_loss"}``. Each
instance of the block starts at ``m_hf ~ N(0, sigma^2 / dim)``, ``r = m m^T``: ``dim`` is the size
of the seeds and nothing else. It is recorded at 0 and at ``tau_points - 1`` times in geometric
progression from ``tau_first`` to ``tau_max``, and has Sobol points of its own. ``losses``: whether
to evaluate the loss at each time, on points that drove no flow: on its own few points a flow learns
what is special to them and may fall below the Bayes risk. ``end_loss``: whether to evaluate it at
the end by quadrature.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.multihead.activations import get_activation
from hdattn.multihead.flow import Flow, FlowProblem, solve_flow
from hdattn.multihead.order_parameters import initial_order_parameters
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import Prior, make_prior
from hdattn.multihead.quadrature import population_loss
from hdattn.multihead.token_moments import Quadrature
from hdattn.seeds import generator
from hdattn.steps.multihead import instances
from hdattn.store import Dataset, Record, Result

_FRESH = 4  # times as many points for the loss as for the flow
_FRESH_SEED = 2**31  # above the number of any instance, whose seeds drive the flows


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Solve the flow of every instance of the block."""
    prior, indices = make_prior(parameters["prior"]), instances(parameters)
    last, first, count = (parameters[f"tau_{name}"] for name in ("max", "first", "points"))
    tau = np.concatenate([[0.0], np.geomspace(first, last, count - 1)])
    flows = [_solve(parameters, prior, tau, instance) for instance in indices]
    m, b, c = (np.array([_padded(getattr(f, x), len(tau)) for f in flows]) for x in ("m", "b", "c"))
    along = ("instance", "tau")
    converged = np.array([flow.converged for flow in flows])
    evaluations = np.array([flow.evaluations for flow in flows])
    datasets = {
        "instance": Dataset(np.array(indices), "number of the instance", axes=("instance",)),
        "tau": Dataset(tau, "time gamma * samples / D", r"\tau", ("tau",)),
        "m": Dataset(
            m,
            "overlaps k_h . k*_f",
            "m_{hf}",
            (*along, "head", "spike"),
            allow_nan=True,
        ),
        "b": Dataset(b, "biases", "b_h", (*along, "head"), allow_nan=True),
        "c": Dataset(c, "output scale", "c", along, allow_nan=True),
        "converged": Dataset(converged, "whether it reached the last time", axes=("instance",)),
        "evaluations": Dataset(evaluations, "evaluations of the gradient", axes=("instance",)),
    }
    if parameters["losses"]:
        fresh = _independent_points(parameters, prior)
        loss = np.array([_padded(_losses(fresh, flow), len(tau)) for flow in flows])
        long_name = "loss on points that drove no flow"
        datasets["loss"] = Dataset(loss, long_name, r"\ell", along, allow_nan=True)
    if parameters["end_loss"]:
        ends = [_end_loss(parameters, prior, flow) for flow in flows]
        values, errors = np.transpose([(end.value, end.error) for end in ends])
        datasets["end_loss"] = Dataset(values, "loss at the end", r"\ell", ("instance",))
        datasets["end_loss_error"] = Dataset(errors, "error of the loss", axes=("instance",))
    return Result(
        datasets,
        converged=bool(converged.all()),
        residual=max(flow.residual for flow in flows),
        seeds={"root_seed": parameters["seed"], "instances": list(indices)},
    )


def _solve(parameters: dict[str, Any], prior: Prior, tau: np.ndarray, instance: int) -> Flow:
    keys = {key: parameters[key] for key in ("tokens", "prior", "dim")}
    m, _ = initial_order_parameters(
        generator(parameters["seed"], keys, instance),
        parameters["heads"],
        prior.dim_features,
        sigma=parameters["sigma"],
        dim=parameters["dim"],
    )
    problem = FlowProblem(parameters["activation"], parameters["tokens"], prior, m)
    points = parameters["base_points"]
    return solve_flow(problem, tau, base_points=points, seed=instance, with_loss=False)


def _independent_points(parameters: dict[str, Any], prior: Prior) -> PopulationLoss:
    return PopulationLoss(
        get_activation(parameters["activation"]),
        parameters["tokens"],
        prior,
        base_points=_FRESH * parameters["base_points"],
        seed=_FRESH_SEED + parameters["block"],
    )


def _losses(points: PopulationLoss, flow: Flow) -> np.ndarray:
    return np.array([points.loss(m, b, c) for m, b, c in zip(flow.m, flow.b, flow.c, strict=True)])


def _end_loss(parameters: dict[str, Any], prior: Prior, flow: Flow) -> Quadrature:
    activation, tokens = parameters["activation"], parameters["tokens"]
    return population_loss(activation, tokens, prior, flow.m[-1], b=flow.b[-1], c=flow.c[-1])


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    """``values`` with NaN after the last time that the flow reached."""
    missing = np.full((length - len(values), *values.shape[1:]), np.nan)
    return np.concatenate([values, missing])
