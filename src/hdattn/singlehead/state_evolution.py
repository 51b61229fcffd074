"""State evolution of the regularised ERM of a single attention head: points and curves."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from hdattn.singlehead.channel import Channel
from hdattn.singlehead.denoisers import PENALTIES
from hdattn.singlehead.fixed_point import Outcome, find_fixed_point
from hdattn.singlehead.many_tokens import SCRAMBLES, ManyTokenChannel
from hdattn.singlehead.population import attention_error
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.solution import Solution, build_solution
from hdattn.singlehead.starts import best_start
from hdattn.singlehead.sweep import Sweep, decode, distance, encode, slope
from hdattn.singlehead.thresholds import solve_ridgeless
from hdattn.singlehead.two_tokens import TwoTokenChannel

NODES = 18


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
    about 1e-5); for more than two tokens quasi-random points take the place of the lattice, the
    power of two from nodes^4/6 on (18 give 2^15), and quadrature_error tells what they are worth.
    tol: largest change of (log Q, atanh M/sqrt(Q Q0), log V) at the fixed point; where
    the prox jumps the grid map is only continuous to about 3e-6, and that is then asked.
    start: (Q, M, V). When the iteration fails from there, the point is approached from stronger
    penalties. Returns a Solution; non-convergence is told by `converged` and `residual`.
    """
    began = time.perf_counter()
    if problem.lam == 0:
        return solve_ridgeless(problem)
    channel = make_channel(problem, nodes)
    point = encode(*(best_start(problem) if start is None else start), problem.target.Q0)
    outcome = find_fixed_point(problem, channel, point, tol, max_iterations)
    return _finish(outcome, began)


def make_channel(problem: Problem, nodes: int) -> Channel:
    """The output channel of a problem."""
    parameters = (problem.label_variance, problem.beta, problem.beta0)
    if problem.tokens == 2:
        return TwoTokenChannel(*parameters, nodes)
    points = 2 ** int(np.ceil(np.log2(nodes**4 / 6)))
    return ManyTokenChannel(*parameters, problem.tokens, points // SCRAMBLES)


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
            here = encode(solution.Q, solution.M, solution.V, problem.target.Q0)
            known = [*known[-1:], (np.log(alphas[i]), here)]
    return [solutions[i] for i in range(alphas.size)]


def _predict(known: list, log_alpha: float, Q0: float) -> tuple[float, float, float]:
    """Linear continuation in log alpha from the last one or two solutions."""
    last, point = known[-1]
    if len(known) == 2 and known[0][0] != last:
        slope = (point - known[0][1]) / (last - known[0][0])
        point = point + np.clip(slope * (log_alpha - last), -1.0, 1.0)
    return decode(point, Q0)


def _finish(outcome: Outcome, began: float) -> Solution:
    """Evaluate everything at the fixed point, with fresh starts of the prox."""
    sweep, problem = outcome.sweep, outcome.sweep.problem
    if outcome.vanished:
        return _vanished(outcome, began)
    image = sweep(outcome.point, cold=True)
    residual = distance(outcome.point, image)
    moments, estimate, input_channel = sweep.moments, sweep.estimate, sweep.input_channel
    order = decode(outcome.point, problem.target.Q0)
    v2 = sweep.channel.response_square_mean(order[2])
    D2 = PENALTIES[problem.penalty].difference_square(problem.target, *input_channel)
    return build_solution(
        problem,
        order,
        moments,
        penalty_value=problem.lam_eff / problem.alpha * estimate.penalty,
        rank_fraction=estimate.rank_fraction,
        replicon=D2 * v2 / (2 * problem.alpha * moments.v_hat**2),
        input_channel=input_channel,
        quadrature_error=_quadrature_error(sweep, outcome.point),
        converged=outcome.converged,
        iterations=outcome.iterations,
        residual=residual,
        seconds=time.perf_counter() - began,
    )


def _quadrature_error(sweep: Sweep, point: np.ndarray) -> dict[str, float]:
    """Standard errors of Q, M, V and the test error from the replicas of the channel.

    The fixed point of a replica, to first order: point + (1 - J)^{-1} (its image - point), J the
    derivative of the sweep.
    """
    replicas = sweep.channel.replicas()
    if not replicas:
        return {}
    problem = sweep.problem
    images = np.array([Sweep(problem, replica)(point) for replica in replicas])
    J = slope(Sweep(problem, replicas[0]), point)
    orders = [
        decode(point + shift, problem.target.Q0)
        for shift in (images - images.mean(0)) @ np.linalg.pinv(np.eye(3) - J).T
    ]
    physics = (problem.label_variance, problem.beta, problem.beta0, problem.tokens)
    found = [(Q, M, V, attention_error(Q, M, *physics)) for Q, M, V in orders]
    errors = np.std(found, axis=0, ddof=1) / np.sqrt(len(replicas))
    return dict(zip(("Q", "M", "V", "test_error"), errors.tolist(), strict=True))


def _vanished(outcome: Outcome, began: float) -> Solution:
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
