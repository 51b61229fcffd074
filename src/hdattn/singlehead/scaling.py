"""Scaling laws of power-law targets: the excess test error against n, and its exponent.

Penalties and windows of n: :mod:`hdattn.singlehead.regimes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.attention import Array
from hdattn.singlehead.exponents import Fit, fit_exponent, local_exponents, require_points
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.regimes import CHANNELS, Penalties
from hdattn.singlehead.solution import Solution
from hdattn.singlehead.state_evolution import NODES, Continuation


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
    place of the default, :meth:`Penalties.constant_penalty`. channel: "softmax" or "linear".
    Raises UserError for sizes that are not positive and increasing, and a target without
    eigenvalues.
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


def measure_exponent(
    problem: Problem,
    regime: str,
    points: int,
    *,
    sizes: Sequence[float] | None = None,
    lam_eff: float | None = None,
    channel: str = "softmax",
    nodes: int = NODES,
) -> tuple[ScalingCurve, Fit]:
    """Curve at so many of the regime's own sizes, and the exponent fitted in its window.

    sizes: others in place of the regime's own. Raises UserError where the window has too few sizes,
    or sizes at which S vanishes.
    """
    law = Penalties(problem, channel, nodes)
    window = law.window(regime, lam_eff)
    sizes = np.asarray(law.sizes(regime, points, lam_eff) if sizes is None else sizes, float)
    inside = require_points(sizes, window)
    options = {"lam_eff": lam_eff, "channel": channel, "nodes": nodes}
    curve = scaling_curve(problem, sizes, regime, **options)
    lost = curve.missing[np.isin(curve.missing, sizes[inside])]
    if lost.size:
        raise UserError(
            f"n = {lost.max():.4g}, in the window of the fit: no solution but S = 0, the penalty "
            f"exceeds what the data can pull; give a smaller lam or a larger dim"
        )
    return curve, fit_exponent(sizes, curve.excess, window)


def excess(solution: Solution, channel: str = "softmax") -> float:
    """Test error above its floor; for the linear output Q0 - 2 M + Q."""
    if channel == "linear":
        return solution.Q0 - 2 * solution.M + solution.Q
    return solution.test_error - solution.test_error_floor
