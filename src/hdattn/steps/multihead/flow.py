"""Flow of the order parameters, from where each instance of a block starts.

Parameters: those of the data experiment (the input ``data``), and ``activation``, ``gamma`` (0 for
gradient flow), ``base_points``, ``tau_max``, ``tau_points``. Each instance has Sobol points of its
own, so that their errors are independent and average out over instances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hdattn.multihead.flow import Flow, FlowProblem, solve_flow
from hdattn.multihead.priors import make_prior
from hdattn.steps.multihead import instances, seeds, times, trajectories
from hdattn.store import Dataset, Record, Result


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Solve the flow of every instance of the block."""
    indices, tau = instances(parameters), times(parameters)
    flows = [
        _solve(parameters, inputs["data"], position, tau, seed=instance)
        for position, instance in enumerate(indices)
    ]
    arrays = {name: _gather(flows, name, len(tau)) for name in ("m", "r", "b", "c", "loss")}
    arrays["converged"] = np.array([flow.converged for flow in flows])
    evaluations = np.array([flow.evaluations for flow in flows])
    return Result(
        {
            **trajectories(indices, tau, arrays),
            "evaluations": Dataset(evaluations, "evaluations of the gradient", axes=("instance",)),
        },
        converged=all(flow.converged for flow in flows),
        residual=max(flow.residual for flow in flows),
        seeds=seeds(parameters),
        messages=[
            f"instance {i}: the integrator stopped at tau = {flow.tau[-1]:g}"
            for i, flow in zip(indices, flows, strict=True)
            if not flow.converged
        ],
    )


def _solve(
    parameters: dict[str, Any], data: Record, position: int, tau: np.ndarray, seed: int
) -> Flow:
    problem = FlowProblem(
        parameters["activation"],
        parameters["data"]["tokens"],
        make_prior(parameters["data"]["prior"]),
        data.datasets["m"][position],
        data.datasets["r"][position],
        gamma=parameters["gamma"],
        b0=data.datasets["b"],
        c0=data.attributes["c"],
    )
    return solve_flow(problem, tau, base_points=parameters["base_points"], seed=seed)


def _gather(flows: Sequence[Flow], name: str, length: int) -> np.ndarray:
    """One array for all instances, with NaN after the last time that a flow reached."""
    arrays = [getattr(flow, name) for flow in flows]
    gathered = np.full((len(flows), length, *arrays[0].shape[1:]), np.nan)
    for row, array in zip(gathered, arrays, strict=True):
        row[: len(array)] = array
    return gathered
