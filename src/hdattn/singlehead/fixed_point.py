"""Fixed points of the state evolution: Anderson iteration, then second attempts where it fails."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import root

from hdattn.singlehead.anderson import AndersonMixer
from hdattn.singlehead.channel import Channel
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.starts import default_start
from hdattn.singlehead.sweep import VANISHED, Sweep, distance, encode, slope

PATIENCE = 25  # iterations without progress after which an attempt ends
NEWTON_EVALUATIONS = 50
GRAIN = 6e-6  # the residual that the grid allows where the prox jumps
STALLED = 1e-4  # a residual below this means a rough map, not a bad start
ROUGH = 1e-4  # tolerance on the coarse channel, whose own error is larger
MAX_CORRECTIONS = 12
LONGEST = 0.5  # change of a coordinate in one step
ANNEALING = (300.0, 30.0, 5.0, 1.0)  # multiples of the penalty on the way to a hard point


def find_fixed_point(
    problem: Problem,
    channel: Channel,
    point: np.ndarray,
    tol: float,
    max_iterations: int,
    inverse: np.ndarray | None = None,
) -> Outcome:
    """Fixed point from a start (log Q, atanh M/sqrt(Q Q0), log V), by several attempts.

    Broyden's method, if (1 - J)^{-1} of a neighbouring problem is given as `inverse`, J the
    derivative of the sweep. Else, or if that fails, the same from the fixed point of a coarse
    channel with its derivative. Else Anderson's iteration; from where it stalls Powell's method;
    from stronger penalties.
    """
    if inverse is not None:
        outcome = _broyden(Sweep(problem, channel), point, inverse, tol)
        if outcome.converged:
            return outcome
    coarse = channel.coarse()
    if coarse is not None:
        rough = find_fixed_point(problem, coarse, point, max(tol, ROUGH), max_iterations)
        if rough.converged and not rough.vanished:
            point = rough.point
            inverse = np.linalg.pinv(np.eye(3) - slope(rough.sweep, point))
            outcome = _broyden(Sweep(problem, channel), point, inverse, tol)
            outcome.iterations += rough.iterations
            if outcome.converged:
                return outcome
    outcome = _iterate(Sweep(problem, channel), point, tol, max_iterations)
    if not outcome.converged:
        outcome = _newton(outcome, tol)
    if not outcome.converged and outcome.residual > STALLED:
        outcome = _anneal(problem, channel, tol, max_iterations, outcome)
    return outcome


@dataclass
class Outcome:
    """Where an iteration ended; S = 0 when `vanished`; inverse: (1 - J)^{-1} where it is known."""

    sweep: Sweep
    point: np.ndarray
    iterations: int
    residual: float
    converged: bool = False
    vanished: bool = False
    inverse: np.ndarray | None = None


def _settle(sweep: Sweep, point: np.ndarray, image: np.ndarray, tol: float):
    """Image, residual, and whether that is small enough with fresh prox starts, if with old."""
    residual = distance(point, image)
    if residual >= max(tol, GRAIN):
        return image, residual, False
    image = sweep.afresh(point)
    residual = distance(point, image)
    jumps = sweep.moments.jump_probability > 0
    return image, residual, residual < (max(tol, GRAIN) if jumps else tol)


def _iterate(sweep: Sweep, point, tol: float, max_iterations: int) -> Outcome:
    """Anderson iteration; the residual that counts is that of a map with fresh prox starts."""
    mixer = AndersonMixer()
    best, improved = Outcome(sweep, point, 0, np.inf), 0
    for iteration in range(1, max_iterations + 1):
        image = sweep(point)
        best.iterations = iteration
        if sweep.collapsed:
            if image[0] < np.log(VANISHED * sweep.problem.target.Q0):
                return Outcome(sweep, image, iteration, 0.0, converged=True, vanished=True)
            point, mixer = image, AndersonMixer()
            continue
        image, residual, done = _settle(sweep, point, image, tol)
        if residual < 0.7 * best.residual:
            improved = iteration
        if residual < best.residual:
            best.residual, best.point, best.converged = residual, point, done
        if done or iteration - improved > PATIENCE:
            break
        point = mixer.propose(point, image)
    return best


def _broyden(sweep: Sweep, point: np.ndarray, inverse: np.ndarray, tol: float) -> Outcome:
    """Broyden's method from a good start with a good (1 - J)^{-1}.

    Ends, not converged, where two steps in a row do not halve the residual.
    """
    best, step, old, failures = Outcome(sweep, point, 0, np.inf), None, None, 0
    for best.iterations in range(1, MAX_CORRECTIONS + 1):
        image = sweep(point)
        if sweep.collapsed:
            break
        image, residual, done = _settle(sweep, point, image, tol)
        miss = image - point
        if step is not None:
            change = inverse @ (old - miss)
            if abs(step @ change) > 0.1 * (step @ step):
                inverse = inverse + np.outer(step - change, step @ inverse) / (step @ change)
        failures = 0 if residual < 0.5 * best.residual else failures + 1
        if residual < best.residual:
            best.residual, best.point, best.converged = residual, point, done
        best.inverse = inverse
        if done or failures == 2:
            break
        old, step = miss, np.clip(inverse @ miss, -LONGEST, LONGEST)
        point = point + step
    return best


class _Reached(Exception):
    """Ends scipy's solver at the tolerance of the state evolution instead of its own."""


def _newton(failed: Outcome, tol: float) -> Outcome:
    """Powell's hybrid method from the best point of a stalled iteration, which need not attract."""
    sweep = failed.sweep
    best = replace(failed)

    def displacement(point: np.ndarray) -> np.ndarray:
        best.iterations += 1
        image = sweep(point)
        residual, done = np.inf, False
        if not sweep.collapsed:
            image, residual, done = _settle(sweep, point, image, tol)
        if residual < best.residual:
            best.residual, best.point, best.converged = residual, point.copy(), done
        if best.converged or best.iterations - failed.iterations >= NEWTON_EVALUATIONS:
            raise _Reached
        return image - point

    with suppress(_Reached):
        root(displacement, failed.point, method="hybr", options={"eps": 1e-5, "factor": 0.3})
    return best


def _anneal(problem: Problem, channel: Channel, tol, max_iterations, failed: Outcome) -> Outcome:
    """Continuation from stronger penalties; the better of this and the failed attempt."""
    point = encode(*default_start(problem), problem.target.Q0)
    total = failed.iterations
    for factor in ANNEALING:
        sweep = Sweep(replace(problem, lam=factor * problem.lam), channel)
        outcome = _iterate(sweep, point, tol if factor == 1 else 1e-3, max_iterations)
        total += outcome.iterations
        if not outcome.vanished:
            point = outcome.point
    outcome.iterations = failed.iterations = total
    return outcome if outcome.residual < failed.residual else failed
