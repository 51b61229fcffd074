"""Bayes-optimal overlap and error: published checks, closed forms, simulation, bounds."""

from dataclasses import replace

import numpy as np
import pytest

from hdattn.singlehead.amp import MessagePassing, observe
from hdattn.singlehead.amp_measure import test_error as measured_error
from hdattn.singlehead.bayes_optimal import (
    bayes_trajectory,
    mean_square_error,
    solve_bayes,
    solve_bayes_curve,
)
from hdattn.singlehead.posterior import posterior_error, sampled_posterior_error
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.regularisation import best_lambda
from hdattn.singlehead.samples import SampleStream, draw_teacher
from hdattn.singlehead.state_evolution import solve
from hdattn.singlehead.targets import MarchenkoPastur, Spectrum, power_law

BASE = Problem(alpha=1.0, lam=0.01)  # kappa0 = noise = .5, T = 2


@pytest.mark.parametrize("alpha, q, error", [(0.5, 1.38861, 0.104964), (4, 1.48793, 0.077466)])
def test_check_values(alpha, q, error):
    # known to these digits, from another programme
    solution = solve_bayes(replace(BASE, alpha=alpha))
    assert solution.converged and solution.flags == []
    assert solution.q == pytest.approx(q, abs=6e-6)
    assert solution.bayes_test_error == pytest.approx(error, abs=6e-7)


def test_one_level_is_known_and_two_are_a_scalar_problem_of_large_noise():
    # a target proportional to the identity needs no data
    known = solve_bayes(replace(BASE, target=Spectrum(np.full(7, 2.0))))
    assert known.overlap_error == pytest.approx(0, abs=1e-8)
    # at large sigma the best linear estimate is optimal: 1/e = 1/(Q0 - T0^2) + 1/sigma^2, and
    # nonlinear corrections are of relative order 1/sigma^2
    target = Spectrum(np.repeat([0.0, 2.0], 20))
    for sigma in (30.0, 100.0):
        linear = 1 / (1 / (target.Q0 - target.T0**2) + 1 / sigma**2)
        assert mean_square_error(target, sigma) == pytest.approx(linear, rel=2 / sigma**2)


def test_a_matrix_drawn_and_denoised_has_the_error_of_the_theory():
    # S0 of 1000 dimensions plus noise: self-averaging to about 1/d in each average
    rng = np.random.default_rng(0)
    d, kappa0, sigma = 1000, 0.5, 0.6
    W0 = rng.standard_normal((d, d // 2))
    S0 = W0 @ W0.T / np.sqrt(d * d // 2)
    Z = rng.standard_normal((d, d)) / np.sqrt(2 * d)
    x, vectors = np.linalg.eigh(S0 + sigma * (Z + Z.T))
    target = MarchenkoPastur(kappa0)
    xi = x - 2 * sigma**2 * target.convolve(sigma).hilbert(x)
    error = np.sum(((vectors * xi) @ vectors.T - S0) ** 2) / d
    assert error == pytest.approx(mean_square_error(target, sigma), rel=5e-3)


def test_a_long_list_of_eigenvalues_tends_to_the_limit():
    # quantiles of the law by a large random matrix: differences are of order 1/d
    limit = solve_bayes(replace(BASE, alpha=0.5))
    rng = np.random.default_rng(1)
    d = 300
    W0 = rng.standard_normal((d, d // 2))
    own = Spectrum(np.linalg.eigvalsh(W0 @ W0.T / np.sqrt(d * d // 2)))
    finite = solve_bayes(replace(BASE, alpha=0.5, target=own))
    assert finite.Q0 - finite.q == pytest.approx(limit.Q0 - limit.q, rel=0.02)


def test_noiseless_labels_are_recovered_when_there_are_more_than_unknowns():
    # unknowns of a rank-r matrix: d^2 (r - r^2/2); each sample gives K = 2 numbers. Below, some of
    # the matrix stays unknown; well above, message passing finds it
    unknowns = 0.5 - 0.5**2 / 2
    few, many = (
        solve_bayes(replace(BASE, noise=0.0, alpha=factor * unknowns / 2)) for factor in (0.7, 1.5)
    )
    assert few.overlap_error > 0.05 and few.flags == []
    assert many.overlap_error == 0 and many.bayes_test_error == pytest.approx(0, abs=1e-12)


def test_number_of_tokens_only_rescales_alpha():
    # K = 2, 5, 9 numbers a sample at T = 2, 3, 4
    q = [solve_bayes(replace(BASE, alpha=1 / K, tokens=T)).q for T, K in ((2, 2), (3, 5), (4, 9))]
    np.testing.assert_allclose(q, q[0], rtol=1e-8)


def test_quadrature_and_sampling_of_the_error_agree():
    # 2^15 quasi-random points: 2e-4 seen at T = 2
    for q, s in ((1.3, 0.4), (0.5, 1.2)):
        exact, sampled = posterior_error(q, s, 1.0), sampled_posterior_error(q, s, 1.0, 2)
        assert sampled == pytest.approx(exact, rel=1e-3)
    assert posterior_error(1.2, 0.0, 1.0) == pytest.approx(0, abs=1e-12)


def test_error_decreases_with_alpha_and_increases_with_noise():
    curve = solve_bayes_curve(BASE, [0.1, 0.3, 1, 3])
    assert np.all(np.diff([s.bayes_test_error for s in curve]) < 0)
    noisy = [solve_bayes(replace(BASE, noise=noise)) for noise in (0.1, 0.5, 2.0)]
    assert np.all(np.diff([s.bayes_test_error for s in noisy]) > 0)
    assert np.all(np.diff([s.q for s in noisy]) < 0)


@pytest.mark.parametrize("target", [MarchenkoPastur(0.5), MarchenkoPastur(1.5), power_law(1.2, 30)])
def test_no_trained_head_is_better(target):
    for alpha in (0.3, 2.0):
        base = replace(BASE, alpha=alpha, target=target)
        bound = solve_bayes(base)
        for lam in (0.003, 0.03, 0.3):
            trained = solve(replace(base, lam=lam), nodes=12)
            assert trained.residual < 1e-3  # the gaps are of several per cent
            assert trained.test_error > bound.bayes_test_error
            assert bound.overlap_error < trained.Q0 - 2 * trained.M + trained.Q


def test_best_weight_decay_is_the_minimum_of_the_curve():
    best = best_lambda(replace(BASE, alpha=1.0), nodes=12)
    grid = [
        solve(replace(BASE, alpha=1.0, lam=lam), nodes=12) for lam in np.geomspace(0.03, 0.12, 5)
    ]
    assert best.test_error <= min(s.test_error for s in grid) + 1e-7
    assert 0.05 < best.problem.lam < 0.075
    assert best.test_error > solve_bayes(replace(BASE, alpha=1.0)).bayes_test_error


def test_iterations_of_the_theory_end_at_its_fixed_point():
    q = bayes_trajectory(replace(BASE, alpha=0.5), 30)
    assert q[0] == pytest.approx(0.5)  # the prior mean: T0^2 = kappa0
    assert np.all(np.diff(q) > -1e-12)  # to rounding
    assert q[-1] == pytest.approx(solve_bayes(replace(BASE, alpha=0.5)).q, abs=1e-8)


def test_message_passing_reaches_the_optimum_on_an_instance():
    d, alpha = 80, 0.5
    data = {"dim": d, "target": {"kind": "mp", "kappa0": 0.5}, "noise": 0.5, "tokens": 2}
    data["beta0"] = 1.0
    teacher = draw_teacher(data, 0, 0)
    batch = SampleStream(data, 0, 0, teacher).rows(0, round(alpha * d**2))
    problem = replace(BASE, alpha=alpha)
    passing = MessagePassing(observe([batch], problem, "bayes"), problem, "bayes", damping=0.5)
    run = passing.run(tol=1e-4, S0=teacher.S0)
    theory = solve_bayes(replace(problem, target=Spectrum(teacher.eigenvalues)))
    assert run.converged
    # single instances at d = 80 scatter by about 1 % in Q, M; 5 % in the small error
    assert run.history["Q"][-1] == pytest.approx(theory.q, rel=0.03)
    assert run.history["M"][-1] == pytest.approx(theory.q, rel=0.03)
    assert run.history["V"][-1] == pytest.approx(theory.overlap_error, rel=0.1)
    error = measured_error(run, problem, SampleStream(data, 0, 0, teacher, "test"), 8192)
    # 8192 samples know the error to 1 %; non-Gaussian scores raise it by about 3/d
    assert error == pytest.approx(theory.bayes_test_error, rel=0.08)
