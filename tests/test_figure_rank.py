"""The figure rank: its section, what it shares with learning_curves, and a real tiny run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.catalogue import with_inputs
from hdattn.errors import UserError
from hdattn.figures import learning_curves, rank, style

CONFIG = Path(__file__).parents[1] / "config" / "singlehead.yaml"
TINY = {
    "dim": 12,
    "instances": 3,
    "block_size": 3,
    "lams": [0.01, 0.1],
    "alphas": [0.5, 2],
    "theory_alphas": [0.5, 2],
    "nodes": 12,
    "test_samples": 256,
}


def section(changes=None):
    return configuration.load({"figures": "rank", "rank": changes or {}}).sections["rank"]


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"lams": [0, 0.1]}, "lams[0]: 0 will not do; give a number above 0"),
        ({"lams": [0.1, 0.01]}, "lams: the points of a grid must increase"),
        ({"kappa": 0.001}, "dim: 60 leaves no column for kappa = 0.001; give at least 1000"),
        ({"theory_alphas": [1]}, "theory_alphas: "),
        ({"instances": 1, "block_size": 1}, "instances: 1 has no error bar; give at least 2, or 3"),
        ({"kappas": [1]}, "kappas: unknown key; did you mean 'kappa'?"),
    ],
)
def test_a_bad_value_gives_one_line(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_training_at_the_common_lambda_is_that_of_learning_curves(scale):
    merged = {"figures": "all", "scale": scale, **yaml.safe_load(CONFIG.read_text())}
    sections = configuration.load(merged).sections
    ours = rank.experiments(sections["rank"], 0)
    theirs = learning_curves.experiments(sections["learning_curves"], 0)
    assert set(ours["lbfgs 0.01"]) <= set(theirs["lbfgs 1"])
    assert set(ours["own 0.01"]) <= set(theirs["own 1"])
    needed = set(with_inputs(e for group in ours.values() for e in group))
    assert scale != "default" or len(needed) <= 40


@pytest.fixture(scope="module")
def records(figure_project):
    return figure_project.records(rank, section(TINY))


def test_a_tiny_run_draws_and_agrees(records):
    with style.context():
        figure = style.new_figure()
        drawing = rank.draw(figure, records, section(TINY))
    (axis,) = figure.axes
    assert axis.get_xlabel() and axis.get_ylabel()
    assert drawing.flagged == []
    points = {r["point"] for r in drawing.validation}
    assert points == {f"alpha={a} lam={lam} L-BFGS" for a in ("0.5", "2") for lam in (0.01, 0.1)}
    for r in drawing.validation:
        # at d = 12 one eigenvalue is 0.083; the mean of three instances is within one
        assert abs(r["simulation"] - r["theory"]) < 1 / 12, r


def test_the_rank_falls_with_lambda_and_rises_with_alpha(records):
    with style.context():
        drawing = rank.draw(style.new_figure(), records, section(TINY))
    theory = {(r["lam"], r["alpha"]): r["value"] for r in drawing.table if r["series"] == "theory"}
    assert theory[0.1, 0.5] < theory[0.1, 2] < theory[0.01, 2]
    simulated = np.array(
        [(r["lam"], r["alpha"], r["value"]) for r in drawing.table if r["series"] == "lbfgs"]
    )
    expected = records["lbfgs 0.1"][0].datasets["rank_fraction"].mean(0)
    np.testing.assert_allclose(simulated[simulated[:, 0] == 0.1][:, 2], expected)


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(rank, section(TINY)) == []
