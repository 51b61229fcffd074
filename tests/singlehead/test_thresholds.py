"""Thresholds and the lambda -> 0 limit, against the solver at small lambda and closed forms."""

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.state_evolution import solve
from hdattn.singlehead.targets import MarchenkoPastur, Spectrum
from hdattn.singlehead.thresholds import (
    alpha_interpolation,
    alpha_recovery,
    recovery_threshold,
    solve_ridgeless,
)


def error(solution):
    """||S - S0||^2/d."""
    return solution.Q0 - 2 * solution.M + solution.Q


def test_reference_thresholds():
    # five digits of an independent computation
    assert 2 * alpha_recovery(0.5) == pytest.approx(0.42217, abs=1e-5)
    assert alpha_interpolation(0.5, 1.0) == pytest.approx(0.14555, abs=1e-5)


def test_thresholds_scale_with_the_number_of_logits():
    # K = T(T+1)/2 - 1 linear constraints a sample: K alpha is what counts (K = 2, 5, 9)
    for tokens, K in ((3, 5), (4, 9)):
        assert K * alpha_recovery(0.3, tokens) == pytest.approx(2 * alpha_recovery(0.3, 2))
        assert K * alpha_interpolation(0.3, 0.7, tokens) == pytest.approx(
            2 * alpha_interpolation(0.3, 0.7, 2)
        )


def test_limits_of_the_thresholds():
    # full rank: all d^2/2 parameters needed; low rank: O(kappa0) samples; without noise the
    # target itself interpolates; much noise: half the cone, 1/(4K) plus O(1/sqrt(noise))
    assert alpha_recovery(1.0) == pytest.approx(0.25)
    assert alpha_recovery(3.0) == pytest.approx(0.25)
    # K alpha = kappa0 (1 + t^2) + ..., t^2 between 0 and 2 for kappa0 -> 0, and K = 2
    assert 0.5 * 0.01 < alpha_recovery(0.01) < 1.5 * 0.01
    assert alpha_interpolation(0.5, 0.0) == np.inf
    assert alpha_interpolation(0.5, 1e6) == pytest.approx(0.125, rel=2e-3)


def test_reference_limit_and_the_slow_approach_to_it():
    # kappa0 = .5, alpha = .1, noise = 1; four digits. lambda = 1e-2, 1e-4 as given, three digits
    limit = solve(Problem(0.1, 0.0, noise=1.0))
    assert error(limit) == pytest.approx(1.2734, abs=1e-4)
    values = [error(solve(Problem(0.1, lam, noise=1.0), nodes=12)) for lam in (1e-2, 1e-4)]
    np.testing.assert_allclose(values, [0.926, 1.149], atol=2e-3)
    assert np.inf == limit.V
    assert limit.objective == 0


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_limit_agrees_with_the_solver_at_a_tiny_penalty(beta):
    # noise = 0, alpha = .1 below recovery: lambda = 1e-6 leaves 2 % of e (lambda^0.4 .. lambda^0.5)
    limit = solve(Problem(0.1, 0.0, noise=0.0, beta=beta))
    small = solve(Problem(0.1, 1e-6, noise=0.0, beta=beta), nodes=12)
    assert pytest.approx(small.Q, rel=0.02) == limit.Q
    assert pytest.approx(small.M, rel=0.02) == limit.M
    assert limit.test_error == pytest.approx(small.test_error, rel=0.05)
    assert limit.rank_fraction == pytest.approx(small.rank_fraction, rel=0.02)
    # V diverges but the stability does not
    assert limit.replicon == pytest.approx(small.replicon, rel=0.03)


def test_recovery_threshold_is_where_the_error_of_the_limit_vanishes():
    # e vanishes quadratically towards the threshold: tiny 1 % below, zero above
    threshold = alpha_recovery(0.5)
    below = solve(Problem(0.97 * threshold, 0.0, noise=0.0))
    above = solve(Problem(1.01 * threshold, 0.0, noise=0.0))
    assert 1e-6 < error(below) < 0.01
    assert error(above) == pytest.approx(0, abs=1e-12)
    assert above.test_error == pytest.approx(0, abs=1e-12)
    assert above.atom_at_zero == pytest.approx(0.5)
    assert any("recovery" in flag for flag in above.flags)


def test_limit_ends_at_the_interpolation_threshold():
    # the threshold t of the denoiser reaches zero there, so the rank of S tends to P(R > 0)
    edge = alpha_interpolation(0.5, 1.0)
    ratio = []
    for fraction in (0.9, 0.99, 0.999):
        _, b, strength = solve(Problem(fraction * edge, 0.0, noise=1.0)).input_channel
        ratio.append(strength / b)
    assert ratio[0] > ratio[1] > ratio[2]
    assert ratio[2] < 0.02
    with pytest.raises(UserError, match=r"0\.1455"):
        solve(Problem(1.01 * edge, 0.0, noise=1.0))


@pytest.mark.parametrize("alpha", [0.05, 0.15, 0.24])
def test_unfactorised_limit_in_closed_form(alpha):
    # e = Q0 (1 - c) + (noise/2) c/(1 - c), c = 2 alpha K
    c, noise = 4 * alpha, 0.3
    solution = solve(Problem(alpha, 0.0, noise=noise, penalty="frobenius"))
    assert error(solution) == pytest.approx(1.5 * (1 - c) + noise / 2 * c / (1 - c), rel=1e-8)
    small = solve(Problem(alpha, 1e-7, noise=0.0, penalty="frobenius"), nodes=12)
    # corrections in lambda grow towards the threshold alpha = 1/4: 2.4 % at .24
    assert error(small) == pytest.approx(1.5 * (1 - c), rel=0.03)


def test_thresholds_of_a_list_of_eigenvalues():
    # recovery depends on the rank alone
    low_rank = Spectrum(np.concatenate([np.zeros(70), np.linspace(1, 2, 30)]))
    threshold = recovery_threshold(Problem(1.0, 0.0, target=low_rank))
    assert threshold == pytest.approx(alpha_recovery(0.3), rel=1e-9)
    assert recovery_threshold(Problem(1.0, 0.0, penalty="frobenius")) == 0.25


def test_impossible_values_are_refused():
    for bad in ((0.0, 1.0), (0.5, -1.0)):
        with pytest.raises(UserError):
            alpha_interpolation(*bad)
    with pytest.raises(UserError):
        alpha_interpolation(0.5, 1.0, 1)
    with pytest.raises(UserError):
        solve_ridgeless(Problem(0.2, 0.0, target=MarchenkoPastur(0.5), noise=1.0))
