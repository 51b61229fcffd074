"""Best losses along a curve: of growing signal strength, or with more and more heads.

Parameters: ``{"activation", "tokens", "points", "starts", "seed", "base_points", "polish"}``;
``points`` lists ``{"prior": ..., "heads": H}``, neighbours next to one another. Losses are by
quadrature. Where theta is on finitely many points and attention a sum over heads, the parts of the
loss are added, on Sobol points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hdattn.multihead.continuation import optimum_curve
from hdattn.multihead.loss_parts import decompose_loss, has_parts
from hdattn.multihead.optima import Optimum
from hdattn.multihead.priors import make_prior
from hdattn.steps.multihead.optimum import LABELS
from hdattn.store import Dataset, Record, Result

PARTS_POINTS = 4  # times as many points as for the search tell the parts of the loss
PARTS = {
    "miss": "mean of (1 - A_eps)^2",
    "aligned": "noise let through by aligned heads",
    "misaligned": "noise let through by misaligned heads",
    "cross": "noise from the product of both",
}


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Find all optima; doubts about them are messages."""
    problems = [(make_prior(point["prior"]), point["heads"]) for point in parameters["points"]]
    keys = ("starts", "seed", "base_points", "polish")
    optima = optimum_curve(
        parameters["activation"],
        parameters["tokens"],
        problems,
        **{key: parameters[key] for key in keys},
    )
    datasets = _datasets(optima)
    if all(has_parts(parameters["activation"], prior) for prior, _ in problems):
        datasets |= _parts(parameters, problems, optima)
    return Result(
        datasets,
        converged=all(optimum.converged for optimum in optima),
        residual=max(optimum.residual for optimum in optima),
        seeds={"root_seed": parameters["seed"]},
        messages=[
            f"point {i} (H = {len(optimum.m)}): {message}"
            for i, optimum in enumerate(optima)
            for message in optimum.messages()
        ],
    )


def _datasets(optima: Sequence[Optimum]) -> dict[str, Dataset]:
    labels = LABELS | {"converged": "whether the descent converged"}
    heads = [len(optimum.m) for optimum in optima]
    scalars = {
        key: _along(lambda optimum, key=key: getattr(optimum, key), optima, text)
        for key, text in labels.items()
    }
    m, b = (_padded([getattr(o, name) for o in optima], max(heads)) for name in ("m", "b"))
    axes = ("point", "head")
    return {
        "heads": Dataset(np.array(heads), "number of heads", "H", ("point",)),
        "m": Dataset(m, "overlaps k_h . k*_f", "m_{hf}", (*axes, "spike"), allow_nan=True),
        "b": Dataset(b, "biases", "b_h", axes, allow_nan=True),
        **scalars,
    }


def _along(value: Callable[[Any], Any], items: Sequence[Any], text: str) -> Dataset:
    return Dataset(np.array([value(item) for item in items]), text, axes=("point",))


def _padded(arrays: Sequence[np.ndarray], heads: int) -> np.ndarray:
    """One array for all, with NaN for heads that a point does not have."""
    padded = np.full((len(arrays), heads, *arrays[0].shape[1:]), np.nan)
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded


def _parts(
    parameters: dict[str, Any], problems: Sequence[tuple[Any, int]], optima: Sequence[Optimum]
) -> dict[str, Dataset]:
    parts = [
        decompose_loss(
            parameters["activation"],
            parameters["tokens"],
            prior,
            optimum.m,
            optimum.b,
            optimum.c,
            base_points=PARTS_POINTS * parameters["base_points"],
            seed=parameters["seed"] + 1,
        )
        for (prior, _), optimum in zip(problems, optima, strict=True)
    ]
    return {
        name: _along(lambda part, name=name: getattr(part, name), parts, text)
        for name, text in PARTS.items()
    }
