"""Order parameters m [H, F], r [H, H] of the heads and their equations of motion.

``m_hf = k_h . k*_f``, ``r_hh' = k_h . k_h'`` and ``r_perp = r - m m^T``, which is positive
semi-definite. Equivalent reduced weights are ``W_h = (m_h, V_h)`` with ``V V^T = r_perp``.
"""

from __future__ import annotations

import numpy as np

from hdattn.errors import UserError

_FLOOR = 1e-12  # smallest eigenvalue given to r_perp before its root is taken
_ROUNDING = 1e-13  # an r_perp below this, relative to r, is zero
_SLACK = 1e-9  # negative eigenvalues of r_perp down to this, relative to r, are rounding


def initial_order_parameters(
    seed: int | np.random.Generator, heads: int, features: int, *, sigma: float, dim: int
) -> tuple[np.ndarray, np.ndarray]:
    """(m, r) of heads drawn as ``k_h ~ N(0, sigma^2 I_D / D)``, D = ``dim``, without the vectors.

    The exact law: m_hf ~ N(0, sigma^2 / D), and r_perp a Wishart matrix with D - F degrees of
    freedom and scale sigma^2 / D. Raises :class:`UserError` if D < F + H.
    """
    from scipy.stats import wishart  # slow to import, and few steps need it

    if dim < features + heads:
        raise UserError(
            f"dim is {dim}; {features} spikes and {heads} heads need at least their sum"
        )
    rng = np.random.default_rng(seed)
    scale = sigma**2 / dim
    m = np.sqrt(scale) * rng.standard_normal((heads, features))
    law = wishart(df=dim - features, scale=scale * np.eye(heads))
    return m, np.reshape(law.rvs(random_state=rng), (heads, heads)) + m @ m.T


def perpendicular(m: np.ndarray, r: np.ndarray) -> np.ndarray:
    """``r_perp = r - m m^T`` [H, H], exactly zero where it is only rounding.

    Raises :class:`UserError` if the shapes disagree, r is not symmetric, or r_perp is not positive
    semi-definite.
    """
    heads = len(m)
    if r.shape != (heads, heads):
        raise UserError(
            f"r has shape {r.shape}; with m of {heads} heads it must be {heads} x {heads}"
        )
    size = max(1.0, float(np.max(np.abs(r))))
    if np.max(np.abs(r - r.T)) > _SLACK * size:
        raise UserError("r is not symmetric; r_hh' = k_h . k_h' must be")
    r_perp = 0.5 * (r + r.T) - m @ m.T
    smallest = float(np.linalg.eigvalsh(r_perp)[0])
    if smallest < -_SLACK * size:
        raise UserError(
            f"r - m m^T has the negative eigenvalue {smallest:.6g}; no heads have such overlaps: "
            "increase r or decrease m"
        )
    return r_perp if np.max(np.abs(r_perp)) > _ROUNDING * size else np.zeros_like(r_perp)


def noise_weights(r_perp: np.ndarray) -> np.ndarray:
    """Symmetric root V of r_perp [H, H], eigenvalues floored at 1e-12."""
    values, vectors = np.linalg.eigh(0.5 * (r_perp + r_perp.T))
    return (vectors * np.sqrt(np.maximum(values, _FLOOR))) @ vectors.T


def perpendicular_velocity(
    grad_v: np.ndarray, v: np.ndarray, gamma: float, score_covariance: np.ndarray | None
) -> np.ndarray:
    """``d r_perp / dtau = -(g_V V^T + V g_V^T) + gamma G`` [H, H]; G is not used at gamma = 0."""
    velocity = -(grad_v @ v.T)
    velocity = velocity + velocity.T
    return velocity + gamma * score_covariance if gamma else velocity


def order_parameter_velocity(
    m: np.ndarray,
    r: np.ndarray,
    grad_m: np.ndarray,
    grad_r: np.ndarray,
    gamma: float,
    score_covariance: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Equations of motion in the (m, r) form: (dm/dtau [H, F], dr/dtau [H, H]).

    ``dm/dtau = -dE/dm - 2 (dE/dr) m`` and
    ``dr/dtau = -[(dE/dm) m^T + m (dE/dm)^T + 2 (dE/dr) r + 2 r (dE/dr)] + gamma G``, with
    ``grad_m`` = dE/dm at fixed r, and ``grad_r`` = dE/dr symmetric (sum over all ordered pairs).
    """
    dm = -grad_m - 2.0 * grad_r @ m
    dr = -(grad_m @ m.T + 2.0 * grad_r @ r)
    dr = dr + dr.T
    return dm, dr + gamma * score_covariance if gamma else dr


def order_parameter_gradient(
    m: np.ndarray, v: np.ndarray, grad_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(dE/dm at fixed r, dE/dr) from the gradient [H, F+H] in the reduced weights (m, V).

    ``dE/dr = (1/2) g_V V^{-1}``, made symmetric, and ``dE/dm = g_m - 2 (dE/dr) m``; V is inverted.
    """
    features = m.shape[1]
    grad_r = 0.5 * np.linalg.solve(v, grad_weights[:, features:].T).T
    grad_r = 0.5 * (grad_r + grad_r.T)
    return grad_weights[:, :features] - 2.0 * grad_r @ m, grad_r
