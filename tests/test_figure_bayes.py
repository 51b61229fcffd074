"""The figure bayes: its section, its experiments, and what it draws from a real tiny run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import bayes, style
from hdattn.figures._bayes import OPTIMAL

CONFIG = Path(__file__).parents[1] / "config" / "singlehead.yaml"
TINY = {"dim": 24, "small_dim": 16, "instances": 3, "block_size": 3, "test_samples": 2048}
TINY |= {"iterations": 150, "nodes": 8, "alphas": [0.5, 2], "theory_alphas": [0.2, 0.5, 2]}


def section(changes=None, scale="default"):
    merged = {"figures": "bayes", "scale": scale, "bayes": changes or {}}
    return configuration.load(merged).sections["bayes"]


@pytest.mark.parametrize("scale, dim", [("smoke", 28), ("default", 80), ("paper", 200)])
def test_project_configuration(scale, dim):
    yaml_section = yaml.safe_load(CONFIG.read_text())["bayes"]
    merged = {"figures": "bayes", "scale": scale, "bayes": yaml_section}
    loaded = configuration.load(merged).sections["bayes"]
    assert (loaded.dim, loaded.kappa0, loaded.noise) == (dim, 0.5, 0.5)


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"lam_range": [1, 0.1]}, "the lower end is not below the upper"),
        ({"damping": 1.5}, "damping: 1.5 will not do"),
        ({"small_dim": 90}, "90 is not below dim = 80"),
        ({"alphas": [1]}, "alphas"),
    ],
)
def test_a_bad_value_gives_a_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value)


def test_message_passing_names_the_experiment_its_weight_decay_comes_from():
    roles = bayes.experiments(section(TINY), 0)
    (best,) = roles["best"]
    assert all(e.inputs["best"] == best for e in roles["soft"] + roles["soft own"])
    assert all("best" not in e.inputs for e in roles["bayes"])
    other = bayes.experiments(section(TINY | {"lam_range": [0.01, 1]}), 0)
    assert other["soft"][0] != roles["soft"][0] and other["bayes"][0] == roles["bayes"][0]


@pytest.fixture(scope="module")
def drawn(figure_project):
    records = figure_project.records(bayes, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, bayes.draw(figure, records, section(TINY)), records


def test_panels_are_labelled_and_lines_are_in_the_table(drawn):
    figure, drawing, records = drawn
    assert len(figure.axes) == 4
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    rows = [r for r in drawing.table if (r["quantity"], r["series"]) == ("test_error", OPTIMAL[1])]
    np.testing.assert_allclose(
        [row["value"] for row in rows], records["optimal"][0].datasets["bayes_test_error"]
    )


def test_the_optimum_is_below_in_theory_and_on_each_instance(drawn):
    _, _, records = drawn
    erm, optimal = records["erm"][0].datasets, records["optimal"][0].datasets
    assert np.all(erm["test_error"] > optimal["bayes_test_error"])
    gap = erm["test_error"] / optimal["bayes_test_error"] - 1
    assert np.all(np.diff(gap) < 0)
    soft, best = (records[name][0].datasets["test_error"] for name in ("soft", "bayes"))
    assert np.all(soft > best)  # the same samples: gaps of 5 to 15 %


def test_message_passing_agrees_with_its_theory(drawn):
    _, drawing, _ = drawn
    assert drawing.flagged == [] and len(drawing.validation) == 2 * 2 * 2
    for row in drawing.validation:
        # 2/d to 4/d is measured at d = 80; 5 standard errors of 3 instances
        bound = 4 / 24 * abs(row["theory"]) + 5 * row["standard_error"]
        assert abs(row["simulation"] - row["theory"]) < bound, row


def test_best_weight_decay_of_theory_is_what_message_passing_used(drawn):
    _, _, records = drawn
    np.testing.assert_array_equal(
        records["soft"][0].datasets["lam"], records["best"][0].datasets["lam"]
    )


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(bayes, section(TINY)) == []
