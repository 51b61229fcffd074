"""Free convolution of a finite list of eigenvalues with a semicircle, by subordination.

With w = u + i v the subordination point, x = w + sigma^2 G(w) for G the transform of the list. For
real u, v^2 = q solves sum_j m_j / ((u - l_j)^2 + q) = 1/sigma^2; then
x = u + sigma^2 sum_j m_j (u - l_j)/((u - l_j)^2 + q), rho = v/(pi sigma^2), h = (x - u)/sigma^2.
The support is {u : sum_j m_j/(u - l_j)^2 > 1/sigma^2}; x(u) increases on it, so no branch of a
complex root is ever picked and isolated eigenvalues are intervals of their own.
"""

from __future__ import annotations

import numpy as np

from hdattn.singlehead.quadrature import angle_rule
from hdattn.singlehead.spectral import INTERVAL_NODES, FreeConvolution, _empty

PANEL_NODES = 14
NEARLY_OPEN = 0.3


class DiscreteConvolution(FreeConvolution):
    """Target levels l [m] with masses [m] of sum 1; dim counts the eigenvalues behind them."""

    def __init__(self, levels: np.ndarray, masses: np.ndarray, sigma: float, dim: int):
        self.levels, self.masses, self.sigma, self.dim = levels, masses, sigma, dim
        self.dips, self.open_gaps = self._find_dips()
        self.u_intervals = self._support()
        edges = self.u_intervals.ravel()
        self.intervals = (edges + sigma**2 * self._transform(edges)).reshape(-1, 2)

    def _transform(self, u: np.ndarray) -> np.ndarray:
        """G(u) = sum_j m_j/(u - l_j) off the levels, u real or complex."""
        return (self.masses / (u[:, None] - self.levels)).sum(1)

    def _crowding(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """phi(u) = sum_j m_j/(u - l_j)^2 and its first two derivatives."""
        inverse = 1 / (u[:, None] - self.levels)
        square = inverse**2
        phi = square @ self.masses
        first = -2 * (square * inverse) @ self.masses
        return phi, first, 6 * (square**2) @ self.masses

    def _support(self) -> np.ndarray:
        """Intervals of u [k, 2]: the outer edges and every gap where phi falls below 1/sigma^2."""
        below = self.levels - self.sigma * np.sqrt(self.masses)
        above = self.levels + self.sigma * np.sqrt(self.masses)
        gap = np.flatnonzero(self.open_gaps)
        bottom = self.dips[gap]
        inner = np.concatenate([below[:1], above[gap], below[gap + 1], above[-1:]])
        ends = self.levels[[0, -1]] + np.array([-self.sigma, self.sigma])
        outer = np.concatenate([ends[:1], bottom, bottom, ends[1:]])
        return np.sort(self._edge(inner, outer)).reshape(-1, 2)

    def _find_dips(self) -> tuple[np.ndarray, np.ndarray]:
        """Minimiser of phi in each gap between neighbouring levels, and whether the gap is open.

        The two neighbours alone give min phi >= (m_i^(1/3) + m_{i+1}^(1/3))^3 / width^2, and where.
        That place is good enough for gaps far from opening; in the others Newton finds the
        minimum of phi, which is convex in each.
        """
        levels, root3 = self.levels, np.cbrt(self.masses)
        width = np.diff(levels)
        dips = levels[:-1] + width * root3[:-1] / (root3[:-1] + root3[1:])
        wide = np.flatnonzero(width > NEARLY_OPEN * self.sigma * (root3[:-1] + root3[1:]) ** 1.5)
        lo, hi, u = levels[wide].copy(), levels[wide + 1].copy(), dips[wide]
        for _ in range(60 if wide.size else 0):
            _, slope, curvature = self._crowding(u)
            lo, hi = np.where(slope < 0, u, lo), np.where(slope > 0, u, hi)
            step = u - slope / curvature
            new = np.where((step > lo) & (step < hi), step, 0.5 * (lo + hi))
            moved, u = np.abs(new - u), new
            if np.all(moved < 1e-6 * width[wide]):
                break
        dips[wide] = u
        is_open = np.zeros(width.size, dtype=bool)
        is_open[wide] = self._crowding(u)[0] * self.sigma**2 < 1
        return dips, is_open

    def _edge(self, inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
        """Roots of phi = 1/sigma^2 between inner (phi above) and outer: Newton on phi^(-1/2)."""
        u = inner.copy()
        for _ in range(80):
            phi, slope, _ = self._crowding(u)
            excess = phi**-0.5 - self.sigma
            inner, outer = np.where(excess < 0, u, inner), np.where(excess >= 0, u, outer)
            step = u + 2 * excess * phi**1.5 / np.where(slope == 0, np.inf, slope)
            inside = (step - inner) * (step - outer) <= 0
            new = np.where(inside, step, 0.5 * (inner + outer))
            done = np.abs(new - u) <= 1e-15 * (np.abs(u) + self.sigma)
            u = new
            if done.all():
                break
        return u

    def _height(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q = v^2 >= 0 with k(q) = 1/sigma^2, and (u - l)^2 [n, m]; Newton on 1/k from below."""
        square = (u[:, None] - self.levels) ** 2
        target = self.sigma**2
        q = np.maximum((target * self.masses - square).max(1), 0.0)
        for _ in range(100):
            inverse = 1 / (square + q[:, None])
            k = inverse @ self.masses
            slope = (inverse**2) @ self.masses / k**2
            step = (target - 1 / k) / slope
            q = np.maximum(q + step, 0.0)
            if np.all(step <= 1e-13 * (q + target * 1e-8)):
                break
        return q, square

    def _position(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x(u), dx/du and v(u) on the support."""
        q, square = self._height(u)
        difference = u[:, None] - self.levels
        inverse = 1 / (square + q[:, None])
        first = difference * inverse
        moment = (difference * inverse**2) @ self.masses
        spread = (inverse**2) @ self.masses
        x = u + self.sigma**2 * (first @ self.masses)
        # dq/du = -2 moment/spread; sum m (q - (u-l)^2)/(.)^2 = 2 q spread - 1/sigma^2
        slope = 2 * self.sigma**2 * (q * spread + moment**2 / spread)
        return x, slope, np.sqrt(q)

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

    def nodes(self, lower: float = -np.inf, upper: float = np.inf):
        """Quadrature of the law between two cuts, `PANEL_NODES` for each level.

        The density of a finite list ripples at the distance of its levels, also inside an
        interval, so that no rule over a whole interval converges. Panels end at the dips between
        the levels, where branch points come close to the real axis.
        """
        unit, weight = angle_rule(PANEL_NODES)
        pieces = []
        for (lo, hi), (u_lo, u_hi) in zip(self.intervals, self.u_intervals, strict=True):
            if hi <= lower or lo >= upper:
                continue
            start = self._u_of_x(lower, u_lo, u_hi) if lo < lower else u_lo
            stop = self._u_of_x(upper, u_lo, u_hi) if hi > upper else u_hi
            within = self.dips[(self.dips > start) & (self.dips < stop)]
            ends = np.concatenate([[start], within, [stop]])
            width = np.diff(ends)[:, None]
            pieces.append(((ends[:-1, None] + width * unit).ravel(), (width * weight).ravel()))
        if not pieces:
            return _empty()
        u, w = (np.concatenate(part) for part in zip(*pieces, strict=True))
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
        """w = u + i v with w + sigma^2 G(w) = x in the support."""
        grid_u = []
        for (lo, hi), (u_lo, u_hi) in zip(self.intervals, self.u_intervals, strict=True):
            if np.any((x > lo) & (x < hi)):
                grid_u.append(u_lo + (u_hi - u_lo) * angle_rule(INTERVAL_NODES)[0])
        if not grid_u:
            return np.empty(0, dtype=complex)
        u = np.concatenate(grid_u)
        position, _, v = self._position(u)
        w = np.interp(x, position, u) + 1j * np.maximum(np.interp(x, position, v), 1e-12)
        for _ in range(30):
            inverse = 1 / (w[:, None] - self.levels)
            miss = w + self.sigma**2 * (inverse @ self.masses) - x
            step = miss / (1 - self.sigma**2 * (inverse**2 @ self.masses))
            w = w - step
            w = w.real + 1j * np.abs(w.imag)
            if np.all(np.abs(step) < 1e-11 * (1 + np.abs(w))):
                break
        return w

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
