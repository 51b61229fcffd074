"""Interpolation and recovery thresholds, and the lambda -> 0 limit of the state evolution.

Below the interpolation threshold the ridgeless student fits every label, so its channel is linear:
with rho = beta0/beta, S = rho S', e = Q0 - 2M' + Q' and K = T(T+1)/2 - 1, R' = S0 + b Z with
b^2 = (e + noise/2)/(2 alpha K), and the threshold t of the denoiser solves D(b, t) = 2 alpha K.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from hdattn.errors import UserError
from hdattn.singlehead.channel import ChannelMoments
from hdattn.singlehead.denoisers import PENALTIES, Estimate
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.quadrature import angle_rule
from hdattn.singlehead.solution import Solution, build_solution
from hdattn.singlehead.targets import MarchenkoPastur, Spectrum

ANGLES = 96


def logit_count(tokens: int) -> int:
    """K = T(T+1)/2 - 1, the number of independent logit differences."""
    return tokens * (tokens + 1) // 2 - 1


def alpha_interpolation(kappa0: float, noise: float, tokens: int = 2) -> float:
    """Largest alpha at which the student still fits every noisy label, Marchenko-Pastur target.

    Infinite without noise: the target itself then fits. Raises UserError on impossible values.
    """
    return interpolation_threshold(Problem(1.0, 0.0, 1.0, MarchenkoPastur(kappa0), noise, tokens))


def interpolation_threshold(problem: Problem) -> float:
    """alpha_interp for the target, noise, tokens and penalty of a problem (its alpha is not used).

    At t = 0: b^2 D_0(b) = e_0(b) + noise/2 and alpha_interp = D_0/(2K). Symmetric S without
    S >= 0 (frobenius) has d^2/2 parameters for K n constraints: 1/(2K).
    """
    K = logit_count(problem.tokens)
    if problem.noise == 0:
        return np.inf
    if problem.penalty == "frobenius":
        return 1 / (2 * K)

    def excess(log_b: float) -> float:
        b = np.exp(log_b)
        here = _estimate(problem, b, 0.0)
        return b**2 * here.D - _error(problem, here) - problem.noise / 2

    # excess < 0 at small b; it grows through zero once
    grid = 0.5 * np.log(problem.noise + problem.target.Q0) + np.arange(-12.0, 40.0, 0.5)
    low = grid[0]
    for high in grid[1:]:
        if excess(high) > 0:
            return _estimate(problem, np.exp(brentq(excess, low, high, xtol=1e-12)), 0.0).D / (
                2 * K
            )
        low = high
    raise UserError(f"no interpolation threshold found at noise = {problem.noise}: lower the noise")


def alpha_recovery(kappa0: float, tokens: int = 2) -> float:
    """Least alpha at which the ridgeless student equals a noiseless Marchenko-Pastur target.

    (1/K) min over t >= 0 of r^2/2 + r t^2 + r (1 - r) + (1 - r) E[(sqrt((1 - r)/2) X - t)_+^2] for
    X a standard semicircle and r = min(kappa0, 1) the rank fraction of the target.
    """
    return _recovery(_rank(MarchenkoPastur(kappa0)), logit_count(tokens))


def recovery_threshold(problem: Problem) -> float:
    """alpha_perf for the target, tokens and penalty of a problem (alpha and noise are not used)."""
    K = logit_count(problem.tokens)
    return 1 / (2 * K) if problem.penalty == "frobenius" else _recovery(_rank(problem.target), K)


def _rank(target: MarchenkoPastur | Spectrum) -> float:
    if isinstance(target, MarchenkoPastur):
        return min(target.kappa0, 1.0)
    return float(np.mean(np.abs(target.eigenvalues) > 1e-10 * np.abs(target.eigenvalues).max()))


def _recovery(rank: float, K: int) -> float:
    if rank == 1.0:
        return 1 / (2 * K)
    radius = np.sqrt(2 * (1 - rank))
    unit, weight = angle_rule(ANGLES)

    def dimension(t: float) -> float:
        x = t + (radius - t) * unit
        semicircle = 2 / (np.pi * radius**2) * np.sqrt(np.maximum(radius**2 - x**2, 0.0))
        tail = (radius - t) * float(weight @ (semicircle * (x - t) ** 2))
        return rank**2 / 2 + rank * t**2 + rank * (1 - rank) + (1 - rank) * tail

    best = minimize_scalar(
        dimension, bounds=(0.0, radius), method="bounded", options={"xatol": 1e-9}
    )
    return float(min(best.fun, dimension(0.0))) / K


def _estimate(problem: Problem, b: float, strength: float) -> Estimate:
    return PENALTIES[problem.penalty].estimate(problem.target, 1.0, b, strength)


def _error(problem: Problem, estimate: Estimate) -> float:
    """e = Q0 - 2M + Q = ||S - S0||^2/d."""
    return problem.target.Q0 - 2 * estimate.M + estimate.Q


def solve_ridgeless(problem: Problem) -> Solution:
    """The lambda -> 0 limit: V infinite and hats zero, or perfect recovery.

    Only where the student interpolates (alpha < alpha_interp, or no noise); raises UserError
    beyond. At perfect recovery S = (beta0/beta) S0, and V, the hats and replicon are given as 0.
    """
    began = time.perf_counter()
    limit = interpolation_threshold(problem)
    if problem.alpha >= limit:
        raise UserError(
            f"alpha = {problem.alpha:g} with lam = 0: the lambda -> 0 limit is offered below the "
            f"interpolation threshold alpha = {limit:.5g}; take a smaller alpha, or a small lam > 0"
        )
    if problem.noise == 0 and problem.alpha >= recovery_threshold(problem):
        return _recovered(problem, began)
    balance = 2 * problem.alpha * logit_count(problem.tokens)

    def at(log_e: float) -> tuple[float, float, Estimate]:
        b = float(np.sqrt((np.exp(log_e) + problem.noise / 2) / balance))
        strength = _strength(problem, b, balance)
        return b, strength, _estimate(problem, b, strength)

    def excess(log_e: float) -> float:
        return np.log(max(_error(problem, at(log_e)[2]), 1e-300)) - log_e

    low, high = (np.log(problem.target.Q0) + shift for shift in (-23.0, 1.0))
    while excess(high) > 0:
        high += 1.0
    log_e, report = brentq(excess, low, high, xtol=1e-12, full_output=True)
    b, strength, estimate = at(log_e)
    D2 = PENALTIES[problem.penalty].difference_square(problem.target, 1.0, b, strength)
    rho = problem.beta0 / problem.beta
    return build_solution(
        problem,
        (rho**2 * estimate.Q, rho * estimate.M, np.inf),
        ChannelMoments(0.0, 0.0, 0.0, 0.0, 0.0),
        rank_fraction=estimate.rank_fraction,
        replicon=D2 / balance,
        input_channel=(rho, rho * b, strength * (rho if problem.penalty == "nuclear" else 1.0)),
        flags=("lambda -> 0 limit: V diverges, hats vanish",),
        converged=report.converged,
        iterations=report.iterations,
        residual=float(abs(excess(log_e))),
        seconds=time.perf_counter() - began,
    )


def _strength(problem: Problem, b: float, balance: float) -> float:
    """The strength with D(b, strength) = balance, at least 0."""
    if problem.penalty == "frobenius":
        return (1 / balance - 1) / 2

    def excess(t: float) -> float:
        return _estimate(problem, b, t).D - balance

    if excess(0.0) <= 0:
        return 0.0
    top = problem.target.convolve(b).intervals[-1, 1]
    return brentq(excess, 0.0, top, xtol=1e-14)


def _recovered(problem: Problem, began: float) -> Solution:
    rho, Q0 = problem.beta0 / problem.beta, problem.target.Q0
    return build_solution(
        problem,
        (rho**2 * Q0, rho * Q0, 0.0),
        ChannelMoments(0.0, 0.0, 0.0, 0.0, 0.0),
        rank_fraction=_rank(problem.target),
        flags=("lambda -> 0 limit: perfect recovery; V, hats and replicon not given",),
        ray=rho,
        converged=True,
        iterations=0,
        residual=0.0,
        seconds=time.perf_counter() - began,
    )
