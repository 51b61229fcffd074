"""Error of the posterior mean of an attention matrix whose scores are known up to Gaussian noise.

Given the data the label's scores are w + eta: w of variance q and eta of variance s (the posterior
error of the scores, and the label noise), both times C. The error of E[A | w] is E Var(A | w).
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from hdattn.singlehead.population import row_gaussians, row_softmax
from hdattn.singlehead.quadrature import gaussian_trapezoid, sigmoid_step


def posterior_error(q: float, s: float, beta0: float, tokens: int = 2) -> float:
    """E ||Y - E[Y | w]||^2, Y = softmax_rows(beta0 (w + eta)), by quadrature at T = 2."""
    if tokens == 2:
        return _two_tokens(q, s, beta0)
    return sampled_posterior_error(q, s, beta0, tokens)


def _two_tokens(q: float, s: float, beta0: float) -> float:
    """4 E Var(sigmoid(beta0 u) | w), w ~ N(0, 3 q), u | w ~ N(w, 3 s)."""
    known, unknown = np.sqrt(3 * max(q, 0.0)), np.sqrt(3 * s)
    x, weights = gaussian_trapezoid(sigmoid_step(beta0 * np.hypot(known, unknown)))
    label = expit(beta0 * (known * x[:, None] + unknown * x))
    mean = label @ weights
    return float(4 * weights @ ((label - mean[:, None]) ** 2 @ weights))


def sampled_posterior_error(q: float, s: float, beta0: float, tokens: int) -> float:
    """The same at any T, half the mean square distance of two labels with one w; quasi-random."""
    w, *etas = row_gaussians(tokens, 3)
    one, two = (row_softmax(beta0 * (np.sqrt(q) * w + np.sqrt(s) * eta)) for eta in etas)
    return float(0.5 * tokens * np.mean(((one - two) ** 2).sum(0)))
