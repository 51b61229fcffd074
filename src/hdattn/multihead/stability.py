"""Linear stability of the unspecialised plateau, measured in two ways.

The Hessian of E by automatic differentiation, with attention written anew in torch, and the growth
of a small antisymmetric disturbance under the flow, with the library's own derivatives. Both meet
the closed form ``lambda_f = -(2/H) omega_f^2 beta`` of :mod:`hdattn.multihead.plateau`.
"""

from __future__ import annotations

import numpy as np

from hdattn.errors import UserError
from hdattn.multihead.activations import get_activation
from hdattn.multihead.flow import FlowProblem, solve_flow
from hdattn.multihead.plateau import plateau_eigenvalues, unspecialised_point
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import FlippingPrior

_AMPLITUDE = 1e-3  # of the disturbance: its third power is lost in the sampling error
_GROWTH = 2.0  # logarithm of what the fastest direction grows by
_MARGINAL = 1e-9  # a growth rate below this is rounding


def plateau_hessian(
    activation: str,
    tokens: int,
    prior: FlippingPrior,
    heads: int,
    *,
    base_points: int = 1024,
    seed: int = 0,
) -> np.ndarray:
    """Hessian ``d^2 E / dm_hf dm_h'f'`` [H, F, H, F] at the plateau, r_perp = 0 and b = 0.

    By torch autograd on ``base_points`` Sobol points and their images; a function of ``seed``.
    Raises :class:`UserError` for an activation other than softmax and bayes.
    """
    import torch  # here, since it takes seconds to load and the other theory does without

    attention = {
        "softmax": lambda chi: torch.softmax(chi, dim=1).mean(dim=0),
        "bayes": lambda chi: torch.softmax(chi.flatten(0, 1), dim=0).view_as(chi).sum(dim=0),
    }
    if activation not in attention:
        raise UserError(f"activation {activation!r} has no plateau; choose one of {[*attention]}")
    tokens_seen, weights = _sequences(tokens, prior, base_points, seed)
    x, weights = torch.from_numpy(tokens_seen), torch.from_numpy(weights)
    m = torch.from_numpy(unspecialised_point(prior, heads)).requires_grad_()
    missed = attention[activation](torch.einsum("hf,flp->hlp", m, x))
    missed = missed - torch.eye(tokens, 1, dtype=missed.dtype)
    loss = (weights * missed.square().sum(dim=0)).sum()
    (gradient,) = torch.autograd.grad(loss, m, create_graph=True)
    rows = [torch.autograd.grad(g, m, retain_graph=True)[0] for g in gradient.ravel()]
    return torch.stack(rows).numpy().reshape(*m.shape, *m.shape)


def antisymmetric_eigenvalues(hessian: np.ndarray) -> np.ndarray:
    """Eigenvalues [F, H-1] of a Hessian [H, F, H, F] on the modes whose sum over heads is zero.

    Row f: those along direction f, in increasing order.
    """
    heads = len(hessian)
    # Columns 1 to H-1 of this orthogonal basis sum to zero.
    basis = np.linalg.qr(np.hstack([np.ones((heads, 1)), np.eye(heads)[:, 1:]]))[0][:, 1:]
    blocks = np.einsum("hfgf->fhg", hessian)
    return np.linalg.eigvalsh(basis.T @ blocks @ basis)


def growth_rates(
    activation: str,
    tokens: int,
    prior: FlippingPrior,
    heads: int,
    *,
    base_points: int = 1024,
    seed: int = 0,
) -> np.ndarray:
    """Rates [F] at which heads part along each direction under gradient flow near the plateau.

    One flow with all directions disturbed together, until the fastest has grown by e^2; for as
    long as the heads' common relaxation takes, of order H, where none grows. Raises
    :class:`UserError` as :func:`plateau_eigenvalues` does.
    """
    fastest = -np.min(plateau_eigenvalues(activation, tokens, prior, heads))
    duration = _GROWTH / fastest if fastest > _MARGINAL else 4.0 * heads
    pattern = np.linspace(1.0, -1.0, heads)
    disturbed = unspecialised_point(prior, heads) + _AMPLITUDE * pattern[:, None]
    problem = FlowProblem(activation, tokens, prior, disturbed)
    tau = np.array([0.0, duration])
    flow = solve_flow(problem, tau, base_points=base_points, seed=seed, with_loss=False)
    start, end = np.abs(np.einsum("h,thf->tf", pattern, flow.m))
    return np.log(end / start) / duration


def no_specialisation(activation: str, tokens: int) -> str | None:
    """Why heads of this activation never specialise at this number of tokens; None if they do."""
    if activation != "softmax" or tokens != 2:
        return None
    return (
        "softmax heads never specialise at tokens = 2: beta = E[p (1-2p) (1-2p+q)] vanishes, since "
        "what a head gains on sequences it reads rightly (p) it loses on their mirror images "
        "(1 - p); take 3 tokens or more, or bayes"
    )


def _sequences(
    tokens: int, prior: FlippingPrior, base_points: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [F, L, points] of all images of the Sobol points, and their weights [points]."""
    sample = PopulationLoss(
        get_activation("softmax"), tokens, prior, base_points=base_points, seed=seed
    )
    noise = np.concatenate(sample.blocks, axis=-1)
    images = []
    for signs, center in zip(sample.signs, sample.centers, strict=True):
        image = noise * signs[:, None, None]
        image[:, 0] += center[:, None]
        images.append(image)
    weights = np.repeat(sample.images.weights, base_points) / base_points
    return np.concatenate(images, axis=-1), weights
