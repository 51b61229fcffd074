"""Priors: their moments, images, likelihood ratio, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.multihead.priors import DiscretePrior, FlippingPrior, GaussianPrior, make_prior

FLIP = FlippingPrior([0.8, 0.0, 0.3], [0.0, 1.5, 1.2])
GAUSS = GaussianPrior([0.8, 0.0, 0.3], [0.0, 1.5, 1.2])
POINTS = DiscretePrior([[0.8, 1.0, 0.0], [0.8, -1.0, 0.5], [0.2, 0.0, -2.0]], [0.5, 0.3, 0.2])
ALL = [FLIP, GAUSS, POINTS]


def test_support_enumerates_all_joint_flips():
    expected = {(0.8, s * 1.5, 0.3 + t * 1.2) for s in (1, -1) for t in (1, -1)}
    assert {tuple(theta) for theta in FLIP.support()} == expected
    np.testing.assert_array_equal(FLIP.weights(), np.full(4, 0.25))


@pytest.mark.parametrize("prior", ALL)
def test_samples_have_the_moments_of_the_mixture(prior):
    images = prior.images()
    mean = images.weights @ images.centers
    second = (images.centers.T * images.weights) @ images.centers + np.diag(images.spread**2)
    count = 40_000
    theta = prior.sample(np.random.default_rng(0), count)
    products = np.einsum("nf,ng->nfg", theta, theta)
    # Four standard errors; 1e-12 where the prior does not fluctuate.
    for drawn, exact in ((theta, mean), (products, second)):
        bound = 4 * drawn.std(axis=0) / np.sqrt(count) + 1e-12
        assert np.all(np.abs(drawn.mean(axis=0) - exact) < bound)


def test_gaussian_and_flipping_priors_share_mean_and_covariance():
    for prior in (FLIP, GAUSS):
        theta = prior.sample(np.random.default_rng(0), 40_000)
        # Standard error std / 200; four of them.
        np.testing.assert_allclose(theta.mean(axis=0), [0.8, 0.0, 0.3], atol=4 * 1.5 / 200)
        np.testing.assert_allclose(theta.std(axis=0), [0.0, 1.5, 1.2], atol=4 * 1.5 / 200)


@pytest.mark.parametrize("prior", ALL)
def test_likelihood_ratio_is_the_mean_over_theta(prior):
    x = np.array([[0.5, -0.3], [0.2, 1.0], [-0.4, 0.6]])
    count = 100_000
    theta = prior.sample(np.random.default_rng(1), count)
    terms = np.exp(theta @ x - 0.5 * np.sum(theta**2, axis=1)[:, None])
    bound = 4 * terms.std(axis=0) / np.sqrt(count)  # four standard errors
    assert np.all(np.abs(terms.mean(axis=0) - np.exp(prior.log_likelihood_ratio(x))) < bound)


@pytest.mark.parametrize("prior", ALL)
def test_description_makes_the_same_prior(prior):
    again = make_prior(prior.to_dict())
    assert repr(again) == repr(prior)
    for name in ("weights", "centers", "signs", "spread"):
        np.testing.assert_array_equal(getattr(again.images(), name), getattr(prior.images(), name))


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"kind": "cauchy"}, "kind 'cauchy' is unknown; choose one of discrete, flip"),
        ({"mean": [1]}, "kind None is unknown"),
        ({"kind": "flip", "mean": [1]}, "lacks std"),
        ({"kind": "flip", "mean": [1], "std": [1], "sd": 2}, "has no sd"),
        ({"kind": "flip", "mean": [1, 2], "std": [1]}, "mean has 2 entries and std has 1"),
        ({"kind": "flip", "mean": [1], "std": [-1]}, "negative entry"),
        ({"kind": "flip", "mean": [], "std": []}, "non-empty list"),
        ({"kind": "flip", "mean": ["a"], "std": [1]}, "must be a list of numbers"),
        ({"kind": "flip", "mean": [float("nan")], "std": [1]}, "finite numbers"),
        ({"kind": "gauss", "mean": [1, 2], "std": [1]}, "mean has 2 entries and std has 1"),
        ({"kind": "discrete", "support": [[1], [2]], "weights": [0.5, 0.4]}, "sum to 0.9"),
        ({"kind": "discrete", "support": [[1], [2]], "weights": [1.0, 0.0]}, "must be positive"),
        ({"kind": "discrete", "support": [[1], [2, 3]], "weights": [0.5, 0.5]}, "equal length"),
        (
            {"kind": "discrete", "support": [[1, 0], [2, 0], [1, 0]], "weights": [0.5, 0.3, 0.2]},
            r"support has the point \[1.0, 0.0\] twice; give it once",
        ),
        ({"kind": "discrete", "support": [], "weights": []}, "non-empty list"),
        ({"kind": "gauss", "mean": [1], "std": [-1]}, "negative entry; use 0"),
        ({"kind": "discrete", "support": 3, "weights": [1.0]}, "must be 1 rows"),
    ],
)
def test_impossible_descriptions_are_refused(description, message):
    with pytest.raises(UserError, match=message):
        make_prior(description)
