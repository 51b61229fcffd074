"""State evolution of the regularised ERM of a single attention head.

Alternates the output channel (v_hat, m_hat, q_hat from Q, M, V) and the input channel
(a = m_hat/v_hat, b = sqrt(q_hat/(2 alpha))/v_hat, strength = lam_eff/(alpha v_hat) give Q, M, V)
to a fixed point in (log Q, atanh M/sqrt(Q Q0), log V).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from hdattn.errors import NotYet
from hdattn.singlehead.anderson import AndersonMixer
from hdattn.singlehead.channel import Channel, ChannelMoments
from hdattn.singlehead.denoisers import PENALTIES, Estimate
from hdattn.singlehead.population import attention_error, error_floor
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.solution import Solution
from hdattn.singlehead.two_tokens import TwoTokenChannel

NODES = 18
COLLAPSED = 1e-12  # Q/Q0 below which S is taken to vanish
JUMPY = 1e-3  # jump probability from which a point is flagged


@dataclass
class _Map:
    """One sweep of the state evolution; remembers its last moments."""

    problem: Problem
    channel: Channel
    moments: ChannelMoments | None = None
    estimate: Estimate | None = None
    input_channel: tuple[float, float, float] | None = None
    collapsed: bool = False

    def __call__(self, point: np.ndarray, cold: bool = False) -> np.ndarray:
        """Image of (log Q, atanh M/sqrt(Q Q0), log V)."""
        Q, M, V = _decode(point, self.problem.target.Q0)
        self.moments = self.channel.moments(Q, M, V, cold)
        self.input_channel = input_channel(self.problem, self.moments)
        self.estimate = PENALTIES[self.problem.penalty].estimate(
            self.problem.target, *self.input_channel
        )
        new_V = self.estimate.D / (2 * self.problem.alpha * self.moments.v_hat)
        self.collapsed = self.estimate.Q <= 1e-3 * COLLAPSED * Q
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
    tol: float = 1e-7,
    max_iterations: int = 300,
    start: tuple[float, float, float] | None = None,
) -> Solution:
    """Solve one point.

    nodes: lattice points across the Gaussian ball per axis of the output channel (even; 18 give
    about 1e-5). tol: largest change of (log Q, atanh M/sqrt(Q Q0), log V) at the fixed point.
    start: (Q, M, V). Returns a Solution; non-convergence is told by `converged` and `residual`.
    """
    began = time.perf_counter()
    if problem.tokens != 2:
        raise NotYet(f"tokens = {problem.tokens}: the state evolution is offered for tokens = 2")
    channel = TwoTokenChannel(problem.label_variance, problem.beta, problem.beta0, nodes)
    sweep = _Map(problem, channel)
    point, iterations, residual = _iterate(sweep, _start(problem, start), tol, max_iterations)
    return _finish(sweep, point, iterations, residual, tol, began)


def solve_curve(problem: Problem, alphas, **options) -> list[Solution]:
    """Solve at each alpha of a list, by continuation from large to small; order as given."""
    alphas = np.asarray(alphas, dtype=float)
    solutions: dict[int, Solution] = {}
    start = options.pop("start", None)
    for i in np.argsort(-alphas, kind="stable"):
        solution = solve(replace(problem, alpha=float(alphas[i])), start=start, **options)
        solutions[int(i)] = solution
        start = (solution.Q, solution.M, solution.V) if solution.converged else None
    return [solutions[i] for i in range(alphas.size)]


def _start(problem: Problem, start) -> np.ndarray:
    Q0 = problem.target.Q0
    scale = problem.beta0 / problem.beta
    if start is None:
        start = (0.5 * scale**2 * Q0, 0.35 * scale * Q0, 0.5 / problem.beta**2)
    return _encode(*start, Q0)


def _iterate(sweep: _Map, point, tol: float, max_iterations: int):
    """Anderson iteration; the residual that counts is that of a map with fresh prox starts."""
    mixer = AndersonMixer()
    residual = np.inf
    for iteration in range(1, max_iterations + 1):
        image = sweep(point)
        residual = np.abs(image - point).max()
        if residual < tol:
            image = sweep(point, cold=True)
            residual = np.abs(image - point).max()
            if residual < tol:
                return point, iteration, residual
        if point[0] < np.log(COLLAPSED * sweep.problem.target.Q0):
            return point, iteration, residual
        point = mixer.propose(point, image)
    return point, max_iterations, residual


def _finish(sweep: _Map, point, iterations, residual, tol, began) -> Solution:
    problem = sweep.problem
    image = sweep(point, cold=True)
    residual = float(np.abs(image - point).max())
    moments, estimate, P = sweep.moments, sweep.estimate, problem.label_variance
    Q, M, V = _decode(point, problem.target.Q0)
    penalty = PENALTIES[problem.penalty]
    D2 = penalty.difference_square(problem.target, *sweep.input_channel)
    replicon = D2 * moments.v2 / (2 * problem.alpha * moments.v_hat**2)
    return Solution(
        problem=problem,
        Q=Q,
        M=M,
        V=V,
        q_hat=moments.q_hat,
        m_hat=moments.m_hat,
        v_hat=moments.v_hat,
        Q0=problem.target.Q0,
        test_error=attention_error(Q, M, P, problem.beta, problem.beta0),
        test_error_floor=error_floor(problem.target.Q0, P, problem.beta, problem.beta0)[0],
        train_loss=moments.train_loss,
        penalty_value=problem.lam_eff / problem.alpha * estimate.penalty,
        rank_fraction=estimate.rank_fraction,
        jump_probability=moments.jump_probability,
        replicon=replicon,
        converged=residual < tol,
        iterations=iterations,
        residual=residual,
        seconds=time.perf_counter() - began,
        input_channel=sweep.input_channel,
    )
