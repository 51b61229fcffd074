"""Output channel of the head at T = 2: square loss on softmax attention, by quadrature.

The softmax of two tokens sees z = (u, v) = (h11 - h12, h22 - h12), of prior covariance V C,
C = [[3, 1], [1, 3]]. With s the sigmoid, l(y, z) = 2 (y1 - s(beta u))^2 + 2 (y2 - s(beta v))^2 and
y = s(beta0 z0'), the scores z0' of covariance (Q0 + noise/2) C including the noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from hdattn.singlehead.prox import colour, descend, loss_terms
from hdattn.singlehead.quadrature import pair_grid

CONVEX_CURVATURE = 0.241  # -min over (y, z) of l''(z)/beta^2 is just below this
SAME_MINIMUM = 1e-4  # minima of the prox closer than this are one


@dataclass(frozen=True)
class ChannelMoments:
    """v_hat, m_hat, q_hat, train loss per sample, jump probability and v2 (None: not asked)."""

    v_hat: float
    m_hat: float
    q_hat: float
    train_loss: float
    jump_probability: float
    v2: float | None = None


class TwoTokenChannel:
    """Moments of f = -dl/dz(z*) over (omega, z0') at given order parameters.

    prior_variance: Q0 + noise/2. nodes: lattice points across the Gaussian ball, for each axis.
    """

    dimension = 2  # K, the number of independent logit differences

    def __init__(self, prior_variance: float, beta: float, beta0: float, nodes: int):
        self.prior_variance, self.beta = prior_variance, beta
        self.grid = pair_grid(nodes, nodes)
        self.label_scores = np.sqrt(prior_variance) * colour(self.grid.first)
        self.noise = colour(self.grid.second)
        self.y = expit(beta0 * self.label_scores)
        self.label_logits = self.label_scores * (beta0 / beta)
        self._warm: list[np.ndarray] = []

    def omega(self, Q: float, M: float) -> tuple[np.ndarray, float]:
        """Scores omega = (M/P) z0' + s eta [2, n] and s, for P the prior variance."""
        ratio = M / self.prior_variance
        spread = np.sqrt(max(Q - M * ratio, 1e-16 * Q))
        return ratio * self.label_scores + spread * self.noise, spread

    def minimisers(self, omega, V: float, cold: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """Minima (z, objective) from each start: omega and, unless convex, the label's logits."""
        convex = V * CONVEX_CURVATURE * self.beta**2 < 0.25
        starts = [omega] if convex else [omega, self.label_logits]
        if not cold and len(self._warm) == len(starts):
            starts = self._warm
        found = [descend(self.y, omega, V, self.beta, start) for start in starts]
        self._warm = [z for z, _ in found]
        return found

    def moments(self, Q: float, M: float, V: float, cold: bool = False, full: bool = False):
        """ChannelMoments at (Q, M, V); Stein's identity for v_hat and m_hat.

        E f.eta = -s v_hat and E f.z0' = P m_hat - M v_hat, with omega = (M/P) z0' + s eta: the
        notes' 2x2 system in triangular form, right also when the prox jumps.
        cold: start every minimisation afresh. full: also v2 = E Tr[(C df/domega)^2].
        """
        weights = self.grid.weights
        omega, spread = self.omega(Q, M)
        found = self.minimisers(omega, V, cold)
        z, jump = found[0][0], 0.0
        if len(found) == 2:
            (z_a, value_a), (z_b, value_b) = found
            jump = weights @ (np.abs(z_a - z_b).max(0) > SAME_MINIMUM)
            z = np.where(value_b < value_a, z_b, z_a)
        loss, first, second = loss_terms(self.y, z, self.beta)
        f = -first
        v_hat = -float(weights @ (f * self.noise).sum(0)) / spread
        m_hat = float(weights @ (f * self.label_scores).sum(0)) + M * v_hat
        q_hat = weights @ (3 * f[0] ** 2 + 2 * f[0] * f[1] + 3 * f[1] ** 2)
        return ChannelMoments(
            v_hat,
            m_hat / self.prior_variance,
            float(q_hat),
            float(weights @ loss.sum(0)),
            float(jump),
            float(weights @ response_square(second, V)) if full else None,
        )


def response_square(second: np.ndarray, V: float) -> np.ndarray:
    """Tr[(C df/domega)^2] [n], from df/domega = -(1 + L V C)^{-1} L with L = diag l''(z*)."""
    a, b = second
    # C df/domega = -C (1 + L V C)^{-1} L = -(C^{-1} + V L)^{-1} C^{-1} ... written out for 2 x 2
    m11, m12, m21, m22 = 1 + 3 * V * a, V * a, V * b, 1 + 3 * V * b
    det = m11 * m22 - m12 * m21
    # (1 + L V C)^{-1} L
    g11, g12, g21, g22 = m22 * a / det, -m12 * b / det, -m21 * a / det, m11 * b / det
    c11, c12 = 3 * g11 + g21, 3 * g12 + g22
    c21, c22 = g11 + 3 * g21, g12 + 3 * g22
    return c11**2 + 2 * c12 * c21 + c22**2
