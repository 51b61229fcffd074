"""Training of a block of instances over a grid of alpha, and what is measured on the result.

Parameters: ``data, seed, block, block_size`` of the data experiment (the input ``data``), and
``alphas, lam, kappa, beta, optimizer, trial, start_scale, test_samples``. Each alpha is trained on
a prefix of the instance's one sample stream, from the same initial factor: draw number ``trial``,
times ``start_scale``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from hdattn.singlehead.erm import Fit, draw_start, fit
from hdattn.singlehead.measure import Measurement, measure
from hdattn.singlehead.objective import attention_loss
from hdattn.steps.singlehead.data import batches, instances, stream, teacher
from hdattn.store import Dataset, Record, Result

MEASURED = {
    "Q": ("overlap Tr S^2/d", "Q"),
    "M": ("overlap Tr S S0/d", "M"),
    "Q0": ("overlap Tr S0^2/d of the target", "Q_0"),
    "overlap_error": ("||S - S0||^2/d = Q - 2 M + Q0", ""),
    "test_error": ("test error ||y - A_S||^2 on fresh samples, per sample", r"E_{\rm test}"),
    "test_error_stderr": ("standard error of the test error over samples", ""),
    "rank_fraction": ("fraction of positive eigenvalues of S", ""),
}
FITTED = {
    "train_loss": ("training loss per sample", r"E_{\rm train}"),
    "penalty_value": ("penalty per sample", ""),
    "objective": ("training loss plus penalty, per sample", ""),
    "gradient_norm": ("norm of the gradient of the objective in W", ""),
    "iterations": ("steps of the optimiser", ""),
    "evaluations": ("evaluations of the gradient", ""),
    "converged": ("whether the optimiser converged", ""),
}
_AXES = ("instance", "alpha")


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Train every instance of the block at every alpha."""
    indices = instances(parameters)
    trained = [
        [_train(parameters, inputs["data"], position, alpha) for alpha in parameters["alphas"]]
        for position in range(len(indices))
    ]
    datasets = {
        "instance": Dataset(np.array(indices), "number of the instance", axes=("instance",)),
        "alpha": Dataset(np.array(parameters["alphas"], float), "n/d^2", r"\alpha", ("alpha",)),
        **_datasets(trained),
    }
    stuck = np.argwhere(~datasets["converged"].values)
    return Result(
        datasets,
        converged=not len(stuck),
        residual=float(datasets["gradient_norm"].values.max()),
        seeds={"root_seed": parameters["seed"], "data": parameters["data"]},
        messages=[
            f"instance {indices[i]}, alpha = {parameters['alphas'][a]:g}: not converged"
            for i, a in stuck
        ],
    )


def device() -> str:
    """Where to train, from the environment: not a parameter, since the minimum is the same."""
    return os.environ.get("HDATTN_DEVICE", "auto")


def _train(
    parameters: Mapping[str, Any], data: Record, position: int, alpha: float
) -> tuple[Fit, Measurement, float]:
    """Fit, measurement and CPU seconds of one instance at one alpha, ``n = round(alpha d^2)``."""
    began = time.process_time()
    instance, kappa = instances(parameters)[position], parameters["kappa"]
    target = teacher(data, position)
    samples = max(1, round(alpha * target.W0.shape[0] ** 2))
    start = draw_start(parameters["data"], parameters["seed"], instance, kappa, parameters["trial"])
    fitted = fit(
        attention_loss(batches(data, position, samples), parameters["beta"], device()),
        lam=parameters["lam"],
        kappa=kappa,
        optimizer=parameters["optimizer"],
        start=parameters["start_scale"] * start,
    )
    measured = measure(
        fitted.W,
        target,
        stream(data, position, "test"),
        beta=parameters["beta"],
        test_samples=parameters["test_samples"],
    )
    return fitted, measured, time.process_time() - began


def _datasets(trained: list[list[tuple[Fit, Measurement, float]]]) -> dict[str, Dataset]:
    def gather(part: int, name: str) -> np.ndarray:
        return np.array([[getattr(point[part], name) for point in row] for row in trained])

    datasets = {}
    for part, names in ((0, FITTED), (1, MEASURED)):
        for name, (long_name, symbol) in names.items():
            datasets[name] = Dataset(gather(part, name), long_name, symbol, _AXES)
    datasets["eigenvalues"] = Dataset(
        gather(1, "eigenvalues"), "eigenvalues of S, ascending", "s_i", (*_AXES, "mode")
    )
    datasets["history"] = _history(trained)
    seconds = np.array([[point[2] for point in row] for row in trained])
    datasets["seconds"] = Dataset(seconds, "CPU time (s)", axes=_AXES, timing=True)
    return datasets


def _history(trained: list[list[tuple[Fit, Measurement, float]]]) -> Dataset:
    histories = [point[0].history for row in trained for point in row]
    padded = np.full((len(histories), max(map(len, histories))), np.nan)
    for row, history in zip(padded, histories, strict=True):
        row[: len(history)] = history
    return Dataset(
        padded.reshape(len(trained), -1, padded.shape[1]),
        "objective per sample at the start and after every step",
        axes=(*_AXES, "step"),
        allow_nan=True,
    )
