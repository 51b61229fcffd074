"""The training loss on a graphics card; importing this module imports torch (2 s)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array
from hdattn.singlehead.objective import basis_pairs, blocks, score_map

BLOCK = 65536  # samples handled at a time: fills a card, needs 100 MB of work space at d = 100


class TorchAttentionLoss:
    """The same loss and gradient as ``AttentionLoss``, with float64 tensors on ``device``.

    Matrices enter and leave as numpy arrays: they are small, the samples stay on the device.
    """

    def __init__(
        self, batches: Iterable[tuple[Array, Array]], beta: float = 1.0, device: str = "cuda"
    ):
        self.beta = beta
        self._device = _checked_device(device)
        self._blocks = [(self._tensor(x), self._tensor(y)) for x, y in blocks(batches, BLOCK)]
        if not self._blocks:
            raise UserError("the training set is empty; give at least one sample")
        self.tokens, _, self.dim = self._blocks[0][0].shape
        self.samples = sum(x.shape[1] for x, _ in self._blocks)
        self._pairs = basis_pairs(self.tokens)
        self._to_logits = self._tensor(score_map(self.tokens) * (beta / np.sqrt(self.dim)))

    def value_and_gradient(self, s: Array) -> tuple[float, Array]:
        """Loss and its gradient [d, d] (symmetric) at symmetric ``s`` [d, d]."""
        matrix = self._tensor(s)
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        gradient = torch.zeros_like(matrix)
        for x, y in self._blocks:
            attention = self._attention(x, matrix)
            residual = attention - y
            total += (residual**2).sum()
            slope = attention * (residual - (attention * residual).sum(1, keepdim=True))
            pull = 2 * self._to_logits.T @ slope.flatten(0, 1)
            for (j, k), plane in zip(self._pairs, pull, strict=True):
                gradient += x[k].T @ (plane[:, None] * x[j])
                if j == k:
                    gradient.diagonal().sub_(plane.sum())
        return float(total), ((gradient + gradient.T) / 2).cpu().numpy()

    def sample_losses(self, s: Array) -> Array:
        """Loss of every sample [n] at symmetric ``s`` [d, d]."""
        matrix = self._tensor(s)
        losses = [((self._attention(x, matrix) - y) ** 2).sum((0, 1)) for x, y in self._blocks]
        return torch.cat(losses).cpu().numpy()

    def _attention(self, x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        """Attention [T, T, c] of basis tokens ``x`` [T, c, d]."""
        projected = x[1:] @ s
        products = torch.stack(
            [(projected[k - 1] * x[j]).sum(1) - (j == k) * s.trace() for j, k in self._pairs]
        )
        logits = (self._to_logits @ products).unflatten(0, (self.tokens, self.tokens))
        return logits.softmax(1)

    def _tensor(self, array: Array) -> torch.Tensor:
        return torch.as_tensor(array, dtype=torch.float64, device=self._device)


def _checked_device(device: str) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"device {device!r} cannot be used: {reason}; give cpu or auto") from error
