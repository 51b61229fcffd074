"""Pruned heads against losses computed one by one, the posterior, and bad input."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from hdattn.errors import UserError
from hdattn.multihead.bayes import bayes_point, bayes_risk
from hdattn.multihead.priors import DiscretePrior, FlippingPrior
from hdattn.multihead.pruning import protocols, prune, subset_losses
from hdattn.multihead.quadrature import population_loss
from hdattn.multihead.trained_heads import Heads

P1 = FlippingPrior([0.8, 0.0], [0.0, 2.0])
M = np.array([[0.7, 1.5], [0.6, -1.2], [0.9, 0.4], [0.5, -0.2]])
B = np.array([-0.3, 0.2, 0.0, 0.5])
QUADRATURE = 1e-7  # its estimated errors are below this here


def heads(activation, m=M, b=B, c=1.3, tokens=4, prior=P1):
    return Heads(activation, tokens, prior, m, b, c)


def with_spares(prior, tokens=5, spare=3):
    """The posterior as B-softmax heads, with copies of the first of them."""
    m, b = bayes_point(prior)
    rows = [*range(len(m)), *[0] * spare]
    b = b[rows]
    b[[0, *range(len(m), len(rows))]] -= np.log(spare + 1)
    return heads("bayes", m[rows], b, 1.0, tokens, prior)


@pytest.mark.parametrize("activation", ["softmax", "softmax1", "bayes"])
def test_best_subsets_and_their_losses_one_by_one(activation):
    trained = heads(activation)
    scales = {
        "kept": lambda n: 1.3 * n / 4,
        "renormalised": lambda n: 1.3,
        "joint": lambda n: 1.3,
    }
    for protocol in set(protocols(activation)) & set(scales):
        curve = prune(trained, protocol, scan_points=2048)
        for removed, kept in enumerate(curve.kept):
            c = scales[protocol](4 - removed) if activation == "softmax1" else 1.0
            losses = {
                rows: population_loss(activation, 4, P1, M[list(rows)], b=B[list(rows)], c=c).value
                for rows in itertools.combinations(range(4), 4 - removed)
            }
            assert curve.loss[removed] == pytest.approx(losses[kept], abs=QUADRATURE)
            # B-softmax subsets are compared on points: near ties may be taken for each other.
            slack = 1e-4 if activation == "bayes" else QUADRATURE
            assert losses[kept] < min(losses.values()) + slack
        assert curve.method == "exhaustive" and curve.increase[0] == 0


def test_refitted_scale_is_the_best_one():
    curve = prune(heads("softmax1"), "refitted")
    for kept, c, loss in zip(curve.kept[1:], curve.scale[1:], curve.loss[1:], strict=True):
        rows = list(kept)

        def at(c, rows=rows):
            return population_loss("softmax1", 4, P1, M[rows], b=B[rows], c=c).value

        best = minimize_scalar(at, bracket=(0.5, 1.5), tol=1e-5)
        assert loss == pytest.approx(best.fun, abs=QUADRATURE)
        assert c == pytest.approx(best.x, abs=1e-3)  # a minimum is located to the root of that
    assert curve.scale[0] == 1.3  # nothing is refitted before a head is removed


def test_protocols_in_order():
    trained = heads("softmax1")
    losses = subset_losses(trained)
    curves = {name: prune(trained, name, losses=losses) for name in protocols("softmax1")}
    for other in ("kept", "renormalised"):
        assert np.all(curves["refitted"].loss[1:] <= curves[other].loss[1:] + 1e-12)


def test_spare_b_softmax_heads_cost_nothing_and_the_next_one_does():
    trained = with_spares(P1)
    curve, risk = prune(trained, "joint"), bayes_risk(5, P1).value
    assert curve.loss[0] == pytest.approx(risk, abs=1e-6)
    # The survivors' biases are not those of the posterior while copies remain, hence not zero.
    assert np.all(curve.increase[:4] < 0.05)
    assert curve.increase[4] > 0.3
    assert np.all(curve.loss > risk - 1e-6)


def test_even_copies_of_the_posterior_are_pruned_back_to_it():
    m, b = bayes_point(P1)
    curve = prune(heads("bayes", np.vstack([m, m]), np.tile(b, 2), 1.0, 5), "joint")
    risk = bayes_risk(5, P1).value
    assert curve.loss[[0, 2]] == pytest.approx([risk, risk], abs=1e-6)
    assert sorted(h % 2 for h in curve.kept[2]) == [0, 1]
    assert curve.loss[1] > risk + 1e-4  # one signal counted twice


def test_beyond_ten_heads_one_goes_after_the_other():
    rng = np.random.default_rng(2)
    m = np.column_stack([np.full(11, 0.8), rng.standard_normal(11)])
    curve = prune(heads("softmax", m, np.zeros(11), 1.0), "renormalised")
    assert curve.method == "greedy"
    assert all(set(after) < set(before) for before, after in itertools.pairwise(curve.kept))
    small = heads("softmax1")
    best, greedy = prune(small, "kept"), prune(small, "kept", exhaustive=3)
    assert (best.method, greedy.method) == ("exhaustive", "greedy")
    assert np.all(best.loss <= greedy.loss + 1e-12)


def test_training_again_repairs_what_biases_can_repair():
    trained = with_spares(P1)
    cut = prune(trained, "joint", most=3)
    survivors = trained.only(cut.kept[3], 1.0)
    again = survivors.retrained(200, points=2048)
    risk = bayes_risk(5, P1).value
    assert survivors.loss().value > risk + 1e-3
    # The optimum of 2048 points in all: their sampling error squared, and tau is finite.
    assert risk < again.loss().value < risk + 1e-3


def test_spare_heads_that_fit_points_are_told():
    m = np.vstack([bayes_point(P1)[0], [[30.0, 40.0]]])
    lines = list(heads("bayes", m, np.zeros(3), 1.0).doubts())
    assert lines[0].startswith("1 of 3 heads diverged")
    assert list(with_spares(P1).doubts()) == []


def test_a_discrete_prior():
    prior = DiscretePrior([[1.5, 0.0], [0.0, 2.0]], [0.3, 0.7])
    curve = prune(with_spares(prior, tokens=3, spare=1), "joint")
    assert curve.loss[0] == pytest.approx(bayes_risk(3, prior).value, abs=1e-6)
    assert curve.increase[2] > 0.05


@pytest.mark.parametrize(
    ("change", "most", "protocol", "line"),
    [
        ({}, 4, "kept", "4 of 4 heads cannot be removed, since one has to stay; give 0 to 3"),
        ({}, -1, "kept", "-1 of 4 heads cannot be removed"),
        ({}, None, "joint", "softmax1 has no protocol 'joint'; take kept, renormalised, refitted"),
        ({"m": np.zeros((0, 2)), "b": np.zeros(0)}, None, "kept", "m has no head"),
        ({"b": np.zeros(3)}, None, "kept", "m is 4 x 2 and b has shape (3,)"),
        ({"m": np.zeros((4, 3))}, None, "kept", "give 2 overlaps and one b for a head"),
    ],
)
def test_bad_input(change, most, protocol, line):
    with pytest.raises(UserError) as caught:
        prune(heads("softmax1", **change), protocol, most=most)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_command_line(command):
    line = (
        "multihead pruning --activation bayes --mean 0.8,0 --std 0,2 --m [[0.8,2],[0.8,-2],[1,0]]"
    )
    status, out, err = command(f"{line} --removed 1")
    assert (status, err) == (0, "") and "exhaustive" in out and "0 1" in out
    status, out, err = command(f"{line} --removed 3")
    assert (status, out) == (2, "") and "3 of 3 heads cannot be removed" in err
    status, out, err = command(f"{line} --protocol kept")
    assert status == 2 and "bayes has no protocol 'kept'" in err
