"""Scaling laws of power-law targets: the excess test error against n, and its exponent.

Eigenvalues ``l_i = sqrt(d) i^-gamma / norm``. Three ways to choose the penalty at each n:

- ``optimal``: ``lam_eff = sqrt(2 alpha q_hat)`` with q_hat at saturation, so that the threshold of
  the denoiser meets the edge of the noise, t = 2b; the error falls as n^-(1 - 1/(2 gamma));
- ``fixed``: a constant so strong that t > 2b until all modes are kept; exponent 2 - 1/gamma;
- ``vanishing``: a constant so weak that t << b beyond the interpolation peak; exponent 1.

At saturation, S = c S0 and V -> 0, b = sqrt(q_hat d^2/(2n))/v_hat and t = lam_eff d^2/(n v_hat).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array
from hdattn.singlehead.linear_output import LinearOutput
from hdattn.singlehead.population import least_on_ray
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.solution import Solution
from hdattn.singlehead.state_evolution import NODES, ChannelFactory, Continuation, make_channel
from hdattn.singlehead.targets import Spectrum, power_law

REGIMES = ("optimal", "fixed", "vanishing")
CHANNELS: dict[str, ChannelFactory] = {"softmax": make_channel, "linear": LinearOutput}
LEAST_POINTS = 4  # in the window of a fit
NO_RESPONSE = 1e-6  # V at saturation
STRONG = 4.0  # (t/2b)^2 at the n at which the last mode is kept, for the fixed penalty
WEAK = 0.02  # t/(2b) at n = d^2, for the vanishing penalty


@dataclass(frozen=True)
class Saturation:
    """S = c S0 as n grows: scale c, and q_hat and v_hat of the channel there."""

    scale: float
    q_hat: float
    v_hat: float


@dataclass(frozen=True)
class Fit:
    """Exponent of a power law ``excess ~ n^-exponent`` in a window [lo, hi] of n.

    error: the larger of the standard error of the slope and half of its change from the lower to
    the upper half of the window, since the drift of a finite d exceeds the scatter of a theory.
    """

    exponent: float
    error: float
    window: tuple[float, float]
    points: int


@dataclass(frozen=True)
class ScalingCurve:
    """Solutions at sample sizes n, ascending; excess test error and local exponent [n].

    excess: test error above the least on the ray S = c S0 (softmax), or Q0 - 2 M + Q (linear
    output). ``missing``: the sizes at which the theory has no solution but S = 0.
    """

    sizes: Array
    solutions: list[Solution]
    excess: Array

    @property
    def local_exponent(self) -> Array:
        """-d log excess/d log n."""
        return local_exponents(self.sizes, self.excess)

    @property
    def missing(self) -> Array:
        """Sizes where S = 0: the penalty exceeds what the data can pull."""
        return self.sizes[[s.Q == 0 for s in self.solutions]]

    @property
    def converged(self) -> bool:
        """Whether every size was solved."""
        return all(s.converged for s in self.solutions)


def scaling_curve(
    problem: Problem,
    sizes: Sequence[float],
    regime: str,
    *,
    lam_eff: float | None = None,
    channel: str = "softmax",
    nodes: int = NODES,
    tol: float = 1e-6,
) -> ScalingCurve:
    """Solve at every n of ``sizes``, from large to small, each from those before.

    problem: its alpha and lam are replaced. lam_eff: the constant of ``fixed`` and ``vanishing`` in
    place of the default, :func:`constant_penalty`. channel: "softmax" or "linear". Raises
    UserError for sizes that are not positive and increasing, and a target without eigenvalues.
    """
    sizes = np.asarray(sizes, float)
    if sizes.size < 2 or sizes[0] <= 0 or np.any(np.diff(sizes) <= 0):
        raise UserError("sizes n: give two or more, positive and increasing")
    law = Penalties(problem, channel, nodes)
    path, solutions = Continuation(nodes=nodes, tol=tol, channel=CHANNELS[channel]), []
    for n in sizes[::-1]:
        lam = law.penalty(regime, n, lam_eff) / np.sqrt(problem.kappa)
        here = replace(problem, alpha=n / law.dim**2, lam=float(lam))
        solutions.insert(0, path.solve(here, float(np.log(n))))
    return ScalingCurve(sizes, solutions, np.array([excess(s, channel) for s in solutions]))


def excess(solution: Solution, channel: str = "softmax") -> float:
    """Test error above its floor; for the linear output Q0 - 2 M + Q."""
    if channel == "linear":
        return solution.Q0 - 2 * solution.M + solution.Q
    return solution.test_error - solution.test_error_floor


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
        if regime not in REGIMES:
            raise UserError(f"regime {regime!r}: choose one of {', '.join(REGIMES)}")
        if regime == "optimal":
            return float(np.sqrt(2 * n * self.saturation.q_hat)) / self.dim
        return self.constant_penalty(regime) if lam_eff is None else lam_eff

    def constant_penalty(self, regime: str) -> float:
        """Default of a regime of constant penalty; see STRONG and WEAK."""
        s, least = self.saturation, self._positive[0]
        if regime == "fixed":
            return 2 * STRONG * s.q_hat / (s.scale * s.v_hat * least)
        return WEAK * float(np.sqrt(2 * s.q_hat))

    @property
    def _positive(self) -> Array:
        return self.eigenvalues[self.eigenvalues > 0]

    def kept_from(self, lam_eff: float, eigenvalue: float) -> float:
        """n at which the threshold has fallen to a mode, c l = t; noise aside."""
        s = self.saturation
        return lam_eff * self.dim**2 / (s.scale * s.v_hat * eigenvalue)

    def emerges_at(self, eigenvalue: float) -> float:
        """n at which a mode leaves the noise, c l = b."""
        s = self.saturation
        return s.q_hat * self.dim**2 / (2 * (s.scale * s.v_hat * eigenvalue) ** 2)

    def window(
        self, regime: str, spectral_exponent: float, lam_eff: float | None = None
    ) -> tuple[float, float]:
        """Sizes n in which a regime's exponent is fitted.

        optimal: [5 d, d^(1 + 2 gamma)/50]. fixed: from four times the n at which the first mode is
        kept to a quarter of that of the last, a factor d^gamma apart. vanishing: d^2 times
        [10, 1000].
        """
        d = float(self.dim)
        if regime == "optimal":
            return 5 * d, d ** (1 + 2 * spectral_exponent) / 50
        if regime == "vanishing":
            return 10 * d**2, 1000 * d**2
        lam_eff = self.constant_penalty(regime) if lam_eff is None else lam_eff
        first, last = self._positive[-1], self._positive[0]
        return 4 * self.kept_from(lam_eff, first), self.kept_from(lam_eff, last) / 4

    def sizes(
        self, regime: str, spectral_exponent: float, points: int, lam_eff: float | None = None
    ) -> Array:
        """Default sizes n: half of them in the window, the others a decade beyond on both sides.

        Raises UserError where d is too small for the window to exist.
        """
        lo, hi = self.window(regime, spectral_exponent, lam_eff)
        if hi <= lo:
            raise UserError(
                f"window [{lo:.4g}, {hi:.4g}] of n: empty at dim = {self.dim} for the spectral "
                f"exponent {spectral_exponent:g}; give a larger dim"
            )
        beyond = 2 if regime == "vanishing" else 10  # above the interpolation peak
        outer = points // 4
        below = np.geomspace(lo / beyond, lo, outer, endpoint=False)
        above = np.geomspace(hi, hi * 10, outer + 1)[1:]
        return np.concatenate([below, np.geomspace(lo, hi, points - 2 * outer), above])


def saturation(problem: Problem, channel: str = "softmax", nodes: int = NODES) -> Saturation:
    """Scale, q_hat and v_hat at S = c S0, V -> 0."""
    made = CHANNELS[channel](problem, nodes)
    Q0, guess = problem.target.Q0, problem.beta0 / problem.beta
    _, scale = least_on_ray(made.error, Q0, guess)
    moments = made.moments(scale**2 * Q0, scale * Q0, NO_RESPONSE, cold=True)
    return Saturation(scale, moments.q_hat, moments.v_hat)


def predicted_exponent(regime: str, spectral_exponent: float) -> float:
    """Exponent of the excess error in n, as d grows; see the head of this module."""
    power_law(spectral_exponent, 1)  # refuses gamma <= 1/2
    exponents = {
        "optimal": 1 - 0.5 / spectral_exponent,
        "fixed": 2 - 1 / spectral_exponent,
        "vanishing": 1.0,
    }
    if regime not in exponents:
        raise UserError(f"regime {regime!r}: choose one of {', '.join(REGIMES)}")
    return exponents[regime]


def local_exponents(sizes: Array, errors: Array) -> Array:
    """-d log errors/d log n by second-order differences."""
    order = 2 if len(sizes) > 2 else 1
    return -np.gradient(np.log(errors), np.log(sizes), edge_order=order)


def fit_exponent(sizes: Array, errors: Array, window: tuple[float, float]) -> Fit:
    """Least squares of log errors against log n inside a window.

    Raises UserError where the window holds fewer than LEAST_POINTS sizes.
    """
    sizes, errors = np.asarray(sizes, float), np.asarray(errors, float)
    inside = require_points(sizes, window)
    x, y = np.log(sizes[inside]), np.log(errors[inside])
    slope, offset = np.polyfit(x, y, 1)
    residual = y - slope * x - offset
    scatter = np.sqrt(residual @ residual / (x.size - 2) / np.sum((x - x.mean()) ** 2))
    half = x.size // 2
    halves = [np.polyfit(x[part], y[part], 1)[0] for part in (slice(half + 1), slice(half, None))]
    error = max(float(scatter), 0.5 * abs(halves[1] - halves[0]))
    return Fit(-float(slope), error, window, int(inside.sum()))


def require_points(sizes: Array, window: tuple[float, float]) -> Array:
    """Which sizes lie in a window; raises UserError where there are too few for a slope."""
    inside = (sizes >= window[0]) & (sizes <= window[1])
    if inside.sum() < LEAST_POINTS:
        raise UserError(
            f"window [{window[0]:.4g}, {window[1]:.4g}] of n: {inside.sum()} of the {sizes.size} "
            f"sizes lie in it; a slope needs {LEAST_POINTS}: give more points or a larger dim"
        )
    return inside


def independent_modes(
    eigenvalues: Array, alpha: float, noise: float, lam_eff: float | None = None
) -> float:
    """e = Q0 - 2 M + Q of the linear output when modes do not repel: any d, no spectrum to solve.

    ``b^2 = (e + noise/2)/(2 alpha)`` and t = lam_eff/(4 alpha), or t = 2b without a lam_eff; a mode
    with l > b has ``s = (l + b^2/l - t)_+`` and squared overlap ``o = 1 - b^2/l^2``;
    ``e = (1/d) sum (l^2 - 2 s l o + s^2)``, iterated from above. The noise bulk is left out: right
    for t >= 2b.
    """
    values = np.asarray(eigenvalues, float)
    e = float(np.mean(values**2))
    for _ in range(2000):
        square = (e + noise / 2) / (2 * alpha)
        t = 2 * np.sqrt(square) if lam_eff is None else lam_eff / (4 * alpha)
        kept = values[values**2 > square]
        s = np.maximum(kept + square / kept - t, 0)
        gain = np.sum(s**2 - 2 * s * (kept - square / kept)) / values.size
        new = float(np.mean(values**2) + gain)
        if abs(new - e) < 1e-13 * e:
            break
        e = new
    return new
