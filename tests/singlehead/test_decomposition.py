"""Parts of the excess error: against matrices that are diagonalised, and limits."""

from dataclasses import replace

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.singlehead.decomposition import (
    decompose,
    decompose_matrix,
    learnt_modes,
    ray_errors,
)
from hdattn.singlehead.population import attention_error
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.solution import Solution
from hdattn.singlehead.state_evolution import solve
from hdattn.singlehead.targets import power_law

DIM = 400


def with_input_channel(a, b, strength, gamma=1.0):
    """A solution that holds no more than an input channel, and Q and M by quadrature."""
    from hdattn.singlehead.denoisers import PENALTIES

    problem = Problem(1.0, 0.1, target=power_law(gamma, DIM))
    estimate = PENALTIES["nuclear"].estimate(problem.target, a, b, strength)
    zero = ("V", "q_hat", "m_hat", "v_hat", "test_error", "test_error_floor", "train_loss")
    zero += ("penalty_value", "rank_fraction", "jump_probability", "replicon")
    values = dict.fromkeys((*zero, "residual", "seconds"), 0.0)
    rest = {"Q": estimate.Q, "M": estimate.M, "Q0": problem.target.Q0}
    return Solution(
        problem, **values, **rest, converged=True, iterations=1, input_channel=(a, b, strength)
    )


@pytest.mark.parametrize("strength", [0.3, 1.6])
def test_parts_are_those_of_matrices_that_are_diagonalised(strength):
    a, b = 0.8, 0.7
    solution = with_input_channel(a, b, strength)
    theory = decompose(solution)
    rng = np.random.default_rng(0)
    S0 = np.diag(solution.problem.target.eigenvalues)
    parts = []
    for _ in range(4):
        G = rng.standard_normal((DIM, DIM))
        values, vectors = np.linalg.eigh(a * S0 + b * (G + G.T) / np.sqrt(2 * DIM))
        S = (vectors * np.maximum(values - strength, 0)) @ vectors.T
        found = decompose_matrix(S, S0, theory.recovered, theory.scale)
        parts.append([found.over, found.under, found.approximation, found.total])
    expected = [theory.over, theory.under, theory.approximation, theory.total]
    # the top mode, of size sqrt(d)/1.28, fluctuates by b sqrt(2/d): 1 % of the sum over 4 draws;
    # modes near the threshold are smeared by d^(-2/3)
    np.testing.assert_allclose(np.mean(parts, 0), expected, atol=0.02 * theory.total)
    # the sum is that of the matrices themselves
    assert parts[-1][3] == pytest.approx(np.sum((S - theory.scale * S0) ** 2) / DIM, rel=1e-10)


def test_the_sum_is_exact_and_the_modes_are_those_of_bbp():
    solution = solve(Problem(2.0, 0.5, target=power_law(1.25, 200)), nodes=12)
    parts = decompose(solution)
    direct = solution.Q - 2 * parts.scale * solution.M + parts.scale**2 * solution.Q0
    # the same quadrature nodes; what is left is the residual of the fixed point, below 1e-8
    assert parts.total == pytest.approx(direct, rel=1e-6)
    a, b, t = solution.input_channel
    values = solution.problem.target.eigenvalues
    outliers = a * values + b**2 / (a * values)
    assert np.array_equal(learnt_modes(solution), (a * values > b) & (outliers > t))
    assert 0 < parts.recovered < 200
    # zero against noisy labels, up to the tolerance 1e-7 of the scale, squared
    assert parts.mismatch == pytest.approx(0, abs=1e-10)
    assert parts.excess == pytest.approx(solution.test_error - solution.test_error_floor, abs=1e-10)


def test_with_much_data_the_quadratic_part_is_the_excess():
    problem = Problem(3e3, 0.3, target=power_law(1.25, 60))
    parts = decompose(solve(problem, nodes=18))
    # the rest is of second order in an overlap error of 1e-3 or so
    assert parts.rescale == pytest.approx(1, abs=0.02)
    assert parts.recovered == 60 and parts.under == 0


def test_the_slope_is_that_of_the_error_along_a_finer_difference():
    problem = Problem(1.0, 0.1, target=power_law(1.0, 50))
    ray = ray_errors(problem)
    variance, Q, M = problem.label_variance, ray.scale**2, ray.scale

    def error(q):
        return attention_error(q, M, variance, 1, 1)

    # central differences of another step; both are right to 1e-6
    assert ray.slope == pytest.approx((error(Q + 1e-3) - error(Q - 1e-3)) / 2e-3, rel=1e-4)


def test_clean_labels_want_another_scale():
    solution = solve(Problem(5.0, 0.5, target=power_law(1.0, 100), noise=1.0), nodes=12)
    parts = decompose(solution, labels="clean")
    noisy, clean = ray_errors(solution.problem), ray_errors(solution.problem, "clean")
    assert noisy.scale == clean.scale < 1
    # without noise in the labels c = 1 is perfect: the least is zero and all error is mismatch
    assert clean.least == pytest.approx(0, abs=1e-9)
    direct = attention_error(clean.scale**2, clean.scale, 1.0, 1, 1)
    assert parts.mismatch == pytest.approx(direct, rel=1e-6) and parts.mismatch > 1e-3


def test_nothing_is_learnt_where_S_vanishes():
    solution = solve(Problem(0.02, 20.0, target=power_law(1.0, 50)), nodes=10)
    parts = decompose(solution)
    assert solution.Q == 0 and parts.recovered == 0
    assert (parts.over, parts.approximation) == (0, 0)
    assert parts.under == pytest.approx(parts.scale**2, rel=1e-12)


def test_bad_input():
    solution = solve(Problem(5.0, 0.5), nodes=8)
    with pytest.raises(UserError, match="target must be a list of eigenvalues"):
        decompose(solution)
    finite = replace(solution, problem=Problem(5.0, 0.5, target=power_law(1.0, 20)))
    with pytest.raises(UserError, match="labels = 'dirty': choose one of noisy, clean"):
        decompose(finite, labels="dirty")
