"""Targets whose modes are learnt each as if it were alone: a second method, and any d.

In S0 + sigma Z the bulk of the noise is a semicircle, and a mode l > sigma an outlier at
``x = l + sigma^2/l`` with h(x) = 1/l, so that E[S0 | x] = l (1 - sigma^2/l^2): its squared overlap
with the target. What is left out: that modes repel, and that those in the bulk deform it. Large
spectra are merged to levels of nearly the same l, so that time does not grow with d.
"""

from __future__ import annotations

import numpy as np

from hdattn.singlehead.attention import Array
from hdattn.singlehead.quadrature import angle_rule
from hdattn.singlehead.spectral import INTERVAL_NODES, FreeConvolution
from hdattn.singlehead.targets import Spectrum

RESOLUTION = 2e-3  # relative width of a merged level, whose error is of second order in it


class IndependentModes(Spectrum):
    """A spectrum of eigenvalues >= 0 that :func:`hdattn.singlehead.solve` treats mode by mode."""

    def __init__(self, eigenvalues: Array):
        super().__init__(eigenvalues)
        self.levels, self.masses = _coarsen(self.levels, self.masses)

    def convolve(self, sigma: float) -> FreeConvolution:
        """A semicircle and outliers."""
        return IndependentConvolution(self.levels, self.masses, sigma)


class IndependentConvolution(FreeConvolution):
    """Levels l > sigma [k] with masses [k] outside a semicircle that has the rest of the mass."""

    def __init__(self, levels: Array, masses: Array, sigma: float):
        out = levels > sigma
        self.sigma, self.levels, self.masses = sigma, levels[out], masses[out]
        self.bulk = 1 - float(self.masses.sum())
        self.positions = self.levels + sigma**2 / self.levels
        edges = np.concatenate([[2 * sigma], self.positions])
        self.intervals = np.stack([edges, edges], axis=1)
        self.intervals[0, 0] = -2 * sigma

    def outlier_mask(self) -> Array:
        """All but the semicircle."""
        return np.arange(len(self.intervals)) > 0

    def stieltjes(self, x: Array) -> Array:
        """That of the semicircle; outliers have no width."""
        z = np.asarray(x, dtype=complex)
        root = np.sqrt(z - 2 * self.sigma) * np.sqrt(z + 2 * self.sigma)
        return self.bulk * (z - root) / (2 * self.sigma**2)

    def nodes(self, lower: float = -np.inf, upper: float = np.inf):
        """Quadrature of the semicircle between two cuts, and the outliers between them."""
        edge = 2 * self.sigma
        lo, hi = np.clip([lower, upper], -edge, edge)
        unit, weight = angle_rule(INTERVAL_NODES)
        x = lo + (hi - lo) * unit
        height = np.sqrt(np.maximum(edge**2 - x**2, 0)) / (2 * np.pi * self.sigma**2)
        inside = (self.positions >= lower) & (self.positions < upper)
        return (
            np.concatenate([x, self.positions[inside]]),
            np.concatenate([self.bulk * (hi - lo) * weight * height, self.masses[inside]]),
            np.concatenate([x / (2 * self.sigma**2), 1 / self.levels[inside]]),
        )


def _coarsen(levels: Array, masses: Array) -> tuple[Array, Array]:
    """Positive levels [m], ascending, merged within bins of log l; Q0 stays the same."""
    keys = np.full(levels.size, -1)
    keep = levels > 0
    keys[keep] = np.log(levels[keep] / levels.max()) / RESOLUTION - 0.5
    _, group = np.unique(keys, return_inverse=True)
    total = np.bincount(group, masses)
    return np.sqrt(np.bincount(group, masses * levels**2) / total), total
