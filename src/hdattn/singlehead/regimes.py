"""Penalties of power-law targets: how they grow with n, and where their exponents show.

Eigenvalues ``l_i = sqrt(d) i^-gamma / norm``. Three ways to choose the penalty at each n:

- ``optimal``: ``lam_eff = sqrt(2 alpha q_hat)`` with q_hat at saturation, so that the threshold of
  the denoiser meets the edge of the noise, t = 2b; the error falls as n^-(1 - 1/(2 gamma));
- ``fixed``: a constant so strong that t > 2b until all modes are kept; exponent 2 - 1/gamma;
- ``vanishing``: a constant so weak that t << b beyond the interpolation peak; exponent 1.

At saturation, S = c S0 and V -> 0, b = sqrt(q_hat d^2/(2n))/v_hat and t = lam_eff d^2/(n v_hat).

Exponents hold while many modes are learnt and many are not. With k of them learnt the error is
still of order k^(1 - 2 gamma), by which it adds to the noise; the end of the spectrum takes
(k/d)^(2 gamma - 1) of the tail. Both are equal at k = sqrt(d), so the window of a fit is the
middle third, in log n, of the way from the first mode to the last: d^(1/3) to d^(2/3) learnt modes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array
from hdattn.singlehead.exponents import check_regime
from hdattn.singlehead.linear_output import LinearOutput
from hdattn.singlehead.population import least_on_ray
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.state_evolution import NODES, ChannelFactory, make_channel
from hdattn.singlehead.targets import Spectrum

CHANNELS: dict[str, ChannelFactory] = {"softmax": make_channel, "linear": LinearOutput}
NO_RESPONSE = 1e-6  # V at saturation
STRONG = 4.0  # (t/2b)^2 at the n at which the last mode is kept, for the fixed penalty
WEAK = 0.02  # t/(2b) at n = d^2, for the vanishing penalty
BEYOND_PEAK = (10.0, 1000.0)  # window of the vanishing penalty, in units of n = d^2
SHORTEST = 2.0  # ratio of the ends of a window


@dataclass(frozen=True)
class Saturation:
    """S = c S0 as n grows: scale c, and q_hat and v_hat of the channel there."""

    scale: float
    q_hat: float
    v_hat: float


class Penalties:
    """Penalties and landmarks of one target: where modes emerge, where they are all kept."""

    def __init__(self, problem: Problem, channel: str = "softmax", nodes: int = NODES):
        if not isinstance(problem.target, Spectrum):
            raise UserError("scaling: the target must be a list of eigenvalues or a power law")
        if problem.noise == 0:
            raise UserError("noise = 0: scaling laws are those of noisy labels; give noise > 0")
        if channel not in CHANNELS:
            raise UserError(f"channel {channel!r}: choose one of {', '.join(CHANNELS)}")
        self.dim, self.eigenvalues = problem.target.dim, problem.target.eigenvalues
        self.saturation = saturation(problem, channel, nodes)

    def penalty(self, regime: str, n: float, lam_eff: float | None = None) -> float:
        """lam_eff at n."""
        check_regime(regime)
        if regime == "optimal":
            return float(np.sqrt(2 * n * self.saturation.q_hat)) / self.dim
        return self.constant_penalty(regime) if lam_eff is None else lam_eff

    def constant_penalty(self, regime: str) -> float:
        """Default of a regime of constant penalty; see STRONG and WEAK."""
        s = self.saturation
        if regime == "fixed":
            return 2 * STRONG * s.q_hat / (s.scale * s.v_hat * self._ends[1])
        return WEAK * float(np.sqrt(2 * s.q_hat))

    @property
    def _ends(self) -> tuple[float, float]:
        """Eigenvalues of the first and of the last mode."""
        return float(self.eigenvalues[-1]), float(self.eigenvalues[self.eigenvalues > 0][0])

    def kept_from(self, lam_eff: float, eigenvalue: float) -> float:
        """n at which the threshold has fallen to a mode, c l = t; noise aside."""
        s = self.saturation
        return lam_eff * self.dim**2 / (s.scale * s.v_hat * eigenvalue)

    def emerges_at(self, eigenvalue: float) -> float:
        """n at which a mode leaves the noise, c l = b."""
        s = self.saturation
        return s.q_hat * self.dim**2 / (2 * (s.scale * s.v_hat * eigenvalue) ** 2)

    def _learnt_from(self, regime: str, eigenvalue: float, lam_eff: float | None) -> float:
        if regime == "optimal":
            return self.emerges_at(eigenvalue)
        return self.kept_from(self.penalty(regime, 1.0, lam_eff), eigenvalue)

    def window(self, regime: str, lam_eff: float | None = None) -> tuple[float, float]:
        """Sizes n in which a regime's exponent is fitted.

        optimal and fixed: the middle third, in log n, from where the first mode emerges (is kept)
        to where the last one does. vanishing: d^2 times BEYOND_PEAK. Raises UserError where that
        is too short, or where a constant penalty is not what its regime is about.
        """
        check_regime(regime)
        if regime == "vanishing":
            window = tuple(self.dim**2 * np.array(BEYOND_PEAK))
        else:
            first, last = (np.log(self._learnt_from(regime, mode, lam_eff)) for mode in self._ends)
            window = tuple(np.exp([(2 * first + last) / 3, (first + 2 * last) / 3]))
        if window[1] < SHORTEST * window[0]:
            raise UserError(
                f"window [{window[0]:.4g}, {window[1]:.4g}] of n: too short for a slope at dim = "
                f"{self.dim}; give a larger dim"
            )
        self._check_strength(regime, window, lam_eff)
        return float(window[0]), float(window[1])

    def _check_strength(self, regime: str, window, lam_eff: float | None) -> None:
        """A fixed penalty has t > 2b all over its window, a vanishing one t < b."""
        if lam_eff is None or regime == "optimal":
            return
        fixed = regime == "fixed"
        bound = self.penalty("optimal", window[1 if fixed else 0]) * (1 if fixed else 0.5)
        if (lam_eff < bound) == fixed:
            need, side = ("above", "at least") if fixed else ("below half of", "at most")
            raise UserError(
                f"lam = {lam_eff:g}: the threshold of the {regime} regime is {need} the edge of "
                f"the noise in the window of n, which here needs {side} {bound:.3g}"
            )

    def sizes(self, regime: str, points: int, lam_eff: float | None = None) -> Array:
        """Default sizes n: half of them in the window, the others as far again, on both sides."""
        lo, hi = self.window(regime, lam_eff)
        outer, reach = points // 4, np.sqrt(hi / lo)
        if regime == "vanishing":
            reach = np.sqrt(reach)  # not into the interpolation peak
        below = np.geomspace(lo / reach, lo, outer, endpoint=False)
        above = np.geomspace(hi, hi * reach, outer + 1)[1:]
        return np.concatenate([below, np.geomspace(lo, hi, points - 2 * outer), above])


def saturation(problem: Problem, channel: str = "softmax", nodes: int = NODES) -> Saturation:
    """Scale, q_hat and v_hat at S = c S0, V -> 0."""
    made = CHANNELS[channel](problem, nodes)
    Q0, guess = problem.target.Q0, problem.beta0 / problem.beta
    _, scale = least_on_ray(made.error, Q0, guess)
    moments = made.moments(scale**2 * Q0, scale * Q0, NO_RESPONSE, cold=True)
    return Saturation(scale, moments.q_hat, moments.v_hat)
