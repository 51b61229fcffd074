"""The limit lambda -> 0 of the state evolution over a grid of alpha, for a limit target.

Parameters: ``kappa, noise, tokens, beta, beta0, penalty, target, alphas``; all alphas lie below the
interpolation threshold, beyond which the limit is refused, or there is no noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.singlehead.problem import Problem
from hdattn.singlehead.thresholds import (
    interpolation_threshold,
    recovery_threshold,
    solve_ridgeless,
)
from hdattn.steps.singlehead.state_evolution import FIELDS, curve_targets
from hdattn.store import Dataset, Record, Result

NAMES = ("Q", "M", "Q0", "test_error", "rank_fraction", "replicon", "residual", "converged")
_LIMIT = "lambda -> 0 limit"  # how the flags begin that only say which limit this is


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Solve every point."""
    (target,), physics, _ = curve_targets(parameters, inputs)
    options = {key: parameters[key] for key in ("kappa", "beta", "penalty")}
    problems = [Problem(a, 0.0, target=target, **physics, **options) for a in parameters["alphas"]]
    solutions = [solve_ridgeless(problem) for problem in problems]
    flags = ["; ".join(f for f in s.flags if not f.startswith(_LIMIT)) for s in solutions]
    axes = ("alpha",)
    interpolation = interpolation_threshold(problems[0])
    datasets = {
        "alpha": Dataset(np.array(parameters["alphas"], float), "n/d^2", r"\alpha", axes),
        "flags": Dataset(np.array(flags), "what to distrust", axes=axes),
        "alpha_interpolation": Dataset(
            np.array(interpolation), "largest alpha at which all labels are fitted", allow_nan=True
        ),
        "alpha_recovery": Dataset(
            np.array(recovery_threshold(problems[0])),
            "least alpha of perfect recovery from noiseless labels",
        ),
    }
    for name in NAMES:
        values = np.array([getattr(s, name) for s in solutions])
        datasets[name] = Dataset(values, *FIELDS[name], axes)
    return Result(
        datasets,
        converged=all(s.converged for s in solutions),
        residual=max(s.residual for s in solutions),
    )
