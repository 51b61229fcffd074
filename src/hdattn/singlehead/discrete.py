"""Free convolution of a finite list of eigenvalues with a semicircle, by subordination.

With w = u + i v the subordination point, x = w + sigma^2 G(w) for G the transform of the list. For
real u, v^2 = q solves sum_j m_j / ((u - l_j)^2 + q) = 1/sigma^2; then
x = u + sigma^2 sum_j m_j (u - l_j)/((u - l_j)^2 + q), rho = v/(pi sigma^2), h = (x - u)/sigma^2.
The support is {u : sum_j m_j/(u - l_j)^2 > 1/sigma^2}; x(u) increases on it, so no branch of a
complex root is ever picked and isolated eigenvalues are intervals of their own.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from hdattn.singlehead.quadrature import angle_rule
from hdattn.singlehead.spectral import INTERVAL_NODES, FreeConvolution, _empty
from hdattn.singlehead.support import support

BLOCK_ENTRIES = 32768  # entries of the arrays handled together


class DiscreteConvolution(FreeConvolution):
    """Target levels l [m] with masses [m] of sum 1; dim counts the eigenvalues behind them."""

    def __init__(self, levels: np.ndarray, masses: np.ndarray, sigma: float, dim: int):
        self.levels, self.masses, self.sigma, self.dim = levels, masses, sigma, dim
        self.u_intervals, self.passages = support(levels, masses, sigma)
        edges = self.u_intervals.ravel()
        self.intervals = (edges + sigma**2 * self._transform(edges)).reshape(-1, 2)

    def _transform(self, u: np.ndarray) -> np.ndarray:
        """G(u) = sum_j m_j/(u - l_j) off the levels, u real or complex."""
        return (self.masses / (u[:, None] - self.levels)).sum(1)

    def _height(self, square: np.ndarray) -> np.ndarray:
        """q = v^2 >= 0 with k(q) = sum m/((u - l)^2 + q) = 1/sigma^2: Newton on 1/k, from below.

        1/k is concave and increasing, so the iteration is monotone. square: (u - l)^2 [n, m].
        """
        target = self.sigma**2
        q = np.maximum((target * self.masses - square).max(1), 0.0)
        for _ in range(100):
            inverse = 1 / (square + q[:, None])
            k = inverse @ self.masses
            np.square(inverse, out=inverse)
            step = (target - 1 / k) * k**2 / (inverse @ self.masses)
            q = np.maximum(q + step, 0.0)
            if np.all(step <= 1e-12 * (q + target * 1e-8)):
                break
        return q

    def _position(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x(u), dx/du and v(u) on the support, in blocks of rows that stay in the cache."""
        rows = max(1, BLOCK_ENTRIES // self.levels.size)
        blocks = [self._position_block(u[i : i + rows]) for i in range(0, u.size, rows)]
        x, slope, v = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return x, slope, v

    def _position_block(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        difference = u[:, None] - self.levels
        square = difference**2
        q = self._height(square)
        _, first, spread, moment = self._sums(difference, square, q)
        x = u + self.sigma**2 * first
        # dq/du = -2 moment/spread, and sum m (q - (u - l)^2)/(.)^2 = 2 q spread - 1/sigma^2
        slope = 2 * self.sigma**2 * (q * spread + moment**2 / spread)
        return x, slope, np.sqrt(q)

    def _sums(self, difference, square, q) -> tuple[np.ndarray, ...]:
        """Sums of m/s, m (u - l)/s, m/s^2 and m (u - l)/s^2 over the levels, s = (u - l)^2 + q."""
        inverse = 1 / (square + q[:, None])
        zeroth = inverse @ self.masses
        difference *= inverse
        first = difference @ self.masses
        difference *= inverse
        np.square(inverse, out=inverse)
        return zeroth, first, inverse @ self.masses, difference @ self.masses

    def _u_of_x(self, x: float, lo: float, hi: float) -> float:
        """u in (lo, hi) with x(u) = x: Newton with bisection."""
        u = 0.5 * (lo + hi)
        for _ in range(80):
            here, slope, _ = self._position(np.array([u]))
            lo, hi = (u, hi) if here[0] < x else (lo, u)
            step = u - (here[0] - x) / slope[0] if slope[0] > 0 else lo
            new = step if lo < step < hi else 0.5 * (lo + hi)
            if abs(new - u) <= 1e-14 * (abs(u) + self.sigma):
                return new
            u = new
        return u

    def counts(self) -> np.ndarray:
        """Number of eigenvalues behind each interval."""
        left = np.searchsorted(self.levels, self.u_intervals[:, 0])
        right = np.searchsorted(self.levels, self.u_intervals[:, 1])
        total = np.concatenate([[0.0], np.cumsum(self.masses)])
        return np.rint((total[right] - total[left]) * self.dim).astype(int)

    def outlier_mask(self) -> np.ndarray:
        """Intervals of one eigenvalue above the most massive one, in a target of twenty or more."""
        counts = self.counts()
        above = np.arange(counts.size) > np.argmax(counts)
        return above & (counts == 1) & (self.dim >= 20)

    def _panels(self, lower: float, upper: float) -> list[tuple[float, float]]:
        """Panels of u between two cuts in x: the intervals, cut at their narrow passages too."""
        panels = []
        for (lo, hi), (u_lo, u_hi) in zip(self.intervals, self.u_intervals, strict=True):
            if hi <= lower or lo >= upper:
                continue
            start = self._u_of_x(lower, u_lo, u_hi) if lo < lower else u_lo
            stop = self._u_of_x(upper, u_lo, u_hi) if hi > upper else u_hi
            inner = self.passages[(self.passages > start) & (self.passages < stop)]
            ends = [start, *inner, stop]
            panels += pairwise(ends)
        return panels

    def _u_nodes(self, lower: float, upper: float) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights in u of every panel; panels of few levels get few."""
        pieces = [(np.empty(0), np.empty(0))]
        for start, stop in self._panels(lower, upper):
            levels = np.diff(np.searchsorted(self.levels, [start, stop]))[0]
            unit, weight = angle_rule(int(min(INTERVAL_NODES, 8 + 8 * levels)))
            pieces.append((start + (stop - start) * unit, (stop - start) * weight))
        u, weights = (np.concatenate(part) for part in zip(*pieces, strict=True))
        return u, weights

    def nodes(self, lower: float = -np.inf, upper: float = np.inf):
        """Quadrature of the law between two cuts in x."""
        u, w = self._u_nodes(lower, upper)
        if u.size == 0:
            return _empty()
        x, slope, v = self._position(u)
        return x, w * slope * v / (np.pi * self.sigma**2), (x - u) / self.sigma**2

    def stieltjes(self, x: np.ndarray) -> np.ndarray:
        """G at the subordination point: complex Newton from interpolated nodes, real outside."""
        inside = self.inside(x)
        w = np.empty(x.size, dtype=complex)
        w[inside] = self._complex_point(x[inside])
        w[~inside] = self._real_point(x[~inside])
        return (x - w) / self.sigma**2

    def _complex_point(self, x: np.ndarray) -> np.ndarray:
        """w = u + i v with w + sigma^2 G(w) = x in the support: complex Newton from nodes.

        u is interpolated from the nodes and v^2 too, which is linear in x at an edge.
        """
        if x.size == 0:
            return np.empty(0, dtype=complex)
        nodes, _ = self._u_nodes(x.min(), x.max())
        position, _, v = self._position(nodes)
        ends = self.u_intervals.ravel()
        position = np.concatenate([position, self.intervals.ravel()])
        order = np.argsort(position)
        u = np.interp(x, position[order], np.concatenate([nodes, ends])[order])
        q = np.interp(x, position[order], np.concatenate([v**2, 0 * ends])[order])
        w = u + 1j * np.sqrt(q)
        active = np.arange(x.size)
        for _ in range(60):
            w[active], step = self._newton(w[active], x[active])
            active = active[step > 1e-10 * (1 + np.abs(w[active]))]
            if active.size == 0:
                break
        return w

    def _newton(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """New w and the size of the step, in blocks of rows and real numbers, twice as fast."""
        rows = max(1, BLOCK_ENTRIES // self.levels.size)
        G, slope = np.empty_like(w), np.empty_like(w)
        for part in (slice(i, i + rows) for i in range(0, w.size, rows)):
            v, q = w[part].imag, w[part].imag ** 2
            difference = w[part].real[:, None] - self.levels
            zeroth, first, spread, moment = self._sums(difference, difference**2, q)
            G[part] = first - 1j * v * zeroth
            slope[part] = zeroth - 2 * q * spread - 2j * v * moment
        step = (w + self.sigma**2 * G - x) / (1 - self.sigma**2 * slope)
        new = w - step
        return new.real + 1j * np.abs(new.imag), np.abs(step)

    def _real_point(self, x: np.ndarray) -> np.ndarray:
        """Real u off the support with u + sigma^2 G(u) = x, which increases there: bisection."""
        far = np.abs(x).max(initial=0.0) + np.abs(self.levels).max() + self.sigma
        bounds = np.concatenate([[-far], self.u_intervals.ravel(), [far]])
        gap = np.searchsorted(self.intervals.ravel(), x)
        lo, hi = bounds[gap], bounds[gap + 1]
        for _ in range(60):
            u = 0.5 * (lo + hi)
            low = u + self.sigma**2 * self._transform(u) < x
            lo, hi = np.where(low, u, lo), np.where(low, hi, u)
        return 0.5 * (lo + hi)
