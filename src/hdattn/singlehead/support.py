"""Where the free convolution of a list of eigenvalues with a semicircle lives.

In the subordination variable u the support is {u : phi(u) > 1/sigma^2} for
phi(u) = sum_j m_j/(u - l_j)^2 over levels l [m] of masses m [m].
"""

from __future__ import annotations

import numpy as np

NARROW = 12.0  # gaps with min phi below this many 1/sigma^2 count as narrow passages


def support(levels, masses, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Intervals of u [k, 2], and the narrow passages inside them: gaps that all but open.

    The intervals end at the outer edges and at every gap where phi falls below 1/sigma^2. The
    density dips in a passage, so quadrature panels end there.
    """
    below = levels - sigma * np.sqrt(masses)
    above = levels + sigma * np.sqrt(masses)
    gap, bottom, phi = _gaps(levels, masses, sigma)
    is_open = phi * sigma**2 < 1
    passages = bottom[~is_open]
    gap, bottom = gap[is_open], bottom[is_open]
    inner = np.concatenate([below[:1], above[gap], below[gap + 1], above[-1:]])
    ends = levels[[0, -1]] + np.array([-sigma, sigma])
    outer = np.concatenate([ends[:1], bottom, bottom, ends[1:]])
    edges = _edges(levels, masses, sigma, inner, outer)
    return np.sort(edges).reshape(-1, 2), passages


def _crowding(u, levels, masses) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """phi(u) and its first two derivatives."""
    inverse = 1 / (u[:, None] - levels)
    square = inverse**2
    return square @ masses, -2 * (square * inverse) @ masses, 6 * (square**2) @ masses


def _gaps(levels, masses, sigma: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaps between neighbours l_i, l_{i+1} that are open or narrow: i, argmin of phi, min phi.

    The two neighbours alone give min phi >= (m_i^(1/3) + m_{i+1}^(1/3))^3 / width^2, so only wide
    gaps need the search; phi is convex in each.
    """
    root3, width = np.cbrt(masses), np.diff(levels)
    bound = sigma * (root3[:-1] + root3[1:]) ** 1.5 / np.sqrt(NARROW)
    wide = np.flatnonzero(width > bound)
    lo, hi = levels[wide].copy(), levels[wide + 1].copy()
    u = lo + width[wide] * root3[wide] / (root3[wide] + root3[wide + 1])
    for _ in range(60 if wide.size else 0):
        _, slope, curvature = _crowding(u, levels, masses)
        lo, hi = np.where(slope < 0, u, lo), np.where(slope > 0, u, hi)
        step = u - slope / curvature
        new = np.where((step > lo) & (step < hi), step, 0.5 * (lo + hi))
        moved, u = np.abs(new - u), new
        if np.all(moved < 1e-6 * width[wide]):
            break
    phi = _crowding(u, levels, masses)[0]
    kept = phi * sigma**2 < NARROW
    return wide[kept], u[kept], phi[kept]


def _edges(levels, masses, sigma: float, inner, outer) -> np.ndarray:
    """Roots of phi = 1/sigma^2 between inner (phi above) and outer: Newton on phi^(-1/2)."""
    u = inner.copy()
    for _ in range(80):
        phi, slope, _ = _crowding(u, levels, masses)
        excess = phi**-0.5 - sigma
        inner, outer = np.where(excess < 0, u, inner), np.where(excess >= 0, u, outer)
        step = u + 2 * excess * phi**1.5 / np.where(slope == 0, np.inf, slope)
        inside = (step - inner) * (step - outer) <= 0
        new = np.where(inside, step, 0.5 * (inner + outer))
        done = np.abs(new - u) <= 1e-15 * (np.abs(u) + sigma)
        u = new
        if done.all():
            break
    return u
