"""Population errors of attention with scores of given covariance.

The rows of the attention are exchangeable: only the T - 1 differences of the scores of one row
enter, h_ab - h_aa, with Var h_ab = 1 + delta_ab times Q (or Q0 + noise/2, or M between the two).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from hdattn.singlehead.attention import Array
from hdattn.singlehead.quadrature import gaussian_trapezoid, sigmoid_step, sobol_gaussians

ROW_POINTS = 2**15  # of the quasi-Monte Carlo above two tokens: errors of about 1e-4


def attention_error(
    Q: float, M: float, prior_variance: float, beta: float, beta0: float, tokens: int = 2
) -> float:
    """E ||Y - A_S||^2 against fresh noisy labels; quadrature at T = 2, quasi-random above.

    The scores have variances P = Q0 + noise/2 and Q and covariance M, times 1 + delta_ab.
    """
    if tokens != 2:
        return sampled_error(Q, M, prior_variance, beta, beta0, tokens)
    spread0, ratio = np.sqrt(3 * prior_variance), M / prior_variance
    spread = np.sqrt(3 * max(Q - M * ratio, 0.0))
    common = ratio * spread0
    step = sigmoid_step(max(beta0 * spread0, beta * np.hypot(common, spread)))
    x, weights = gaussian_trapezoid(step)
    label = expit(beta0 * spread0 * x)
    output = expit(beta * (common * x[:, None] + spread * x))
    return float(4 * weights @ (label[:, None] - output) ** 2 @ weights)


def sampled_error(
    Q: float, M: float, prior_variance: float, beta: float, beta0: float, tokens: int
) -> float:
    """The same at any T."""
    label, noise = row_gaussians(tokens, 2)
    ratio = M / prior_variance
    spread = np.sqrt(max(Q - M * ratio, 0.0))
    label = np.sqrt(prior_variance) * label
    output = row_softmax(beta * (ratio * label + spread * noise))
    return float(tokens * np.mean(((row_softmax(beta0 * label) - output) ** 2).sum(0)))


@lru_cache(maxsize=8)
def row_gaussians(tokens: int, vectors: int, points: int = ROW_POINTS) -> Array:
    """Independent draws [vectors, T - 1, points] of the score differences of a row at Q = 1."""
    size = tokens - 1
    root = np.linalg.cholesky(np.eye(size) + 2.0)  # Var h_aa = 2 enters every difference
    xi = sobol_gaussians(vectors * size, points, 0).reshape(vectors, size, -1)
    return root @ xi


def row_softmax(differences: Array) -> Array:
    """Softmax [T, n] of a row with the scores (0, differences [T - 1, n])."""
    logits = np.concatenate([np.zeros_like(differences[:1]), differences])
    weights = np.exp(logits - logits.max(0))
    return weights / weights.sum(0)


@lru_cache(maxsize=64)
def error_floor(
    Q0: float, prior_variance: float, beta: float, beta0: float, tokens: int = 2
) -> tuple[float, float]:
    """Least error on the ray S = c S0 (Q = c^2 Q0, M = c Q0) and the c >= 0 that reaches it."""

    def error(Q: float, M: float) -> float:
        return attention_error(Q, M, prior_variance, beta, beta0, tokens)

    return least_on_ray(error, Q0, beta0 / beta)


def least_on_ray(
    error: Callable[[float, float], float], Q0: float, scale: float
) -> tuple[float, float]:
    """Least error(Q, M) of S = c S0 and the c, somewhat above or much below scale."""

    def on_ray(log_c: float) -> float:
        c = np.exp(log_c)
        return error(c * c * Q0, c * Q0)

    bounds = (np.log(scale) - 4.0, np.log(scale) + 0.5)
    best = minimize_scalar(on_ray, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    return float(best.fun), float(np.exp(best.x))
