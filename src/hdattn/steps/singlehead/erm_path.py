"""Training of a block of instances over a grid of alpha and a path of weight decays.

Parameters: ``data, seed, block, block_size`` of the data experiment (the input ``data``), and
``alphas, lams, kappa, beta, head, task, test_samples``. With ``validation_samples``, the errors on
that many samples of a third stream are there too, from which a weight decay can be chosen without
looking at the test samples. ``tolerance`` replaces that of the optimiser.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hdattn.singlehead.erm import Fit, draw_start
from hdattn.singlehead.heads import head_named
from hdattn.singlehead.measure import Measurement, measurement
from hdattn.singlehead.objective import AttentionLoss
from hdattn.singlehead.paths import fit_path
from hdattn.steps.singlehead.data import instances, stream, teacher
from hdattn.steps.singlehead.erm import result_of, training_loss
from hdattn.store import Dataset, Record, Result

SHAPE = {
    "asymmetry": "||(S - S^T)/2||^2/||S||^2",
    "negativity": "share of negative eigenvalues in the sum of squares of all",
}
_AXES = ("instance", "alpha", "lam")


class PathPoint(NamedTuple):
    """One trained head, what was measured on it, CPU seconds, and its validation error."""

    fit: Fit
    measured: Measurement
    seconds: float
    validation_error: float


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Train every instance of the block at every alpha and lam."""
    data = inputs["data"]
    trained = [
        [_train(parameters, data, position, alpha) for alpha in parameters["alphas"]]
        for position in range(len(instances(parameters)))
    ]
    result = result_of(parameters, trained, _AXES)
    lams = np.array(parameters["lams"], float)
    result.datasets["lam"] = Dataset(lams, "weight decay", r"\lambda", ("lam",))
    for name, long_name in SHAPE.items():
        values = [[[getattr(p.measured, name) for p in path] for path in row] for row in trained]
        result.datasets[name] = Dataset(np.array(values), long_name, axes=_AXES)
    if parameters.get("validation_samples"):
        errors = [[[point.validation_error for point in path] for path in row] for row in trained]
        result.datasets["validation_error"] = Dataset(
            np.array(errors), "error on the validation samples, per sample", axes=_AXES
        )
    return result


def _train(
    parameters: Mapping[str, Any], data: Record, position: int, alpha: float
) -> list[PathPoint]:
    """The path of one instance at one alpha; its time is spread evenly."""
    began = time.process_time()
    instance, kappa = instances(parameters)[position], parameters["kappa"]
    head, task = parameters["head"], parameters["task"]
    fits = fit_path(
        training_loss(parameters, data, position, alpha, head=head, task=task),
        parameters["lams"],
        kappa=kappa,
        start=draw_start(parameters["data"], parameters["seed"], instance, kappa, head=head),
        head=head,
        tolerance=parameters.get("tolerance"),
    )
    held_out = partial(_held_out, parameters, data, position)
    test, target = held_out("test", parameters["test_samples"]), teacher(data, position)
    unit = parameters["data"]["beta0"] / parameters["beta"]
    measured = [measurement(f.W, target, test.sample_losses(f.S), head, unit=unit) for f in fits]
    validation = parameters.get("validation_samples")
    errors = [np.nan] * len(fits)
    if validation:
        loss = held_out("validation", validation)
        errors = [float(loss.sample_losses(f.S).mean()) for f in fits]
    seconds = (time.process_time() - began) / len(fits)
    return [
        PathPoint(f, m, seconds, error) for f, m, error in zip(fits, measured, errors, strict=True)
    ]


def _held_out(
    parameters: Mapping[str, Any], data: Record, position: int, purpose: str, samples: int
) -> AttentionLoss:
    """Loss on the first samples of another stream than the one trained on."""
    rows = stream(data, position, purpose).rows(0, samples)
    symmetric = head_named(parameters["head"]).symmetric
    task, beta = parameters["task"], parameters["beta"]
    return AttentionLoss([rows], beta, task=task, symmetric=symmetric)
