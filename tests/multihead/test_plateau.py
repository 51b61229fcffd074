"""Closed forms of the plateau against simulation, limits and the curvature of the loss."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from hdattn.errors import UserError
from hdattn.multihead.escape import arrival_time, crossing_time, growth_rate, head_spread
from hdattn.multihead.plateau import plateau, plateau_eigenvalues, unspecialised_point
from hdattn.multihead.priors import FlippingPrior
from hdattn.multihead.quadrature import population_loss


def test_reference_values():
    closed = plateau(5, 0.8)
    # Quoted to seven and six digits.
    assert closed.loss.value == pytest.approx(0.6957229, abs=6e-8)
    assert closed.beta_softmax.value == pytest.approx(0.061958, abs=6e-7)
    assert closed.beta_bayes.value == pytest.approx(0.160768, abs=6e-7)


def test_betas_agree_with_simulation():
    samples, mu = 200_000, 1.1
    x = np.random.default_rng(4).standard_normal((6, samples))
    x[0] += mu
    s = softmax(mu * x, axis=0)
    p, q = s[0], np.sum(s**2, axis=0)
    closed = plateau(6, mu)
    pairs = [
        (1 - p, closed.loss),
        (1 - 2 * p + q, closed.loss),
        (p * (1 - 2 * p) * (1 - 2 * p + q), closed.beta_softmax),
        (p * (1 - 2 * p + q), closed.beta_bayes),
    ]
    for simulated, value in pairs:
        # Four standard errors.
        bound = 4 * simulated.std() / np.sqrt(samples)
        assert abs(simulated.mean() - value.value) < bound


@pytest.mark.parametrize("tokens", [2, 3, 5, 12])
def test_closed_forms_without_a_mean(tokens):
    closed = plateau(tokens, 0.0)
    # The integral over log s is cut at exp(-24) = 4e-11.
    assert closed.loss.value == pytest.approx(1 - 1 / tokens, abs=1e-9)
    softmax_value = (tokens - 1) * (tokens - 2) / tokens**3
    assert closed.beta_softmax.value == pytest.approx(softmax_value, abs=1e-9)
    assert closed.beta_bayes.value == pytest.approx((tokens - 1) / tokens**2, abs=1e-9)


@pytest.mark.parametrize("mu", [0.3, 0.8, 2.0])
def test_softmax_never_specialises_with_two_tokens(mu):
    assert abs(plateau(2, mu).beta_softmax.value) < 1e-10  # exactly zero, to rounding
    assert plateau(2, mu).beta_bayes.value > 0.03


@pytest.mark.parametrize("name", ["softmax", "bayes"])
@pytest.mark.parametrize(("tokens", "mu", "heads", "omega"), [(5, 0.8, 2, 2.0), (4, 0.5, 3, 1.3)])
def test_eigenvalue_is_the_curvature_of_the_loss(name, tokens, mu, heads, omega):
    prior = FlippingPrior([mu, 0.0], [0.0, omega])
    at = unspecialised_point(prior, heads)
    mode = np.zeros_like(at)
    mode[:2, 1] = np.array([1.0, -1.0]) / np.sqrt(2.0)
    centre = population_loss(name, tokens, prior, at).value

    def curvature(step):
        # E is even in the mode, so that one side is enough.
        return 2 * (population_loss(name, tokens, prior, at + step * mode).value - centre) / step**2

    estimate = (4 * curvature(0.05) - curvature(0.1)) / 3
    expected = plateau_eigenvalues(name, tokens, prior, heads)
    assert expected[0] == 0
    # Values good to 1e-8, times 8 / 3 over step^2 = 0.0025; truncation of order step^4 = 6e-6.
    assert estimate == pytest.approx(expected[1], abs=5e-5)
    assert expected[1] < -0.02


@pytest.mark.parametrize("name", ["softmax", "bayes"])
def test_plateau_is_a_fixed_point_at_the_one_spike_bayes_risk(name):
    prior = FlippingPrior([0.8, 0.0], [0.0, 2.0])
    at = unspecialised_point(prior, 3)
    centre = population_loss(name, 5, prior, at).value
    assert centre == pytest.approx(plateau(5, 0.8).loss.value, abs=1e-7)  # seven digits
    step = 1e-2 * np.eye(1, 6, 0).reshape(3, 2)
    slope = population_loss(name, 5, prior, at + step).value
    slope -= population_loss(name, 5, prior, at - step).value
    # Values good to 1e-8 over 2e-2, and a truncation of order 1e-4 times the third derivative.
    assert abs(slope / 2e-2) < 2e-5


def test_priors_and_heads_without_a_closed_form_are_refused():
    with pytest.raises(UserError, match="closed form"):
        unspecialised_point(FlippingPrior([0.8, 0.5], [0.0, 1.0]), 2)
    with pytest.raises(UserError, match="at least 2"):
        plateau_eigenvalues("softmax", 5, FlippingPrior([0.8, 0.0], [0.0, 1.0]), 1)
    with pytest.raises(UserError, match="has no plateau"):
        plateau_eigenvalues("softmax1", 5, FlippingPrior([0.8, 0.0], [0.0, 1.0]), 2)
    with pytest.raises(UserError, match="at least 2"):
        plateau(1, 0.8)


def test_times_are_read_off_a_known_trajectory():
    tau = np.linspace(0.0, 10.0, 101)
    spread = 1e-3 * np.exp(0.9 * tau)
    m = np.zeros((101, 3, 2))
    m[:, 0, 1], m[:, 2, 1] = spread, -spread
    m[:, :, 0] = 0.8 * (1 - np.exp(-tau))[:, None]
    np.testing.assert_allclose(head_spread(m, 1), spread, rtol=1e-15)
    # Chord of an exponential over a step of 0.1: at most (0.09)^2 / 8 of 1/0.9.
    assert crossing_time(tau, spread, 0.5) == pytest.approx(np.log(500) / 0.9, abs=2e-3)
    assert arrival_time(tau, m, 0.8) == pytest.approx(np.log(2), abs=2e-3)
    assert growth_rate(tau, spread, 1e-2, 0.5) == pytest.approx(0.9, rel=1e-12)
    assert np.isnan(crossing_time(tau, spread, 100.0))
    assert np.isnan(growth_rate(tau, spread, 1e-2, 1.01e-2))
    assert crossing_time(tau, spread, 1e-4) == 0.0
