"""Population errors of attention with scores of given covariance, T = 2."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from hdattn.singlehead.quadrature import gaussian_trapezoid, sigmoid_step


def attention_error(Q: float, M: float, prior_variance: float, beta: float, beta0: float) -> float:
    """E ||Y - A_S||^2 = 4 E (s(beta0 u0') - s(beta u))^2 against fresh noisy labels, T = 2.

    Var u0' = 3 P, Var u = 3 Q, Cov = 3 M, with P = Q0 + noise/2.
    """
    spread0, ratio = np.sqrt(3 * prior_variance), M / prior_variance
    spread = np.sqrt(3 * max(Q - M * ratio, 0.0))
    common = ratio * spread0
    step = sigmoid_step(max(beta0 * spread0, beta * np.hypot(common, spread)))
    x, weights = gaussian_trapezoid(step)
    label = expit(beta0 * spread0 * x)
    output = expit(beta * (common * x[:, None] + spread * x))
    return float(4 * weights @ (label[:, None] - output) ** 2 @ weights)


def error_floor(Q0: float, prior_variance: float, beta: float, beta0: float) -> tuple[float, float]:
    """Least error on the ray S = c S0 (Q = c^2 Q0, M = c Q0) and the c >= 0 that reaches it."""

    def error(log_c: float) -> float:
        c = np.exp(log_c)
        return attention_error(c * c * Q0, c * Q0, prior_variance, beta, beta0)

    centre = np.log(beta0 / beta)
    best = minimize_scalar(
        error, bounds=(centre - 4.0, centre + 0.5), method="bounded", options={"xatol": 1e-7}
    )
    return float(best.fun), float(np.exp(best.x))
