"""Free convolution of a target spectrum with a semicircle: R/a = S0 + sigma Z.

With g the Stieltjes transform of R/a: density rho = -Im g(x + i0)/pi, h = Re g (the principal
value of int rho(y)/(x - y) dy). Everything downstream (order parameters, spectra, densities) needs
only `intervals`, `density`, `hilbert` and `nodes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise

import numpy as np

from hdattn.singlehead.quadrature import angle_rule

INTERVAL_NODES = 96


class FreeConvolution(ABC):
    """Law of S0 + sigma Z; `intervals` is its support, [[lo, hi], ...] in increasing order."""

    sigma: float
    intervals: np.ndarray

    @abstractmethod
    def stieltjes(self, x: np.ndarray) -> np.ndarray:
        """h - i pi rho at real points x [n], inside or outside the support."""

    @abstractmethod
    def nodes(
        self, lower: float = -np.inf, upper: float = np.inf
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Quadrature x [n], weights rho dx [n] and h(x) [n] of the law between two cuts."""

    def density(self, x) -> np.ndarray:
        """Density rho(x), zero outside the support."""
        x = np.asarray(x, dtype=float)
        flat = x.ravel()
        density, inside = np.zeros(flat.size), self.inside(flat)
        density[inside] = np.maximum(-self.stieltjes(flat[inside]).imag, 0.0) / np.pi
        return density.reshape(x.shape)

    def hilbert(self, x) -> np.ndarray:
        """h(x) = Re g(x)."""
        x = np.asarray(x, dtype=float)
        return self.stieltjes(x.ravel()).real.reshape(x.shape)

    def inside(self, x: np.ndarray) -> np.ndarray:
        """Whether each x lies in the support."""
        return np.any((x[:, None] > self.intervals[:, 0]) & (x[:, None] < self.intervals[:, 1]), 1)

    def outlier_mask(self) -> np.ndarray:
        """Which intervals are isolated single eigenvalues of a finite target: none by default."""
        return np.zeros(len(self.intervals), dtype=bool)


def _empty() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.empty(0), np.empty(0), np.empty(0)


class MarchenkoPasturConvolution(FreeConvolution):
    """S0 of Marchenko-Pastur law, k = sqrt(kappa0): x = 1/g + sigma^2 g + kappa0/(k - g)."""

    def __init__(self, kappa0: float, sigma: float):
        self.kappa0, self.sigma, self.k = kappa0, sigma, np.sqrt(kappa0)
        self.critical, complex_critical = self._critical_points()
        self.intervals = self._position(self.critical).reshape(-1, 2)
        self.dips = np.sort(self._position(complex_critical).real)

    def _position(self, g):
        return 1 / g + self.sigma**2 * g + self.kappa0 / (self.k - g)

    def _critical_points(self) -> tuple[np.ndarray, np.ndarray]:
        """Solutions g of dx/dg = 0: the real ones, sorted by position, and one of a complex pair.

        The real ones are the edges: two, or four if the bulk splits. Before it splits, the complex
        pair marks the dip where it will.
        In units of 1/sigma, G = sigma g solves (G^2 - 1)(K - G)^2 + kappa0 G^2 = 0, K = sigma k.
        """
        big = self.sigma * self.k
        quartic = np.array([1.0, -2 * big, big**2 - 1 + self.kappa0, 2 * big, -(big**2)])
        roots = np.roots(quartic)
        derivative = np.polyder(quartic)
        real = np.sort(roots[np.abs(roots.imag) < 1e-9 * (1 + np.abs(roots))].real)
        for _ in range(3):  # polish: the companion matrix loses digits at nearly double roots
            slope = np.polyval(derivative, real)
            step = np.polyval(quartic, real) / np.where(slope == 0, np.inf, slope)
            real = np.where(np.abs(step) < 1e-6, real - step, real)
        g = real / self.sigma
        pair = roots[roots.imag > 1e-9 * (1 + np.abs(roots))] / self.sigma
        return g[np.argsort(self._position(g))], pair

    def _cubic_roots(self, x: np.ndarray) -> np.ndarray:
        """All roots g [n, 3] of sigma^2 g^3 - (x + sigma^2 k) g^2 + (x k + 1 - kappa0) g - k."""
        s, big = self.sigma, self.sigma * self.k
        companion = np.zeros((x.size, 3, 3))
        companion[:, 0, 0] = x / s + big
        companion[:, 0, 1] = -(x * self.k + 1 - self.kappa0)
        companion[:, 0, 2] = big
        companion[:, 1, 0] = companion[:, 2, 1] = 1.0
        return np.linalg.eigvals(companion) / s

    def _complex_root(self, x: np.ndarray, roots: np.ndarray) -> np.ndarray:
        """The root with Im g <= 0 for each x, polished: at small sigma the roots differ in scale.

        At the edges, where the root is double, the eigenvalue is as good as can be.
        """
        g = roots[np.arange(x.size), np.argmin(roots.imag, axis=1)]
        s2, k = self.sigma**2, self.k
        for _ in range(2):
            value = ((s2 * g - (x + s2 * k)) * g + (x * k + 1 - self.kappa0)) * g - k
            slope = (3 * s2 * g - 2 * (x + s2 * k)) * g + (x * k + 1 - self.kappa0)
            step = value / np.where(slope == 0, np.inf, slope)
            g = np.where(np.abs(step) < 1e-2 * np.abs(g.imag), g - step, g)
        return g

    def stieltjes(self, x: np.ndarray) -> np.ndarray:
        """Complex root of the cubic inside the support, the physical real root outside."""
        roots = self._cubic_roots(x)
        g = self._complex_root(x, roots)
        outside = np.flatnonzero(~self.inside(x))
        for i in outside:
            g[i] = self._physical_root(x[i], roots[i].real)
        return g

    def _physical_root(self, x: float, roots: np.ndarray) -> float:
        """The root between the g of the two edges next to x, where x(g) is monotone."""
        edges = self.intervals.ravel()
        i = np.searchsorted(edges, x)
        bounds = np.concatenate([[0.0], self.critical, [0.0]])[[i, i + 1]]
        lo, hi = bounds.min(), bounds.max()
        excess = np.maximum(lo - roots, 0) + np.maximum(roots - hi, 0)
        return roots[np.argmin(excess)]

    def nodes(self, lower: float = -np.inf, upper: float = np.inf):
        """Quadrature of the law between two cuts, `INTERVAL_NODES` for each smooth piece.

        The density varies fast at its dips, where branch points come close to the real axis:
        intervals are split there, since the rule crowds its nodes at the ends of a piece.
        """
        unit, weight = angle_rule(INTERVAL_NODES)
        pieces = []
        for lo, hi in np.clip(self.intervals, lower, upper):
            ends = [lo, *self.dips[(self.dips > lo) & (self.dips < hi)], hi]
            for left, right in pairwise(ends):
                if right > left:
                    pieces.append((left + (right - left) * unit, (right - left) * weight))
        if not pieces:
            return _empty()
        x, w = (np.concatenate(part) for part in zip(*pieces, strict=True))
        g = self._complex_root(x, self._cubic_roots(x))
        return x, -w * g.imag / np.pi, g.real
