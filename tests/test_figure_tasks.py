"""The figure tasks: its section, its experiments, and a real tiny run."""

import numpy as np
import pytest

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import style, tasks

TINY = {"dims": [10, 24], "instances": 3, "block_size": 3, "nodes": 8, "test_samples": 4096}
TINY |= {"alphas": [0.5, 2], "theory_alphas": [0.5, 2]}


def section(changes=None):
    merged = {"figures": "tasks", "tasks": changes or {}}
    return configuration.load(merged).sections["tasks"]


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"dims": [40, 30]}, "dims: the dimensions must increase, without repeats"),
        ({"dims": [30]}, "dims"),
        ({"dims": [1, 30], "kappa0": 0.2}, "dims: 1 leaves no column for kappa0 = 0.2"),
        ({"lam": -0.01}, "lam: -0.01 will not do; give a number above 0"),
    ],
)
def test_a_bad_value_gives_a_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value)


def test_both_tasks_see_the_same_data():
    roles = tasks.experiments(section(TINY), 0)
    for dim in TINY["dims"]:
        labels, sequences = (roles[f"{task} {dim}"][0] for task in ("seq2lab", "seq2seq"))
        assert labels.inputs["data"] == sequences.inputs["data"] and labels != sequences


@pytest.fixture(scope="module")
def drawn(figure_project):
    records = figure_project.records(tasks, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, tasks.draw(figure, records, section(TINY)), records


def test_the_tasks_merge_as_d_grows(drawn):
    figure, drawing, _ = drawn
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    gaps = {
        (row["alpha"], row["dim"]): abs(row["value"])
        for row in drawing.table
        if row["quantity"].startswith("test error, seq2seq")
    }
    for alpha in TINY["alphas"]:
        assert gaps[alpha, 24] < gaps[alpha, 10]
        assert gaps[alpha, 24] < 6 / 24


def test_sequences_agree_with_the_theory_of_labels(drawn):
    _, drawing, _ = drawn
    assert drawing.flagged == [] and len(drawing.validation) == 2 * 2 * 2
    assert {row["point"].split()[-1] for row in drawing.validation} == {"seq2lab", "seq2seq"}
    deviations = [r["simulation"] / r["theory"] - 1 for r in drawing.validation]
    errors = [r["standard_error"] / r["theory"] for r in drawing.validation]
    # 3/d, and 5 standard errors of 3 instances
    assert np.all(np.abs(deviations) < 3 / 24 + 5 * np.array(errors))


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(tasks, section(TINY)) == []
