"""Population loss by deterministic quadrature, independent of the Sobol points.

``E = 1 - 2 E[A_eps] + E[sum_l A_l^2]``. B-softmax is the attention of one positive function,
``f = sum_h exp(chi_h + b_h)``, integrated over the span of the heads. softmax and softmax-1 have
one function ``exp(chi_h)`` for each head, and need the pairs of heads besides,

    E[sum_l A^h_l A^h'_l] = int int exp(-s e^{-b_h} - t e^{-b_h'})
                            [psi_11 phi_00^{L-1} + (L-1) phi_11 psi_00 phi_00^{L-2}] ds dt

with ``phi_ab(s, t) = E[f_h^a f_h'^b exp(-s f_h - t f_h')]``, psi the same for the hidden token.
"""

from __future__ import annotations

import numpy as np

from hdattn.multihead.activations import get_activation
from hdattn.multihead.order_parameters import noise_weights, perpendicular
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import Prior
from hdattn.multihead.sizes import LARGEST, refuse_large
from hdattn.multihead.token_moments import (
    GridTooLargeError,
    Quadrature,
    TokenMoments,
    gram_schmidt,
    laplace_nodes,
    refine,
    row_space,
    token_grid,
)

_SEEDS = 1_000_000  # of the first scramble that values are taken from


def population_loss(
    activation: str,
    tokens: int,
    prior: Prior,
    m: np.ndarray,
    r: np.ndarray | None = None,
    b: np.ndarray | float = 0.0,
    c: float = 1.0,
) -> Quadrature:
    """E(m, r, b, c) of an activation at order parameters m [H, F], r [H, H], b [H] and c.

    ``r = None`` stands for ``m m^T``. For activations other than these three, and where the heads
    of B-softmax span too many directions for a grid (more than three or four), the value comes from
    Sobol points, and its ``method`` says so. Raises :class:`UserError` for an r that no heads can
    have.
    """
    weights = reduced_weights(m, r)
    bias = np.broadcast_to(np.asarray(b, dtype=float), (len(weights),))
    if not has_quadrature(activation):
        return sobol_loss(activation, tokens, prior, weights, bias, c)
    try:
        return refine(lambda step: _LOSSES[activation](weights, bias, c, tokens, prior, step))
    except GridTooLargeError:
        return sobol_loss(activation, tokens, prior, weights, bias, c)


def has_quadrature(activation: str) -> bool:
    """Whether losses of this activation come from a quadrature, where its heads allow one."""
    return activation in _LOSSES


def reduced_weights(m: np.ndarray, r: np.ndarray | None = None) -> np.ndarray:
    """Reduced weights (m, V) [H, F+H], or m alone where ``r - m m^T`` is zero or r is None."""
    m = refuse_large("m", np.asarray(m, dtype=float))
    if r is None:
        return m
    r_perp = perpendicular(m, refuse_large("r", np.asarray(r, dtype=float), LARGEST**2))
    return np.hstack([m, noise_weights(r_perp)]) if np.any(r_perp) else m


def sobol_loss(
    activation: str,
    tokens: int,
    prior: Prior,
    weights: np.ndarray,
    b: np.ndarray | float = 0.0,
    c: float = 1.0,
    *,
    base_points: int = 2**14,
    scrambles: int = 4,
) -> Quadrature:
    """E at reduced weights [H, F+K], the mean over independently scrambled Sobol points.

    The points are none of those that flows and optima use, so that what was fitted to points is
    judged on others.
    """
    noise_dim = weights.shape[1] - prior.dim_features
    rule = get_activation(activation)
    values = [
        PopulationLoss(
            rule, tokens, prior, noise_dim=noise_dim, base_points=base_points, seed=seed
        ).loss(weights, b, c)
        for seed in range(_SEEDS, _SEEDS + scrambles)
    ]
    error = 2.0 * float(np.std(values, ddof=1) / np.sqrt(scrambles))
    return Quadrature(float(np.mean(values)), error, "sobol")


def _bayes_loss(weights, bias, c, tokens, prior, step) -> float:
    """E of B-softmax heads [H, F+K] with biases [H]."""
    basis = row_space(weights)
    components = weights @ basis.T
    grid = token_grid(basis, components, prior, step)
    scores = np.tensordot(components, grid.nodes, axes=1)
    log_f = np.logaddexp.reduce(scores + bias.reshape(-1, *(1,) * len(basis)), axis=0)
    moments = TokenMoments(log_f, grid, tokens, step)
    return 1.0 - 2.0 * moments.expect(1) + moments.squares()


def _softmax_loss(weights, bias, c, tokens, prior, step) -> float:
    """E of softmax heads [H, F+K]: softmax-1 that never idles, at c = 1."""
    return _softmax_one_loss(weights, np.full(len(weights), np.inf), 1.0, tokens, prior, step)


def _softmax_one_loss(weights, bias, c, tokens, prior, step) -> float:
    """E of softmax-1 heads [H, F+K] with biases [H] and output scale c."""
    share = c / len(weights)
    hits, products = head_moments(weights, bias, tokens, prior, step)
    return 1.0 - 2.0 * share * hits.sum() + share**2 * products.sum()


def head_moments(
    weights: np.ndarray, bias: np.ndarray, tokens: int, prior: Prior, step: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """``E s_h,eps`` [H] and ``E sum_l s_hl s_h'l`` [H, H] of softmax-1 heads' weights s.

    Reduced weights [H, F+K], biases [H]; infinite ones are softmax. With prefactor g the loss of
    any subset of the heads is ``1 - 2 g sum_h hits_h + g^2 sum_hh' products_hh'``.
    """
    hits, products = np.empty(len(weights)), np.empty((len(weights), len(weights)))
    for h, weight in enumerate(weights):
        norm = np.linalg.norm(weight)
        grid = token_grid(weight[None] / (norm or 1.0), np.array([[norm]]), prior, step)
        moments = TokenMoments(norm * grid.nodes[0], grid, tokens, step, log_idle=-bias[h])
        hits[h], products[h, h] = moments.expect(1), moments.squares()
        for other in range(h):
            heads = [h, other]
            pair = _pair(weights[heads], -bias[heads], tokens, prior, step)
            products[h, other] = products[other, h] = pair
    return hits, products


def _pair(weights, log_idle, tokens, prior, step) -> float:
    """``E[sum_l A_l A'_l]`` of two heads [2, F+K], in coordinates where one sees only u_1."""
    basis = gram_schmidt(*weights)
    components = weights @ basis.T
    grid = token_grid(basis, components, prior, step)
    s, f, ds = laplace_nodes(components[0, 0] * grid.nodes[0, :, 0], step, log_idle[0])
    scores = np.tensordot(components[1], grid.nodes, axes=1)
    t, g, dt = laplace_nodes(scores, step, log_idle[1])
    outer = np.exp(-s[:, None] * f)
    inner = np.exp(-t[:, None, None] * g)
    phi0, psi0, phi1, psi1 = (
        (outer * f**power) @ np.einsum("tij,ij->it", inner, law * g**power)
        for power in (0, 1)
        for law in (grid.visible, grid.hidden)
    )
    integrand = phi0 ** (tokens - 2) * (psi1 * phi0 + (tokens - 1) * phi1 * psi0)
    return float(ds @ integrand @ dt)


_LOSSES = {"softmax": _softmax_loss, "softmax1": _softmax_one_loss, "bayes": _bayes_loss}
