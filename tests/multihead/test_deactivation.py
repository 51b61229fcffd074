"""Total attention of heads against its formulas, a quadrature, and D-dimensional sequences."""

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.multihead.activation_base import Activation
from hdattn.multihead.activations import get_activation
from hdattn.multihead.deactivation import (
    BINS,
    deactivation,
    own_sequences,
    population_scores,
    sequence_scores,
)
from hdattn.multihead.priors import FlippingPrior
from hdattn.multihead.teacher import SequenceData, SequenceStream

P1 = FlippingPrior([0.8, 0.0], [0.0, 2.0])
P2 = FlippingPrior([0.8, 0.0, 0.0], [0.0, 1.5, 1.2])
M = np.array([[0.7, 1.5], [0.8, -1.4]])
B = np.array([-0.5, 0.3])


def scores(count=2000, seed=0):
    return population_scores(5, P1, M, count, np.random.default_rng(seed))


def test_totals_of_each_activation():
    chi, _ = scores()
    z = np.exp(chi).sum(axis=1)
    softmax, one, joint = (
        get_activation(name).head_totals(chi, B) for name in ("softmax", "softmax1", "bayes")
    )
    np.testing.assert_allclose(softmax, 1, rtol=1e-13)
    np.testing.assert_allclose(one, z / (np.exp(-B)[:, None] + z), rtol=1e-12)
    np.testing.assert_allclose(joint, np.exp(B)[:, None] * z / (np.exp(B) @ z), rtol=1e-12)


def test_an_activation_without_weights_per_head_says_so():
    class Bare(Activation):
        name = "bare"

        def attention(self, chi, b=0.0, c=1.0):
            return chi.mean(axis=0)

    with pytest.raises(UserError, match="'bare' does not say how much each head attends"):
        Bare().head_totals(np.zeros((1, 2, 3)))


def test_own_sequences_have_the_signs_that_a_head_has_learnt():
    m = np.array([[0.8, 1.5, 1.2], [0.8, -2.6, 0.1], [0.8, 0.2, -1.8]])
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    theta = np.column_stack([np.full(4, 0.8), signs * [1.5, 1.2]])
    found = own_sequences(m, theta, np.array([False, True, True]))
    np.testing.assert_array_equal(
        found, [[True, False, False, False], [False, False, True, True], [False, True, False, True]]
    )


def test_mean_total_of_softmax_one_by_quadrature():
    """``E S = 1 - E f0/(f0 + Z)``, f0 = e^-b, and 1/(f0 + Z) = int exp(-s (f0 + Z)) ds."""
    count = 40000
    chi, theta = scores(count)
    own = own_sequences(M, theta, np.array([False, True]))
    found = deactivation(get_activation("softmax1").head_totals(chi, B), own)
    g, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / weight.sum()
    log_s = np.linspace(-25, 12, 1500)
    s = np.exp(log_s)
    for h, (m, b) in enumerate(zip(M, B, strict=True)):
        for group, sign in enumerate((np.sign(m[1]), -np.sign(m[1]))):
            visible, hidden = (
                np.exp(-s[:, None] * np.exp(np.linalg.norm(m) * g + shift)) @ weight
                for shift in (0.0, m @ [0.8, 2.0 * sign])
            )
            f0 = np.exp(-b)
            idle = np.trapezoid(f0 * np.exp(-s * f0) * hidden * visible**4 * s, log_s)
            # 4 standard errors of the mean of 20000 numbers between 0 and 1, at most 0.5 apart
            assert found.mean[h, group] == pytest.approx(1 - idle, abs=4 * 0.3 / np.sqrt(count / 2))


def test_statistics_of_the_groups():
    totals = np.array([[0.1, 0.2, 0.9, 1.0 + 1e-15]])
    found = deactivation(totals, np.array([[False, False, True, True]]))
    np.testing.assert_allclose(found.mean, [[0.95, 0.15]])
    np.testing.assert_allclose(found.median, [[0.95, 0.15]])
    np.testing.assert_array_equal(found.count, [[2, 2]])
    assert found.histogram.shape == (1, 2, BINS)
    np.testing.assert_allclose(found.histogram.sum(axis=2), 1)  # nothing is lost above 1
    lone = deactivation(totals, np.ones((1, 4), dtype=bool))
    assert np.isnan(lone.mean[0, 1]) and np.isnan(lone.histogram[0, 1]).all()


def test_scores_of_drawn_sequences_have_the_law_of_the_population():
    data = SequenceData(64, 5, P2)
    stream = SequenceStream(data, 3, 0)
    m = np.array([[0.8, 1.5, 1.2], [0.7, -1.5, 1.0]])
    noise = np.array([0.4, 0.2])  # of the heads outside the spikes
    outside = np.linalg.qr(np.vstack([stream.spikes, np.eye(64)[:2]]).T)[0].T[3:]
    chi, theta = sequence_scores(stream, m @ stream.spikes + noise[:, None] * outside, 8000)
    law, amplitudes = population_scores(
        5, P2, np.hstack([m, np.diag(noise)]), 8000, np.random.default_rng(0)
    )
    assert chi.shape == (2, 5, 8192) and theta.shape == (8192, 3)
    random = np.array([False, True, True])
    for name in ("softmax1", "bayes"):
        drawn, known = (
            deactivation(get_activation(name).head_totals(x, B), own_sequences(m, t, random)).mean
            for x, t in ((chi, theta), (law, amplitudes))
        )
        # 4 standard errors of a difference of means of some 2000 numbers that spread by 0.3
        np.testing.assert_allclose(drawn, known, atol=4 * 0.3 * np.sqrt(2 / 2000))
