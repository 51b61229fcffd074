"""Where the solver starts: near the lambda -> 0 limit if there is one, else at a fixed guess."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from hdattn.singlehead.problem import Problem
from hdattn.singlehead.thresholds import (
    interpolation_threshold,
    logit_count,
    recovery_threshold,
    solve_ridgeless,
)

SMALL_PENALTY = 3e-3  # lam_eff below which the lambda -> 0 limit is the better guess
NEAR_RECOVERY = 0.1  # lam_eff/alpha below which a recovered target is


def best_start(problem: Problem) -> tuple[float, float, float]:
    """(Q, M, V) to start from."""
    weak = problem.lam_eff < NEAR_RECOVERY * problem.alpha
    if problem.noise == 0 and weak and problem.alpha >= recovery_threshold(problem):
        return _recovered(problem)
    # at most d^2/2 parameters can be fitted: alpha_interp <= 1/(2K)
    few = 2 * logit_count(problem.tokens) * problem.alpha < 1
    if few and problem.lam_eff < SMALL_PENALTY and problem.alpha < _interpolation(problem):
        return _limit(problem)
    return default_start(problem)


def default_start(problem: Problem) -> tuple[float, float, float]:
    """Q = .5 Q0, M = .35 Q0 in units of the scale beta0/beta, V = .5/beta^2."""
    Q0, scale = problem.target.Q0, problem.beta0 / problem.beta
    return 0.5 * scale**2 * Q0, 0.35 * scale * Q0, 0.5 / problem.beta**2


def _recovered(problem: Problem) -> tuple[float, float, float]:
    """S near (beta0/beta) S0, the error of the order of (lam_eff/alpha)^2, V of that of 1/alpha."""
    Q0, scale = problem.target.Q0, problem.beta0 / problem.beta
    error = (problem.lam_eff / problem.alpha) ** 2
    return scale**2 * Q0, scale * Q0 * (1 - error / 2), 0.3 / (problem.alpha * problem.beta**2)


def _limit(problem: Problem) -> tuple[float, float, float]:
    """The limit, with V from its denoiser: strength = lam_eff V/(alpha K) as v_hat = K/V."""
    limit = solve_ridgeless(replace(problem, lam=0.0))
    if limit.input_channel is None:
        return default_start(problem)
    strength = limit.input_channel[2] * problem.alpha * logit_count(problem.tokens)
    return limit.Q, limit.M, max(strength / problem.lam_eff, 0.5 / problem.beta**2)


def _interpolation(problem: Problem) -> float:
    """The threshold, computed once for all alpha and lambda."""
    return _cached_interpolation(replace(problem, alpha=1.0, lam=0.0, beta=1.0, beta0=1.0))


@lru_cache(maxsize=64)
def _cached_interpolation(problem: Problem) -> float:
    return interpolation_threshold(problem)
