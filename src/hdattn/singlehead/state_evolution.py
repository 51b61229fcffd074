"""State evolution of the regularised ERM of a single attention head.

Alternates the output channel (v_hat, m_hat, q_hat from Q, M, V) and the input channel
(a = m_hat/v_hat, b = sqrt(q_hat/(2 alpha))/v_hat, strength = lam_eff/(alpha v_hat) give Q, M, V)
to a fixed point in (log Q, atanh M/sqrt(Q Q0), log V).
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import root

from hdattn.errors import NotYet
from hdattn.singlehead.anderson import AndersonMixer
from hdattn.singlehead.channel import Channel, ChannelMoments
from hdattn.singlehead.denoisers import PENALTIES, Estimate
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.solution import Solution, build_solution
from hdattn.singlehead.thresholds import solve_ridgeless
from hdattn.singlehead.two_tokens import TwoTokenChannel

NODES = 18
FAR = 40.0  # largest coordinate that is looked at: Q from 1e-17 to 1e17
TINY_RESPONSE = 1e-10  # v_hat V, of order one at any solution, below which a point is hopeless
REFRESH = 0.03  # change of a coordinate from which the minimisations start afresh
VANISHED = 1e-12  # Q/Q0 below which S is taken to vanish
PATIENCE = 25  # iterations without progress after which an attempt ends
NEWTON_EVALUATIONS = 50
GRAIN = 1e-6  # the residual that the grid allows where the prox jumps
STALLED = 1e-4  # a residual below this means a rough map, not a bad start
ANNEALING = (300.0, 30.0, 5.0, 1.0)  # multiples of the penalty on the way to a hard point


@dataclass
class _Map:
    """One sweep of the state evolution; remembers its last moments."""

    problem: Problem
    channel: Channel
    moments: ChannelMoments | None = None
    estimate: Estimate | None = None
    input_channel: tuple[float, float, float] | None = None
    collapsed: bool = False
    fresh: np.ndarray | None = None
    """Where the minimisations of the prox were last started afresh."""

    def __call__(self, point: np.ndarray, cold: bool = False) -> np.ndarray:
        """Image of (log Q, atanh M/sqrt(Q Q0), log V)."""
        Q, M, V = _decode(np.clip(point, -FAR, FAR), self.problem.target.Q0)
        # minima followed from point to point may merge, and new ones appear unseen
        cold = cold or self.fresh is None or np.abs(point - self.fresh).max() > REFRESH
        self.fresh = point.copy() if cold else self.fresh
        self.moments = self.channel.moments(Q, M, V, cold)
        if self.moments.v_hat <= TINY_RESPONSE / V:
            # no linear response, far from any solution: come back towards small S
            return point + np.array([-1.0, 0.0, -1.0])
        self.input_channel = input_channel(self.problem, self.moments)
        self.estimate = PENALTIES[self.problem.penalty].estimate(
            self.problem.target, *self.input_channel
        )
        new_V = self.estimate.D / (2 * self.problem.alpha * self.moments.v_hat)
        self.collapsed = self.estimate.Q <= 1e-3 * VANISHED * Q
        if self.collapsed:
            # the threshold exceeds the edge: S shrinks; how fast is immaterial
            return point + np.array([-2.0, 0.0, -2.0])
        return _encode(self.estimate.Q, self.estimate.M, new_V, self.problem.target.Q0)


def input_channel(problem: Problem, moments: ChannelMoments) -> tuple[float, float, float]:
    """(a, b, strength) of R = a S0 + b Z from the hatted parameters."""
    v_hat = moments.v_hat
    return (
        moments.m_hat / v_hat,
        float(np.sqrt(moments.q_hat / (2 * problem.alpha))) / v_hat,
        problem.lam_eff / (problem.alpha * v_hat),
    )


def _encode(Q: float, M: float, V: float, Q0: float) -> np.ndarray:
    cosine = np.clip(M / np.sqrt(Q * Q0), -1 + 1e-15, 1 - 1e-15)
    return np.array([np.log(Q), np.arctanh(cosine), np.log(V)])


def _decode(point: np.ndarray, Q0: float) -> tuple[float, float, float]:
    Q = float(np.exp(point[0]))
    return Q, float(np.tanh(point[1]) * np.sqrt(Q * Q0)), float(np.exp(point[2]))


def solve(
    problem: Problem,
    *,
    nodes: int = NODES,
    tol: float = 1e-8,
    max_iterations: int = 150,
    start: tuple[float, float, float] | None = None,
) -> Solution:
    """Solve one point.

    nodes: lattice points across the Gaussian ball per axis of the output channel (even; 18 give
    about 1e-5). tol: largest change of (log Q, atanh M/sqrt(Q Q0), log V) at the fixed point; where
    the prox jumps the grid map is only continuous to about 1e-6, and that is then asked.
    start: (Q, M, V). When the iteration fails from there, the point is approached from stronger
    penalties. Returns a Solution; non-convergence is told by `converged` and `residual`.
    """
    began = time.perf_counter()
    if problem.lam == 0:
        return solve_ridgeless(problem)
    channel = make_channel(problem, nodes)
    outcome = _iterate(_Map(problem, channel), _start(problem, start), tol, max_iterations)
    if not outcome.converged:
        outcome = _newton(outcome, tol)
    if not outcome.converged and outcome.residual > STALLED:
        outcome = _anneal(problem, channel, tol, max_iterations, outcome)
    return _finish(outcome, began)


def make_channel(problem: Problem, nodes: int) -> Channel:
    """The output channel of a problem."""
    if problem.tokens != 2:
        raise NotYet(f"tokens = {problem.tokens}: the state evolution is offered for tokens = 2")
    return TwoTokenChannel(problem.label_variance, problem.beta, problem.beta0, nodes)


def solve_curve(problem: Problem, alphas, **options) -> list[Solution]:
    """Solve at each alpha of a list, by continuation from large to small; order as given."""
    alphas = np.asarray(alphas, dtype=float)
    solutions: dict[int, Solution] = {}
    given, known = options.pop("start", None), []
    for i in np.argsort(-alphas, kind="stable"):
        start = given if not known else _predict(known, np.log(alphas[i]), problem.target.Q0)
        solution = solve(replace(problem, alpha=float(alphas[i])), start=start, **options)
        solutions[int(i)] = solution
        if solution.converged and solution.Q > 0 and np.isfinite(solution.V):
            here = _encode(solution.Q, solution.M, solution.V, problem.target.Q0)
            known = [*known[-1:], (np.log(alphas[i]), here)]
    return [solutions[i] for i in range(alphas.size)]


def _predict(known: list, log_alpha: float, Q0: float) -> tuple[float, float, float]:
    """Linear continuation in log alpha from the last one or two solutions."""
    last, point = known[-1]
    if len(known) == 2 and known[0][0] != last:
        slope = (point - known[0][1]) / (last - known[0][0])
        point = point + np.clip(slope * (log_alpha - last), -1.0, 1.0)
    return _decode(point, Q0)


def _start(problem: Problem, start) -> np.ndarray:
    Q0 = problem.target.Q0
    scale = problem.beta0 / problem.beta
    if start is None:
        start = (0.5 * scale**2 * Q0, 0.35 * scale * Q0, 0.5 / problem.beta**2)
    return _encode(*start, Q0)


@dataclass
class _Outcome:
    """Where an iteration ended; S = 0 when `vanished`."""

    sweep: _Map
    point: np.ndarray
    iterations: int
    residual: float
    converged: bool = False
    vanished: bool = False


def _settle(sweep: _Map, point: np.ndarray, residual: float, tol: float) -> tuple[float, bool]:
    """Residual, and whether it is small enough with fresh prox starts, if it is small with old."""
    if residual >= max(tol, GRAIN):
        return residual, False
    residual = _distance(point, sweep(point, cold=True))
    jumps = sweep.moments.jump_probability > 0
    return residual, residual < (max(tol, GRAIN) if jumps else tol)


def _iterate(sweep: _Map, point, tol: float, max_iterations: int) -> _Outcome:
    """Anderson iteration; the residual that counts is that of a map with fresh prox starts."""
    mixer = AndersonMixer()
    best, improved = _Outcome(sweep, point, 0, np.inf), 0
    for iteration in range(1, max_iterations + 1):
        image = sweep(point)
        best.iterations = iteration
        if sweep.collapsed:
            if image[0] < np.log(VANISHED * sweep.problem.target.Q0):
                return _Outcome(sweep, image, iteration, 0.0, converged=True, vanished=True)
            point, mixer = image, AndersonMixer()
            continue
        residual, done = _settle(sweep, point, _distance(point, image), tol)
        if residual < 0.7 * best.residual:
            improved = iteration
        if residual < best.residual:
            best.residual, best.point, best.converged = residual, point, done
        if done or iteration - improved > PATIENCE:
            break
        point = mixer.propose(point, image)
    return best


class _Reached(Exception):
    """Ends scipy's solver at the tolerance of the state evolution instead of its own."""


def _newton(failed: _Outcome, tol: float) -> _Outcome:
    """Powell's hybrid method from the best point of a stalled iteration, which need not attract."""
    sweep = failed.sweep
    best = replace(failed)

    def displacement(point: np.ndarray) -> np.ndarray:
        best.iterations += 1
        image = sweep(point)
        residual = np.inf if sweep.collapsed else _distance(point, image)
        residual, done = _settle(sweep, point, residual, tol)
        if residual < best.residual:
            best.residual, best.point, best.converged = residual, point.copy(), done
        if best.converged or best.iterations - failed.iterations >= NEWTON_EVALUATIONS:
            raise _Reached
        return image - point

    with suppress(_Reached):
        root(displacement, failed.point, method="hybr", options={"eps": 1e-5, "factor": 0.3})
    return best


def _anneal(problem: Problem, channel: Channel, tol, max_iterations, failed: _Outcome) -> _Outcome:
    """Continuation from stronger penalties; the better of this and the failed attempt."""
    point, total = _start(problem, None), failed.iterations
    for factor in ANNEALING:
        sweep = _Map(replace(problem, lam=factor * problem.lam), channel)
        outcome = _iterate(sweep, point, tol if factor == 1 else 1e-3, max_iterations)
        total += outcome.iterations
        if not outcome.vanished:
            point = outcome.point
    outcome.iterations = failed.iterations = total
    return outcome if outcome.residual < failed.residual else failed


def _distance(point: np.ndarray, image: np.ndarray) -> float:
    """Largest change of (log Q, atanh M/sqrt(Q Q0), log V).

    Close to perfect recovery, where the second coordinate diverges and rounding moves it, its
    change counts in proportion to 1 - M^2/(Q Q0).
    """
    change = np.abs(image - point)
    change[1] *= min(1.0, 1e3 / np.cosh(min(point[1], 300.0)) ** 2)
    return float(change.max())


def _finish(outcome: _Outcome, began: float) -> Solution:
    """Evaluate everything at the fixed point, with fresh starts of the prox."""
    sweep, problem = outcome.sweep, outcome.sweep.problem
    if outcome.vanished:
        return _vanished(outcome, began)
    image = sweep(outcome.point, cold=True)
    residual = _distance(outcome.point, image)
    moments, estimate = sweep.moments, sweep.estimate
    D2 = PENALTIES[problem.penalty].difference_square(problem.target, *sweep.input_channel)
    return build_solution(
        problem,
        _decode(outcome.point, problem.target.Q0),
        moments,
        penalty_value=problem.lam_eff / problem.alpha * estimate.penalty,
        rank_fraction=estimate.rank_fraction,
        replicon=D2 * moments.v2 / (2 * problem.alpha * moments.v_hat**2),
        input_channel=sweep.input_channel,
        converged=outcome.converged,
        iterations=outcome.iterations,
        residual=residual,
        seconds=time.perf_counter() - began,
    )


def _vanished(outcome: _Outcome, began: float) -> Solution:
    """S = 0: the penalty exceeds what the data can pull. Hats are those of the channel at zero."""
    problem = outcome.sweep.problem
    small = 1e-10
    moments = outcome.sweep.channel.moments(small * problem.target.Q0, 0.0, small, cold=True)
    return build_solution(
        problem,
        (0.0, 0.0, 0.0),
        moments,
        converged=True,
        iterations=outcome.iterations,
        residual=0.0,
        seconds=time.perf_counter() - began,
    )
