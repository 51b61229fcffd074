"""Bayes-optimal overlap and error over a grid of alpha.

Parameters: ``noise, tokens, beta0, target, alphas`` for a limit target. With ``data, seed, block,
block_size`` in place of the first four, and the data experiment as input, there is one curve for
each instance's own eigenvalues: an instance dimension comes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.singlehead.bayes_optimal import solve_bayes_curve
from hdattn.singlehead.problem import Problem
from hdattn.steps.singlehead.state_evolution import curve_targets
from hdattn.store import Dataset, Record, Result

FIELDS = {
    "q": ("overlap of the posterior mean with the target", "q"),
    "Q0": ("overlap Tr S0^2/d of the target", "Q_0"),
    "sigma": ("noise of the equivalent observation S0 + sigma Z", r"\sigma"),
    "bayes_test_error": ("least test error, per sample", r"E_{\rm Bayes}"),
    "overlap_error": ("least mean square error Q0 - q", ""),
    "residual": ("residual of the fixed point", ""),
    "iterations": ("iterations of the solver", ""),
    "converged": ("whether the solver converged", ""),
}


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Solve the curve (or one curve per instance)."""
    targets, physics, first = curve_targets(parameters, inputs)
    problems = [Problem(alpha=1.0, lam=0.0, target=target, **physics) for target in targets]
    curves = [solve_bayes_curve(problem, parameters["alphas"]) for problem in problems]

    def gather(value: Any) -> np.ndarray:
        rows = np.array([[value(solution) for solution in curve] for curve in curves])
        return rows if first else rows[0]

    axes = (*first, "alpha")
    datasets = {
        "alpha": Dataset(np.array(parameters["alphas"], float), "n/d^2", r"\alpha", ("alpha",)),
        "flags": Dataset(gather(lambda s: "; ".join(s.flags)), "what to distrust", axes=axes),
    }
    for name, (long_name, symbol) in FIELDS.items():
        values = gather(lambda s, name=name: getattr(s, name))
        datasets[name] = Dataset(values, long_name, symbol, axes)
    return Result(
        datasets,
        converged=bool(datasets["converged"].values.all()),
        residual=float(datasets["residual"].values.max()),
    )
