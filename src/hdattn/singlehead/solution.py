"""Result of the state evolution: order parameters, errors, spectrum of S, trust."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hdattn.singlehead.denoisers import PENALTIES
from hdattn.singlehead.problem import Problem


@dataclass(frozen=True)
class Solution:
    """A solved (or unsolved: see `converged`, `residual`, `flags`) point.

    Q = Tr S^2/d, M = Tr S S0/d, V and the hatted parameters of the state evolution; errors per
    sample; `spectrum` of S: {"atom_at_zero", "edges": [[lo, hi], ...], "outliers": [...]}.
    objective = train_loss + penalty_value, the minimum of the ERM objective divided by n.
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
    input_channel: tuple[float, float, float] | None = None
    """(a, b, strength) with S = phi(a S0 + b Z); None when S = 0 or S = scale * S0."""
    ray: float = 0.0
    """Without an input channel, S = ray * S0."""

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
        if self.input_channel is not None:
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
            return np.zeros_like(s)
        penalty = PENALTIES[self.problem.penalty]
        a, _, strength = self.input_channel
        flat = s.ravel()
        r = penalty.undo(flat, strength)
        kept = r > penalty.cut(strength)
        density = np.zeros(flat.size)
        slope = penalty.slope(r[kept], strength)
        density[kept] = self._law().density(r[kept] / a) / (a * slope)
        return density.reshape(s.shape)
