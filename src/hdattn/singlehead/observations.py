"""A training set as message passing sees it: labels, and linear maps between S and the logits.

In an orthonormal token basis whose first vector is constant, the products
P_jk = (x'_j S x'_k - delta_jk Tr S)/sqrt(d), j <= k, k >= 1, are all that the softmax sees. For a
symmetric S with Tr S^2 = d they have unit variance, two if j = k, and no correlations.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hdattn.singlehead.attention import Array, softmax_rows
from hdattn.singlehead.objective import AttentionLoss
from hdattn.singlehead.token_basis import basis_pairs, score_map


class Observations(AttentionLoss):
    """Logits z = basis @ P of a training set, basis [K, K]; covariance: their C [K, K].

    ``batches`` and beta (which matters to training only) as for :class:`AttentionLoss`; basis: by
    default the logits are the products P.
    """

    def __init__(
        self,
        batches: Iterable[tuple[Array, Array]],
        basis: Array | None = None,
        beta: float = 1.0,
    ):
        super().__init__(batches, beta)
        variances = np.array([2.0 if j == k else 1.0 for j, k in self._pairs])
        self.basis = np.eye(variances.size) if basis is None else basis
        self.covariance = (self.basis * variances) @ self.basis.T
        self.labels = np.concatenate([y for _, y in self._blocks], axis=2)

    @property
    def alpha(self) -> float:
        """Samples over d^2."""
        return self.samples / self.dim**2

    def logits(self, s: Array) -> Array:
        """Logits z [K, n] of symmetric ``s`` [d, d]."""
        products = np.concatenate([self._products(x, s) for x, _ in self._blocks], axis=1)
        return self.basis @ products / np.sqrt(self.dim)

    def adjoint(self, f: Array) -> Array:
        """Transpose of :meth:`logits`: the symmetric [d, d] with <adjoint(f), s> = <f, logits>."""
        planes = self.basis.T @ f / np.sqrt(self.dim)
        total, start = np.zeros((self.dim, self.dim)), 0
        for x, _ in self._blocks:
            stop = start + x.shape[1]
            self._add_gradient(total, x, planes[:, start:stop])
            start = stop
        total = (total + total.T) / 2
        diagonal = [j == k for j, k in self._pairs]
        total[np.diag_indices(self.dim)] -= planes[diagonal].sum()
        return total

    def mean_loss(self, z: Array, beta: float) -> float:
        """Mean of ||y - softmax_rows(beta h)||^2 at logits z [K, n]."""
        h = score_map(self.tokens) @ np.linalg.solve(self.basis, z)
        attention = softmax_rows(np.moveaxis(beta * h.reshape(self.labels.shape), -1, 0))
        return float(((np.moveaxis(self.labels, -1, 0) - attention) ** 2).sum() / self.samples)

    def label_scores(self, beta0: float) -> Array:
        """Noisy scores z0' [K, n] of the target, which the labels reveal exactly."""
        logs = np.log(np.maximum(self.labels, np.finfo(float).tiny)) / beta0
        centred = logs - logs.mean(axis=1, keepdims=True)
        return self.basis @ _reader(self.tokens) @ centred.reshape(self.tokens**2, -1)


def _reader(tokens: int) -> Array:
    """Matrix [K, T^2] from scores, each row less its mean, to the products P."""
    to_scores = score_map(tokens).reshape(tokens, tokens, -1)
    centred = to_scores - to_scores.mean(axis=1, keepdims=True)
    return np.linalg.pinv(centred.reshape(tokens**2, len(basis_pairs(tokens))))


def logit_differences() -> Array:
    """The basis [2, 2] of z = (h11 - h12, h22 - h12), the logits of two tokens."""
    differences = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, -1.0, 0.0, 1.0]])
    return differences @ score_map(2)
