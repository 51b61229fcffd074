"""Exponents of a power-law target at several dimensions, all regimes, softmax and linear output.

Parameters: ``spectral_exponent, noise, channels, dims, points, nodes``, and ``modes``:
"interacting" by the law of the eigenvalues, "independent" by that of modes which do not repel, for
any dimension.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.singlehead.exponents import REGIMES, predicted_exponent
from hdattn.singlehead.independent import IndependentModes
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.scaling import measure_exponent
from hdattn.singlehead.targets import power_law
from hdattn.steps.singlehead.scaling import doubts
from hdattn.store import Dataset, Record, Result

MEASURED = {
    "n": ("number of samples", "point"),
    "excess": ("test error above the least on the ray; linear output: Q0 - 2 M + Q", "point"),
    "lam": ("weight decay", "point"),
    "flags": ("what to distrust", "point"),
    "converged": ("whether the solver converged", "point"),
    "window": ("n between which the exponent is fitted", "end"),
    "exponent": ("fitted exponent of the excess",),
    "error": ("error of the exponent",),
}


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Solve each channel, regime and dimension at its own sizes n."""
    channels, dims = parameters["channels"], parameters["dims"]
    cases = [(channel, regime, dim) for channel in channels for regime in REGIMES for dim in dims]
    points = [_measure(parameters, *case) for case in cases]
    axes = ("channel", "regime", "dim")
    shape = (len(channels), len(REGIMES), len(dims))
    gamma = parameters["spectral_exponent"]
    predicted = np.array([predicted_exponent(regime, gamma) for regime in REGIMES])
    datasets = {
        "channel": Dataset(np.array(channels), "output channel", axes=("channel",)),
        "regime": Dataset(np.array(REGIMES), "penalty", axes=("regime",)),
        "dim": Dataset(np.array(dims), "dimension", "d", ("dim",)),
        "predicted": Dataset(predicted, "exponent as d grows", axes=("regime",)),
    }
    for name, (long_name, *more) in MEASURED.items():
        values = np.array([point[name] for point in points])
        values = values.reshape(shape + values.shape[1:])
        datasets[name] = Dataset(values, long_name, axes=(*axes, *more))
    return Result(
        datasets,
        converged=bool(datasets["converged"].values.all()),
        residual=max(point["residual"] for point in points),
    )


def _measure(parameters: dict[str, Any], channel: str, regime: str, dim: int) -> dict[str, Any]:
    target = power_law(parameters["spectral_exponent"], dim)
    if parameters["modes"] == "independent":
        target = IndependentModes(target.eigenvalues)
    problem = Problem(1.0, 1.0, target=target, noise=parameters["noise"])
    options = {"channel": channel, "nodes": int(parameters["nodes"])}
    curve, fit = measure_exponent(problem, regime, parameters["points"], **options)
    return {
        "n": curve.sizes,
        "excess": curve.excess,
        "lam": [s.problem.lam for s in curve.solutions],
        "flags": [doubts(s) for s in curve.solutions],
        "exponent": fit.exponent,
        "error": fit.error,
        "window": fit.window,
        "converged": [s.converged for s in curve.solutions],
        "residual": max(s.residual for s in curve.solutions),
    }
