"""State evolution of the regularised ERM of a single attention head: points and curves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from hdattn.errors import UserError
from hdattn.singlehead.channel import Channel
from hdattn.singlehead.denoisers import PENALTIES
from hdattn.singlehead.fixed_point import Outcome, find_fixed_point
from hdattn.singlehead.many_tokens import ManyTokenChannel
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
    channel: ChannelFactory | None = None,
) -> Solution:
    """Solve one point.

    nodes: lattice points across the Gaussian ball per axis of the output channel (even; 18 give
    about 1e-5); for more than two tokens quasi-random points take the place of the lattice, the
    power of two from nodes^4/6 on (18 give 2^15), and quadrature_error tells what they are worth.
    tol: largest change of (log Q, atanh M/sqrt(Q Q0), log V) at the fixed point; where
    the prox jumps the grid map is only continuous to about 3e-6, and that is then asked.
    start: (Q, M, V). When the iteration fails from there, the point is approached from stronger
    penalties. channel: another channel than softmax attention with the square loss, such as a
    subclass of SampledChannel (docs/add-a-channel.md); it has no lambda -> 0 limit.
    Returns a Solution; non-convergence is told by `converged` and `residual`.
    """
    path = Continuation(nodes, tol, max_iterations, start, channel or make_channel)
    return path.solve(problem, 0.0)


def make_channel(problem: Problem, nodes: int) -> Channel:
    """Softmax attention with the square loss, nodes = 0: for samples that are given one by one."""
    if problem.tokens == 2:
        return TwoTokenChannel(problem.label_variance, problem.beta, problem.beta0, nodes)
    return ManyTokenChannel(problem, nodes)


ChannelFactory = Callable[[Problem, int], Channel]


def solve_curve(problem: Problem, alphas, **options) -> list[Solution]:
    """Solve at each alpha of a list, by continuation from large to small; order as given.

    options: those of :func:`solve`; the start is that of the largest alpha.
    """
    alphas = np.asarray(alphas, dtype=float)
    path, solutions = Continuation(**options), {}
    for i in np.argsort(-alphas, kind="stable"):
        here = replace(problem, alpha=float(alphas[i]))
        solutions[int(i)] = path.solve(here, float(np.log(alphas[i])))
    return [solutions[i] for i in range(alphas.size)]


@dataclass
class Continuation:
    """Solves problems along a path, each from the extrapolation of those solved before.

    The options are those of :func:`solve`; start: that of the first problem.
    """

    nodes: int = NODES
    tol: float = 1e-8
    max_iterations: int = 150
    start: tuple[float, float, float] | None = None
    channel: ChannelFactory = make_channel
    known: list[tuple[float, np.ndarray]] = field(default_factory=list)
    inverse: np.ndarray | None = None

    def solve(self, problem: Problem, where: float) -> Solution:
        """Solve the problem at the place `where` of the path, say log alpha."""
        began = time.perf_counter()
        if problem.lam == 0:
            if self.channel is not make_channel:
                raise UserError("lam = 0: this channel has no limit lambda -> 0; give lam > 0")
            return solve_ridgeless(problem)
        channel = self.channel(problem, self.nodes)
        point = self._start(problem, where)
        outcome = find_fixed_point(
            problem, channel, point, self.tol, self.max_iterations, self.inverse
        )
        solution = _finish(outcome, began)
        if solution.converged and not outcome.vanished:
            self.known.append((where, outcome.point))
            self.inverse = outcome.inverse
        return solution

    def _start(self, problem: Problem, where: float) -> np.ndarray:
        """Polynomial through the nearest two or three points that are known."""
        if not self.known:
            order = best_start(problem) if self.start is None else self.start
            return encode(*order, problem.target.Q0)
        nearest = sorted(self.known, key=lambda known: abs(known[0] - where))[:3]
        places, points = (np.array(part) for part in zip(*nearest, strict=True))
        if np.unique(places).size < places.size:
            return points[0]
        change = lagrange_weights(places, where) @ points - points[0]
        return points[0] + np.clip(change, -1.0, 1.0)


def lagrange_weights(places: np.ndarray, where: float) -> np.ndarray:
    """Weights of values at `places` [k] in the polynomial through them at `where`."""
    own = np.eye(places.size, dtype=bool)
    ratios = (where - places) / np.where(own, 1.0, places[:, None] - places)
    return np.where(own, 1.0, ratios).prod(axis=1)


def _finish(outcome: Outcome, began: float) -> Solution:
    """Evaluate everything at the fixed point, with fresh starts of the prox."""
    sweep, problem = outcome.sweep, outcome.sweep.problem
    if outcome.vanished:
        return _vanished(outcome, began)
    image = sweep.afresh(outcome.point)
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
        error=_own_error(sweep.channel),
        converged=outcome.converged,
        iterations=outcome.iterations,
        residual=residual,
        seconds=time.perf_counter() - began,
    )


def _own_error(channel: Channel):
    """Test error of the channel, unless it is softmax attention's, whose floors are remembered."""
    return None if isinstance(channel, (TwoTokenChannel, ManyTokenChannel)) else channel.error


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
    found = [(Q, M, V, sweep.channel.error(Q, M)) for Q, M, V in orders]
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
        error=_own_error(outcome.sweep.channel),
        converged=True,
        iterations=outcome.iterations,
        residual=0.0,
        seconds=time.perf_counter() - began,
    )
