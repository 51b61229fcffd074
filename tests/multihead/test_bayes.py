"""Posterior and Bayes risk against enumeration, simulation and B-softmax."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from hdattn.errors import UserError
from hdattn.multihead.activations import get_activation
from hdattn.multihead.bayes import bayes_point, bayes_risk
from hdattn.multihead.plateau import plateau
from hdattn.multihead.priors import DiscretePrior, FlippingPrior, GaussianPrior

PRIOR = FlippingPrior([0.8, 0.0, 0.0], [0.0, 1.5, 1.2])


def _tokens(prior, tokens, samples, rng):
    """Projections of tokens on the spikes [F, L, n], signal in token 0."""
    x = rng.standard_normal((prior.dim_features, tokens, samples))
    x[:, 0] += prior.sample(rng, samples).T
    return x


def test_reference_value():
    result = bayes_risk(5, PRIOR)
    assert result.value == pytest.approx(0.463182, abs=5e-7)  # quoted to six digits
    assert result.error < 2e-6


@pytest.mark.parametrize(
    ("tokens", "prior"),
    [
        (2, FlippingPrior([0.5], [1.0])),
        (4, PRIOR),
        (4, GaussianPrior([0.8, 0.0], [0.0, 2.0])),
        (4, GaussianPrior([0.0, 0.5], [3.0, 1.0])),
        (4, DiscretePrior([[0.8, 1.0], [0.5, -2.0], [1.0, 0.0]], [0.5, 0.3, 0.2])),
        (3, FlippingPrior([0.8, 0, 0, 0, 0], [0, 1.5, 1.2, 1.0, 0.8])),  # Sobol points
    ],
)
def test_risk_agrees_with_simulated_posteriors(tokens, prior):
    samples = 100_000
    x = _tokens(prior, tokens, samples, np.random.default_rng(2))
    missed = 1.0 - softmax(prior.log_likelihood_ratio(x), axis=0)[0]
    result = bayes_risk(tokens, prior)
    # Four standard errors of the simulation and the error of the value.
    assert result.error < (1e-5 if result.method == "quadrature" else 2e-3)
    bound = 4 * missed.std() / np.sqrt(samples) + result.error
    assert abs(missed.mean() - result.value) < bound


def test_a_constant_spike_has_the_risk_of_the_plateau():
    # The same integral, on grids of other spacings: seven digits.
    risk = bayes_risk(5, FlippingPrior([0.8], [0.0]))
    assert risk.value == pytest.approx(plateau(5, 0.8).loss.value, abs=2e-7)


def test_b_softmax_at_the_bayes_point_is_the_posterior_sample_by_sample():
    x = _tokens(PRIOR, 5, 200, np.random.default_rng(3))
    m, b = bayes_point(PRIOR)
    attention = get_activation("bayes").attention(np.einsum("hf,fln->hln", m, x), b)
    theta = PRIOR.support()
    weights = np.exp(np.einsum("sf,fln->sln", theta, x) - 0.5 * np.sum(theta**2, 1)[:, None, None])
    posterior = weights.sum(0) / weights.sum((0, 1))
    np.testing.assert_allclose(attention, posterior, atol=1e-14)  # rounding


def test_one_token_is_refused():
    with pytest.raises(UserError, match="at least 2"):
        bayes_risk(1, PRIOR)


def _by_hand(prior, x):
    """Posterior of the location [L, n] from the formulas, x [F, L, n]."""
    if isinstance(prior, GaussianPrior):
        mean, variance = (v[:, None, None] for v in (prior.mean, prior.std**2))
        logit = np.sum((variance * x**2 + 2 * mean * x) / (2 * (1 + variance)), axis=0)
        return softmax(logit, axis=0)
    likelihood = sum(
        weight * np.exp(np.tensordot(theta, x, 1) - theta @ theta / 2)
        for theta, weight in zip(prior.support(), prior.weights(), strict=True)
    )
    return likelihood / likelihood.sum(axis=0)


@pytest.mark.parametrize(
    "prior",
    [
        PRIOR,
        GaussianPrior([0.8, 0.0, 0.0], [0.0, 1.5, 1.2]),
        GaussianPrior([0.0, 0.0], [1.35, 1.35]),
        DiscretePrior([[2.0, 0.0], [0.0, 1.5], [-1.0, -1.5]], [0.5, 0.3, 0.2]),
    ],
    ids=["flip", "gauss", "isotropic", "discrete"],
)
def test_risk_is_the_loss_of_the_posterior_by_hand(prior):
    samples = 60_000
    posterior = _by_hand(prior, _tokens(prior, 5, samples, np.random.default_rng(4)))
    hit = np.zeros_like(posterior)
    hit[0] = 1.0
    loss = np.sum((hit - posterior) ** 2, axis=0)
    result = bayes_risk(5, prior)
    # four standard errors of the simulation
    assert abs(loss.mean() - result.value) < 4 * loss.std() / np.sqrt(samples) + result.error
