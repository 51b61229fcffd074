"""The comparison of theory with simulation: what passes, what must not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hdattn.figures import validation


def _row(theory, mean, error, n=8, constant=0.0, size=60, **more):
    where = {"figure": "f", "quantity": "Q", **more}
    return validation.row("alpha=1", theory, mean, error, n, constant, size, **where)


def test_verdict_follows_the_student_quantile():
    # k = 5.408 for 8 instances at 99.9 %: tables of Student's t, 7 degrees of freedom
    assert validation.t_quantile(8) == pytest.approx(5.408, abs=1e-3)
    assert _row(1.0, 1.0 + 5.3e-2, 1e-2)["verdict"] == validation.AGREE
    assert _row(1.0, 1.0 + 5.5e-2, 1e-2)["verdict"] == validation.DISAGREE
    assert _row(1.0, 1.0 - 5.5e-2, 1e-2)["z"] == pytest.approx(-5.5)


def test_few_instances_flags_and_nan_are_unreliable():
    assert _row(1.0, 1.0, 0.1, n=2)["verdict"] == validation.UNRELIABLE
    assert _row(1.0, 1.0, 0.1, reliable=False)["verdict"] == validation.UNRELIABLE
    assert _row(1.0, 1.0, math.nan)["verdict"] == validation.UNRELIABLE
    assert math.isnan(_row(1.0, 1.0, 0.0)["z"])
    assert _row(1.0, 1.1, 0.0)["verdict"] == validation.DISAGREE


def test_allowance_is_finite_size_and_capped():
    row = _row(2.0, 2.0, 0.1, constant=0.9, size=60)
    assert row["allowance"] == pytest.approx(2 * 0.9 / 60)
    greedy = _row(2.0, 2.0, 0.1, constant=100, size=200)
    assert greedy["allowance"] == pytest.approx(2 * validation.CONSTANT_CAP / 200)
    tiny = _row(2.0, 2.0, 0.1, constant=3.0, size=10)
    assert tiny["allowance"] == pytest.approx(2 * validation.ALLOWANCE_CAP)


def test_allowance_constants_come_from_a_smaller_size():
    # own constants 30 (0.02 + 0.01) and 30 (0 + 0.005), mean of the curve 30 (0.02 + 0)/2
    found = validation.allowance_constants(30, [-0.02, 0.0], [0.01, 0.005])
    np.testing.assert_allclose(found, [0.9, 0.3])
    assert validation.allowance_constants(30, [0.9], [0.0]) == validation.CONSTANT_CAP


@pytest.mark.parametrize("planted, verdict", [(0.0, "agree"), (0.05, "disagree")])
def test_a_deviation_that_does_not_shrink_is_not_excused(planted, verdict):
    small, large = planted + 0.6 / 30, planted + 0.6 / 60
    (constant,) = validation.allowance_constants(30, [small], [0.001])
    row = _row(1.0, 1 + large, 0.002, constant=constant, size=60)
    assert row["verdict"] == verdict


def test_pairing_removes_the_spread_of_the_targets():
    rng = np.random.default_rng(1)
    theory = 1 + 0.1 * rng.standard_normal(64)
    simulation = theory + 0.001 * rng.standard_normal(64)
    row = validation.paired_row("p", theory, simulation, 0, 60, figure="f", quantity="Q")
    # a single spread of 1e-3: the error of 64 is 1.25e-4, itself known to 9 % (one sigma)
    assert row["standard_error"] == pytest.approx(1.25e-4, rel=0.3)
    assert row["theory"] == pytest.approx(theory.mean())
    assert row["simulation"] == pytest.approx(simulation.mean())


def test_false_alarms_are_as_rare_as_promised():
    rng = np.random.default_rng(2)
    draws = rng.standard_normal((4000, 4))
    rows = [_row(0.0, *validation.mean_and_error(d), n=4) for d in draws]
    alarms = sum(r["verdict"] == validation.DISAGREE for r in rows)
    # expected 4 at 99.9 %; more than 14 has probability 3e-5, so a normal quantile
    # (3.29, about 180 alarms) would fail here
    assert alarms <= stats.poisson.ppf(1 - 3e-5, 4)


def test_a_table_is_gathered_from_the_parts_and_judged(tmp_path):
    good, bad = _row(1.0, 1.0, 0.1), _row(1.0, 2.0, 0.1, figure="g")
    unsure = _row(1.0, math.nan, 0.1, figure="g")
    for name, rows in (("multihead/g", [bad, unsure]), ("singlehead/f", [good]), ("x/e", [])):
        path = tmp_path / f"{name}.validation.csv"
        path.parent.mkdir(exist_ok=True)
        validation.write(path, rows)
    rows = validation.collect(tmp_path)
    validation.write(tmp_path / "validation.csv", rows)
    assert len(validation.disagreements(rows)) == 1
    text = validation.summary(rows)
    assert text.splitlines()[0] == "validation: 1 of 3 points agree, 1 disagree, 1 unreliable"
    assert "g Q at alpha=1: theory 1, simulation 2 +- 0.1 over 8 instances" in text
    table = (tmp_path / "validation.csv").read_text().splitlines()
    assert table[0] == ",".join(validation.COLUMNS)
    assert [line.split(",")[0] for line in table[1:]] == ["f", "g", "g"]
    assert rows[0] == good


def test_a_scale_that_agrees_has_no_complaint():
    rows = [_row(1.0, 1.0, 0.1)]
    assert validation.disagreements(rows) == []
    assert validation.summary(rows) == "validation: 1 of 1 points agree, 0 disagree, 0 unreliable"


def test_an_allowance_that_cannot_be_trusted_excuses_and_condemns_nothing():
    deviations, errors = [0.01, 0.5, 0.03], [0.0, 0.0, 0.0]
    constants = validation.allowance_constants(10, deviations, errors, [True, False, True])
    np.testing.assert_allclose(constants, [0.2, np.nan, 0.3])  # mean of 0.1 and 0.3; its own
    assert np.isnan(validation.allowance_constants(10, deviations, errors, [False] * 3)).all()
    row = _row(1.0, 1.0, 0.1, constant=math.nan)
    assert row["verdict"] == validation.UNRELIABLE
