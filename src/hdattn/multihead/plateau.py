"""The unspecialised plateau: closed forms for one constant direction and zero-mean flips.

softmax and B-softmax share the fixed point ``k_h = mu k*_0`` for any number of heads H. With
``s = softmax_l(mu x_0l)``, ``p = s_eps``, ``q = sum_l s_l^2``, its loss is the Bayes risk of the
one-spike problem, and along flipping direction f the head-antisymmetric modes (H - 1 of them) have
the Hessian eigenvalue

    lambda_f = -(2/H) omega_f^2 beta,
    beta_softmax = E[p (1-2p) (1-2p+q)],    beta_B = E[p (1-2p+q)].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.priors import FlippingPrior
from hdattn.multihead.token_moments import Quadrature, TokenMoments, refine, token_grid


@dataclass(frozen=True)
class Plateau:
    """Closed forms at the plateau of L tokens and a mean of size mu: loss and both betas."""

    loss: Quadrature
    beta_softmax: Quadrature
    beta_bayes: Quadrature


def plateau(tokens: int, mu: float) -> Plateau:
    """Loss and betas, by one-dimensional quadrature. Raises :class:`UserError` for L < 2."""
    return Plateau(
        refine(lambda step: 1.0 - _moments(tokens, mu, step).expect(1), 0.5),
        refine(lambda step: _beta_softmax(_moments(tokens, mu, step)), 0.5),
        refine(lambda step: _beta_bayes(_moments(tokens, mu, step)), 0.5),
    )


def unspecialised_point(prior: FlippingPrior, heads: int) -> np.ndarray:
    """Order parameters m [H, F] of the plateau: every head at mu k*_0.

    Raises :class:`UserError` unless the prior has at most one direction with a mean, and that one
    is constant.
    """
    mean = np.flatnonzero(prior.mean)
    if mean.size > 1 or np.any(prior.std[mean] > 0):
        raise UserError(
            "the plateau has a closed form for one constant direction with a mean and flipping "
            f"directions without, not for {prior}"
        )
    return np.tile(prior.mean, (heads, 1))


def plateau_eigenvalues(
    activation: str, tokens: int, prior: FlippingPrior, heads: int
) -> np.ndarray:
    """Hessian eigenvalues lambda_f [F] of the head-antisymmetric modes; -lambda_f is their growth.

    Raises :class:`UserError` for an activation other than softmax and bayes, fewer than two heads,
    or a prior outside the closed form.
    """
    if heads < 2:
        raise UserError(f"heads is {heads}; specialisation needs at least 2")
    mu = float(np.sum(unspecialised_point(prior, heads)[0]))
    closed = plateau(tokens, mu)
    betas = {"softmax": closed.beta_softmax, "bayes": closed.beta_bayes}
    if activation not in betas:
        raise UserError(f"activation {activation!r} has no plateau; choose one of {list(betas)}")
    return 0.0 - (2.0 / heads) * prior.std**2 * betas[activation].value


def _beta_softmax(moments: TokenMoments) -> float:
    """``E[p - 4 p^2 + 4 p^3 + p q - 2 p^2 q]``, the product written out."""
    p, p2, p3 = (moments.expect(power) for power in (1, 2, 3))
    return p - 4.0 * p2 + 4.0 * p3 + moments.squares(1) - 2.0 * moments.squares(2)


def _beta_bayes(moments: TokenMoments) -> float:
    """``E[p - 2 p^2 + p q]``."""
    return moments.expect(1) - 2.0 * moments.expect(2) + moments.squares(1)


def _moments(tokens: int, mu: float, step: float) -> TokenMoments:
    """Moments of ``softmax_l(mu x_l)`` in the one-spike problem of amplitude mu."""
    grid = token_grid(np.eye(1), np.array([[mu]]), FlippingPrior([mu], [0.0]), step)
    return TokenMoments(mu * grid.nodes[0], grid, tokens, step, highest=4)
