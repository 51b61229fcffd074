"""The weight decay of least test error at each alpha of a grid, and the theory there.

Parameters: ``noise, tokens, beta0, target, alphas, kappa, beta, penalty, nodes`` and ``lam_range``
[low, high], within which the minimum is sought.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.singlehead.problem import Problem
from hdattn.singlehead.regularisation import best_lambda
from hdattn.steps.singlehead.state_evolution import FIELDS, curve_targets
from hdattn.store import Dataset, Record, Result

NAMES = ("Q", "M", "V", "Q0", "test_error", "test_error_floor", "rank_fraction", "replicon")
SOLVER = ("jump_probability", "residual", "iterations", "converged")


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Find the best lam at each alpha."""
    (target,), physics, _ = curve_targets(parameters, inputs)
    options = {key: parameters[key] for key in ("kappa", "beta", "penalty")}
    low, high = parameters["lam_range"]
    solutions = [
        best_lambda(
            Problem(alpha=alpha, lam=high, target=target, **physics, **options),
            low,
            high,
            nodes=int(parameters["nodes"]),
        )
        for alpha in parameters["alphas"]
    ]
    axes = ("alpha",)
    datasets = {
        "alpha": Dataset(np.array(parameters["alphas"], float), "n/d^2", r"\alpha", axes),
        "lam": Dataset(
            np.array([s.problem.lam for s in solutions]), "best weight decay", r"\lambda", axes
        ),
        "flags": Dataset(
            np.array(["; ".join(s.flags) for s in solutions]), "what to distrust", axes=axes
        ),
    }
    for name in NAMES + SOLVER:
        values = np.array([getattr(s, name) for s in solutions])
        datasets[name] = Dataset(values, *FIELDS[name], axes)
    return Result(
        datasets,
        converged=all(s.converged for s in solutions),
        residual=max(s.residual for s in solutions),
    )
