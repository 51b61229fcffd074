"""State evolution of message passing, iterate by iterate, for the targets of a block.

Parameters: those of ``singlehead/amp`` without ``tolerance`` and ``test_samples``, and ``nodes``;
the input ``data`` gives each instance's own eigenvalues, the input ``best``, if any, the weight
decays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.singlehead.problem import Problem
from hdattn.singlehead.trajectory import bayes_optimal_trajectory, state_evolution_trajectory
from hdattn.steps.singlehead.amp import SYMBOLS, lams_of
from hdattn.steps.singlehead.state_evolution import curve_targets
from hdattn.store import Dataset, Record, Result

NAMES = ("Q", "M", "V", "prox_objective", "test_error")


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Follow every instance's target at every alpha."""
    targets, physics, axes = curve_targets(parameters, inputs)
    options = {key: parameters[key] for key in ("kappa", "beta", "penalty")}
    pairs = list(zip(parameters["alphas"], lams_of(parameters, inputs), strict=True))
    followed = [
        [
            _follow(Problem(alpha, lam, target=target, **physics, **options), parameters)
            for alpha, lam in pairs
        ]
        for target in targets
    ]
    datasets = {
        "alpha": Dataset(np.array(parameters["alphas"], float), "n/d^2", r"\alpha", ("alpha",)),
    }
    labels = {**SYMBOLS, "test_error": ("test error of the iterate", r"E_{\rm test}")}
    for name in NAMES:
        values = np.array([[getattr(t, name) for t in row] for row in followed])
        datasets[name] = Dataset(
            values, *labels[name], (*axes, "alpha", "iteration"), allow_nan=True
        )
    return Result(datasets)


def _follow(problem: Problem, parameters: dict[str, Any]) -> Any:
    if parameters["denoiser"] == "bayes":
        return bayes_optimal_trajectory(problem, parameters["iterations"])
    return state_evolution_trajectory(
        problem,
        parameters["iterations"],
        damping=parameters["damping"],
        nodes=int(parameters["nodes"]),
    )
