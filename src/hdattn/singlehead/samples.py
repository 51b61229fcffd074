"""Teacher and samples of one instance: the data of the single-head model (paper B).

Data parameters are the dictionary ``{"dim", "target", "noise", "tokens", "beta0"}``, with target
``{"kind": "mp", "kappa0"}``, ``{"kind": "powerlaw", "spectral_exponent"}`` or ``{"kind":
"eigenvalues", "eigenvalues": [d numbers]}``. Nothing else enters the random streams, so that every
optimiser, regularisation, width and sample ratio sees the same teacher and the same samples.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hdattn.errors import UserError
from hdattn.seeds import generator
from hdattn.singlehead.attention import Array, scores, softmax_rows
from hdattn.singlehead.heads import attention_matrix, padded_spectrum
from hdattn.singlehead.targets import Spectrum, limit_target

CHUNK = 1024  # samples drawn from one seed; part of what defines the data
_CHECKSUM_ROWS = 8
_TEACHER = 0  # purposes: the first number of a random stream
_STREAMS = {"train": 1, "test": 2, "validation": 4}
INITIALISATION = 3


@dataclass(frozen=True, eq=False)
class Teacher:
    """Target attention matrix ``S0 = W0 W0^T / sqrt(p0 d)``; ``W0`` is [d, p0]."""

    W0: Array

    @cached_property
    def S0(self) -> Array:
        """Target matrix [d, d]."""
        return attention_matrix(self.W0)

    @cached_property
    def eigenvalues(self) -> Array:
        """Eigenvalues of S0 [d], ascending; the d - p0 null ones are exactly zero."""
        dim, width = self.W0.shape
        return padded_spectrum(self.W0, math.sqrt(width * dim))

    @property
    def Q0(self) -> float:
        """``Tr S0^2/d`` of this very teacher."""
        return float(np.mean(self.eigenvalues**2))


def check_data(data: Mapping[str, Any]) -> None:
    """Raise ``UserError`` unless ``data`` is a complete and possible set of data parameters."""
    expected = {"dim", "target", "noise", "tokens", "beta0"}
    if set(data) != expected:
        wrong = sorted(set(data) ^ expected)
        raise UserError(f"data parameters: missing or unknown {wrong}; they are {sorted(expected)}")
    _check_integer("dim", data["dim"], 1)
    _check_integer("tokens", data["tokens"], 2)
    for name in ("noise", "beta0"):
        if not (math.isfinite(data[name]) and data[name] >= 0):
            raise UserError(f"{name} is {data[name]}; give a finite number >= 0")
    _check_target(data["target"], int(data["dim"]))


def _check_integer(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or int(value) != value or value < least:
        raise UserError(f"{name} is {value!r}; give a whole number >= {least}")


def _check_target(target: Mapping[str, Any], dim: int) -> None:
    law = limit_target(target, dim)
    if not isinstance(law, Spectrum):
        return
    if law.dim != dim:
        raise UserError(f"target has {law.dim} eigenvalues, but dim = {dim}; make them one number")
    if law.eigenvalues[0] < 0:
        lowest = law.eigenvalues[0]
        raise UserError(f"target has the eigenvalue {lowest:g}; S0 = W0 W0^T has none below 0")


def draw_teacher(data: Mapping[str, Any], root_seed: int, instance: int) -> Teacher:
    """Teacher of one instance: ``W0`` [d, p0].

    Marchenko-Pastur: iid N(0, 1), ``p0 = round(kappa0 d)``, at least 1. Of given eigenvalues: S0
    has exactly these in a Haar-random basis, and p0 counts the positive ones.
    """
    check_data(data)
    dim, target = int(data["dim"]), data["target"]
    rng = generator(root_seed, data, instance, _TEACHER)
    if target["kind"] == "mp":
        return Teacher(rng.standard_normal((dim, max(1, round(target["kappa0"] * dim)))))
    values = limit_target(target, dim).eigenvalues
    positive = values[values > 0]
    basis, triangle = np.linalg.qr(rng.standard_normal((dim, dim)))
    basis *= np.sign(np.diag(triangle))  # Haar-distributed only with a positive diagonal
    scale = math.sqrt(positive.size * dim)
    return Teacher(basis[:, : positive.size] * np.sqrt(scale * positive))


class SampleStream:
    """Endless samples of one instance: ``rows(start, stop)`` -> tokens x, label attention y.

    Samples come in fixed chunks of 1024, each from its own seed, and a chunk is always made
    whole: any prefix and any way of cutting the stream gives the same bits.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        root_seed: int,
        instance: int,
        teacher: Teacher,
        stream: str = "train",
    ):
        check_data(data)
        if stream not in _STREAMS:
            raise UserError(f"sample stream {stream!r} does not exist; streams: {list(_STREAMS)}")
        self.data = data
        self.teacher = teacher
        self._key = (root_seed, data, instance, _STREAMS[stream])

    def rows(self, start: int, stop: int) -> tuple[Array, Array]:
        """Samples ``start <= mu < stop``: x [n, T, d], y [n, T, T] (rows of y sum to one)."""
        if not 0 <= start <= stop:
            raise UserError(f"rows {start} to {stop} asked; give 0 <= start <= stop")
        dim, tokens = int(self.data["dim"]), int(self.data["tokens"])
        x = np.empty((stop - start, tokens, dim))
        y = np.empty((stop - start, tokens, tokens))
        for chunk in range(start // CHUNK, -(-stop // CHUNK)):
            first = chunk * CHUNK
            low, high = max(start, first), min(stop, first + CHUNK)
            chunk_x, chunk_y = self._chunk(chunk)
            x[low - start : high - start] = chunk_x[low - first : high - first]
            y[low - start : high - start] = chunk_y[low - first : high - first]
        return x, y

    def first_rows_checksum(self) -> str:
        """SHA-256 of the bits of the first 8 samples; tells whether a stream is the same."""
        x, y = self.rows(0, _CHECKSUM_ROWS)
        return hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest()

    def _chunk(self, index: int) -> tuple[Array, Array]:
        dim, tokens = int(self.data["dim"]), int(self.data["tokens"])
        rng = generator(*self._key, index)
        x = rng.standard_normal((CHUNK, tokens, dim))
        logits = scores(x, self.teacher.S0) + self._noise(rng, tokens)
        return x, softmax_rows(self.data["beta0"] * logits)

    def _noise(self, rng: np.random.Generator, tokens: int) -> Array:
        """Symmetric Gaussian noise [chunk, T, T] of variance ``(Delta/2)(1 + delta_ab)``."""
        a, b = np.triu_indices(tokens)
        deviation = np.sqrt(self.data["noise"] / 2 * (1 + (a == b)))
        noise = np.empty((CHUNK, tokens, tokens))
        noise[:, a, b] = rng.standard_normal((CHUNK, a.size)) * deviation
        noise[:, b, a] = noise[:, a, b]
        return noise
