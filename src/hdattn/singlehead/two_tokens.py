"""The channel of two tokens: softmax attention with the square loss, on a lattice.

The softmax of two tokens sees z = (u, v) = (h11 - h12, h22 - h12), C = [[3, 1], [1, 3]]. With s the
sigmoid, l(y, z) = 2 (y1 - s(beta u))^2 + 2 (y2 - s(beta v))^2 and y = s(beta0 z0'). Everything is
invariant under u <-> v and under a global sign, so a quarter of the lattice is enough.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import expit

from hdattn.singlehead.channel import Block, Channel
from hdattn.singlehead.population import attention_error
from hdattn.singlehead.quadrature import pair_grid

COVARIANCE = np.array([[3.0, 1.0], [1.0, 3.0]])
DIAGONAL, OFF = 3 / 8, -1 / 8  # of C^{-1}
COARSE = 10  # nodes of the lattice on which a fixed point is first looked for
MAX_NEWTON = 80
LONGEST_STEP = 1.5  # in units of 1/beta: a longer one may leap over the nearest minimum
STEP_TOLERANCE = 1e-5  # the step after it is quadratically smaller, about 1e-10


class TwoTokenChannel(Channel):
    """beta, beta0: inverse temperatures; nodes (even): lattice points across the ball per axis.

    nodes = 0: no points of its own, for samples that are given one by one.
    """

    def __init__(self, prior_variance: float, beta: float, beta0: float, nodes: int):
        self.beta, self.beta0, self.nodes = beta, beta0, nodes
        if not nodes:
            super().__init__(COVARIANCE, prior_variance)
            return
        grid = pair_grid(nodes, nodes)
        super().__init__(COVARIANCE, prior_variance, cell=grid.steps[0] / np.sqrt(12))
        scores = np.sqrt(prior_variance) * colour(grid.first)
        self.add_points(grid.weights, scores, colour(grid.second))

    def error(self, Q, M):
        """Test error E ||Y - A_S||^2."""
        return attention_error(Q, M, self.prior_variance, self.beta, self.beta0)

    def coarse(self):
        """Ten nodes: a tenth of the points, and right to about 1e-3."""
        if self.nodes <= COARSE:
            return None
        return TwoTokenChannel(self.prior_variance, self.beta, self.beta0, COARSE)

    def label(self, scores):
        """y = s(beta0 z0')."""
        return expit(self.beta0 * scores)

    def label_logits(self, block: Block):
        """beta0 z0'/beta, where the loss vanishes."""
        return block.label_scores * (self.beta0 / self.beta)

    def label_pull(self, block: Block, z):
        """dl/dz0' = 4 (y - s(beta z)) beta0 y (1 - y)."""
        return 4 * (block.y - expit(self.beta * z)) * self.beta0 * block.y * (1 - block.y)

    def loss_gradient(self, y, z):
        """Loss [n] and gradient [2, n]."""
        loss, first, _ = loss_terms(y, z, self.beta)
        return loss.sum(0), first

    def doubtful(self, block, V):
        """Points where V diag l'' + C^{-1} may be indefinite somewhere."""
        a, b = DIAGONAL - V * self.beta**2 * steepest_concavity(block.y)
        return np.flatnonzero((a <= 0) | (a * b <= OFF**2))

    def descend(self, y, omega, V, start):
        """Safeguarded Newton of each sample."""
        return descend(y, omega, V, self.beta, start)

    def response_trace(self, y, z, V):
        """Written out for 2 x 2: the eigenvalues are k/(1 + V k) for k those of C L."""
        trace, det = self._curvature(y, z)
        return (trace + 2 * V * det) / (1 + V * trace + V**2 * det)

    def response_square(self, y, z, V):
        """From the trace and the determinant of the same matrix."""
        trace, det = self._curvature(y, z)
        return self.response_trace(y, z, V) ** 2 - 2 * det / (1 + V * trace + V**2 * det)

    def _curvature(self, y, z):
        """Trace and determinant of C L, L = diag l''."""
        a, b = loss_terms(y, z, self.beta)[2]
        return 3 * (a + b), 8 * a * b


def colour(xi: np.ndarray) -> np.ndarray:
    """Map standard Gaussians [2, n] = (even, odd) to covariance C: (u, v) = sqrt(2) e +- o."""
    even = np.sqrt(2.0) * xi[0]
    return np.stack([even + xi[1], even - xi[1]])


def loss_terms(y, z, beta):
    """Per token: loss 2 (y - s)^2 and its first two derivatives in z; all [2, n]."""
    s = expit(beta * z)
    miss, slope = y - s, s * (1 - s)
    first = -4 * beta * miss * slope
    second = 4 * beta**2 * slope * (slope - miss * (1 - 2 * s))
    return 2 * miss**2, first, second


def steepest_concavity(y):
    """An upper bound of -l''(z)/beta^2 over z for labels y, within .002 of it.

    With s = s(beta z): -l''/beta^2 = 4 s (1 - s) ((y - s)(1 - 2 s) - s (1 - s)), taken for y >= 1/2
    by the symmetry y -> 1 - y; linear interpolation of a convex function of y is above it.
    """
    return np.interp(np.maximum(y, 1 - y), *_concavity_table())


@lru_cache(maxsize=1)
def _concavity_table():
    labels, s = np.linspace(0.5, 1, 65), np.linspace(0, 1, 4001)
    slope = s * (1 - s)
    concavity = 4 * slope * ((labels[:, None] - s) * (1 - 2 * s) - slope)
    return labels, concavity.max(1) + 1e-6


def _value(loss, shift, V):
    """V l + (z - omega)^T C^{-1} (z - omega)/2 for each sample [n]."""
    quadratic = DIAGONAL * (shift[0] ** 2 + shift[1] ** 2) / 2 + OFF * shift[0] * shift[1]
    return V * (loss[0] + loss[1]) + quadratic


def _newton_step(first, second, shift, V):
    """Newton direction; the curvature of the loss is clipped at zero where it is indefinite."""
    g0 = V * first[0] + DIAGONAL * shift[0] + OFF * shift[1]
    g1 = V * first[1] + DIAGONAL * shift[1] + OFF * shift[0]
    a, b = V * second[0] + DIAGONAL, V * second[1] + DIAGONAL
    bad = (a * b <= OFF**2) | (a <= 0)
    if bad.any():
        a = np.where(bad, V * np.maximum(second[0], 0) + DIAGONAL, a)
        b = np.where(bad, V * np.maximum(second[1], 0) + DIAGONAL, b)
    determinant = a * b - OFF**2
    return np.stack([OFF * g1 - b * g0, OFF * g0 - a * g1]) / determinant


def descend(y, omega, V, beta, start):
    """Local minimum of V l + quadratic reached from `start`: z [2, n] and the value [n].

    Samples leave the iteration as they converge.
    """
    z_out = np.array(start)
    loss, first, second = loss_terms(y, z_out, beta)
    value_out = _value(loss, z_out - omega, V)
    active = np.arange(z_out.shape[1])
    part = (y, omega, z_out, value_out, first, second)
    for _ in range(MAX_NEWTON):
        y, omega, z, value, first, second = part
        step = _newton_step(first, second, z - omega, V)
        step *= np.minimum(1, LONGEST_STEP / beta / np.maximum(np.abs(step).max(0), 1e-300))
        new, new_value, first, second = _line_search(y, omega, V, beta, z, value, step)
        going = np.abs(new - z).max(0) > STEP_TOLERANCE
        z_out[:, active], value_out[active] = new, new_value
        if not going.any():
            break
        active = active[going]
        part = tuple(x[..., going] for x in (y, omega, new, new_value, first, second))
    return z_out, value_out


def _line_search(y, omega, V, beta, z, value, step):
    """Halve the step of each sample until its value does not increase."""
    new = z + step
    loss, first, second = loss_terms(y, new, beta)
    new_value = _value(loss, new - omega, V)
    allowed = value * (1 + 1e-14) + 1e-300
    worse = np.flatnonzero(new_value > allowed)
    factor = 1.0
    while worse.size and factor > 1e-9:
        factor *= 0.5
        trial = z[:, worse] + factor * step[:, worse]
        loss, first[:, worse], second[:, worse] = loss_terms(y[:, worse], trial, beta)
        new[:, worse], new_value[worse] = trial, _value(loss, trial - omega[:, worse], V)
        worse = worse[new_value[worse] > allowed[worse]]
    return new, new_value, first, second
