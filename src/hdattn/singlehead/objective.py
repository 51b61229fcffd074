"""Loss of a symmetric attention matrix S on a training set, with its gradient, at GEMM speed.

The softmax ignores a constant added to all scores of a sample, so in an orthonormal token
basis whose first vector is constant the product ``x'_0 S x'_0`` never enters. For every other
basis token k one GEMM ``x'_k S`` serves the scores of all pairs j <= k, and one GEMM
``x'_k^T (sum_j f_jk x'_j)`` serves the gradient, symmetrised once at the end: at T = 2 this is
half the work of going through ``x W``, whatever the width of W.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

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


class Loss(Protocol):
    """What training needs of a loss: numpy matrices in and out, whatever computes inside."""

    beta: float
    dim: int
    tokens: int
    samples: int

    def value_and_gradient(self, s: Array) -> tuple[float, Array]:
        """Loss and its gradient [d, d] (symmetric) at symmetric ``s`` [d, d]."""


def attention_loss(
    batches: Iterable[tuple[Array, Array]], beta: float = 1.0, device: str = "auto"
) -> Loss:
    """Loss of batches (x [n, T, d], y [n, T, T]) on a device.

    ``auto`` is a graphics card that torch can use where there is one, else ``cpu``: numpy, which
    takes 60 % of torch's time at one thread (16 against 26 ms at d = 60, alpha = 4) and starts at
    once. Other names are torch devices. Raises ``UserError`` when the device cannot be used.
    """
    if device == "auto":
        device = "cuda" if _has_graphics_card() else "cpu"
    if device == "cpu":
        return AttentionLoss(batches, beta)
    from hdattn.singlehead.torch_objective import TorchAttentionLoss

    return TorchAttentionLoss(batches, beta, device)


def _has_graphics_card() -> bool:
    """Whether torch can use a card; it is imported only where a driver (NVIDIA, AMD) is loaded."""
    if not any(Path(node).exists() for node in ("/dev/nvidiactl", "/dev/kfd")):
        return False
    import torch

    return torch.cuda.is_available()


class AttentionLoss:
    """``sum_mu sum_ab (y_ab - A_ab(S))^2`` with ``A = softmax_rows(beta h(S))``.

    ``batches`` yields (x [n, T, d], y [n, T, T]); tokens are kept once, in the token basis.
    """

    def __init__(self, batches: Iterable[tuple[Array, Array]], beta: float = 1.0):
        self.beta = beta
        self._blocks = list(blocks(batches, BLOCK))
        if not self._blocks:
            raise UserError("the training set is empty; give at least one sample")
        self.tokens, _, self.dim = self._blocks[0][0].shape
        self.samples = sum(x.shape[1] for x, _ in self._blocks)
        self._scratch = np.empty((2, min(BLOCK, self.samples), self.dim))
        self._pairs = basis_pairs(self.tokens)
        self._to_logits = score_map(self.tokens) * (beta / np.sqrt(self.dim))

    def value_and_gradient(self, s: Array) -> tuple[float, Array]:
        """Loss and its gradient [d, d] (symmetric) at symmetric ``s`` [d, d]."""
        total, trace_part = 0.0, 0.0
        gradient = np.zeros((self.dim, self.dim))
        for x, y in self._blocks:
            attention = self._attention(x, s)
            residual = attention - y
            total += float(np.vdot(residual, residual))
            pull = self._pullback(attention, residual)
            self._add_gradient(gradient, x, pull)
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
        losses = [((self._attention(x, s) - y) ** 2).sum(axis=(0, 1)) for x, y in self._blocks]
        return np.concatenate(losses)

    def _attention(self, x: Array, s: Array) -> Array:
        """Attention [T, T, c] of basis tokens ``x`` [T, c, d]."""
        logits = self._to_logits @ self._products(x, s)
        logits = logits.reshape(self.tokens, self.tokens, -1)
        logits -= logits.max(axis=1, keepdims=True)
        attention = np.exp(logits, out=logits)
        attention /= attention.sum(axis=1, keepdims=True)
        return attention

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


def blocks(batches: Iterable[tuple[Array, Array]], size: int) -> Iterator[tuple[Array, Array]]:
    """Samples ``size`` at a time: tokens in the token basis [T, c, d], labels [T, T, c].

    Blocks do not depend on how the batches were cut, so neither do the bits of the loss. Raises
    ``UserError`` unless every x is [n, T, d] and y [n, T, T], T >= 2.
    """
    pieces: list[tuple[Array, Array]] = []
    room = size
    for x, y in batches:
        _check_shapes(x, y)
        start = 0
        while start < len(x):
            stop = min(len(x), start + room)
            pieces.append((x[start:stop], y[start:stop]))
            room -= stop - start
            start = stop
            if room == 0:
                yield _block(pieces)
                pieces, room = [], size
    if pieces:
        yield _block(pieces)


def _block(pieces: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    x = np.concatenate([piece[0] for piece in pieces])
    y = np.concatenate([piece[1] for piece in pieces])
    samples, tokens, dim = x.shape
    rotated = np.empty((tokens, samples, dim))
    np.einsum("ka,nad->knd", token_basis(tokens), x, out=rotated)
    return rotated, np.ascontiguousarray(np.moveaxis(y, 0, -1))


def _check_shapes(x: Array, y: Array) -> None:
    shape = np.shape(x)
    if len(shape) != 3 or shape[1] < 2 or np.shape(y) != (*shape[:2], shape[1]):
        raise UserError(
            f"tokens of shape {shape} and labels of shape {np.shape(y)} do not fit; "
            "give x [n, T, d] and y [n, T, T] with T >= 2"
        )
