"""Linear output channel: one quadratic form a sample, no softmax (matrix compressed sensing).

``yhat = (x^T S x - Tr S)/sqrt(d)`` and the square loss: K = 1 logit of covariance C = 2 and
``l = (y - z)^2``, with label noise of variance `noise`. With e = Q0 - 2 M + Q everything is in
closed form: ``v_hat = m_hat = 1/(V + 1/4)`` and ``q_hat = (e + noise/2)/(V + 1/4)^2``. It is the
state evolution of quadratic networks whose second layer is fixed.
"""

from __future__ import annotations

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array
from hdattn.singlehead.channel import Block, Channel, ChannelMoments
from hdattn.singlehead.problem import Problem


class LinearOutput(Channel):
    """The channel of :mod:`hdattn.singlehead.linear_output`, for ``solve(..., channel=...)``."""

    def __init__(self, problem: Problem, nodes: int):
        if problem.beta != 1 or problem.beta0 != 1:
            raise UserError("beta, beta0: the linear output has no temperatures; leave them at 1")
        super().__init__(np.array([[2.0]]), problem.label_variance)
        self.Q0, self.noise = problem.target.Q0, problem.noise

    def moments(self, Q: float, M: float, V: float, cold: bool = False) -> ChannelMoments:
        """Closed forms; the loss at the minimum is ``2 (e + noise/2)/(1 + 4 V)^2``."""
        gain = 1 / (V + 0.25)
        miss = self.miss(Q, M)
        return ChannelMoments(gain, gain, miss * gain**2, 0.125 * miss * gain**2, 0.0)

    def miss(self, Q: float, M: float) -> float:
        """Half the variance of y - yhat: e + noise/2."""
        return self.Q0 - 2 * M + Q + self.noise / 2

    def error(self, Q: float, M: float) -> float:
        """Mean of (y - yhat)^2 over fresh noisy labels: 2 (e + noise/2)."""
        return 2 * self.miss(Q, M)

    def response_square_mean(self, V: float) -> float:
        """Tr[(C df/domega)^2], the same for all samples."""
        return float((V + 0.25) ** -2)

    def label(self, scores: Array) -> Array:
        """The score itself, noise included."""
        return scores

    def label_logits(self, block: Block) -> Array:
        """The label."""
        return block.label_scores

    def label_pull(self, block: Block, z: Array) -> Array:
        """2 (y - z)."""
        return 2 * (block.label_scores - z)

    def descend(self, y: Array, omega: Array, V: float, start: Array) -> tuple[Array, Array]:
        """The prox ``z = (4 V y + omega)/(1 + 4 V)``, and its value times V."""
        z = (4 * V * y + omega) / (1 + 4 * V)
        return z, (V * (y - z) ** 2 + 0.25 * (z - omega) ** 2)[0]

    def loss_gradient(self, y: Array, z: Array) -> tuple[Array, Array]:
        """(y - z)^2 and its derivative."""
        return ((y - z) ** 2)[0], 2 * (z - y)

    def response_trace(self, y: Array, z: Array, V: float) -> Array:
        """1/(V + 1/4)."""
        return np.full(z.shape[1], 1 / (V + 0.25))

    def response_square(self, y: Array, z: Array, V: float) -> Array:
        """1/(V + 1/4)^2."""
        return np.full(z.shape[1], (V + 0.25) ** -2)

    def doubtful(self, block: Block, V: float) -> Array:
        """The loss is convex."""
        return np.empty(0, dtype=int)
