"""Coordinates of the factor W in which L-BFGS needs few evaluations."""

from __future__ import annotations

import math

import numpy as np

from hdattn.singlehead.attention import Array
from hdattn.singlehead.objective import Loss
from hdattn.singlehead.optimisers import LinearMap, Scaling

SOFTENING = 0.15  # of the curvature of vanishing modes, in units of sqrt(Q); .1 to .3 serve as well


def curvature_scaling(loss: Loss, lam: float, shape: tuple[int, ...]) -> Scaling:
    """Coordinates e of ``W + U (e/sqrt(s_i + s_j + epsilon)) V^T`` that even out the curvature.

    With ``W = U diag V^T`` and s the eigenvalues of S, the loss curves in proportion to
    ``s_i + s_j`` along the entry ij; entries of modes that vanish are held by the penalty alone,
    which curves like the threshold ``lambda_eff/(alpha v_hat)``, here with v_hat at S = 0. L-BFGS
    needs two to three times fewer evaluations in these coordinates. ``shape`` is [d, p], or
    [2, d, p] of balanced factors of queries and keys, along which the loss curves alike.
    """
    dim, width = shape[-2:]
    v_hat = 2 * loss.beta**2 * (loss.tokens**2 - 1) / loss.tokens**2
    threshold = lam * math.sqrt(width / dim) * dim**2 / (loss.samples * v_hat)

    def scaling(w: Array) -> tuple[LinearMap, LinearMap]:
        maps = [_factor_maps(factor, threshold) for factor in w.reshape(-1, dim, width)]

        def apply(direction: int, e: Array) -> Array:
            parts = zip(maps, e.reshape(-1, dim, width), strict=True)
            return np.concatenate([both[direction](part).ravel() for both, part in parts])

        return lambda e: apply(0, e), lambda gradient: apply(1, gradient)

    return scaling


def _factor_maps(factor: Array, threshold: float) -> tuple[LinearMap, LinearMap]:
    """The map of one factor [d, p] and its transpose."""
    dim, width = factor.shape
    left, singular, right = np.linalg.svd(factor)
    s = np.zeros(max(dim, width))
    s[: singular.size] = singular**2 / math.sqrt(dim * width)
    epsilon = SOFTENING * math.sqrt(np.mean(s**2)) + threshold
    scale = 1 / np.sqrt(s[:dim, None] + s[None, :width] + epsilon)
    return (
        lambda e: left @ (scale * e) @ right,
        lambda gradient: scale * (left.T @ gradient @ right.T),
    )
