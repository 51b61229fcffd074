"""Stability of the plateau: autograd, growth under the flow and closed form; escape times."""

from __future__ import annotations

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.multihead.activations import get_activation
from hdattn.multihead.plateau import plateau_eigenvalues, unspecialised_point
from hdattn.multihead.population import PopulationLoss
from hdattn.multihead.priors import FlippingPrior, GaussianPrior
from hdattn.multihead.stability import (
    antisymmetric_eigenvalues,
    growth_rates,
    no_specialisation,
    plateau_hessian,
)
from hdattn.steps.multihead import escape

NAMES = ("softmax", "bayes")
CASES = [(5, 0.8, 2, 2.0), (3, 0.5, 3, 1.3), (10, 1.2, 4, 1.0), (4, 0.0, 2, 1.5)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("tokens", "mu", "heads", "omega"), CASES)
def test_hessian_by_autograd_meets_the_closed_form(name, tokens, mu, heads, omega):
    prior = FlippingPrior([mu, 0.0], [0.0, omega])
    closed = plateau_eigenvalues(name, tokens, prior, heads)
    scrambles = [
        antisymmetric_eigenvalues(
            plateau_hessian(name, tokens, prior, heads, base_points=1024, seed=seed)
        )
        for seed in range(8)
    ]
    # Heads are alike: all H - 1 eigenvalues of a direction are equal to rounding.
    assert np.ptp(scrambles, axis=2).max() < 1e-14
    values = np.mean(scrambles, axis=2)
    error = values.std(axis=0, ddof=1) / np.sqrt(8)
    # 5.4 standard errors are the 99.9 % quantile of 8 scrambles; both directions, the second too.
    assert np.all(np.abs(values.mean(axis=0) - closed) < 5.4 * error)
    # The comparison has teeth: the errors are a small part of the eigenvalue (times H / 2).
    assert np.all(error * heads / 2 < 0.004)


def test_hessian_is_the_derivative_of_the_librarys_gradient():
    prior = FlippingPrior([0.8, 0.0], [0.0, 2.0])
    for name in NAMES:
        loss = PopulationLoss(get_activation(name), 5, prior, base_points=256, seed=3)
        at, step = unspecialised_point(prior, 3), 1e-5
        hessian = plateau_hessian(name, 5, prior, 3, base_points=256, seed=3)
        for h, f in ((0, 0), (1, 1)):
            shift = np.zeros_like(at)
            shift[h, f] = step
            up, down = (loss.evaluate(at + s * shift).grad_weights for s in (1, -1))
            # Central differences: step^2 = 1e-10 and rounding 1e-16 / step = 1e-11.
            np.testing.assert_allclose((up - down) / (2 * step), hessian[:, :, h, f], atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_disturbances_grow_at_the_rates_of_the_hessian(name):
    """On the same points the two differ by what drifts meanwhile, of the order of their error."""
    prior = FlippingPrior([0.8, 0.0, 0.0], [0.0, 1.5, 1.2])
    options = {"base_points": 1024, "seed": 5}
    rates = growth_rates(name, 5, prior, 4, **options)
    hessian = plateau_hessian(name, 5, prior, 4, **options)
    np.testing.assert_allclose(rates, -antisymmetric_eigenvalues(hessian)[:, 0], atol=1e-3)
    closed = plateau_eigenvalues(name, 5, prior, 4)
    # 1024 points and 4 images know the rates to about 1e-3 at H = 4.
    np.testing.assert_allclose(rates, -closed, atol=4e-3)
    assert closed[0] == 0 and rates[1] > rates[2] > 5e-3


def test_gaussian_amplitudes_have_the_same_eigenvalues():
    """Only the variance of theta_f enters; 4096 points and 2 images know H/2 lambda to 2e-3."""
    prior = GaussianPrior([0.8, 0.0], [0.0, 2.0])
    hessian = plateau_hessian("bayes", 5, prior, 2, base_points=4096)
    values = antisymmetric_eigenvalues(hessian)[:, 0]
    flipping = plateau_eigenvalues("bayes", 5, FlippingPrior([0.8, 0.0], [0.0, 2.0]), 2)
    np.testing.assert_allclose(values, flipping, atol=1e-2)


def test_softmax_heads_stay_together_with_two_tokens_and_b_softmax_heads_part():
    prior = FlippingPrior([0.8, 0.0], [0.0, 2.0])
    rates = {name: growth_rates(name, 2, prior, 2, base_points=4096)[1] for name in NAMES}
    assert abs(rates["softmax"]) < 2e-3  # 0 up to the sampling error
    assert rates["bayes"] > 0.6
    assert "never specialise" in no_specialisation("softmax", 2)
    assert no_specialisation("softmax", 3) is None and no_specialisation("bayes", 2) is None


def test_activations_without_a_plateau_are_refused():
    prior = FlippingPrior([0.8, 0.0], [0.0, 2.0])
    with pytest.raises(UserError, match="has no plateau"):
        plateau_hessian("softmax1", 5, prior, 2)
    with pytest.raises(UserError, match="at least 2"):
        growth_rates("bayes", 5, prior, 1)


# --- escape ---------------------------------------------------------------------------------


def escape_parameters(name, **changes):
    return {
        **{"activation": name, "tokens": 5, "heads": 2, "gamma": 0.0, "feature": 1},
        **{"prior": {"kind": "flip", "mean": [0.8, 0], "std": [0, 2]}, "dims": [1e4]},
        **{"threshold": 0.5, "learnt": 0.5, "base_points": 16384, "scrambles": 1},
    } | changes


@pytest.mark.parametrize(
    ("name", "time", "error"), [("softmax", 14.47, 0.02), ("bayes", 6.388, 0.002)]
)
def test_escape_times_known_from_independent_work(name, time, error):
    """14.47(2) and 6.388(1), the latter with as much again for these points."""
    result = escape.run(escape_parameters(name), {})
    assert result.converged
    assert result.datasets["escape"].values[0, 0] == pytest.approx(time, abs=error)


def test_escape_times_approach_the_closed_form_slope_and_arrival_is_flat():
    """2048 points know lambda to 1 %, and the slope is still being approached."""
    dims = [1e4, 1e8, 1e12]
    result = escape.run(escape_parameters("bayes", dims=dims, base_points=2048), {})
    times = result.datasets["escape"].values[0]
    slopes = np.diff(times) / np.log(1e4)
    assert slopes[1] == pytest.approx(0.5 / result.datasets["rate"].values, rel=0.02)
    # Arrival is set by the heads' common relaxation: independent of D once the seeds are small.
    assert np.ptp(result.datasets["arrival"].values[0][1:]) < 1e-3


def test_escape_is_refused_where_nothing_grows():
    with pytest.raises(UserError, match="never specialise"):
        escape.run(escape_parameters("softmax", tokens=2), {})
