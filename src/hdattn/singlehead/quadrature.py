"""Quadrature rules: trapezoidal grids, quasi-random Gaussians, Gauss-Legendre in an angle.

The integrands of the theory are analytic in a strip about the real axis (a sigmoid has its first
pole at distance pi), where the trapezoidal rule with a Gaussian weight converges like
exp(-2 pi strip / step). In four dimensions a lattice cut to a ball needs about a quarter of the
points of a tensor Gauss-Hermite rule of the same accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

RADIUS = 5.75  # the Gaussian mass outside this ball in four dimensions is 1.2e-6


@dataclass(frozen=True)
class PairGrid:
    """Quadrature for two independent standard Gaussian vectors (first, second) of R^2.

    Only one point of each orbit of the two sign flips (first[i], second[i]) -> -(…) is kept, with
    the weight of the orbit: right for integrands invariant under both flips.

    first, second: [2, n]; weights: [n], of sum 1; steps: lattice spacing of first and of second.
    """

    first: np.ndarray
    second: np.ndarray
    weights: np.ndarray
    steps: tuple[float, float]


def _half_lattice(nodes: int) -> tuple[np.ndarray, float]:
    step = 2 * RADIUS / nodes
    return step * (np.arange(nodes) - (nodes - 1) / 2), step


@lru_cache(maxsize=8)
def pair_grid(nodes_first: int, nodes_second: int) -> PairGrid:
    """Lattice grid cut to a ball, `nodes` (even) points across it along each axis."""
    x, step_first = _half_lattice(nodes_first)
    y, step_second = _half_lattice(nodes_second)
    axes = np.meshgrid(x[x > 0], x[x > 0], y, y, indexing="ij")
    points = np.stack([axis.ravel() for axis in axes])
    radius2 = (points**2).sum(0)
    points = points[:, radius2 < RADIUS**2]
    weights = np.exp(-0.5 * (points**2).sum(0))
    return PairGrid(points[:2], points[2:], weights / weights.sum(), (step_first, step_second))


@lru_cache(maxsize=16)
def gaussian_trapezoid(step: float) -> tuple[np.ndarray, np.ndarray]:
    """Points [n] and weights [n] of the trapezoidal rule for one standard Gaussian."""
    count = int(np.ceil(8.0 / step))
    x = step * np.arange(-count, count + 1)
    weights = np.exp(-0.5 * x**2)
    return x, weights / weights.sum()


def sigmoid_step(slope: float) -> float:
    """Trapezoidal step that resolves sigmoid(slope x) under a standard Gaussian to 1e-10.

    Not below 1/64: steeper sigmoids are steps there, right to 1e-3.
    """
    strip = np.pi / max(slope, 1e-12)
    return float(np.clip(2 * np.pi * strip / 24, 1 / 64, 0.5))


@lru_cache(maxsize=16)
def angle_rule(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre in theta on [0, pi] as (1 - cos theta)/2 and its weights on [0, 1].

    Square-root edges at either end of the interval become analytic, a cut is harmless.
    """
    x, w = np.polynomial.legendre.leggauss(nodes)
    theta = 0.5 * np.pi * (x + 1)
    return np.sin(0.5 * theta) ** 2, 0.25 * np.pi * w * np.sin(theta)


@lru_cache(maxsize=32)
def sobol_gaussians(dimension: int, points: int, seed: int) -> np.ndarray:
    """Quasi-random standard Gaussians [dimension, points] (points a power of two), read-only.

    A scrambled Sobol sequence, then an affine map to the exact means and covariance: averages of
    quadratic functions are exact.
    """
    from scipy.special import ndtri  # slow to import, like what follows, and not needed to draw
    from scipy.stats.qmc import Sobol  # data or at two tokens

    sobol = Sobol(dimension, scramble=True, rng=np.random.default_rng(seed))
    xi = ndtri(sobol.random_base2(points.bit_length() - 1)).T
    xi -= xi.mean(1, keepdims=True)
    if points > 2 * dimension:
        xi = np.linalg.solve(np.linalg.cholesky(xi @ xi.T / points), xi)
    xi.flags.writeable = False
    return xi
