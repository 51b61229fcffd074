"""The channel of any number of tokens: softmax attention, square loss, quasi-Monte Carlo.

With h = L z the scores, A = softmax_rows(beta h), r = A - y, and g = rho'(r), w = rho''(r) for a
loss sum rho(r), which is the square here, each row of the loss has the derivatives

    dl/dh_b = beta A_b (g_b - m),   m = sum_c A_c g_c
    l''_bc = beta^2 [delta_bc A_b (w_b A_b + g_b - m)
                     - A_b A_c (w_b A_b + w_c A_c - sum_e w_e A_e^2 + g_b + g_c - 2 m)]

of which the terms with w are the convex Gauss-Newton part.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hdattn.singlehead.attention import Array
from hdattn.singlehead.channel import Block
from hdattn.singlehead.newton import eliminate
from hdattn.singlehead.population import attention_error
from hdattn.singlehead.sampled_channel import SampledChannel, row_maps
from hdattn.singlehead.token_basis import score_map
from hdattn.singlehead.two_tokens import steepest_concavity


class ManyTokenChannel(SampledChannel):
    """Softmax attention with the square loss; ``rho`` may be replaced by another."""

    def rho(self, r: Array) -> tuple[Array, Array, Array]:
        """Loss of an entry of the attention, and its first two derivatives."""
        return r**2, 2 * r, np.full_like(r, 2.0)

    def attention(self, z: Array, beta: float) -> Array:
        """Softmax rows of the scores of z [K, n]: [T, T, n]."""
        h = (beta * self.map) @ z
        h = h.reshape(self.tokens, self.tokens, -1)
        h -= h.max(axis=1, keepdims=True)
        np.exp(h, out=h)
        h /= h.sum(axis=1, keepdims=True)
        return h

    def label(self, scores):
        """y = softmax_rows(beta0 h0), flattened to [T^2, n]."""
        return self.attention(scores, self.beta0).reshape(self.tokens**2, -1)

    def error(self, Q, M):
        """Test error E ||Y - A_S||^2."""
        return attention_error(Q, M, self.prior_variance, self.beta, self.beta0, self.tokens)

    def _parts(self, y, z):
        """A, loss [n], centred slope g - m and w, [T, T, n] each."""
        attention = self.attention(z, self.beta)
        value, slope, curvature = self.rho(attention - y.reshape(attention.shape))
        slope -= (attention * slope).sum(1, keepdims=True)
        return attention, value.sum(axis=(0, 1)), slope, curvature

    def loss_gradient(self, y, z):
        """Loss [n] and gradient [K, n]."""
        attention, loss, slope, _ = self._parts(y, z)
        slope *= attention
        return loss, self.beta * (self.map.T @ slope.reshape(self.tokens**2, -1))

    def hessian(self, y, z):
        """l'' [K, K, n]."""
        attention, _, slope, curvature = self._parts(y, z)
        return self._hessian(attention, slope, curvature)

    def convex_hessian(self, y, z):
        """The Gauss-Newton part of l''."""
        attention, _, _, curvature = self._parts(y, z)
        return self._hessian(attention, 0.0, curvature)

    def _hessian(self, attention, slope, curvature):
        """Entries b <= c of every row, mapped to those of z."""
        weighted = curvature * attention
        square = (attention * weighted).sum(1, keepdims=True)
        weighted += slope
        b, c = np.triu_indices(self.tokens)
        rows = attention[:, b] * attention[:, c]
        rows *= square - weighted[:, b] - weighted[:, c]
        rows[:, b == c] += attention * weighted
        rows = rows.reshape(self.tokens * b.size, rows.shape[2])
        i, j = np.triu_indices(self.dimension)
        hessian = np.empty((self.dimension, self.dimension, rows.shape[1]))
        hessian[i, j] = hessian[j, i] = (self.beta**2 * _pair_map(self.tokens)) @ rows
        return hessian

    def doubtful(self, block: Block, V: float):
        """Points where V l'' + C^{-1} may be indefinite somewhere.

        A row of label y has l'' >= -2 c beta^2 times the projector that removes the constant: it
        is most concave where A has two entries, those of the largest and least label, which looks
        like two tokens of label (1 + max y - min y)/2, and c is the steepest concavity there.
        """
        y = block.y.reshape(self.tokens, self.tokens, -1)
        concavity = 2 * self.beta**2 * V * steepest_concavity((1 + np.ptp(y, axis=1)) / 2)
        matrix = np.einsum("akl,an->kln", row_maps(self.tokens), -concavity)
        index = np.arange(self.dimension)
        matrix[index, index] += (1 / self.variances)[:, None]
        return np.flatnonzero(~eliminate(matrix, matrix[:, 0])[1])


@lru_cache(maxsize=8)
def _pair_map(tokens: int) -> Array:
    """Matrix from the entries b <= c of the T row Hessians to the entries i <= j of that in z."""
    rows = score_map(tokens).reshape(tokens, tokens, -1)
    b, c = np.triu_indices(tokens)
    i, j = np.triu_indices(rows.shape[2])
    one, two = rows[:, b], rows[:, c]
    pairs = one[:, :, i] * two[:, :, j]
    pairs += np.where((b == c)[:, None], 0.0, two[:, :, i] * one[:, :, j])
    return np.ascontiguousarray(pairs.reshape(-1, i.size).T)
