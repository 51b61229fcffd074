"""Bayes-optimal prediction: posterior of the hidden location, and its risk.

``pi_l`` is proportional to ``E_theta exp(theta . x_l - |theta|^2 / 2)``, x_l the projections of
token l on the spikes. The risk of predicting ``sum_l pi_l X_l`` is
``E[1 - sum_l pi_l^2] = E[1 - pi_eps]``.
"""

from __future__ import annotations

import numpy as np

from hdattn.multihead.priors import FiniteSupport, Prior
from hdattn.multihead.quadrature import sobol_loss
from hdattn.multihead.token_moments import (
    GridTooLargeError,
    Quadrature,
    TokenMoments,
    row_space,
    token_grid,
)


def bayes_risk(tokens: int, prior: Prior) -> Quadrature:
    """Bayes risk for sequences of L tokens.

    By quadrature over the span of the prior, or, for a prior on finitely many points that span too
    many directions, by Sobol points. The error covers the disagreement of the two expressions
    ``1 - pi_eps`` and ``1 - sum_l pi_l^2``. Raises :class:`UserError` for L < 2.
    """
    try:
        fine, coarse = (_expressions(tokens, prior, step) for step in (1.0, 4.0 / 3.0))
    except GridTooLargeError:
        if not isinstance(prior, FiniteSupport):
            raise
        return sobol_loss("bayes", tokens, prior, *bayes_point(prior))
    return Quadrature(fine[0], max(abs(fine[0] - coarse[0]), abs(fine[0] - fine[1])))


def bayes_point(prior: FiniteSupport) -> tuple[np.ndarray, np.ndarray]:
    """Heads at which B-softmax is the posterior: m = theta [n, F], b = log P - |theta|^2/2 [n].

    One head for each of the n support points, with ``r = m m^T``.
    """
    support = prior.support()
    return support, np.log(prior.weights()) - 0.5 * np.sum(support**2, axis=1)


def _expressions(tokens: int, prior: Prior, step: float) -> tuple[float, float]:
    """``E[1 - pi_eps]`` and ``E[1 - sum_l pi_l^2]`` on a grid."""
    images = prior.images()
    slopes = np.vstack([images.centers, np.diag(images.spread)])
    basis = row_space(slopes)
    grid = token_grid(basis, slopes @ basis.T, prior, step)
    log_f = prior.log_likelihood_ratio(np.tensordot(basis.T, grid.nodes, axes=1))
    posterior = TokenMoments(log_f, grid, tokens, step)
    return 1.0 - posterior.expect(1), 1.0 - posterior.squares()
