"""Two channels beside softmax attention with the square loss, as examples for one's own."""

from __future__ import annotations

import numpy as np

from hdattn.singlehead.many_tokens import ManyTokenChannel
from hdattn.singlehead.sampled_channel import SampledChannel, row_maps

WIDTH = 0.2  # of the square part of the Huber loss


class LinearAttention(SampledChannel):
    """Attention without softmax, A = (1 + beta (h - its row mean))/T, and the square loss.

    Labels are linear alike, so that l = sum_a |B_a (beta z - beta0 z0')|^2/T^2 for the map B_a of
    z to the centred row a.
    """

    def label(self, scores):
        """beta0 z0', which is as good as the linear attention."""
        return self.beta0 * scores

    @property
    def _form(self):
        return row_maps(self.tokens).sum(0) / self.tokens**2

    def loss_gradient(self, y, z):
        """Loss [n] and gradient [K, n]."""
        miss = self.beta * z - y
        pull = self._form @ miss
        return (miss * pull).sum(0), 2 * self.beta * pull

    def hessian(self, y, z):
        """The same for all samples."""
        constant = 2 * self.beta**2 * self._form
        return np.repeat(constant[:, :, None], z.shape[1], axis=2)

    def doubtful(self, block, V):
        """The loss is convex."""
        return np.empty(0, dtype=int)


class HuberLoss(ManyTokenChannel):
    """Softmax attention; the loss of an entry is r^2 up to |r| = 0.2, and linear beyond."""

    def rho(self, r):
        """Loss, slope (continuous) and curvature (zero in the linear part)."""
        size = np.abs(r)
        inside = size < WIDTH
        value = np.where(inside, r**2, WIDTH * (2 * size - WIDTH))
        return value, 2 * np.clip(r, -WIDTH, WIDTH), 2.0 * inside

    def doubtful(self, block, V):
        """All points: the bound of the square loss is none here."""
        return np.arange(block.weights.size)
