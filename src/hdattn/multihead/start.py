"""Where SGD and flow start: initial weights k_h(0), biases b(0) and output scale c(0).

A start is described in configuration by a dictionary ``{"kind": ..., ...}``; :func:`make_start`
turns it into one of the classes registered in :data:`STARTS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.order_parameters import noise_weights, perpendicular
from hdattn.multihead.teacher import WEIGHTS, SequenceData, draw_spikes, orthonormal_rows
from hdattn.seeds import generator

SIGMA_LIMIT = 0.3
"""Largest sigma for which the heads start close to zero, as the theory of the plateau assumes."""


@dataclass(frozen=True, kw_only=True)
class Start(ABC):
    """Initial conditions; ``b`` is one bias for all heads or one each, ``c`` the output scale."""

    kind: ClassVar[str]
    b: float | Sequence[float] = 0.0
    c: float = 1.0

    @abstractmethod
    def weights(self, rng: np.random.Generator, spikes: np.ndarray, heads: int) -> np.ndarray:
        """Weights k_h(0): [H, D], given the spikes [F, D]."""

    def biases(self, heads: int) -> np.ndarray:
        """Biases b_h(0): [H]."""
        b = np.asarray(self.b, dtype=float)
        if b.shape not in ((), (heads,)):
            raise UserError(f"start: b has shape {list(b.shape)}; give one number or {heads}")
        return np.broadcast_to(b, heads).copy()

    def messages(self) -> list[str]:
        """Warnings about this start, one line each."""
        return []


@dataclass(frozen=True, kw_only=True)
class GaussianStart(Start):
    """``k_h(0) ~ N(0, sigma^2 I_D / D)``."""

    kind: ClassVar[str] = "gaussian"
    sigma: float = 0.1

    def weights(self, rng, spikes, heads):
        """Head h has the same weights whatever the number of heads."""
        if not self.sigma >= 0:
            raise UserError(f"start: sigma = {self.sigma} must not be negative")
        dim = spikes.shape[1]
        return self.sigma / np.sqrt(dim) * rng.standard_normal((heads, dim))

    def messages(self):
        """Warn of a sigma that is not small."""
        if self.sigma <= SIGMA_LIMIT:
            return []
        return [f"sigma = {self.sigma} is above {SIGMA_LIMIT}: heads do not start near zero"]


@dataclass(frozen=True, kw_only=True)
class PairsStart(Start):
    """``k_h(0) = +-k*_f / sqrt(D)`` along ``feature`` f, + for even heads and - for odd ones."""

    kind: ClassVar[str] = "pairs"
    feature: int = 1

    def weights(self, rng, spikes, heads):
        """Nothing is random but the spikes."""
        if not 0 <= self.feature < len(spikes):
            raise UserError(
                f"start: feature = {self.feature} must be one of the {len(spikes)} spikes, from 0"
            )
        signs = (-1.0) ** np.arange(heads)
        return np.outer(signs, spikes[self.feature]) / np.sqrt(spikes.shape[1])


@dataclass(frozen=True, kw_only=True)
class OrderParameterStart(Start):
    """Weights with exactly these overlaps m [H, F] and products r [H, H] (default m m^T)."""

    kind: ClassVar[str] = "order_parameters"
    m: Sequence[Sequence[float]]
    r: Sequence[Sequence[float]] | None = None

    def weights(self, rng, spikes, heads):
        """``k = m k* + V u``, ``V V^T = r - m m^T``, u random and orthonormal to the spikes."""
        count, dim = spikes.shape
        m = _matrix("m", self.m, (heads, count))
        if self.r is None:
            return m @ spikes
        if dim < count + heads:
            raise UserError(f"start: r needs dim of at least {count + heads}, not {dim}")
        rows = np.concatenate([spikes, rng.standard_normal((heads, dim))])
        r_perp = perpendicular(m, _matrix("r", self.r, (heads, heads)))
        return m @ spikes + noise_weights(r_perp) @ orthonormal_rows(rows)[count:]


STARTS: dict[str, type[Start]] = {
    start.kind: start for start in (GaussianStart, PairsStart, OrderParameterStart)
}


def make_start(description: Start | Mapping[str, Any]) -> Start:
    """Start described by ``{"kind": "gaussian", "sigma": 0.1}`` and the like.

    Raises :class:`UserError` for an unknown kind and missing or unknown keys.
    """
    if isinstance(description, Start):
        return description
    arguments = dict(description)
    kind = arguments.pop("kind", None)
    if kind not in STARTS:
        raise UserError(f"start: kind {kind!r} is unknown; choose one of {', '.join(STARTS)}")
    known = [field.name for field in fields(STARTS[kind])]
    if unknown := [key for key in arguments if key not in known]:
        raise UserError(f"start: {kind} has no {', '.join(unknown)}; it takes {', '.join(known)}")
    if kind == OrderParameterStart.kind and "m" not in arguments:
        raise UserError("start: order_parameters lacks m; give one row of overlaps per head")
    return STARTS[kind](**arguments)


def initial_weights(
    data: SequenceData, root_seed: int, instance: int, heads: int, start: Start
) -> np.ndarray:
    """Weights k_h(0) of an instance: [H, D] float64."""
    rng = generator(root_seed, data.to_dict(), instance, WEIGHTS)
    return start.weights(rng, draw_spikes(data, root_seed, instance), heads)


def order_parameters(weights: np.ndarray, spikes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``m = k k*^T`` [..., H, F] and ``r = k k^T`` [..., H, H] of [..., H, D] and [..., F, D]."""
    weights = np.asarray(weights, dtype=float)
    return weights @ np.swapaxes(spikes, -1, -2), weights @ np.swapaxes(weights, -1, -2)


def _matrix(name: str, value: Any, shape: tuple[int, int]) -> np.ndarray:
    """``value`` as a finite matrix of this shape; :class:`UserError` if it is not."""
    try:
        matrix = np.array(value, dtype=float)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.shape != shape or not np.isfinite(matrix).all():
        raise UserError(f"start: {name} must be {shape[0]} rows of {shape[1]} numbers")
    return matrix
