"""Error of the posterior mean of an attention matrix whose scores are known up to Gaussian noise.

Given the data the label's scores are w + eta: w of variance q and eta of variance s (the posterior
error of the scores, and the label noise), both times C. The error of E[A | w] is E Var(A | w).
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats.qmc import Sobol

from hdattn.singlehead.attention import softmax_rows
from hdattn.singlehead.objective import basis_pairs, score_map
from hdattn.singlehead.quadrature import gaussian_trapezoid, sigmoid_step

LOG2_POINTS = 15  # of the quasi-Monte Carlo; right to about 1e-4 at T = 3


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
    """The same at any T, half the mean square distance of two labels with one w; quasi-random.

    In an orthonormal token basis the K products that the softmax sees are independent, of
    variance 2 on the diagonal and 1 off it.
    """
    to_scores = score_map(tokens)
    deviation = np.sqrt([2.0 if j == k else 1.0 for j, k in basis_pairs(tokens)])
    K = deviation.size
    uniform = Sobol(3 * K, scramble=True, rng=np.random.default_rng(0)).random_base2(LOG2_POINTS)
    w, one, two = deviation * np.moveaxis(ndtri(uniform).reshape(-1, 3, K), 1, 0)
    labels = [
        softmax_rows(
            ((np.sqrt(q) * w + np.sqrt(s) * eta) @ to_scores.T).reshape(-1, tokens, tokens) * beta0
        )
        for eta in (one, two)
    ]
    return float(0.5 * np.mean(np.sum((labels[0] - labels[1]) ** 2, axis=(1, 2))))
