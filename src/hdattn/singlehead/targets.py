"""Spectra of the target S0: Marchenko-Pastur, a list of eigenvalues, power laws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.discrete import DiscreteConvolution
from hdattn.singlehead.spectral import FreeConvolution, MarchenkoPasturConvolution


@dataclass(frozen=True)
class MarchenkoPastur:
    """Limit spectrum of S0 = W0 W0^T / sqrt(p0 d), W0 standard Gaussian, kappa0 = p0/d."""

    kappa0: float = 0.5

    def __post_init__(self):
        if not (np.isfinite(self.kappa0) and self.kappa0 > 0):
            raise UserError(f"kappa0 = {self.kappa0}: must be a positive number, such as 0.5")
        if not 1e-4 <= self.kappa0 <= 1e3:
            raise UserError(f"kappa0 = {self.kappa0:g}: a width p0/d is 0.0001 to 1000")

    @property
    def Q0(self) -> float:
        """Tr S0^2 / d."""
        return 1.0 + float(self.kappa0)

    @property
    def T0(self) -> float:
        """Tr S0 / d."""
        return float(np.sqrt(self.kappa0))

    def convolve(self, sigma: float) -> FreeConvolution:
        """Spectrum of S0 + sigma Z, Z of the GOE with semicircle of variance 1."""
        return MarchenkoPasturConvolution(self.kappa0, sigma)

    @property
    def edges(self) -> list[list[float]]:
        """Ends of the continuous part, (kappa0^(1/4) -+ kappa0^(-1/4))^2."""
        root = float(self.kappa0) ** 0.25
        return [[(root - 1 / root) ** 2, (root + 1 / root) ** 2]]

    @property
    def outliers(self) -> list[float]:
        """Isolated eigenvalues: none."""
        return []

    def density(self, x: np.ndarray) -> np.ndarray:
        """Density of the continuous part of S0 at x, of mass min(kappa0, 1)."""
        ((low, high),) = self.edges
        inside = (x > low) & (x < high)
        at = np.where(inside, x, high)
        return np.sqrt(self.kappa0 * (high - at) * np.maximum(at - low, 0)) / (2 * np.pi * at)


class Spectrum:
    """A target given by its eigenvalues [d]: the deterministic equivalent at finite d."""

    def __init__(self, eigenvalues):
        values = np.sort(np.asarray(eigenvalues, dtype=float).ravel())
        if values.size == 0 or not np.all(np.isfinite(values)):
            raise UserError("target eigenvalues: need a non-empty list of finite numbers")
        if not np.any(values):
            raise UserError("target eigenvalues: all are zero; give a non-zero target")
        self.eigenvalues = values
        self.levels, self.masses = _merge(values)

    @property
    def dim(self) -> int:
        """Number of eigenvalues d."""
        return self.eigenvalues.size

    @property
    def Q0(self) -> float:
        """Tr S0^2 / d."""
        return float(np.mean(self.eigenvalues**2))

    @property
    def T0(self) -> float:
        """Tr S0 / d."""
        return float(np.mean(self.eigenvalues))

    def convolve(self, sigma: float) -> FreeConvolution:
        """Spectrum of S0 + sigma Z, Z of the GOE with semicircle of variance 1."""
        return DiscreteConvolution(self.levels, self.masses, sigma, self.dim)

    @property
    def edges(self) -> list[list[float]]:
        """Intervals of a continuous part: none."""
        return []

    @property
    def outliers(self) -> list[float]:
        """Its levels other than zero, ascending."""
        return [float(level) for level in self.levels if level]

    def density(self, x: np.ndarray) -> np.ndarray:
        """Density of a continuous part at x: zero."""
        return np.zeros_like(x)

    def __eq__(self, other):
        alike = type(other) is type(self)
        return alike and np.array_equal(self.eigenvalues, other.eigenvalues)

    def __hash__(self):
        return hash((type(self), self.eigenvalues.tobytes()))

    def __repr__(self):
        return f"{type(self).__name__}(dim={self.dim}, Q0={self.Q0:.6g})"


def _merge(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct levels and their masses; values closer than rounding are one level."""
    tolerance = 1e-10 * np.abs(values).max()
    first = np.concatenate([[True], np.diff(values) > tolerance])
    group = np.cumsum(first) - 1
    counts = np.bincount(group)
    return np.bincount(group, values) / counts, counts / values.size


def power_law(spectral_exponent: float, dim: int) -> Spectrum:
    """Target with eigenvalues sqrt(d) i^(-gamma) / norm, i = 1..d, such that Q0 = 1."""
    if not (np.isfinite(spectral_exponent) and spectral_exponent > 0.5):
        raise UserError(f"spectral exponent {spectral_exponent}: must exceed 1/2")
    if dim < 1:
        raise UserError(f"dim = {dim}: a power-law target needs at least one eigenvalue")
    values = np.arange(1, int(dim) + 1, dtype=float) ** -spectral_exponent
    return Spectrum(values / np.sqrt(np.mean(values**2)))


def few_levels(levels: Sequence[float], multiplicities: Sequence[int], dim: int) -> Spectrum:
    """Target of some levels of so many modes each, the other modes zero, scaled to Q0 = 1."""
    if len(levels) != len(multiplicities) or sum(multiplicities) > dim:
        raise UserError(
            f"multiplicities {list(multiplicities)}: give one for each of {list(levels)}, "
            f"with a sum of at most dim = {dim}"
        )
    values = np.zeros(int(dim))
    values[: sum(multiplicities)] = np.repeat(levels, multiplicities)
    return Spectrum(values / np.sqrt(np.mean(values**2)))


KINDS = {
    "mp": (MarchenkoPastur, {"kappa0"}),
    "powerlaw": (power_law, {"spectral_exponent", "dim"}),
    "eigenvalues": (Spectrum, {"eigenvalues"}),
    "levels": (few_levels, {"levels", "multiplicities", "dim"}),
}
"""Kinds of target: what makes them, and its keys in ``{"kind": ..., key: ...}``."""


def limit_target(target: Mapping[str, Any], dim: int | None = None) -> MarchenkoPastur | Spectrum:
    """Target of a dictionary: see :data:`KINDS`.

    Power laws and levels need a dimension: ``dim``, or the dictionary's. Raises UserError on
    other keys.
    """
    kind = target.get("kind")
    if kind not in KINDS:
        raise UserError(f"target kind {kind!r}: choose from {', '.join(KINDS)}")
    make, expected = KINDS[kind]
    options = {name: value for name, value in target.items() if name != "kind"}
    if "dim" in expected and dim is not None:
        options.setdefault("dim", dim)
    if set(options) != expected:
        keys = ", ".join(sorted(expected))
        raise UserError(f"target {dict(target)}: a target of kind {kind} has {keys}, nothing else")
    return make(**options)
