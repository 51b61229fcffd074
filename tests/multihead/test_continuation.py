"""Curves of optima: order of the activations, growing numbers of heads, parts of the loss."""

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.multihead.activations import get_activation
from hdattn.multihead.bayes import bayes_point, bayes_risk
from hdattn.multihead.continuation import optimum_curve
from hdattn.multihead.loss_parts import decompose_loss
from hdattn.multihead.optima import find_optimum
from hdattn.multihead.optimum_search import make_search, moments
from hdattn.multihead.plateau import plateau
from hdattn.multihead.priors import DiscretePrior, FlippingPrior, GaussianPrior
from hdattn.multihead.quadrature import population_loss

P1 = FlippingPrior([0.8, 0.0], [0.0, 2.0])
NAMES = ("softmax", "softmax1", "bayes")


@pytest.fixture(scope="module")
def strengths():
    """Optima of two heads on one flipping direction at three strengths."""
    problems = [(FlippingPrior([0.8, 0.0], [0.0, s]), 2) for s in (1.0, 1.5, 2.0)]
    curves = {n: optimum_curve(n, 5, problems, starts=1, base_points=1024) for n in NAMES}
    return problems, curves


def test_activations_come_in_order_at_every_strength(strengths):
    problems, curves = strengths
    for i, (prior, _) in enumerate(problems):
        softmax, softmax1, bayes = (curves[name][i].loss for name in NAMES)
        # stated losses are those of real heads, so none is below the Bayes risk; an optimum of
        # 2048 points is above the true one by less than 1e-3
        assert softmax > softmax1 + 1e-3 and softmax1 > bayes + 1e-3
        risk = bayes_risk(5, prior)
        assert risk.value - risk.error <= bayes <= risk.value + 1e-3


def test_a_curve_is_as_good_as_searches_of_their_own(strengths):
    problems, curves = strengths
    for name in NAMES:
        alone = find_optimum(name, 5, problems[1][0], 2, starts=1, base_points=1024)
        # the search polishes on four times as many points
        assert curves[name][1].loss == pytest.approx(alone.loss, abs=1e-3)


def test_b_softmax_meets_the_bayes_risk_at_the_size_of_the_support():
    prior = DiscretePrior([[2.0, 0.0], [0.0, 1.5], [-1.0, -1.5]], [0.5, 0.3, 0.2])
    curve = optimum_curve("bayes", 5, [(prior, h) for h in (2, 3, 4, 5)], starts=2)
    excess = np.array([optimum.loss for optimum in curve]) - bayes_risk(5, prior).value
    assert excess[0] > 5e-3
    # 8192 base points leave 1e-4 above the minimum; spare heads do not help and do not harm
    assert np.all(excess[1:] > -1e-6) and np.all(excess[1:] < 2e-4)
    assert not any(optimum.overfit for optimum in curve[1:3])


def test_one_head_is_best_unspecialised_whatever_the_activation():
    for name in NAMES:
        (best,) = optimum_curve(name, 5, [(P1, 1)], starts=1, base_points=1024)
        # a minimum of curvature near 0.1, placed to 1e-3 by 2048 points
        assert best.loss == pytest.approx(plateau(5, 0.8).loss.value, abs=1e-5)
        assert best.c == pytest.approx(1.0, abs=0.02)


def test_halves_of_a_b_softmax_head_change_nothing():
    m, b = bayes_point(P1)
    search = make_search("bayes", 5, P1, 3, base_points=256)
    halves, moved = search.adapted(m, b, 1.0, P1, np.random.default_rng(0))
    points = search.points()
    assert points.loss(*search.unpack(halves)) == pytest.approx(points.loss(m, b), abs=1e-13)
    shifted = search.unpack(moved)[0] - search.unpack(halves)[0]
    assert np.all(shifted[:, 0] == 0) and np.flatnonzero(shifted[:, 1]).tolist() == [2]
    (alone,) = make_search("bayes", 5, P1, 1, base_points=256).adapted(
        *search.unpack(halves), P1, np.random.default_rng(0)
    )
    assert any(np.array_equal(alone[:2], head) for head in m)  # two heads fewer at once


def test_a_head_left_out_is_the_one_that_costs_least():
    m, b = bayes_point(P1)
    idle = np.vstack([m[0], [0.8, 0.1], m[1]])
    search = make_search("bayes", 5, P1, 2, base_points=256)
    (kept,) = search.adapted(idle, np.insert(b, 1, -9.0), 1.0, P1, np.random.default_rng(0))
    np.testing.assert_array_equal(search.unpack(kept)[0], m)


def test_overlaps_grow_with_the_spread_and_not_along_a_constant_direction():
    stronger = FlippingPrior([0.8, 0.0], [0.0, 3.0])
    search = make_search("softmax", 5, stronger, 2, base_points=64)
    m = np.array([[0.8, 2.0], [0.7, -1.0]])
    (x,) = search.adapted(m, np.zeros(2), 1.0, P1, np.random.default_rng(0))
    np.testing.assert_allclose(search.unpack(x)[0], m * [1.0, 1.5], rtol=1e-15)


def test_moments_of_a_gaussian_and_a_discrete_prior():
    mean, deviation = moments(GaussianPrior([0.3, 0.0], [0.5, 2.0]))
    np.testing.assert_allclose([mean, deviation], [[0.3, 0.0], [0.5, 2.0]], rtol=1e-15)
    mean, deviation = moments(DiscretePrior([[0.0], [4.0]], [0.75, 0.25]))
    np.testing.assert_allclose([mean, deviation], [[1.0], [np.sqrt(3.0)]], rtol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_parts_add_up_to_the_loss(name):
    m, b = np.array([[0.8, 1.9], [0.7, -2.1]]), np.array([0.1, -0.2])
    parts = decompose_loss(name, 5, P1, m, b, 1.3, base_points=2**15)
    exact = population_loss(name, 5, P1, m, b=b, c=1.3).value
    assert parts.loss == pytest.approx(exact, abs=5e-4)  # four standard errors of such points


def test_parts_are_those_of_sequences_drawn_one_by_one():
    m, rng, n = np.array([[0.8, 1.9], [0.7, -2.1]]), np.random.default_rng(5), 20_000
    theta = P1.sample(rng, n)
    x = rng.standard_normal((n, 5, 2))
    x[:, 0] += theta
    parts = np.zeros((n, 4))
    for i in range(n):
        chi = m @ x[i].T
        s = np.exp(chi) / np.exp(chi).sum(axis=1, keepdims=True) / 2
        good, bad = (s[(m[:, 1] * theta[i, 1] > 0) == kind, 1:].sum(axis=0) for kind in (1, 0))
        miss = (1 - s[:, 0].sum()) ** 2
        parts[i] = miss, good @ good, bad @ bad, 2 * good @ bad
    found = decompose_loss("softmax", 5, P1, m, np.zeros(2), 1.0)
    known = [found.miss, found.aligned, found.misaligned, found.cross]
    bound = 4 * parts.std(axis=0) / np.sqrt(n) + 5e-4  # four standard errors, and Sobol points
    assert np.all(np.abs(parts.mean(axis=0) - known) < bound)


def test_misaligned_softmax_heads_let_more_noise_through():
    m, b = bayes_point(FlippingPrior([0.8, 0.0], [0.0, 3.0]))
    prior = FlippingPrior([0.8, 0.0], [0.0, 3.0])
    softmax, bayes = (decompose_loss(name, 5, prior, m, b, 1.0) for name in ("softmax", "bayes"))
    assert softmax.misaligned > 5 * softmax.aligned
    assert bayes.misaligned < 0.2 * softmax.misaligned


def test_activations_without_quadrature_are_judged_on_points(monkeypatch):
    from hdattn.multihead import quadrature

    monkeypatch.delitem(quadrature._LOSSES, "softmax")
    m = np.array([[0.8, 1.0]])
    result = population_loss("softmax", 5, P1, m)
    monkeypatch.undo()
    exact = population_loss("softmax", 5, P1, m)
    assert (result.method, exact.method) == ("sobol", "quadrature")
    assert abs(result.value - exact.value) < 3 * result.error + 1e-5


@pytest.mark.parametrize(
    "problems, starts", [([], 1), ([(P1, 0)], 1), ([(P1, 1)], 0)], ids=["empty", "heads", "starts"]
)
def test_bad_input(problems, starts):
    with pytest.raises(UserError, match="will not do; give at least one"):
        optimum_curve("softmax", 5, problems, starts=starts)


def test_parts_need_a_finite_support():
    with pytest.raises(UserError, match="finitely many points"):
        decompose_loss("softmax", 5, GaussianPrior([0.0], [1.0]), np.ones((1, 1)), np.zeros(1), 1.0)


def test_attention_is_linear_in_the_weights_of_heads():
    # what the parts rest on, for every activation that is registered
    chi = np.random.default_rng(0).standard_normal((3, 4, 7))
    for name in NAMES:
        attention, weights = get_activation(name).forward(chi, np.array([0.3, 0.0, -1.0]), 1.7)
        ratio = attention / weights.sum(axis=0)
        np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-12)
