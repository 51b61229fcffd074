"""The figure regularisation: its section, what it shares, and a real tiny run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import bayes, regularisation, style

CONFIG = Path(__file__).parents[1] / "config" / "singlehead.yaml"
TINY = {"dim": 20, "small_dim": 12, "instances": 3, "block_size": 3, "nodes": 8}
TINY |= {"test_samples": 2048, "alphas": [0.5, 2], "lams": [0.02, 0.1, 0.5]}
TINY |= {"theory_lams": [0.02, 0.1, 0.5], "theory_alphas": [0.5, 2]}


def section(changes=None):
    merged = {"figures": "regularisation", "regularisation": changes or {}}
    return configuration.load(merged).sections["regularisation"]


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"lam_range": [1, 0.1]}, "lam_range: the lower end is not below the upper"),
        ({"theory_lams": [0.1]}, "theory_lams"),
        ({"lams": ["-1e-2", 0.1]}, "lams[0]: '-1e-2' will not do; give a number above 0"),
        ({"dim": 20}, "small_dim: 30 is not below dim = 20; give two sizes"),
    ],
)
def test_a_bad_value_gives_a_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value)


def test_the_curve_of_best_weight_decays_is_that_of_bayes():
    merged = {"figures": "all", "scale": "default", **yaml.safe_load(CONFIG.read_text())}
    sections = configuration.load(merged).sections
    ours = regularisation.experiments(sections["regularisation"], 0)["best"]
    assert ours == bayes.experiments(sections["bayes"], 0)["erm"]


@pytest.fixture(scope="module")
def drawn(figure_project):
    records = figure_project.records(regularisation, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, regularisation.draw(figure, records, section(TINY)), records


def test_the_optimum_is_below_the_curve_and_moves_with_alpha(drawn):
    figure, drawing, records = drawn
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    optimum = [
        r for r in drawing.table if (r["quantity"], r["series"]) == ("test_error", "optimum")
    ]
    for row in optimum:
        curve = [
            r["value"]
            for r in drawing.table
            if (r["quantity"], r["series"], r["alpha"]) == ("test_error", "theory", row["alpha"])
        ]
        assert len(curve) == 3 and row["value"] < min(curve)
    assert optimum[0]["lam"] < optimum[1]["lam"]
    # with much data the rank at the optimum is above the target's
    assert np.all(records["best"][0].datasets["rank_fraction"] > 0.5)


def test_training_agrees_with_its_theory(drawn):
    _, drawing, _ = drawn
    assert drawing.flagged == [] and len(drawing.validation) == 2 * 3 * 2
    for row in drawing.validation:
        # 2/d for errors, one eigenvalue for ranks; 5 standard errors of 3 instances
        finite = 1 if row["quantity"] == "rank_fraction" else 2 * row["theory"]
        bound = finite / 20 + 5 * row["standard_error"]
        assert abs(row["simulation"] - row["theory"]) < bound, row


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(regularisation, section(TINY)) == []
