"""The figure amp: its section, its experiments, and what it draws from a real tiny run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.catalogue import with_inputs
from hdattn.errors import UserError
from hdattn.figures import amp, style, validation

CONFIG = Path(__file__).parents[1] / "config" / "singlehead.yaml"
TINY = {"dim": 24, "small_dim": 16, "instances": 3, "block_size": 3, "test_samples": 512}
TINY |= {"iterations": 40, "nodes": 8}


def section(changes=None, scale="default"):
    merged = {"figures": "amp", "scale": scale, "amp": changes or {}}
    return configuration.load(merged).sections["amp"]


@pytest.mark.parametrize("scale, dim", [("smoke", 36), ("default", 80), ("paper", 200)])
def test_project_configuration(scale, dim):
    merged = {"figures": "amp", "scale": scale, "amp": yaml.safe_load(CONFIG.read_text())["amp"]}
    loaded = configuration.load(merged).sections["amp"]
    assert (loaded.dim, loaded.kappa0, loaded.noise) == (dim, 0.5, 0.5)
    assert loaded.passing("easy").damping == 0 < loaded.passing("hard").damping


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"damping": 1}, "damping: 1 will not do"),
        ({"small_dim": 80}, "80 is not below dim = 80; give two sizes"),
        ({"iterations": 5}, "5 will not do; give at least 20"),
        ({"dim": 1}, "dim"),
        ({"easy_lam": 0}, "easy_lam: 0 will not do"),
        ({"hard_alhpa": 1}, "hard_alhpa: unknown key; did you mean 'hard_alpha'?"),
    ],
)
def test_a_bad_value_gives_a_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value)


def paths(changes):
    groups = amp.experiments(section(changes), 0).values()
    return {str(e.path) for e in with_inputs(e for group in groups for e in group)}


def test_more_instances_only_add_blocks():
    assert paths({"instances": 4}) < paths({"instances": 8})


@pytest.fixture(scope="module")
def drawn(figure_project):
    records = figure_project.records(amp, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, amp.draw(figure, records, section(TINY)), records


def test_panels_are_labelled_and_what_is_drawn_is_in_the_table(drawn):
    figure, drawing, records = drawn
    assert len(figure.axes) == 6
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    runs = records["easy"][0].datasets
    rows = [
        r for r in drawing.table if (r["quantity"], r["case"], r["series"]) == ("Q", "easy", "amp")
    ]
    means = [runs["Q"][:, 0, row["iteration"]].mean() for row in rows[:8]]
    np.testing.assert_allclose([row["value"] for row in rows[:8]], means)


def test_runs_end_at_the_minimum(drawn):
    _, drawing, records = drawn
    rows = [r for r in drawing.validation if r["quantity"] == "objective"]
    assert len(rows) == 2
    for row in rows:
        # the tolerance of 1e-5 on S leaves 1e-9; slow runs of such small instances may not end
        if row["verdict"] != validation.UNRELIABLE:
            assert row["simulation"] == pytest.approx(row["theory"], rel=1e-6)
    assert rows[0]["verdict"] == validation.AGREE
    assert records["easy"][0].datasets["converged"].all()


def test_theory_agrees_at_each_iteration_of_the_easy_point(drawn):
    _, drawing, _ = drawn
    rows = [r for r in drawing.validation if "easy point, iteration" in r["point"]]
    assert len(rows) == 3 * len(amp.CHECKED)
    for row in rows:
        # 3/d is measured at d = 80; 5 standard errors of 3 instances
        bound = 4 / 24 * abs(row["theory"]) + 5 * row["standard_error"]
        assert abs(row["simulation"] - row["theory"]) < bound, row


def test_what_did_not_converge_is_listed_and_unreliable(figure_project):
    changed = section(TINY | {"damping": 0.0, "iterations": 21})
    with style.context():
        drawing = amp.draw(style.new_figure(), figure_project.records(amp, changed), changed)
    late = [line for line in drawing.flagged if "hard" in line]
    assert late and all("not converged at alpha = 0.5" in line for line in late)
    ends = [r for r in drawing.validation if r["point"].startswith("hard point, end")]
    assert [row["verdict"] for row in ends] == [validation.UNRELIABLE]


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(amp, section(TINY)) == []
