"""The training loss on a graphics card; importing this module imports torch (2 s)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array
from hdattn.singlehead.objective import is_sequence_task
from hdattn.singlehead.token_basis import basis_pairs, blocks, score_map, sequence_metric

BLOCK = 65536  # samples handled at a time: fills a card, needs 100 MB of work space at d = 100


class TorchAttentionLoss:
    """The same loss and gradient as ``AttentionLoss``, with float64 tensors on ``device``.

    Matrices enter and leave as numpy arrays: they are small, the samples stay on the device.
    """

    def __init__(
        self,
        batches: Iterable[tuple[Array, Array]],
        beta: float = 1.0,
        device: str = "cuda",
        *,
        task: str = "seq2lab",
        symmetric: bool = True,
    ):
        self.beta = beta
        self.symmetric = symmetric
        self._device = _checked_device(device)
        self._sequences = is_sequence_task(task)
        self._blocks = [self._on_device(x, y) for x, y in blocks(batches, BLOCK)]
        if not self._blocks:
            raise UserError("the training set is empty; give at least one sample")
        self.tokens, _, self.dim = self._blocks[0][0].shape
        self.samples = sum(x.shape[1] for x, _, _ in self._blocks)
        self._pairs = basis_pairs(self.tokens, symmetric)
        to_logits = score_map(self.tokens, symmetric) * (beta / np.sqrt(self.dim))
        self._to_logits = self._tensor(to_logits)

    def value_and_gradient(self, s: Array) -> tuple[float, Array]:
        """Loss and its gradient [d, d] at ``s`` [d, d]; symmetric where S has to be."""
        matrix = self._tensor(s)
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        gradient = torch.zeros_like(matrix)
        for x, y, metric in self._blocks:
            attention = self._attention(x, matrix)
            residual = attention - y
            weighted = _weighted(residual, metric)
            total += (residual * weighted).sum()
            slope = attention * (weighted - (attention * weighted).sum(1, keepdim=True))
            pull = 2 * self._to_logits.T @ slope.flatten(0, 1)
            for (j, k), plane in zip(self._pairs, pull, strict=True):
                gradient += (plane[:, None] * x[j]).T @ x[k]
                if j == k:
                    gradient.diagonal().sub_(plane.sum())
        if self.symmetric:
            gradient = (gradient + gradient.T) / 2
        return float(total), gradient.cpu().numpy()

    def sample_losses(self, s: Array) -> Array:
        """Loss of every sample [n] at ``s`` [d, d]."""
        matrix, losses = self._tensor(s), []
        for x, y, metric in self._blocks:
            residual = self._attention(x, matrix) - y
            losses.append((residual * _weighted(residual, metric)).sum((0, 1)))
        return torch.cat(losses).cpu().numpy()

    def _attention(self, x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        """Attention [T, T, c] of basis tokens ``x`` [T, c, d]."""
        projected = x[1:] @ s.T
        products = torch.stack(
            [(projected[k - 1] * x[j]).sum(1) - (j == k) * s.trace() for j, k in self._pairs]
        )
        logits = (self._to_logits @ products).unflatten(0, (self.tokens, self.tokens))
        return logits.softmax(1)

    def _on_device(self, x: Array, y: Array) -> tuple[torch.Tensor, ...]:
        metric = self._tensor(sequence_metric(x)) if self._sequences else None
        return self._tensor(x), self._tensor(y), metric

    def _tensor(self, array: Array) -> torch.Tensor:
        return torch.as_tensor(array, dtype=torch.float64, device=self._device)


def _weighted(residual: torch.Tensor, metric: torch.Tensor | None) -> torch.Tensor:
    return residual if metric is None else torch.einsum("abn,bcn->acn", residual, metric)


def _checked_device(device: str) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"device {device!r} cannot be used: {reason}; give cpu or auto") from error
