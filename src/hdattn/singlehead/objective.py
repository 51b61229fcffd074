"""Loss of a symmetric attention matrix S on a training set, with its gradient, at GEMM speed.

The softmax ignores a constant added to all scores of a sample, so in an orthonormal token
basis whose first vector is constant the product ``x'_0 S x'_0`` never enters. For every other
basis token k one GEMM ``x'_k S`` serves the scores of all pairs j <= k, and one GEMM
``x'_k^T (sum_j f_jk x'_j)`` serves the gradient, symmetrised once at the end: at T = 2 this is
half the work of going through ``x W``, whatever the width of W.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array

BLOCK = 1024  # samples handled at a time: long enough for GEMM, short enough for the cache


def token_basis(tokens: int) -> Array:
    """Orthonormal basis [T, T] of token space; row 0 is the constant vector."""
    start = np.column_stack([np.ones(tokens), np.eye(tokens)[:, 1:]])
    basis = np.linalg.qr(start)[0].T
    return basis * np.sign(basis[:1, :1])


def basis_pairs(tokens: int) -> list[tuple[int, int]]:
    """Pairs (j, k), j <= k, k >= 1, of basis tokens that the softmax can see."""
    return [(j, k) for k in range(1, tokens) for j in range(k + 1)]


def score_map(tokens: int) -> Array:
    """Matrix [T^2, K]: scores h_ab (flattened) from the K products of :func:`basis_pairs`."""
    basis = token_basis(tokens)
    columns = []
    for j, k in basis_pairs(tokens):
        outer = np.outer(basis[j], basis[k])
        columns.append((outer if j == k else outer + outer.T).ravel())
    return np.array(columns).T


@dataclass(frozen=True, eq=False)
class _Block:
    x: Array  # basis tokens [T, c, d]
    y: Array  # labels [T, T, c]


class AttentionLoss:
    """``sum_mu sum_ab (y_ab - A_ab(S))^2`` with ``A = softmax_rows(beta h(S))``.

    ``batches`` yields (x [n, T, d], y [n, T, T]); tokens are kept once, in the token basis.
    """

    def __init__(self, batches: Iterable[tuple[Array, Array]], beta: float = 1.0):
        self.beta = beta
        self._blocks = [block for x, y in batches for block in _cut(x, y)]
        if not self._blocks:
            raise UserError("the training set is empty; give at least one sample")
        self.tokens, _, self.dim = self._blocks[0].x.shape
        self.samples = sum(block.x.shape[1] for block in self._blocks)
        self._scratch = np.empty((2, min(BLOCK, self.samples), self.dim))
        self._pairs = basis_pairs(self.tokens)
        self._to_logits = score_map(self.tokens) * (beta / np.sqrt(self.dim))

    def value_and_gradient(self, s: Array) -> tuple[float, Array]:
        """Loss and its gradient [d, d] (symmetric) at symmetric ``s`` [d, d]."""
        total, trace_part = 0.0, 0.0
        gradient = np.zeros((self.dim, self.dim))
        for block in self._blocks:
            attention, residual = self._attention(block, s)
            total += float(np.vdot(residual, residual))
            pull = self._pullback(attention, residual)
            self._add_gradient(gradient, block.x, pull)
            trace_part += sum(
                float(plane.sum())
                for (j, k), plane in zip(self._pairs, pull, strict=True)
                if j == k
            )
        gradient = (gradient + gradient.T) / 2
        gradient[np.diag_indices(self.dim)] -= trace_part
        return total, gradient

    def sample_losses(self, s: Array) -> Array:
        """Loss of every sample [n] at symmetric ``s`` [d, d]."""
        residuals = (self._attention(block, s)[1] for block in self._blocks)
        return np.concatenate([(r**2).sum(axis=(0, 1)) for r in residuals])

    def _attention(self, block: _Block, s: Array) -> tuple[Array, Array]:
        """Attention and residual ``A - y``, both [T, T, c]."""
        products = self._products(block.x, s)
        logits = (self._to_logits @ products).reshape(block.y.shape)
        logits -= logits.max(axis=1, keepdims=True)
        attention = np.exp(logits, out=logits)
        attention /= attention.sum(axis=1, keepdims=True)
        return attention, attention - block.y

    def _products(self, x: Array, s: Array) -> Array:
        """``x'_j S x'_k - delta_jk Tr S`` of the visible pairs [K, c]."""
        products = np.empty((len(self._pairs), x.shape[1]))
        trace = np.trace(s)
        projected, current = None, 0
        for row, (j, k) in enumerate(self._pairs):
            if k != current:
                projected, current = np.matmul(x[k], s, out=self._scratch[0, : x.shape[1]]), k
            np.einsum("nd,nd->n", projected, x[j], out=products[row])
            if j == k:
                products[row] -= trace
        return products

    def _pullback(self, attention: Array, residual: Array) -> Array:
        """Derivative of the loss with respect to the visible products [K, c]."""
        slope = residual - (attention * residual).sum(axis=1, keepdims=True)
        slope *= attention
        return 2 * self._to_logits.T @ slope.reshape(-1, slope.shape[-1])

    def _add_gradient(self, gradient: Array, x: Array, pull: Array) -> None:
        combined, term = self._scratch[:, : x.shape[1]]
        for (j, k), plane in zip(self._pairs, pull, strict=True):
            if j == 0:
                np.multiply(x[j], plane[:, None], out=combined)
            else:
                combined += np.multiply(x[j], plane[:, None], out=term)
            if j == k:
                gradient += x[k].T @ combined


def _cut(x: Array, y: Array) -> Iterable[_Block]:
    samples, tokens, _ = np.shape(x)
    if np.shape(y) != (samples, tokens, tokens) or tokens < 2:
        raise UserError(
            f"tokens of shape {np.shape(x)} and labels of shape {np.shape(y)} do not fit; "
            "give x [n, T, d] and y [n, T, T] with T >= 2"
        )
    basis = token_basis(tokens)
    for start in range(0, samples, BLOCK):
        part = x[start : start + BLOCK]
        rotated = np.empty((tokens, *part.shape[::2]))
        np.einsum("ka,nad->knd", basis, part, out=rotated)
        yield _Block(rotated, np.ascontiguousarray(np.moveaxis(y[start : start + BLOCK], 0, -1)))
