"""The channel of any number of tokens: softmax attention, square loss, quasi-Monte Carlo.

In an orthonormal token basis whose first vector is constant the softmax sees the K products
z = (P_jk), j <= k, k >= 1, which are independent: C = diag(1 + delta_jk). With h = L z the scores,
A = softmax_rows(beta h) and r = A - y, each row of the loss l = sum r^2 has the derivatives

    dl/dh_b = 2 beta A_b (r_b - m),   m = sum_c A_c r_c
    l''_bc = 2 beta^2 [delta_bc A_b (r_b - m + A_b) - A_b A_c (r_b + r_c - 2 m + A_b + A_c - |A|^2)]

of which the terms without r are the convex Gauss-Newton part.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import lru_cache

import numpy as np

from hdattn.singlehead.attention import Array
from hdattn.singlehead.channel import Block, Channel
from hdattn.singlehead.newton import descend, eliminate, response
from hdattn.singlehead.objective import basis_pairs, score_map
from hdattn.singlehead.quadrature import sobol_gaussians
from hdattn.singlehead.two_tokens import LONGEST_STEP, steepest_concavity

SCRAMBLES = 4


class ManyTokenChannel(Channel):
    """tokens: T >= 2; beta, beta0: inverse temperatures; points: of each of four scrambles (2^k).

    points = 0: a channel without points of its own, for samples given one by one.
    """

    def __init__(self, prior_variance: float, beta: float, beta0: float, tokens: int, points: int):
        self.variances = product_variances(tokens)
        # the volume of a cell of the standard Gaussian in 2K dimensions is about 1/points
        K = self.variances.size
        count = max(SCRAMBLES * points, 1)
        super().__init__(np.diag(self.variances), prior_variance, cell=count ** (-0.5 / K))
        self.tokens, self.beta, self.beta0 = tokens, beta, beta0
        self.map = score_map(tokens)
        self.parts: list[slice] = []
        deviations = np.sqrt(self.variances)[:, None]
        for scramble in range(SCRAMBLES if points else 0):
            # eta and -eta, for E f.eta to vanish like the spread of omega where that is small
            scores, eta = np.split(sobol_gaussians(2 * K, points // 2, scramble), 2)
            scores = np.sqrt(prior_variance) * deviations * np.hstack([scores, scores])
            eta = deviations * np.hstack([eta, -eta])
            before = len(self.blocks)
            self.add_points(np.full(points, 1 / count), scores, eta)
            self.parts.append(slice(before, len(self.blocks)))

    def coarse(self):
        """The first scramble."""
        return next(iter(self.replicas()), None)

    def replicas(self):
        """One channel for each scramble."""
        alone = []
        for part in self.parts:
            channel = copy(self)
            channel.parts = []
            channel.blocks = [replace(b, weights=SCRAMBLES * b.weights) for b in self.blocks[part]]
            alone.append(channel)
        return alone

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

    def read(self, attention):
        """All of it."""
        return np.ascontiguousarray(attention.reshape(self.tokens**2, -1))

    def label_logits(self, block: Block):
        """beta0 z0'/beta, where the loss vanishes."""
        return block.label_scores * (self.beta0 / self.beta)

    def label_pull(self, block: Block, z):
        """dl/dz0' = -2 beta0 L^T [y (r - m)], with m the mean of r under y."""
        y = block.y.reshape(self.tokens, self.tokens, -1)
        residual = self.attention(z, self.beta) - y
        residual -= (y * residual).sum(1, keepdims=True)
        return -2 * self.beta0 * (self.map.T @ (y * residual).reshape(self.tokens**2, -1))

    def loss_gradient(self, y, z):
        """Loss [n] and gradient [K, n]."""
        attention = self.attention(z, self.beta)
        residual = attention - y.reshape(attention.shape)
        loss = (residual**2).sum(axis=(0, 1))
        residual -= (attention * residual).sum(1, keepdims=True)
        residual *= attention
        return loss, 2 * self.beta * (self.map.T @ residual.reshape(self.tokens**2, -1))

    def hessian(self, y, z):
        """l'' [K, K, n]."""
        attention = self.attention(z, self.beta)
        residual = attention - y.reshape(attention.shape)
        residual -= (attention * residual).sum(1, keepdims=True)
        return self._hessian(attention, residual)

    def convex_hessian(self, y, z):
        """The Gauss-Newton part of l''."""
        return self._hessian(self.attention(z, self.beta), 0.0)

    def _hessian(self, attention, centred_residual):
        """From A and r - m: entries b <= c of every row, mapped to those of z."""
        weight = attention + centred_residual
        b, c = np.triu_indices(self.tokens)
        square = (attention**2).sum(1, keepdims=True)
        rows = attention[:, b] * attention[:, c]
        rows *= square - weight[:, b] - weight[:, c]
        rows[:, b == c] += attention * weight
        rows = rows.reshape(self.tokens * b.size, rows.shape[2])
        i, j = np.triu_indices(len(self.variances))
        entries = (2 * self.beta**2 * _pair_map(self.tokens)) @ rows
        hessian = np.empty((self.variances.size, self.variances.size, rows.shape[1]))
        hessian[i, j] = hessian[j, i] = entries
        return hessian

    def descend(self, y, omega, V, start):
        """Safeguarded Newton of each sample."""
        return descend(self, y, omega, V, self.variances, start, LONGEST_STEP / self.beta)

    def response_trace(self, y, z, V):
        """-Tr (C df/domega) [n]."""
        return np.einsum("kkn->n", response(self.hessian(y, z), V, self.variances))

    def response_square(self, y, z, V):
        """Tr[(C df/domega)^2] [n]."""
        matrix = response(self.hessian(y, z), V, self.variances)
        return np.einsum("kln,lkn->n", matrix, matrix)

    def doubtful(self, block, V):
        """Points where V l'' + C^{-1} may be indefinite somewhere.

        A row of label y has l'' >= -2 c beta^2 times the projector that removes the constant: it
        is most concave where A has two entries, those of the largest and least label, which looks
        like two tokens of label (1 + max y - min y)/2, and c is the steepest concavity there.
        """
        y = block.y.reshape(self.tokens, self.tokens, -1)
        concavity = 2 * self.beta**2 * V * steepest_concavity((1 + np.ptp(y, axis=1)) / 2)
        matrix = np.einsum("akl,an->kln", _row_maps(self.tokens), -concavity)
        index = np.arange(self.dimension)
        matrix[index, index] += (1 / self.variances)[:, None]
        return np.flatnonzero(~eliminate(matrix, matrix[:, 0])[1])


@lru_cache(maxsize=8)
def product_variances(tokens: int) -> Array:
    """Variances [K] of the products P_jk: two if j = k, else one."""
    return np.array([2.0 if j == k else 1.0 for j, k in basis_pairs(tokens)])


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


@lru_cache(maxsize=8)
def _row_maps(tokens: int) -> Array:
    """L_a^T (1 - 1 1^T/T) L_a for every row a: [T, K, K]."""
    rows = score_map(tokens).reshape(tokens, tokens, -1)
    rows = rows - rows.mean(1, keepdims=True)
    return np.einsum("abk,abl->akl", rows, rows)
