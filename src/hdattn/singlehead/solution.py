"""Result of the state evolution: order parameters, errors, spectrum of S, trust."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from hdattn.singlehead.channel import ChannelMoments
from hdattn.singlehead.denoisers import PENALTIES
from hdattn.singlehead.population import attention_error, error_floor, least_on_ray
from hdattn.singlehead.problem import Problem

JUMPY = 1e-3  # jump probability from which a point is flagged
ROUNDING = 1e-6  # of a rank fraction: a full rank comes out as 1 + 1e-8 by quadrature


@dataclass(frozen=True)
class Solution:
    """A solved (or unsolved: see `converged`, `residual`, `flags`) point.

    Q = Tr S^2/d, M = Tr S S0/d, V and the hatted parameters of the state evolution; errors per
    sample; objective = train_loss + penalty_value, the minimum of the ERM objective divided by n.
    quadrature_error: standard errors of Q, M, V, test_error where the channel is integrated by
    quasi-Monte Carlo (more than two tokens), from independent scrambles; else empty.
    input_channel: (a, b, strength) with S = phi(a S0 + b Z); None when S = ray * S0, ray = 0
    included.
    """

    problem: Problem
    Q: float
    M: float
    V: float
    q_hat: float
    m_hat: float
    v_hat: float
    Q0: float
    test_error: float
    test_error_floor: float
    train_loss: float
    penalty_value: float
    rank_fraction: float
    jump_probability: float
    replicon: float
    converged: bool
    iterations: int
    residual: float
    seconds: float
    flags: list[str] = field(default_factory=list)
    quadrature_error: dict[str, float] = field(default_factory=dict)
    input_channel: tuple[float, float, float] | None = None
    ray: float = 0.0

    @property
    def objective(self) -> float:
        """Train loss plus penalty, per sample."""
        return self.train_loss + self.penalty_value

    @property
    def atom_at_zero(self) -> float:
        """Fraction of zero eigenvalues of S."""
        return 1.0 - self.rank_fraction

    def _law(self):
        a, b, _ = self.input_channel
        return self.problem.target.convolve(b / a)

    @property
    def spectrum(self) -> dict:
        """Atom at zero, edges of the continuous part and isolated eigenvalues of S."""
        edges, outliers = [], []
        if self.input_channel is None and self.ray:
            target, ray = self.problem.target, self.ray
            edges = [[ray * lo, ray * hi] for lo, hi in target.edges]
            outliers = [ray * level for level in target.outliers]
        elif self.input_channel is not None:
            penalty = PENALTIES[self.problem.penalty]
            a, _, strength = self.input_channel
            law = self._law()
            for interval, isolated in zip(law.intervals, law.outlier_mask(), strict=True):
                if a * interval[1] <= penalty.cut(strength):
                    continue
                lo, hi = (float(s) for s in penalty.denoise(a * interval, strength))
                if isolated:
                    outliers.append(0.5 * (lo + hi))
                else:
                    edges.append([lo, hi])
        return {"atom_at_zero": self.atom_at_zero, "edges": edges, "outliers": outliers}

    def density(self, s) -> np.ndarray:
        """Density of the continuous part of the spectrum of S at s, of mass rank_fraction.

        Isolated eigenvalues of a finite target are narrow peaks of mass 1/d.
        """
        s = np.asarray(s, dtype=float)
        if self.input_channel is None:
            ray = self.ray
            return self.problem.target.density(s / ray) / ray if ray else np.zeros_like(s)
        penalty = PENALTIES[self.problem.penalty]
        a, _, strength = self.input_channel
        flat = s.ravel()
        r = penalty.undo(flat, strength)
        kept = r > penalty.cut(strength)
        density = np.zeros(flat.size)
        slope = penalty.slope(r[kept], strength)
        density[kept] = self._law().density(r[kept] / a) / (a * slope)
        return density.reshape(s.shape)


def build_solution(
    problem: Problem,
    order: tuple[float, float, float],
    moments: ChannelMoments,
    *,
    penalty_value: float = 0.0,
    rank_fraction: float = 0.0,
    replicon: float = 0.0,
    flags: tuple[str, ...] = (),
    error: Callable[[float, float], float] | None = None,
    **rest,
) -> Solution:
    """A Solution from (Q, M, V), the channel's moments and what else is known; adds the errors.

    error: test error of (Q, M) where it is not that of softmax attention.
    """
    physics = (problem.label_variance, problem.beta, problem.beta0, problem.tokens)
    Q, M, V = order
    Q0 = problem.target.Q0
    if error is None:
        floor = error_floor(Q0, *physics)
    else:
        floor = least_on_ray(error, Q0, problem.beta0 / problem.beta)
    solution = Solution(
        problem=problem,
        Q=Q,
        M=M,
        V=V,
        q_hat=moments.q_hat,
        m_hat=moments.m_hat,
        v_hat=moments.v_hat,
        Q0=Q0,
        test_error=attention_error(Q, M, *physics) if error is None else error(Q, M),
        test_error_floor=floor[0],
        train_loss=moments.train_loss,
        penalty_value=penalty_value,
        rank_fraction=rank_fraction,
        jump_probability=moments.jump_probability,
        replicon=replicon,
        **rest,
    )
    return replace(solution, flags=[*flags, *_flags(solution)])


def _flags(solution: Solution) -> list[str]:
    """What tells against trusting a solution, one line each."""
    flags = []
    if not solution.converged:
        flags.append(f"not converged: residual {solution.residual:.1e}")
    if solution.jump_probability > JUMPY:
        flags.append(
            f"jump: two minima of the prox compete with probability {solution.jump_probability:.1e}"
        )
    if solution.replicon >= 1:
        flags.append(f"replicon {solution.replicon:.3g}: the replica-symmetric theory is unstable")
    problem = solution.problem
    if problem.penalty == "nuclear" and solution.rank_fraction > problem.kappa * (1 + ROUNDING):
        flags.append(
            f"rank above kappa: the theory is that of a wider student, p/d of at least "
            f"{solution.rank_fraction:.4g}; it does not tell the errors and the spectrum of this "
            f"one, only that its objective is higher"
        )
    if solution.Q == 0:
        flags.append("S = 0: the penalty exceeds what the data can pull")
    return flags
