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
from typing import Any, NamedTuple

import numpy as np

from hdattn.memory import require_memory
from hdattn.singlehead.erm import Fit, draw_start, fit
from hdattn.singlehead.heads import head_named
from hdattn.singlehead.measure import Measurement, measure
from hdattn.singlehead.objective import Loss, attention_loss
from hdattn.singlehead.sample_size import sample_count as alpha_samples
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


class Trained(NamedTuple):
    """One trained head, what was measured on it, and CPU seconds."""

    fit: Fit
    measured: Measurement
    seconds: float


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Train every instance of the block at every alpha."""
    trained = [
        [_train(parameters, inputs["data"], position, alpha) for alpha in parameters["alphas"]]
        for position in range(len(instances(parameters)))
    ]
    result = result_of(parameters, trained, _AXES)
    result.datasets["history"] = _history(trained)
    return result


def device() -> str:
    """Where to train, from the environment: not a parameter, since the minimum is the same."""
    return os.environ.get("HDATTN_DEVICE", "auto")


def sample_count(data: Mapping[str, Any], alpha: float) -> int:
    """``n = round(alpha d^2)``; refuses none, and a training set that does not fit in memory."""
    dim, tokens = int(data["dim"]), int(data["tokens"])
    samples = alpha_samples(alpha, dim)
    what = f"{samples:.4g} samples at dim = {dim}, alpha = {alpha:g}"
    require_memory(8.0 * samples * tokens * (dim + tokens), what, "dim or the largest alpha")
    return samples


def training_loss(
    parameters: Mapping[str, Any],
    data: Record,
    position: int,
    alpha: float,
    *,
    head: str = "tied",
    task: str = "seq2lab",
) -> Loss:
    """Loss of one instance's first ``alpha d^2`` samples."""
    samples = sample_count(parameters["data"], alpha)
    return attention_loss(
        batches(data, position, samples),
        parameters["beta"],
        device(),
        task=task,
        symmetric=head_named(head).symmetric,
    )


def _train(parameters: Mapping[str, Any], data: Record, position: int, alpha: float) -> Trained:
    """One instance at one alpha."""
    began = time.process_time()
    instance, kappa = instances(parameters)[position], parameters["kappa"]
    start = draw_start(parameters["data"], parameters["seed"], instance, kappa, parameters["trial"])
    fitted = fit(
        training_loss(parameters, data, position, alpha),
        lam=parameters["lam"],
        kappa=kappa,
        optimizer=parameters["optimizer"],
        start=parameters["start_scale"] * start,
    )
    measured = measure(
        fitted.W,
        teacher(data, position),
        stream(data, position, "test"),
        beta=parameters["beta"],
        test_samples=parameters["test_samples"],
    )
    return Trained(fitted, measured, time.process_time() - began)


def result_of(parameters: Mapping[str, Any], trained: list, axes: tuple[str, ...]) -> Result:
    """Everything but histories; ``trained`` is nested by ``axes``: instance, alpha, ..."""
    points = np.empty(_shape(trained, len(axes)), dtype=object)
    for index in np.ndindex(points.shape):
        point = trained
        for i in index:
            point = point[i]
        points[index] = point
    indices, alphas = instances(parameters), parameters["alphas"]
    datasets = {
        "instance": Dataset(np.array(indices), "number of the instance", axes=("instance",)),
        "alpha": Dataset(np.array(alphas, float), "n/d^2", r"\alpha", ("alpha",)),
        **_datasets(points, axes),
    }
    stuck = np.argwhere(~datasets["converged"].values)
    return Result(
        datasets,
        converged=not len(stuck),
        residual=float(datasets["gradient_norm"].values.max()),
        seeds={"root_seed": parameters["seed"], "data": parameters["data"]},
        messages=[
            f"instance {indices[i]}, alpha = {alphas[a]:g}: not converged" for i, a, *_ in stuck
        ],
    )


def _shape(nested: list, depth: int) -> tuple[int, ...]:
    return (len(nested), *_shape(nested[0], depth - 1)) if depth else ()


def _datasets(points: np.ndarray, axes: tuple[str, ...]) -> dict[str, Dataset]:
    def gather(value: Any) -> np.ndarray:
        values = np.array([value(point) for point in points.ravel()])
        return values.reshape(*points.shape, *values.shape[1:])

    datasets = {}
    for part, names in (("fit", FITTED), ("measured", MEASURED)):
        for name, (long_name, symbol) in names.items():
            values = gather(lambda p, part=part, name=name: getattr(getattr(p, part), name))
            datasets[name] = Dataset(values, long_name, symbol, axes)
    eigenvalues = gather(lambda p: p.measured.eigenvalues)
    datasets["eigenvalues"] = Dataset(
        eigenvalues, "eigenvalues of S, ascending", "s_i", (*axes, "mode")
    )
    seconds = gather(lambda p: p.seconds)
    datasets["seconds"] = Dataset(seconds, "CPU time (s)", axes=axes, timing=True)
    return datasets


def _history(trained: list[list[Trained]]) -> Dataset:
    histories = [point.fit.history for row in trained for point in row]
    padded = np.full((len(histories), max(map(len, histories))), np.nan)
    for row, history in zip(padded, histories, strict=True):
        row[: len(history)] = history
    return Dataset(
        padded.reshape(len(trained), -1, padded.shape[1]),
        "objective per sample at the start and after every step",
        axes=(*_AXES, "step"),
        allow_nan=True,
    )
