"""Population loss E(W, b, c) and its gradient over a symmetric set of Sobol points.

The heads have reduced weights ``W_h = (m_h, V_h)`` in R^{F+K}, K = H noise directions with
``V V^T = r_perp``, or K = 0 where r_perp = 0. Token l of a sequence is then a standard normal
``g_l`` in R^{F+K}, plus theta (padded with zeros) for the hidden token, which is token 0 by
exchangeability; scores are ``chi_hl = W_h . x_l``.

Each base point has one image for each component of the prior. For flipping spikes these are the
joint flips ``(g_f, s_f) -> -(g_f, s_f)``: they enumerate theta exactly and keep E even in every
m_f of zero mean to rounding. Without this the sampling error acts as a field that breaks the
symmetry, and the plateau is left after a time that no longer grows with log D. The noise columns
are multiplied by (-1)^{number of flips}.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from hdattn.errors import UserError
from hdattn.multihead.activations import Activation
from hdattn.multihead.priors import Prior

_BLOCK = 1024  # points handled at once: the arrays of a block stay in the processor's cache


@dataclass(frozen=True)
class Evaluation:
    """E and its derivatives at one point.

    loss: E. grad_weights [H, F+K]: dE/dW at fixed noise. grad_b [H]: dE/db. grad_c: dE/dc.
    score_covariance [H, H]: ``G_hh' = E sum_l d_hl d_h'l``, d = dl/dchi, or None if not asked for.
    Derivatives are zero for parameters that the activation does not have.
    """

    loss: float
    grad_weights: np.ndarray
    grad_b: np.ndarray
    grad_c: float
    score_covariance: np.ndarray | None


class PopulationLoss:
    """E(W, b, c) for one activation, number of tokens L and prior, on a fixed set of points.

    ``base_points`` (a power of two) scrambled Sobol points of dimension L (F + noise_dim); the
    number of points in all is that times the number of images. A function of ``seed`` only.
    Accuracy of E: about 1e-4 at 2^14 base points, 1e-5 at 2^18.
    """

    def __init__(
        self,
        activation: Activation,
        tokens: int,
        prior: Prior,
        *,
        noise_dim: int = 0,
        base_points: int = 4096,
        seed: int = 0,
    ):
        """Draw the points; :class:`UserError` for impossible sizes."""
        if tokens < 2:
            raise UserError(f"tokens is {tokens}; a sequence needs at least 2")
        if base_points < 2 or base_points & (base_points - 1):
            raise UserError(f"base_points is {base_points}; take a power of two, at least 2")
        self.activation = activation
        self.images = prior.images()
        self.dim = prior.dim_features + noise_dim
        self.base_points = base_points
        self.blocks = _sobol_normals(tokens, self.dim, base_points, seed)
        flips = np.prod(self.images.signs, axis=1, keepdims=True)
        self.signs = np.hstack([self.images.signs, np.tile(flips, (1, noise_dim))])
        padding = [(0, 0), (0, noise_dim)]
        self.centers = np.pad(self.images.centers, padding)
        self.scale = np.sqrt(1.0 + np.pad(self.images.spread, padding[1]) ** 2)
        self._scale_hidden_token()

    def _scale_hidden_token(self) -> None:
        """Widen the hidden token's noise by the spread of the prior's components."""
        if np.any(self.scale != 1.0):
            for block in self.blocks:
                block[:, 0] *= self.scale[:, None]

    def loss(self, weights: np.ndarray, b=0.0, c: float = 1.0, *, points: int = 0) -> float:
        """E at reduced weights [H, F+K], on the first ``points`` base points if given.

        ``points`` is rounded up to whole blocks of 1024.
        """
        blocks = self.blocks[: -(-points // _BLOCK)] if points else self.blocks
        total = 0.0
        for weight, scores, _ in self.scores(weights, blocks):
            attention = self.activation.attention(scores, b, c)
            attention[0] -= 1.0
            total += weight * np.vdot(attention, attention)
        return float(total / sum(block.shape[-1] for block in blocks))

    def evaluate(
        self, weights: np.ndarray, b=0.0, c: float = 1.0, *, covariance: bool = False
    ) -> Evaluation:
        """E and its gradient at reduced weights [H, F+K]; also G if ``covariance``."""
        heads = len(weights)
        loss, grad_c = 0.0, 0.0
        grad_weights, grad_b = np.zeros((heads, self.dim)), np.zeros(heads)
        score_covariance = np.zeros((heads, heads)) if covariance else None
        for weight, scores, (block, image) in self.scores(weights):
            attention, head_weights = self.activation.forward(scores, b, c)
            e = 2.0 * attention
            e[0] -= 2.0
            d, db, dc = self.activation.pullback(head_weights, attention, c, e)
            loss += weight * 0.25 * np.vdot(e, e)
            flat = d.reshape(heads, -1)
            gradient = flat @ block.reshape(self.dim, -1).T
            gradient *= self.signs[image]
            gradient += np.outer(d[:, 0].sum(axis=1), self.centers[image])
            grad_weights += weight * gradient
            if db is not None:
                grad_b += weight * db.sum(axis=1)
            if dc is not None:
                grad_c += weight * dc.sum()
            if covariance:
                score_covariance += weight * (flat @ flat.T)
        n = self.base_points
        if covariance:
            score_covariance /= n
        gradients = grad_weights / n, grad_b / n, float(grad_c / n)
        return Evaluation(float(loss / n), *gradients, score_covariance)

    def scores(self, weights: np.ndarray, blocks: list[np.ndarray] | None = None):
        """Yield (weight of the image, scores [H, L, block], (points of the block, image)).

        From all points, or from some of the ``blocks``.
        """
        heads = len(weights)
        for block in self.blocks if blocks is None else blocks:
            flat = block.reshape(self.dim, -1)
            for image, weight in enumerate(self.images.weights):
                scores = (weights * self.signs[image]) @ flat
                scores = scores.reshape(heads, *block.shape[1:])
                scores[:, 0] += (weights @ self.centers[image])[:, None]
                yield weight, scores, (block, image)


def _sobol_normals(tokens: int, dim: int, base_points: int, seed: int) -> list[np.ndarray]:
    """Standard normals by scrambled Sobol points, as blocks of shape [dim, tokens, block]."""
    from scipy.stats.qmc import Sobol  # slow to import, and not every step needs it

    sobol = Sobol(tokens * dim, rng=np.random.default_rng(seed))
    uniform = sobol.random(base_points)
    normals = ndtri(np.clip(uniform, 1e-15, 1.0 - 1e-15)).T.reshape(tokens, dim, base_points)
    size = min(_BLOCK, base_points)
    return [
        np.ascontiguousarray(normals[:, :, start : start + size].swapaxes(0, 1))
        for start in range(0, base_points, size)
    ]
