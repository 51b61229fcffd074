"""Teachers and sample streams of a block of instances; the training sets too when small.

Parameters: ``{"data": {dim, target, noise, tokens, beta0}, "seed", "block", "block_size"}``. The
environment variable HDATTN_TRAINING_SET_LIMIT_MB says what is small. It is not a parameter, since
a stored training set and one drawn from its stream are the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array
from hdattn.singlehead.samples import CHUNK, SampleStream, Teacher, draw_teacher
from hdattn.steps.blocks import instances
from hdattn.store import Dataset, Record, Result

LIMIT_VARIABLE = "HDATTN_TRAINING_SET_LIMIT_MB"
DEFAULT_LIMIT_MB = 32.0
STORED_ALPHA = 4  # stored are the first 4 d^2 samples of every instance


def run(parameters: dict[str, Any], inputs: dict[str, Record]) -> Result:
    """Draw the teachers; store the first ``4 d^2`` samples where the whole block fits the limit."""
    data, seed = parameters["data"], parameters["seed"]
    indices = instances(parameters)
    teachers = [draw_teacher(data, seed, i) for i in indices]
    streams = [SampleStream(data, seed, i, t) for i, t in zip(indices, teachers, strict=True)]
    datasets = {
        "instance": Dataset(np.array(indices), "number of the instance", axes=("instance",)),
        "W0": Dataset(
            np.array([t.W0 for t in teachers]), "target factor", "W_0", ("instance", "d", "p0")
        ),
        "eigenvalues": Dataset(
            np.array([t.eigenvalues for t in teachers]),
            "eigenvalues of the target S0, ascending",
            "l_i",
            ("instance", "mode"),
        ),
        "first_rows_checksum": Dataset(
            np.array([s.first_rows_checksum() for s in streams]),
            "SHA-256 of the first samples of the training stream",
            axes=("instance",),
        ),
        **_training_set(data, streams),
    }
    return Result(datasets, seeds={"root_seed": seed, "data": data, "instances": list(indices)})


def _training_set(data: Mapping[str, Any], streams: list[SampleStream]) -> dict[str, Dataset]:
    dim, tokens = data["dim"], data["tokens"]
    rows = STORED_ALPHA * dim**2
    megabytes = len(streams) * rows * tokens * (dim + tokens) * 8 / 1e6
    if megabytes > _limit_mb():
        return {}
    drawn = [stream.rows(0, rows) for stream in streams]
    axes = ("instance", "sample", "token")
    return {
        "x": Dataset(np.array([x for x, _ in drawn]), "training tokens", "x", (*axes, "d")),
        "y": Dataset(np.array([y for _, y in drawn]), "label attention", "y", (*axes, "token b")),
    }


def _limit_mb() -> float:
    text = os.environ.get(LIMIT_VARIABLE, str(DEFAULT_LIMIT_MB))
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{LIMIT_VARIABLE} is {text!r}: give a size in MB, such as 32") from None


def teacher(record: Record, position: int) -> Teacher:
    """Teacher of the instance at ``position`` in the block of a data record."""
    return Teacher(record.datasets["W0"][position])


def stream(record: Record, position: int, purpose: str = "train") -> SampleStream:
    """Sample stream of the instance at ``position`` in the block of a data record."""
    parameters = record.parameters
    instance = instances(parameters)[position]
    return SampleStream(
        parameters["data"], parameters["seed"], instance, teacher(record, position), purpose
    )


def batches(record: Record, position: int, samples: int) -> Iterator[tuple[Array, Array]]:
    """The first ``samples`` training samples in pieces (x [n, T, d], y [n, T, T]).

    Stored rows are read; what is not stored is drawn from the stream, chunk by chunk.
    """
    datasets = record.datasets
    stored = min(samples, datasets["x"].shape[1]) if "x" in datasets else 0
    if stored:
        yield datasets["x"][position, :stored], datasets["y"][position, :stored]
    rest, start = stream(record, position), stored
    while start < samples:
        stop = min(samples, start - start % CHUNK + CHUNK)  # no chunk is drawn twice
        yield rest.rows(start, stop)
        start = stop
