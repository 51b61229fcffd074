"""Moments of attention ``A_l = f(x_l) / (f_0 + sum_l' f(x_l'))`` by the partition-function trick.

``1/Z^n = int_0^inf s^{n-1} exp(-s Z) ds / (n-1)!`` makes the tokens independent at fixed s, so the
cost does not depend on L. With ``phi_k(s) = E[f^k exp(-s f)]`` over a visible token and psi_k(s)
over the hidden one,

    E[A_eps^j A_l^k] = int s^{j+k-1} / (j+k-1)! exp(-s f_0) psi_j phi_k phi_0^{L-2} ds,  l != eps.

Uniform grids in x and log s: the integrands are analytic and fall off on both sides, so the
trapezoid rule converges exponentially.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.priors import Prior

_REACH = 7.5  # Gaussian variables are cut at this many standard deviations
_STEP, _LOG_STEP = 0.72, 0.42  # of standard normals and scores, of log s
COARSER = 4.0 / 3.0  # the error is the change on grids coarser by this, some 10 to 1000 times it
_BLOCK = 256  # nodes whose values at all s are held at once, in the processor's cache
_MAX_NODES = 3_000_000
_MAX_RANGE = 300.0  # of log f: s^2 stays below the largest double
_NULL = 1e-5  # directions in which the scores vary less than this are left out


class GridTooLargeError(UserError):
    """The heads span too many directions for a grid, or are too long for one."""


@dataclass(frozen=True)
class Quadrature:
    """Value of an integral and an upper estimate of its error.

    method: ``quadrature`` (the error is the change on coarser grids) or ``sobol`` (twice the
    standard error over independent scrambles).
    """

    value: float
    error: float
    method: str = "quadrature"


def refine(integral: Callable[[float], float], step: float = 1.0) -> Quadrature:
    """Value of ``integral(step)``, its error the change from a step larger by 4/3.

    ``step`` multiplies the standard spacings: 1 gives about seven digits, 1/2 rounding error.
    """
    value = integral(step)
    return Quadrature(value, abs(value - integral(COARSER * step)))


@dataclass(frozen=True)
class TokenGrid:
    """Uniform nodes [d, n_1, ..., n_d] and the laws of the two kinds of token on them.

    visible, hidden [n_1, ..., n_d]: probability in the cell of each node.
    """

    nodes: np.ndarray
    visible: np.ndarray
    hidden: np.ndarray


class TokenMoments:
    """Moments of the attention given by ``log_f`` on a grid, for sequences of L tokens."""

    def __init__(
        self,
        log_f: np.ndarray,
        grid: TokenGrid,
        tokens: int,
        step: float,
        highest: int = 2,
        log_idle: float = -np.inf,
    ):
        """Tabulate phi_k(s), psi_k(s) for k up to ``highest``; ``log_idle`` is log f_0.

        Raises :class:`UserError` for fewer than two tokens.
        """
        if tokens < 2:
            raise UserError(f"tokens is {tokens}; a sequence needs at least 2")
        kept = np.maximum(grid.visible, grid.hidden) > 1e-14
        laws = np.stack([grid.visible[kept], grid.hidden[kept]], axis=1)
        self.tokens = tokens
        self.s, f, self.ds = laplace_nodes(log_f[kept], step, log_idle)
        moments = np.zeros((highest + 1, self.s.size, 2))
        for start in range(0, f.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            decay = -self.s[:, None] * f[part]
            np.exp(decay, out=decay)
            for power in range(highest + 1):
                moments[power] += decay @ (laws[part] * f[part, None] ** power)
        self.phi, self.psi = moments[..., 0], moments[..., 1]

    def expect(self, hidden: int, visible: int = 0) -> float:
        """``E[A_eps^hidden A_l^visible]`` for one l other than eps."""
        power = hidden + visible - 1
        rest = self.psi[hidden] * self.phi[visible] * self.phi[0] ** (self.tokens - 2)
        return float(self.ds @ (self.s**power * rest)) / math.factorial(power)

    def squares(self, hidden: int = 0) -> float:
        """``E[A_eps^hidden sum_l A_l^2]``."""
        return self.expect(hidden + 2) + (self.tokens - 1) * self.expect(hidden, 2)


def laplace_nodes(
    log_f: np.ndarray, step: float, log_idle: float = -np.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes s, values f, and weights ``exp(-s f_0) ds``, in units where the largest is one.

    Raises :class:`GridTooLargeError` for scores so large that powers of s would overflow.
    """
    spacing = _LOG_STEP * step
    largest = max(log_f.max(), log_idle)
    log_f = log_f - largest
    if log_f.min() < -_MAX_RANGE:
        raise GridTooLargeError(
            f"scores that vary by {-log_f.min():.0f} are beyond quadrature; use the Sobol loss, or "
            "make mean, std and m smaller"
        )
    s = np.exp(np.arange(-24.0, 4.0 - log_f.min() + spacing, spacing))
    return s, np.exp(log_f), spacing * s * np.exp(-s * np.exp(log_idle - largest))


def row_space(weights: np.ndarray) -> np.ndarray:
    """Orthonormal basis [rank, n] of the span of the rows of weights [H, n]."""
    _, singular, basis = np.linalg.svd(weights, full_matrices=False)
    return basis[singular > _NULL * max(1.0, singular[0])]


def gram_schmidt(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Orthonormal basis [2, n], e_1 along ``first``; zero in place of a direction not needed."""
    basis = np.zeros((2, first.size))
    for row, vector in zip(basis, (first, second), strict=True):
        rest = vector - basis.T @ (basis @ vector)
        norm = np.linalg.norm(rest)
        if norm > _NULL * max(1.0, np.linalg.norm(vector)):
            row[:] = rest / norm
    return basis


def token_grid(basis: np.ndarray, components: np.ndarray, prior: Prior, step: float) -> TokenGrid:
    """Grid of ``u = basis @ x`` for tokens x: standard normal, plus theta if hidden.

    ``components`` [n, d] of the scores along u set the spacing: fine for u and for every score.
    """
    images, features = prior.images(), prior.dim_features
    along = basis[:, :features]
    covariance = np.eye(len(basis)) + (along * images.spread**2) @ along.T
    centers = images.centers @ along.T
    reach = _REACH * np.sqrt(np.diag(covariance))
    spacing = step * _STEP / np.maximum(1.0, np.abs(components).max(axis=0, initial=0.0))
    nodes = _mesh(
        np.minimum(centers.min(0), 0) - reach, np.maximum(centers.max(0), 0) + reach, spacing
    )
    volume = np.prod(spacing)
    visible = volume * _normal_density(nodes, np.zeros(len(basis)), np.eye(len(basis)))
    hidden = volume * sum(
        weight * _normal_density(nodes, center, covariance)
        for weight, center in zip(images.weights, centers, strict=True)
    )
    return TokenGrid(nodes, visible, hidden)


def _mesh(low: np.ndarray, high: np.ndarray, spacing: np.ndarray) -> np.ndarray:
    """Uniform nodes [d, n_1, ..., n_d] of the box; raises :class:`GridTooLargeError`."""
    count = float(np.prod((high - low) / spacing + 1.0))
    if count > _MAX_NODES:
        raise GridTooLargeError(
            f"quadrature over {len(low)} directions would take {count:.1e} nodes; "
            "use the Sobol loss, or make mean, std and m smaller"
        )
    axes = [np.arange(a, b + h, h) for a, b, h in zip(low, high, spacing, strict=True)]
    return np.array(np.meshgrid(*axes, indexing="ij")).reshape(len(axes), *(x.size for x in axes))


def _normal_density(nodes: np.ndarray, center: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Density of N(center, covariance) at nodes [d, ...]."""
    offset = nodes - center.reshape(-1, *(1,) * (nodes.ndim - 1))
    exponent = np.einsum("i...,i...", offset, np.tensordot(np.linalg.inv(covariance), offset, 1))
    return np.exp(-0.5 * exponent) / np.sqrt(np.linalg.det(2.0 * np.pi * covariance))
