"""When the flow reaches the plateau and leaves it, from small seeds of either sign, against D.

Parameters: ``{"activation", "tokens", "prior", "heads", "gamma", "feature", "dims", "threshold",
"learnt", "base_points", "scrambles"}``. Heads start at ``k_h(0) = +-k*_f / sqrt(D)``,
f = ``feature``, with alternating signs: the only place where D enters the flow. The plateau is
reached when the heads have the part ``learnt`` of the mean, and left when their half difference
along the spike is ``threshold``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.escape import arrival_time, escape_time
from hdattn.multihead.flow import FlowProblem, solve_flow
from hdattn.multihead.plateau import plateau_eigenvalues
from hdattn.multihead.priors import FlippingPrior, make_prior
from hdattn.multihead.stability import no_specialisation
from hdattn.store import Dataset, Record, Result

_TIMES = 1001  # of a flow: an escape is read off between two of them


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Times of each scramble of the Sobol points at each D; NaN where the flow never gets there."""
    prior, dims = make_prior(parameters["prior"]), parameters["dims"]
    scrambles = range(parameters["scrambles"])
    rate = _rate(parameters, prior)
    times = np.array(
        [[_times(parameters, prior, rate, dim, seed) for dim in dims] for seed in scrambles]
    )
    axes = ("scramble", "D")
    return Result(
        {
            "dim": Dataset(np.array(dims, dtype=float), "dimension of the tokens", "D", ("D",)),
            "rate": Dataset(np.array(rate), "growth rate at the plateau", r"|\lambda|"),
            "arrival": Dataset(
                times[..., 0],
                "time at which the mean is half learnt",
                r"\tau",
                axes,
                allow_nan=True,
            ),
            "escape": Dataset(
                times[..., 1], "time at which the heads are split", r"\tau", axes, allow_nan=True
            ),
        },
        converged=bool(np.isfinite(times).all()),
        residual=float(np.mean(~np.isfinite(times))),
    )


def _rate(parameters: dict[str, Any], prior: FlippingPrior) -> float:
    """Closed-form growth rate along the spike; ``UserError`` where it is zero."""
    activation, tokens = parameters["activation"], parameters["tokens"]
    if reason := no_specialisation(activation, tokens):
        raise UserError(reason)
    rates = -plateau_eigenvalues(activation, tokens, prior, parameters["heads"])
    return float(rates[parameters["feature"]])


def _times(
    parameters: dict[str, Any], prior: FlippingPrior, rate: float, dim: float, seed: int
) -> tuple[float, float]:
    """(arrival, escape) of one flow, followed for longer than the escape can take."""
    heads, feature = parameters["heads"], parameters["feature"]
    start = np.zeros((heads, prior.dim_features))
    start[:, feature] = (-1.0) ** np.arange(heads) / np.sqrt(dim)
    problem = FlowProblem(
        parameters["activation"], parameters["tokens"], prior, start, gamma=parameters["gamma"]
    )
    # ln D / (2 rate) is an upper bound in the limit of gradient flow; arrival takes order H.
    tau = np.linspace(0.0, 1.1 * np.log(dim) / (2 * rate) + 2.5 * heads, _TIMES)
    points = parameters["base_points"]
    flow = solve_flow(problem, tau, base_points=points, seed=seed, with_loss=False)
    mean = int(np.argmax(np.abs(prior.mean)))
    arrival = arrival_time(flow.tau, flow.m, prior.mean[mean], mean, parameters["learnt"])
    return arrival, escape_time(flow.tau, flow.m, feature, parameters["threshold"])
