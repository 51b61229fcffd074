"""The figure width: its section, its experiments, and a real tiny run."""

import numpy as np
import pytest

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import style, width

TINY = {"dim": 20, "small_dim": 12, "instances": 3, "block_size": 3, "nodes": 8}
TINY |= {"test_samples": 4096, "kappas": [0.2, 0.4, 0.7, 1], "untied_kappas": [0.4, 1]}


def section(changes=None):
    merged = {"figures": "width", "width": changes or {}}
    return configuration.load(merged).sections["width"]


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"kappas": [0.001, 1]}, "kappas: 0.001 leaves no column at small_dim; give 0.033 or more"),
        ({"lam_eff": -1}, "lam_eff: -1 will not do; give a number above 0"),
        ({"untied_kappas": []}, "untied_kappas"),
    ],
)
def test_a_bad_value_gives_a_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value)


def test_the_penalty_on_s_is_the_same_at_all_widths():
    roles = width.experiments(section(TINY), 0)
    for kappa in TINY["kappas"]:
        (block,) = roles[f"tied {kappa:g}"]
        found = block.parameters
        assert found["lams"][0] * np.sqrt(found["kappa"]) == pytest.approx(0.1)
    assert roles["own"][0].parameters["lams"] == [0.1]


@pytest.fixture(scope="module")
def drawn(figure_project):
    records = figure_project.records(width, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, width.draw(figure, records, section(TINY)), records


def values(drawing, quantity, series):
    rows = [r for r in drawing.table if (r["quantity"], r["series"]) == (quantity, series)]
    return {row["kappa"]: row["value"] for row in rows}


def test_widths_above_the_rank_share_a_minimum_and_narrower_ones_are_worse(drawn):
    figure, drawing, _ = drawn
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    objective = values(drawing, "objective", "tied")
    assert objective[0.7] == pytest.approx(objective[1], rel=1e-6)  # the optimiser's tolerance
    assert objective[0.2] > 1.2 * objective[0.4] > 1.2 * objective[1]
    rank = values(drawing, "rank_fraction", "tied")
    assert (rank[0.2], rank[0.4]) == pytest.approx((0.2, 0.4)) and 0.5 < rank[1] < 0.7


def test_untied_factors_reach_lower_objectives_off_the_cone(drawn):
    _, drawing, _ = drawn
    tied, untied = (values(drawing, "objective", head) for head in ("tied", "untied"))
    assert untied[1] < tied[1]
    assert 0.01 < values(drawing, "asymmetry", "untied")[1] < 0.5
    assert values(drawing, "negativity", "untied")[1] > 0


def test_training_agrees_with_its_theory_above_the_rank(drawn):
    _, drawing, _ = drawn
    assert drawing.flagged == [] and len(drawing.validation) == 3 * 2
    assert {row["point"] for row in drawing.validation} == {
        "alpha=1 kappa=0.7",
        "alpha=1 kappa=1",
    }
    for row in drawing.validation:
        # 2/d for errors, one eigenvalue for ranks; 5 standard errors of 3 instances
        finite = 1 if row["quantity"] == "rank_fraction" else 2 * row["theory"]
        bound = finite / 20 + 5 * row["standard_error"]
        assert abs(row["simulation"] - row["theory"]) < bound, row


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(width, section(TINY)) == []
