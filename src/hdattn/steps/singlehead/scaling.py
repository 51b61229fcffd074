"""Theory of a target with given eigenvalues over a grid of sample sizes n.

Parameters: ``target`` (with its dimension), ``noise, regime, lam_eff`` (None: the regime's own),
``sizes, nodes``. The error is decomposed, against noisy and clean labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.decomposition import decompose
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.regimes import Penalties
from hdattn.singlehead.scaling import scaling_curve
from hdattn.singlehead.solution import Solution
from hdattn.singlehead.targets import Spectrum, limit_target
from hdattn.steps.singlehead.state_evolution import FIELDS
from hdattn.store import Dataset, Record, Result

SOLVED = ("Q", "M", "V", "test_error", "test_error_floor", "rank_fraction", "residual", "converged")
PARTS = {
    "over": "noise taken in: part of ||S - c S0||^2/d",
    "under": "modes not learnt: part of ||S - c S0||^2/d",
    "approximation": "modes learnt imperfectly: part of ||S - c S0||^2/d",
    "mismatch": "error at saturation above the least on the ray",
    "excess": "test error above the least on the ray",
    "rescale": "excess over its first order in ||S - c S0||^2/d",
    "slope": "dE/dQ at fixed M, at saturation",
    "scale": "scale c at which training saturates",
    "recovered": "number of learnt modes",
}
SATURATION = ("scale", "q_hat", "v_hat")
CLEAN = ("mismatch", "excess", "rescale", "slope")


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Solve at every n."""
    target = limit_target(parameters["target"])
    if not isinstance(target, Spectrum):
        raise UserError("target: scaling laws need a power law or a list of eigenvalues")
    problem = Problem(1.0, 1.0, target=target, noise=parameters["noise"])
    nodes = int(parameters["nodes"])
    law = Penalties(problem, nodes=nodes)
    options = {"lam_eff": parameters["lam_eff"], "nodes": nodes}
    curve = scaling_curve(problem, parameters["sizes"], parameters["regime"], **options)
    at_end = [getattr(law.saturation, name) for name in SATURATION]
    datasets = {
        "n": Dataset(curve.sizes, "number of samples", "n", ("n",)),
        "saturation": Dataset(np.array(at_end), ", ".join(SATURATION), axes=("name",)),
        **_solved(curve.solutions),
    }
    datasets["local_exponent"] = _column(curve.local_exponent, "-d log excess/d log n")
    datasets |= _parts(curve.solutions)
    return Result(
        datasets,
        converged=curve.converged,
        residual=max(s.residual for s in curve.solutions),
        messages=[f"n = {s:.4g}: no solution but S = 0" for s in curve.missing],
    )


def _column(values: Any, long_name: str, **more: Any) -> Dataset:
    return Dataset(np.array(values), long_name, axes=("n",), **more)


def _solved(solutions: list[Solution]) -> dict[str, Dataset]:
    """Order parameters, what tells against trusting them, and the input channel."""
    datasets = {
        name: Dataset(np.array([getattr(s, name) for s in solutions]), *FIELDS[name], ("n",))
        for name in SOLVED
    }
    datasets["lam"] = _column([s.problem.lam for s in solutions], "weight decay")
    datasets["flags"] = _column([doubts(s) for s in solutions], "what to distrust")
    channels = [s.input_channel or (np.nan,) * 3 for s in solutions]
    for name, column in zip(("a", "b", "threshold"), zip(*channels, strict=True), strict=True):
        datasets[name] = _column(column, f"{name} of (a S0 + b Z - threshold)_+", allow_nan=True)
    return datasets


def doubts(solution: Solution) -> str:
    """Flags, but for S = 0, expected at small n."""
    return "; ".join(flag for flag in solution.flags if not flag.startswith("S = 0"))


def _parts(solutions: list[Solution]) -> dict[str, Dataset]:
    noisy = [decompose(s) for s in solutions]
    clean = [decompose(s, "clean") for s in solutions]
    datasets = {
        name: _column([getattr(d, name) for d in noisy], long_name, allow_nan=True)
        for name, long_name in PARTS.items()
    }
    for name in CLEAN:
        datasets[f"clean_{name}"] = _column(
            [getattr(d, name) for d in clean], f"{PARTS[name]}, clean labels", allow_nan=True
        )
    return datasets
