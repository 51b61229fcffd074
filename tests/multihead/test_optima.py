"""Optima against values by quadrature and the posterior; overfitting is told."""

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.multihead.bayes import bayes_point, bayes_risk
from hdattn.multihead.optima import find_optimum
from hdattn.multihead.priors import DiscretePrior, FlippingPrior, GaussianPrior
from hdattn.multihead.quadrature import population_loss

P1 = FlippingPrior([0.8, 0.0], [0.0, 2.0])
P2 = FlippingPrior([0.8, 0.0, 0.0], [0.0, 1.5, 1.2])


def test_b_softmax_with_a_head_for_each_point_finds_the_posterior():
    prior = DiscretePrior([[1.5, 0.0], [0.0, 2.0]], [0.3, 0.7])
    best = find_optimum("bayes", 4, prior, 2, starts=2, base_points=2048)
    m, b = bayes_point(prior)
    order = np.argsort(-best.m[:, 0])
    # 8192 base points, of which E is accurate to 2e-4, place a minimum of curvature 0.1 to 0.05
    np.testing.assert_allclose(best.m[order], m, atol=0.1)
    assert np.diff(best.b[order])[0] == pytest.approx(np.diff(b)[0], abs=0.15)
    risk = bayes_risk(4, prior).value
    assert risk - 1e-6 < best.loss < risk + 2e-4
    assert best.converged and not best.overfit and best.messages() == []


@pytest.mark.parametrize("activation, expected", [("softmax", 0.61786), ("softmax1", 0.52234)])
def test_known_best_losses(activation, expected):
    # four heads on two directions; the digits given are those of a descent on 2^18 points
    best = find_optimum(activation, 5, P2, 4, starts=1, base_points=1024)
    assert best.loss == pytest.approx(expected, abs=1e-4)


def test_softmax_pairs_take_the_axes():
    best = find_optimum("softmax", 5, P2, 4, starts=1, base_points=2048)
    heads = np.abs(best.m[np.argsort(best.m[:, 0])])
    known = [[0.770, 2.609, 0], [0.770, 2.609, 0], [1.516, 0, 1.790], [1.516, 0, 1.790]]
    np.testing.assert_allclose(heads, known, atol=0.06)  # flat: 1e-5 of loss for 0.05 in m


def test_stated_loss_is_independent_of_the_fitted_points():
    best = find_optimum("softmax", 5, P1, 2, starts=1, base_points=256)
    again = population_loss("softmax", 5, P1, best.m)
    assert best.loss == again.value and best.loss != best.sample_loss


def test_held_directions_stay_zero_and_cost_loss():
    free = find_optimum("softmax", 5, P2, 2, starts=1, base_points=512)
    held = find_optimum("softmax", 5, P2, 2, starts=1, base_points=512, held=[1])
    assert np.all(held.m[:, 1] == 0) and held.loss > free.loss + 0.005


def test_spare_heads_that_fit_few_points_are_reported():
    best = find_optimum("bayes", 5, P2, 7, starts=1, base_points=16)
    assert best.overfit
    assert "overfit" in best.messages()[0] and "\n" not in best.messages()[0]
    assert best.loss > best.sample_loss + 1e-3
    assert best.loss > bayes_risk(5, P2).value


def test_normal_amplitudes():
    prior = GaussianPrior([0.8, 0.0], [0.0, 2.0])
    best = find_optimum("bayes", 5, prior, 2, starts=1, base_points=512)
    unspecialised = population_loss("bayes", 5, prior, [[0.8, 0.0]] * 2).value
    assert bayes_risk(5, prior).value < best.loss < unspecialised - 0.05


@pytest.mark.parametrize(
    "arguments, line",
    [
        ({"heads": 0}, "heads = 0 and starts = 8 must be at least 1"),
        ({"heads": 2, "held": [2]}, "held [2] must be some of the 2 directions"),
        ({"heads": 2, "held": [0, 1]}, "held [0, 1] must be some of the 2 directions"),
    ],
)
def test_bad_input(arguments, line):
    with pytest.raises(UserError, match=line.replace("[", r"\[").replace("]", r"\]")):
        find_optimum("softmax", 5, P1, **arguments)
