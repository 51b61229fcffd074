"""Measurements on a factor, each against its definition."""

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.singlehead.attention import scores, softmax_rows
from hdattn.singlehead.heads import attention_matrix
from hdattn.singlehead.measure import RANK_THRESHOLD, measure
from hdattn.singlehead.samples import SampleStream, draw_teacher

DIM = 12


def setting(noise=0.5, tokens=2):
    target = {"kind": "mp", "kappa0": 0.5}
    data = {"dim": DIM, "target": target, "noise": noise, "tokens": tokens, "beta0": 1.0}
    teacher = draw_teacher(data, 5, 0)
    return teacher, SampleStream(data, 5, 0, teacher, "test")


@pytest.mark.parametrize("width", [4, 12, 20])
def test_overlaps_and_spectrum_by_definition(width):
    teacher, stream = setting()
    weights = np.random.default_rng(0).standard_normal((DIM, width))
    found = measure(weights, teacher, stream, test_samples=50)
    s = weights @ weights.T / np.sqrt(width * DIM)
    np.testing.assert_allclose(found.eigenvalues, np.linalg.eigvalsh(s), atol=1e-12)
    moments = [np.trace(s @ s), np.trace(s @ teacher.S0), np.trace(teacher.S0 @ teacher.S0)]
    np.testing.assert_allclose([found.Q, found.M, found.Q0], np.divide(moments, DIM), rtol=1e-12)
    assert found.overlap_error == pytest.approx(found.Q - 2 * found.M + found.Q0)
    # full rank, but for a mode that may happen to be that small
    assert found.rank_fraction == np.mean(found.eigenvalues > 1e-4 * found.eigenvalues[-1])


def test_rank_counts_what_stands_above_the_largest():
    teacher, stream = setting()
    values = np.array([1.0, 0.1, 2 * RANK_THRESHOLD, 0.5 * RANK_THRESHOLD, 1e-9, *np.zeros(7)])
    weights = np.diag(np.sqrt(values * np.sqrt(teacher.Q0) * DIM))
    assert measure(weights, teacher, stream, test_samples=2).rank_fraction == 3 / DIM
    # S = 1e-12: nothing has been learnt by a head of beta = 1, everything by one of beta = 1e12
    assert measure(1e-6 * weights, teacher, stream, test_samples=2).rank_fraction == 0
    hot = measure(1e-6 * weights, teacher, stream, beta=1e12, test_samples=2)
    assert hot.rank_fraction == 3 / DIM
    assert measure(0 * weights, teacher, stream, test_samples=2).rank_fraction == 0


@pytest.mark.parametrize("tokens", [2, 3])
def test_test_error_by_definition(tokens):
    teacher, stream = setting(tokens=tokens)
    weights = np.random.default_rng(1).standard_normal((DIM, 9))
    found = measure(weights, teacher, stream, beta=0.8, test_samples=1500)
    x, y = stream.rows(0, 1500)
    attention = softmax_rows(0.8 * scores(x, attention_matrix(weights)))
    losses = ((y - attention) ** 2).sum(axis=(1, 2))
    assert found.test_error == pytest.approx(losses.mean(), rel=1e-12)
    assert found.test_error_stderr == pytest.approx(losses.std(ddof=1) / np.sqrt(1500), rel=1e-10)


def test_the_teacher_itself_has_no_error_without_noise():
    teacher, stream = setting(noise=0)
    found = measure(teacher.W0, teacher, stream, test_samples=100)
    assert found.test_error < 1e-25
    assert found.overlap_error < 1e-25


def test_misfits_are_refused():
    teacher, stream = setting()
    with pytest.raises(UserError, match="teacher has dimension"):
        measure(np.ones((DIM + 1, 3)), teacher, stream)
    with pytest.raises(UserError, match="test_samples"):
        measure(np.ones((DIM, 3)), teacher, stream, test_samples=1)
