"""Training on a target of given eigenvalues, and what of it is recovered, mode by mode.

Parameters: ``data, seed, block, block_size`` of the data experiment (the input ``data``), and
``alphas, regime, lam_eff, nodes, kappa, beta, test_samples``; the weight decay at each alpha is
that of :mod:`hdattn.singlehead.regimes` for the regime.

The scores of a power law are not Gaussian, so that the floor of the theory is not that of the
samples: ``test_error_floor`` is the least error of c S0 on the very test samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from hdattn.singlehead.attention import Array, scores, softmax_rows
from hdattn.singlehead.erm import draw_start, fit
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.regimes import Penalties
from hdattn.singlehead.targets import limit_target
from hdattn.steps.singlehead.data import instances, stream, teacher
from hdattn.steps.singlehead.erm import training_loss
from hdattn.store import Dataset, Record, Result

NEGLIGIBLE = 1e-4  # eigenvalues of S, in units of the largest, that training has yet to push to 0
NAMES = {
    "lam": "weight decay",
    "Q": "overlap Tr S^2/d",
    "M": "overlap Tr S S0/d",
    "test_error": "error on fresh samples, per sample",
    "test_error_floor": "least error of c S0 on the same samples",
    "excess_stderr": "standard error over samples of test_error - test_error_floor",
    "kurtosis": "excess kurtosis of a target score h_ab, a != b",
    "converged": "whether the optimiser converged",
    "eigenvalues": "eigenvalues of S, ascending",
    "seen": "v^T S0 v of the eigenvectors v of S",
    "overlap": "squared overlap of the i-th eigenvectors of S and S0, ascending",
    "captured": "squared projection of the i-th eigenvector of S0 on the range of S, ascending",
}


class Recovered(NamedTuple):
    """One trained S; the names are those of :data:`NAMES`."""

    lam: float
    Q: float
    M: float
    test_error: float
    test_error_floor: float
    excess_stderr: float
    kurtosis: float
    converged: bool
    eigenvalues: Array
    seen: Array
    overlap: Array
    captured: Array


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Train every instance of the block at every alpha."""
    data = inputs["data"]
    rows = [
        [_train(parameters, data, position, alpha) for alpha in parameters["alphas"]]
        for position in range(len(instances(parameters)))
    ]
    axes = ("instance", "alpha")
    datasets = {
        "instance": Dataset(np.array(instances(parameters)), "number", axes=("instance",)),
        "alpha": Dataset(np.array(parameters["alphas"], float), "n/d^2", r"\alpha", ("alpha",)),
    }
    for name, long_name in NAMES.items():
        values = np.array([[getattr(point, name) for point in row] for row in rows])
        more = ("mode",) * (values.ndim - 2)
        datasets[name] = Dataset(values, long_name, axes=axes + more)
    return Result(
        datasets,
        converged=bool(datasets["converged"].values.all()),
        seeds={"root_seed": parameters["seed"], "data": parameters["data"]},
    )


def _train(parameters: Mapping[str, Any], data: Record, position: int, alpha: float) -> Recovered:
    given, kappa = parameters["data"], parameters["kappa"]
    target = limit_target(given["target"], int(given["dim"]))
    problem = Problem(1.0, 1.0, kappa, target, given["noise"])
    law = Penalties(problem, nodes=int(parameters["nodes"]))
    samples = alpha * target.dim**2
    lam_eff = law.penalty(parameters["regime"], samples, parameters["lam_eff"])
    lam = float(lam_eff / np.sqrt(kappa))
    start = draw_start(given, parameters["seed"], instances(parameters)[position], kappa)
    fitted = fit(
        training_loss(parameters, data, position, alpha), lam=lam, kappa=kappa, start=start
    )
    S, S0 = fitted.S, teacher(data, position).S0
    values, vectors = np.linalg.eigh(S)
    projections = (vectors.T @ np.linalg.eigh(S0)[1]) ** 2
    x, y = stream(data, position, "test").rows(0, parameters["test_samples"])
    beta, truth = parameters["beta"], scores(x, S0)
    losses, least = _losses(y, beta * scores(x, S)), _floor(y, beta * truth)
    return Recovered(
        lam,
        float(np.sum(S**2) / len(S)),
        float(np.sum(S * S0) / len(S)),
        float(losses.mean()),
        float(least.mean()),
        float(np.std(losses - least) / np.sqrt(len(y))),
        _excess_kurtosis(truth[:, 0, 1]),
        bool(fitted.converged),
        values,
        np.einsum("ij,ij->j", vectors, S0 @ vectors),
        np.diagonal(projections).copy(),
        projections[values > NEGLIGIBLE * values[-1]].sum(0),
    )


def _losses(y: Array, logits: Array) -> Array:
    """||y - softmax(logits)||^2 of each sample."""
    return ((y - softmax_rows(logits)) ** 2).sum((1, 2))


def _floor(y: Array, logits: Array) -> Array:
    """Losses of c S0 at the c of least mean, ``logits`` being those at c = 1."""
    best = minimize_scalar(
        lambda c: _losses(y, c * logits).mean(), bounds=(0.05, 2.0), method="bounded"
    )
    return _losses(y, best.x * logits)


def _excess_kurtosis(values: np.ndarray) -> float:
    deviations = values - values.mean()
    return float(np.mean(deviations**4) / np.mean(deviations**2) ** 2 - 3.0)
