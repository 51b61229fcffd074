"""State evolution iteration by iteration: what message passing does at each step, as d grows.

From S = 0 and V = 1/beta^2, as message passing starts: moments of the output channel at (Q, M, V),
then moments of phi(a S0 + b Z) at the hatted parameters. Only the fixed point is that of ``solve``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hdattn.singlehead.attention import Array
from hdattn.singlehead.bayes_optimal import bayes_trajectory
from hdattn.singlehead.denoisers import PENALTIES
from hdattn.singlehead.population import attention_error
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.state_evolution import NODES, ChannelFactory, make_channel

SMALL = 1e-10  # Q over Q0 and V that stand for zero in the channel
SETTLED = 1e-9  # relative change in an iteration from which on nothing is computed anew


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Q, M, V and test error of the iterate S, prox_objective of the step that led to it.

    All [iterations + 1]; prox_objective = E l(y, z*) + penalty(S), NaN at the start.
    """

    Q: Array
    M: Array
    V: Array
    prox_objective: Array
    test_error: Array


def state_evolution_trajectory(
    problem: Problem,
    iterations: int,
    *,
    damping: float = 0.0,
    nodes: int = NODES,
    channel: ChannelFactory = make_channel,
) -> Trajectory:
    """Follow message passing with the soft threshold (or the problem's other penalty).

    Damped message passing adds f of several iterations; their noises are taken to be fully
    correlated, which is exact without damping and at the fixed point.
    """
    target, alpha = problem.target, problem.alpha
    penalty, output = PENALTIES[problem.penalty], channel(problem, nodes)
    rows, hats = [(0.0, 0.0, 1 / problem.beta**2, np.nan)], None
    for _ in range(iterations):
        Q, M, V, _ = rows[-1]
        if len(rows) > 2 and np.allclose(rows[-1], rows[-2], rtol=SETTLED, atol=SMALL):
            rows.append(rows[-1])
            continue
        moments = output.moments(max(Q, SMALL * target.Q0), M, max(V, SMALL))
        new = np.array([moments.v_hat, moments.m_hat, np.sqrt(moments.q_hat)])
        hats = new if hats is None else (1 - damping) * new + damping * hats
        v_hat, m_hat, noise = hats
        estimate = penalty.estimate(
            target,
            m_hat / v_hat,
            noise / np.sqrt(2 * alpha) / v_hat,
            problem.lam_eff / (alpha * v_hat),
        )
        objective = moments.train_loss + problem.lam_eff / alpha * estimate.penalty
        rows.append((estimate.Q, estimate.M, estimate.D / (2 * alpha * v_hat), objective))
    Q, M, V, objective = np.array(rows).T
    errors = np.array([output.error(*pair) for pair in zip(Q, M, strict=True)])
    return Trajectory(Q, M, V, objective, errors)


def bayes_optimal_trajectory(problem: Problem, iterations: int) -> Trajectory:
    """Follow Bayes-optimal message passing, without damping: Q = M = q, V = Q0 - q.

    Its prox_objective and test_error are those of the plain attention A_S; the posterior mean of
    the attention does better (``BayesOptimal.bayes_test_error``).
    """
    q = bayes_trajectory(problem, iterations)
    beta0 = problem.beta0
    physics = (problem.label_variance, beta0, beta0, problem.tokens)
    errors = np.array([attention_error(overlap, overlap, *physics) for overlap in q])
    before = np.concatenate([[np.nan], errors[:-1]])
    return Trajectory(q, q, problem.target.Q0 - q, before, errors)
