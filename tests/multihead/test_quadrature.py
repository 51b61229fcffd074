"""Quadrature of the loss against reference values, Sobol points and limits."""

from __future__ import annotations

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.multihead import token_moments
from hdattn.multihead.bayes import bayes_point, bayes_risk
from hdattn.multihead.priors import DiscretePrior, FlippingPrior, GaussianPrior
from hdattn.multihead.quadrature import population_loss, reduced_weights, sobol_loss

PRIOR = FlippingPrior([0.8, 0.0], [0.0, 2.0])
GAUSS = GaussianPrior([0.8, 0.0], [0.5, 2.0])
POINTS = DiscretePrior([[0.8, 1.0], [0.5, -2.0], [1.0, 0.0]], [0.5, 0.3, 0.2])
M = np.array([[0.7, 1.5], [0.6, -1.2], [0.3, 0.4]])
R = M @ M.T + np.array([[0.25, 0.05, 0.0], [0.05, 0.3, -0.1], [0.0, -0.1, 0.2]])
B = np.array([-0.3, 0.2, 0.0])
NAMES = ["softmax", "softmax1", "bayes"]


# Reference values are quoted to seven digits: half a unit of the last one.
@pytest.mark.parametrize(
    ("name", "b", "c", "expected"),
    [
        ("softmax", 0.0, 1.0, 0.5316210),
        ("bayes", B, 1.0, 0.2834021),
        ("softmax1", B, 1.4, 0.4710097),
    ],
)
def test_reference_values(name, b, c, expected):
    result = population_loss(name, 3, PRIOR, M, b=b, c=c)
    assert result.value == pytest.approx(expected, abs=6e-8)
    assert result.error < 1e-6


# Twice the standard error over four scrambles is returned as the error: three times that, and at
# least 2e-4 in case the four lie close by chance.
@pytest.mark.parametrize("prior", [PRIOR, GAUSS, POINTS], ids=lambda prior: prior.kind)
@pytest.mark.parametrize("r", [None, R], ids=["flat", "noisy"])
@pytest.mark.parametrize("name", NAMES)
def test_sobol_points_give_the_same_loss(name, r, prior):
    exact = population_loss(name, 4, prior, M, r, b=B, c=1.2)
    sobol = sobol_loss(name, 4, prior, reduced_weights(M, r), B, 1.2, base_points=2**12)
    assert exact.method == "quadrature"
    assert abs(exact.value - sobol.value) < max(3 * sobol.error, 2e-4)


@pytest.mark.parametrize("name", NAMES)
def test_heads_far_too_long_for_a_grid_are_judged_on_points(name):
    m = np.array([[0.8, 300.0], [0.8, -2.0]])
    result = population_loss(name, 4, PRIOR, m, b=[0.0, 0.1], c=1.0)
    assert result.method == "sobol" and 0.0 < result.value < 2.0


@pytest.mark.parametrize("tokens", [2, 7])
def test_one_head_is_the_same_for_softmax_and_b_softmax(tokens):
    r = np.array([[M[0] @ M[0] + 0.3]])
    softmax, bayes = (population_loss(name, tokens, PRIOR, M[:1], r) for name in NAMES[::2])
    # Both are good to seven digits, through different grids.
    assert softmax.value == pytest.approx(bayes.value, abs=2e-7)


def test_heads_without_weights_attend_uniformly():
    # A_l = 1/L: the loss is (1 - 1/L)^2 + (L-1)/L^2 = 1 - 1/L.
    for name in ("softmax", "bayes"):
        result = population_loss(name, 5, PRIOR, np.zeros((2, 2)))
        assert result.value == pytest.approx(0.8, abs=1e-8)


def test_parallel_and_equal_heads_are_no_special_case():
    m = np.array([[0.8, 0.0], [0.8, 0.0], [0.4, 0.0]])
    tilted = m + 1e-3 * np.array([[0, 1.0], [0, -1.0], [0, 0.5]])
    # E is even in the tilt: the change is of order 1e-6 times the curvature, which is below one.
    for name in NAMES:
        exact, near = (population_loss(name, 5, PRIOR, x, b=B) for x in (m, tilted))
        assert exact.value == pytest.approx(near.value, abs=3e-6)


def test_heads_in_many_directions_fall_back_on_sobol_points():
    prior = FlippingPrior([0.8, 0, 0, 0, 0], [0, 1.5, 1.2, 1.0, 0.8])
    m = np.vstack([np.eye(5), -np.eye(5)])
    result = population_loss("bayes", 3, prior, m)
    assert result.method == "sobol"
    assert 0 < result.error < 5e-3
    assert 0 < result.value < 1


def test_softmax_takes_any_number_of_heads_by_pairs():
    prior = FlippingPrior([0.8, 0, 0, 0, 0], [0, 1.5, 1.2, 1.0, 0.8])
    m = np.vstack([np.eye(5)])
    exact = population_loss("softmax", 3, prior, m)
    sobol = sobol_loss("softmax", 3, prior, m, base_points=2**12)
    assert abs(exact.value - sobol.value) < max(3 * sobol.error, 2e-4)


def test_b_softmax_at_the_bayes_point_reaches_the_bayes_risk():
    m, b = bayes_point(PRIOR)
    loss = population_loss("bayes", 5, PRIOR, m, b=b)
    # Same integrand; the Bayes risk is the other of its two expressions.
    assert loss.value == pytest.approx(bayes_risk(5, PRIOR).value, abs=1e-7)
    # Far from it the loss is larger.
    assert population_loss("bayes", 5, PRIOR, 0.9 * m, b=b).value > loss.value + 1e-4


def test_impossible_order_parameters_are_refused():
    with pytest.raises(UserError, match=r"negative eigenvalue -0\.1"):
        population_loss("softmax", 3, PRIOR, M, M @ M.T - 0.1 * np.eye(3))
    with pytest.raises(UserError, match="not symmetric"):
        population_loss("softmax", 3, PRIOR, M, M @ M.T + np.triu(np.ones((3, 3)), 1))
    with pytest.raises(UserError, match="tokens is 1"):
        population_loss("softmax", 1, PRIOR, M)
    with pytest.raises(UserError, match="must be 3 x 3"):
        population_loss("softmax", 3, PRIOR, M, np.eye(2))


@pytest.mark.parametrize("prior", [PRIOR, GAUSS], ids=lambda prior: prior.kind)
@pytest.mark.parametrize("name", NAMES)
def test_error_estimate_bounds_the_error(name, prior, monkeypatch):
    quick = population_loss(name, 4, prior, M, b=B)
    for spacing in ("_STEP", "_LOG_STEP"):
        monkeypatch.setattr(token_moments, spacing, 0.5 * getattr(token_moments, spacing))
    fine = population_loss(name, 4, prior, M, b=B)
    # 1e-10: the cut of the grids, which does not change with their spacing.
    assert abs(quick.value - fine.value) < quick.error + 1e-10
    assert fine.error < 1e-9
