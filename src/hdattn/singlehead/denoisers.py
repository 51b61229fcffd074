"""Input channel: spectral denoisers of R = a S0 + b Z for each penalty on S.

a = m_hat/v_hat, b = sqrt(q_hat/(2 alpha))/v_hat and strength = lam_eff/(alpha v_hat). On
eigenvalues S = phi(R), phi(r) = argmin_s (s - r)^2/2 + strength * value(s); a new penalty is one
small class. Q = int rho phi^2, D = int int rho rho (phi(x) - phi(y))/(x - y) = 2 int rho phi h,
M = int rho phi E[S0 | x], E[S0 | x] = x - 2 sigma^2 h(x) in units of a, sigma = b/a.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

BLOCK_ENTRIES = 2**20  # of the pairs of eigenvalues looked at together


@dataclass(frozen=True)
class Estimate:
    """Moments of S = phi(R): Q, M, D (V = D/(2 alpha v_hat)), E value(s) and the rank fraction."""

    Q: float
    M: float
    D: float
    penalty: float
    rank_fraction: float


class Penalty(ABC):
    """A penalty lam_eff d sum_i value(s_i) on the eigenvalues of S."""

    name: str

    @abstractmethod
    def value(self, s):
        """Penalty of an eigenvalue."""

    @abstractmethod
    def denoise(self, r, strength: float):
        """phi(r)."""

    @abstractmethod
    def undo(self, s, strength: float):
        """The r with phi(r) = s, for s in the continuous part."""

    @abstractmethod
    def slope(self, r, strength: float):
        """phi'(r)."""

    def cut(self, strength: float) -> float:
        """phi(r) = 0 for r below the cut."""
        return -np.inf

    def estimate(self, target, a: float, b: float, strength: float) -> Estimate:
        """Moments of phi(a S0 + b Z) by quadrature over the law of S0 + (b/a) Z."""
        law = target.convolve(b / a)
        x, weights, h = law.nodes(self.cut(strength) / a)
        s = self.denoise(a * x, strength)
        D = 2 / a * float(weights @ (s * h))
        Q = float(weights @ s**2)
        M = float(weights @ (s * x) - (b / a) ** 2 * a * D)
        return Estimate(Q, M, D, float(weights @ self.value(s)), float(weights.sum()))

    def difference_square(self, target, a: float, b: float, strength: float) -> float:
        """D2 = int int rho rho [(phi(x) - phi(y))/(x - y)]^2, for the replicon."""
        law, cut = target.convolve(b / a), self.cut(strength) / a
        above, below = law.nodes(cut), law.nodes(upper=cut)
        x = a * np.concatenate([above[0], below[0]])
        weights = np.concatenate([above[1], below[1]])
        s = self.denoise(x, strength)
        gap = x[:, None] - x
        same = gap == 0
        ratio = (s[:, None] - s) / np.where(same, 1.0, gap)
        ratio = np.where(same, self.slope(x, strength)[:, None], ratio)
        return float(weights @ ratio**2 @ weights)


class Nuclear(Penalty):
    """lam_eff d Tr S over S >= 0, which weight decay on W amounts to: soft threshold."""

    name = "nuclear"

    def value(self, s):
        """S >= 0, so the nuclear norm is the trace."""
        return s

    def denoise(self, r, strength):
        """(r - strength)_+."""
        return np.maximum(r - strength, 0.0)

    def undo(self, s, strength):
        """S + strength, for s > 0."""
        return s + strength

    def slope(self, r, strength):
        """One above the threshold."""
        return (np.asarray(r) > strength).astype(float)

    def cut(self, strength):
        """The threshold."""
        return strength

    def difference_square(self, target, a, b, strength):
        """One between eigenvalues above the threshold, zero below, ((x - t)/(x - y))^2 between."""
        law, cut = target.convolve(b / a), strength / a
        x, weights, _ = law.nodes(cut)
        y, others, _ = law.nodes(upper=cut)
        rows = max(1, BLOCK_ENTRIES // max(y.size, 1))
        across = sum(
            weights[i : i + rows]
            @ (((x[i : i + rows, None] - cut) / (x[i : i + rows, None] - y)) ** 2 @ others)
            for i in range(0, x.size, rows)
        )
        return float(weights.sum() ** 2 + 2 * across)


class Frobenius(Penalty):
    """lam_eff d ||S||_F^2 over symmetric S, not factorised: S = c R, c = 1/(1 + 2 strength)."""

    name = "frobenius"

    def value(self, s):
        """Square of an eigenvalue."""
        return s**2

    def denoise(self, r, strength):
        """C r."""
        return r / (1 + 2 * strength)

    def undo(self, s, strength):
        """S/c."""
        return s * (1 + 2 * strength)

    def slope(self, r, strength):
        """The constant c."""
        return np.full(np.shape(r), 1 / (1 + 2 * strength))

    def estimate(self, target, a, b, strength):
        """Closed form: Q = c^2 (a^2 Q0 + b^2), M = c a Q0, D = c, full rank."""
        c = 1 / (1 + 2 * strength)
        Q = c**2 * (a**2 * target.Q0 + b**2)
        return Estimate(Q, c * a * target.Q0, c, Q, 1.0)

    def difference_square(self, target, a, b, strength):
        """c^2."""
        return 1 / (1 + 2 * strength) ** 2


PENALTIES = {penalty.name: penalty for penalty in (Nuclear(), Frobenius())}
