"""What the excess test error consists of: over- and underfitting, approximation, mismatch.

As n grows S tends to c S0, where the error is E_sat. A mode of the target with eigenvalue l counts
as learnt where it is an outlier of R that survives the denoiser: l > sigma and l + sigma^2/l > tau,
in units of a (sigma = b/a, tau = threshold/a). With k learnt modes, s the eigenvalues of S and
m(x) = E[S0 | x] = x - 2 sigma^2 h(x) the target seen by its eigenvectors,

    under  = c^2 sum_{not learnt} l^2/d
    over   = int_{bulk} rho (s^2 - 2 c s m)
    approx = int_{top k/d of the mass} rho (s^2 - 2 c s m) + c^2 sum_{learnt} l^2/d

sum to ||S - c S0||^2/d exactly. The test error follows to first order in it:
``E - E_sat = E_Q ||S - c S0||^2/d + ...`` with E_Q = dE/dQ at fixed M, at saturation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array
from hdattn.singlehead.denoisers import PENALTIES
from hdattn.singlehead.population import attention_error, least_on_ray
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.solution import Solution
from hdattn.singlehead.targets import Spectrum

LABELS = ("noisy", "clean")
SLOPE_STEP = 1e-4  # of Q/Q0, in the one-sided differences that give E_Q


@dataclass(frozen=True)
class Decomposition:
    """Parts of ||S - c S0||^2/d, and what they are of the test error.

    scale: c. recovered: number k of learnt modes. excess: test error above the least on the ray.
    mismatch: error at saturation above that least. slope: E_Q. rescale: the factor by which the
    three parts, times slope, are to be multiplied to add up to excess - mismatch; NaN where they
    vanish.
    """

    over: float
    under: float
    approximation: float
    mismatch: float
    excess: float
    scale: float
    slope: float
    recovered: int

    @property
    def total(self) -> float:
        """||S - c S0||^2/d."""
        return self.over + self.under + self.approximation

    @property
    def rescale(self) -> float:
        """(excess - mismatch)/(E_Q ||S - c S0||^2/d): the softmax's factor, 1 to first order."""
        first_order = self.slope * self.total
        return (self.excess - self.mismatch) / first_order if first_order > 0 else float("nan")


@dataclass(frozen=True)
class RayErrors:
    """Test errors about the ray S = c S0, for labels with or without noise.

    scale: the c at which training saturates, the best against noisy labels. saturation, least: the
    error there and the least on the ray. slope: dE/dQ at fixed M, at saturation.
    """

    scale: float
    saturation: float
    least: float
    slope: float


def decompose(solution: Solution, labels: str = "noisy") -> Decomposition:
    """Decompose a solution for a target given by its eigenvalues.

    labels: "noisy" for fresh labels like those trained on, "clean" for labels without noise,
    against which the scale at which training saturates is not the best. Raises UserError for a
    target in the limit, or another kind of labels.
    """
    target = solution.problem.target
    if not isinstance(target, Spectrum):
        raise UserError("decomposition: the target must be a list of eigenvalues or a power law")
    ray = ray_errors(solution.problem, labels)
    error = _error_of(solution.problem, labels)
    learnt = learnt_modes(solution)
    over, top = _masses(solution, ray.scale, int(learnt.sum()) / target.dim)
    squares = ray.scale**2 * target.eigenvalues**2 / target.dim
    return Decomposition(
        over=over,
        under=float(squares[~learnt].sum()),
        approximation=top + float(squares[learnt].sum()),
        mismatch=ray.saturation - ray.least,
        excess=error(solution.Q, solution.M) - ray.least,
        scale=ray.scale,
        slope=ray.slope,
        recovered=int(learnt.sum()),
    )


def learnt_modes(solution: Solution) -> Array:
    """Which eigenvalues [d] of the target, ascending, are outliers of R that survive in S."""
    values = solution.problem.target.eigenvalues
    if solution.input_channel is None:
        return np.full(values.size, solution.ray > 0)
    a, b, strength = solution.input_channel
    tau = PENALTIES[solution.problem.penalty].cut(strength) / a
    with np.errstate(divide="ignore"):
        outlier = values + (b / a) ** 2 / values
    return (values > b / a) & (outlier > tau)


def ray_errors(problem: Problem, labels: str = "noisy") -> RayErrors:
    """Errors on the ray S = c S0 of softmax attention."""
    if labels not in LABELS:
        raise UserError(f"labels = {labels!r}: choose one of {', '.join(LABELS)}")
    Q0, guess = problem.target.Q0, problem.beta0 / problem.beta
    least, scale = least_on_ray(_error_of(problem, "noisy"), Q0, guess)
    error = _error_of(problem, labels)
    if labels == "clean":
        least, _ = least_on_ray(error, Q0, guess)
    Q, M, step = scale**2 * Q0, scale * Q0, SLOPE_STEP * scale**2 * Q0
    here, one, two = (error(Q + i * step, M) for i in range(3))
    return RayErrors(scale, here, least, (4 * one - 3 * here - two) / (2 * step))


def _error_of(problem: Problem, labels: str):
    """Test error as a function of (Q, M)."""
    variance = problem.label_variance if labels == "noisy" else problem.target.Q0

    def error(Q: float, M: float) -> float:
        return attention_error(Q, M, variance, problem.beta, problem.beta0, problem.tokens)

    return error


def _masses(solution: Solution, scale: float, share: float) -> tuple[float, float]:
    """``int rho (s^2 - 2 c s m)`` over the bulk, and over the top `share` of the mass."""
    if solution.input_channel is None:
        return 0.0, (solution.ray**2 - 2 * scale * solution.ray) * solution.Q0
    a, b, strength = solution.input_channel
    penalty, sigma = PENALTIES[solution.problem.penalty], b / a
    law = solution.problem.target.convolve(sigma)
    x, weights, h = law.nodes(penalty.cut(strength) / a)
    order = np.argsort(-x)
    x, weights, h = x[order], weights[order], h[order]
    s = penalty.denoise(a * x, strength)
    values = weights * (s**2 - 2 * scale * s * (x - 2 * sigma**2 * h))
    above = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
    # the node at which the share is reached belongs to both, in proportion
    part = np.clip((share - above) / np.maximum(weights, 1e-300), 0.0, 1.0)
    top = float(values @ part)
    return float(values.sum()) - top, top


@dataclass(frozen=True)
class MatrixParts:
    """Over, under, approximation and the sum ||S - c S0||^2/d of a given S."""

    over: Array
    under: Array
    approximation: Array
    total: Array


def decompose_matrix(S: Array, S0: Array, recovered: int, scale: float) -> MatrixParts:
    """The same parts of a trained S [d, d], its top `recovered` eigenvalues the learnt ones.

    scale: c. Parts come from the eigenvectors v_j of S, ``s_j^2 - 2 c s_j v_j^T S0 v_j``.
    """
    values, vectors = np.linalg.eigh(S)
    seen = np.einsum("ij,ij->j", vectors, S0 @ vectors)
    return spectral_parts(values, seen, np.linalg.eigvalsh(S0), recovered, scale)


def spectral_parts(
    values: Array, seen: Array, targets: Array, recovered: int, scale: float
) -> MatrixParts:
    """The same from eigenvalues of S and ``seen`` = v^T S0 v, and of S0, all ascending [..., d].

    The parts have the shape of what goes before the last axis.
    """
    pieces = (values**2 - 2 * scale * values * seen) / values.shape[-1]
    squares = np.broadcast_to(scale**2 * targets**2 / values.shape[-1], pieces.shape)
    bulk = values.shape[-1] - recovered
    over, under = pieces[..., :bulk].sum(-1), squares[..., :bulk].sum(-1)
    approximation = (pieces + squares)[..., bulk:].sum(-1)
    return MatrixParts(over, under, approximation, over + under + approximation)
