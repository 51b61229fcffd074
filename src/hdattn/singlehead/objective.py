"""Loss of an attention matrix S on a training set, with its gradient, at GEMM speed.

The softmax ignores a constant added to all scores of a sample, so in an orthonormal token
basis whose first vector is constant the product ``x'_0 S x'_0`` never enters. For every other
basis token k one GEMM ``x'_k S`` serves the scores of all pairs j <= k, and one GEMM
``x'_k^T (sum_j f_jk x'_j)`` serves the gradient, symmetrised once at the end: at T = 2 this is
half the work of going through ``x W``, whatever the width of W. Where S need not be symmetric
the pairs with j > k are products of their own, and the gradient is not symmetrised.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array
from hdattn.singlehead.token_basis import basis_pairs, blocks, score_map, sequence_metric

BLOCK = 1024  # samples handled at a time: long enough for GEMM, short enough for the cache
TASKS = ("seq2lab", "seq2seq")
"""Labels and outputs are the attention matrices, or the sequences these make of the tokens."""


class Loss(Protocol):
    """What training needs of a loss: numpy matrices in and out, whatever computes inside."""

    beta: float
    dim: int
    tokens: int
    samples: int
    symmetric: bool

    def value_and_gradient(self, s: Array) -> tuple[float, Array]:
        """Loss and its gradient [d, d] at ``s`` [d, d]; symmetric where S has to be."""


def attention_loss(
    batches: Iterable[tuple[Array, Array]],
    beta: float = 1.0,
    device: str = "auto",
    *,
    task: str = "seq2lab",
    symmetric: bool = True,
) -> Loss:
    """Loss of batches (x [n, T, d], y [n, T, T]) on a device; see :class:`AttentionLoss`.

    ``auto`` is a graphics card that torch can use where there is one, else ``cpu``: numpy, which
    takes 60 % of torch's time at one thread (16 against 26 ms at d = 60, alpha = 4) and starts at
    once. Other names are torch devices. Raises ``UserError`` when the device cannot be used.
    """
    if device == "auto":
        device = "cuda" if _has_graphics_card() else "cpu"
    if device == "cpu":
        return AttentionLoss(batches, beta, task=task, symmetric=symmetric)
    from hdattn.singlehead.torch_objective import TorchAttentionLoss

    return TorchAttentionLoss(batches, beta, device, task=task, symmetric=symmetric)


def _has_graphics_card() -> bool:
    """Whether torch can use a card; it is imported only where a driver (NVIDIA, AMD) is loaded."""
    if not any(Path(node).exists() for node in ("/dev/nvidiactl", "/dev/kfd")):
        return False
    import torch

    return torch.cuda.is_available()


class AttentionLoss:
    """``sum_mu sum_ab (y_ab - A_ab(S))^2`` with ``A = softmax_rows(beta h(S))``.

    ``batches`` yields (x [n, T, d], y [n, T, T]); tokens are kept once, in the token basis. With
    the task ``seq2seq`` outputs and labels are ``A x`` and ``y x``, and the loss is
    ``sum_mu ||(y - A) x||^2/d``. ``symmetric`` tells that S is; it need not be given otherwise.
    """

    def __init__(
        self,
        batches: Iterable[tuple[Array, Array]],
        beta: float = 1.0,
        *,
        task: str = "seq2lab",
        symmetric: bool = True,
    ):
        self.beta = beta
        self.symmetric = symmetric
        self._blocks = list(blocks(batches, BLOCK))
        if not self._blocks:
            raise UserError("the training set is empty; give at least one sample")
        sequences = is_sequence_task(task)
        self._metrics = [sequence_metric(x) if sequences else None for x, _ in self._blocks]
        self.tokens, _, self.dim = self._blocks[0][0].shape
        self.samples = sum(x.shape[1] for x, _ in self._blocks)
        self._scratch = np.empty((2, min(BLOCK, self.samples), self.dim))
        self._pairs = basis_pairs(self.tokens, symmetric)
        self._to_logits = score_map(self.tokens, symmetric) * (beta / np.sqrt(self.dim))

    def value_and_gradient(self, s: Array) -> tuple[float, Array]:
        """Loss and its gradient [d, d] at ``s`` [d, d]; symmetric where S has to be."""
        total, trace_part = 0.0, 0.0
        gradient = np.zeros((self.dim, self.dim))
        for (x, y), metric in zip(self._blocks, self._metrics, strict=True):
            attention = self._attention(x, s)
            residual = attention - y
            weighted = _weighted(residual, metric)
            total += float(np.vdot(residual, weighted))
            pull = self._pullback(attention, weighted)
            self._add_gradient(gradient, x, pull)
            trace_part += sum(
                float(plane.sum())
                for (j, k), plane in zip(self._pairs, pull, strict=True)
                if j == k
            )
        if self.symmetric:
            gradient = (gradient + gradient.T) / 2
        gradient[np.diag_indices(self.dim)] -= trace_part
        return total, gradient

    def sample_losses(self, s: Array) -> Array:
        """Loss of every sample [n] at ``s`` [d, d]."""
        losses = []
        for (x, y), metric in zip(self._blocks, self._metrics, strict=True):
            residual = self._attention(x, s) - y
            losses.append((residual * _weighted(residual, metric)).sum(axis=(0, 1)))
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
                projected, current = np.matmul(x[k], s.T, out=self._scratch[0, : x.shape[1]]), k
            np.einsum("nd,nd->n", projected, x[j], out=products[row])
            if j == k:
                products[row] -= trace
        return products

    def _pullback(self, attention: Array, weighted: Array) -> Array:
        """Derivative of the loss with respect to the visible products [K, c]."""
        slope = weighted - (attention * weighted).sum(axis=1, keepdims=True)
        slope *= attention
        return 2 * self._to_logits.T @ slope.reshape(-1, slope.shape[-1])

    def _add_gradient(self, gradient: Array, x: Array, pull: Array) -> None:
        combined, term = self._scratch[:, : x.shape[1]]
        last = {k: j for j, k in self._pairs}
        for (j, k), plane in zip(self._pairs, pull, strict=True):
            if j == 0:
                np.multiply(x[j], plane[:, None], out=combined)
            else:
                combined += np.multiply(x[j], plane[:, None], out=term)
            if j == last[k]:
                gradient += combined.T @ x[k]


def _weighted(residual: Array, metric: Array | None) -> Array:
    """Residual times the metric of the task [T, T, c]."""
    if metric is None:
        return residual
    return np.einsum("abn,bcn->acn", residual, metric)


def is_sequence_task(task: str) -> bool:
    """Whether labels are sequences; ``UserError`` for a task that does not exist."""
    if task not in TASKS:
        raise UserError(f"task {task!r} does not exist; use one of {', '.join(TASKS)}")
    return task == "seq2seq"
