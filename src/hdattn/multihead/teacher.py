"""Data of online SGD at dimension D: hidden spikes and streams of D-dimensional sequences.

Every draw is a function of the root seed, the data parameters (D, L and the prior) and the
instance, never of activation, heads, batch size or learning rate: runs that differ in those see
the same sequences in the same order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.priors import Prior, make_prior
from hdattn.seeds import generator, seed_sequence

SPIKES, WEIGHTS, LABELS, NOISE = range(4)
"""Stream numbers of the purposes within an instance."""

_LABEL_CHUNK = 1024  # locations and amplitudes are drawn this many sequences at a time
_NORMAL_BLOCK = 16  # torch draws normals in blocks of 16: whole blocks make one endless stream


@dataclass(frozen=True)
class SequenceData:
    """Single-location regression: ``tokens`` = L tokens in R^``dim``, amplitudes theta ~ prior.

    ``X_l = z_l + 1[l = eps] sum_f theta_f k*_f`` with ``z_l ~ N(0, I_D)`` and eps uniform.
    Raises :class:`UserError` for L < 2 or D < F.
    """

    dim: int
    tokens: int
    prior: Prior

    def __post_init__(self):
        """Check the sizes."""
        if self.tokens < 2:
            raise UserError(f"tokens = {self.tokens}: a sequence needs at least 2 tokens")
        if self.dim < self.prior.dim_features:
            raise UserError(
                f"dim = {self.dim} cannot hold {self.prior.dim_features} orthonormal spikes; "
                "raise dim or shorten the prior's vectors"
            )

    def to_dict(self) -> dict[str, Any]:
        """``{"dim": D, "tokens": L, "prior": {...}}``: what seeds the streams."""
        return {"dim": self.dim, "tokens": self.tokens, "prior": self.prior.to_dict()}


def make_data(description: SequenceData | Mapping[str, Any]) -> SequenceData:
    """Data described by ``{"dim": D, "tokens": L, "prior": {...}}``.

    Raises :class:`UserError` for missing or unknown keys and impossible values.
    """
    if isinstance(description, SequenceData):
        return description
    keys = {"dim", "tokens", "prior"}
    if wrong := keys.symmetric_difference(description):
        raise UserError(f"data: {', '.join(sorted(wrong))} missing or unknown; give {sorted(keys)}")
    sizes = {key: whole_number(key, description[key], minimum=1) for key in ("dim", "tokens")}
    return SequenceData(prior=make_prior(description["prior"]), **sizes)


def whole_number(name: str, value: Any, minimum: int) -> int:
    """``value`` as an integer >= ``minimum``; :class:`UserError` naming ``name`` if it is not."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer)):
        raise UserError(f"{name} must be a whole number, not {value!r}")
    if not math.isfinite(value) or int(value) != value or value < minimum:
        raise UserError(f"{name} = {value} must be a whole number of at least {minimum}")
    return int(value)


def draw_spikes(data: SequenceData, root_seed: int, instance: int) -> np.ndarray:
    """Hidden spikes k*: [F, D] float64 with orthonormal rows, uniform over such frames."""
    rng = generator(root_seed, data.to_dict(), instance, SPIKES)
    return orthonormal_rows(rng.standard_normal((data.prior.dim_features, data.dim)))


def orthonormal_rows(rows: np.ndarray) -> np.ndarray:
    """Gram-Schmidt of the rows [n, D] in order, each with a positive component on its original."""
    q, upper = np.linalg.qr(rows.T)
    return (q * np.sign(np.diag(upper))).T


class LabelStream:
    """Endless stream of locations eps and amplitudes theta of one instance, by numpy alone."""

    def __init__(self, data: SequenceData, root_seed: int, instance: int):
        """Stream at its first sequence."""
        self._data = data
        self._rng = generator(root_seed, data.to_dict(), instance, LABELS)
        self._locations = np.empty(0, dtype=np.intp)
        self._theta = np.empty((0, data.prior.dim_features), dtype=np.float32)

    def draw(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Next locations [count] and amplitudes theta [count, F], from fixed chunks."""
        while len(self._locations) < count:
            locations = self._rng.integers(0, self._data.tokens, _LABEL_CHUNK)
            theta = self._data.prior.sample(self._rng, _LABEL_CHUNK).astype(np.float32)
            self._locations = np.concatenate([self._locations, locations])
            self._theta = np.concatenate([self._theta, theta])
        taken = self._locations[:count], self._theta[:count]
        self._locations, self._theta = self._locations[count:], self._theta[count:]
        return taken


class SequenceStream:
    """Endless stream of the sequences of one instance.

    The n-th sequence is the same however the stream is cut into calls of :meth:`draw`.
    """

    def __init__(self, data: SequenceData, root_seed: int, instance: int):
        """Stream at its first sequence; draws the spikes of the instance."""
        import torch  # here, since it takes seconds to load and theory does without

        self.data = data
        self.spikes = draw_spikes(data, root_seed, instance)
        self._spikes32 = self.spikes.astype(np.float32)
        # torch's float32 normals are drawn 1.5 to 2 times as fast as numpy's fastest.
        self._noise = torch.Generator().manual_seed(_noise_seed(data, root_seed, instance))
        self._from_numpy = torch.from_numpy
        self._labels = LabelStream(data, root_seed, instance)

    @property
    def unit(self) -> int:
        """:meth:`draw` fills multiples of this many sequences."""
        return sequence_unit(self.data)

    def draw(self, tokens: np.ndarray) -> np.ndarray:
        """Fill ``tokens`` [n, L, D] (float32, contiguous) with the next n sequences.

        Returns the locations eps [n]. n must be a multiple of :attr:`unit`.
        """
        return self.draw_labelled(tokens)[0]

    def draw_labelled(self, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As :meth:`draw`, and the amplitudes theta [n, F] with the locations."""
        if len(tokens) % self.unit:
            raise ValueError(f"{len(tokens)} sequences are not a multiple of {self.unit}")
        locations, theta = self._labels.draw(len(tokens))
        self._from_numpy(tokens).normal_(generator=self._noise)
        rows = np.arange(0, len(tokens) * self.data.tokens, self.data.tokens) + locations
        tokens.reshape(-1, self.data.dim)[rows] += theta @ self._spikes32
        return locations, theta


def _noise_seed(data: SequenceData, root_seed: int, instance: int) -> int:
    seed = seed_sequence(root_seed, data.to_dict(), instance, NOISE)
    return int(seed.generate_state(1)[0])


def sequence_unit(data: SequenceData) -> int:
    """Number of sequences that fill a whole number of the generator's blocks of normals."""
    return _NORMAL_BLOCK // math.gcd(_NORMAL_BLOCK, data.tokens * data.dim)


def stream_key(data: SequenceData, root_seed: int, instance: int) -> str:
    """SHA-256 of the seed of an instance's noise and of its first labels: names its stream.

    Needs no torch; what torch draws from that seed is in :func:`stream_checksum`.
    """
    locations, theta = LabelStream(data, root_seed, instance).draw(_LABEL_CHUNK)
    seed = _noise_seed(data, root_seed, instance).to_bytes(8, "little")
    return hashlib.sha256(seed + locations.tobytes() + theta.tobytes()).hexdigest()


def stream_checksum(data: SequenceData, root_seed: int, instance: int) -> str:
    """SHA-256 of the first sequences of an instance: equal where two machines see equal data."""
    stream = SequenceStream(data, root_seed, instance)
    tokens = np.empty((stream.unit, data.tokens, data.dim), dtype=np.float32)
    locations = stream.draw(tokens)
    return hashlib.sha256(tokens.tobytes() + locations.tobytes()).hexdigest()
