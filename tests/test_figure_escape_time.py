"""The figure escape_time: its section, its experiments, and what it draws from a tiny run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.catalogue import with_inputs
from hdattn.errors import UserError
from hdattn.figures import escape_time, style, validation
from hdattn.figures._escape import Curve, Point
from hdattn.figures._random_starts import RandomStarts

CONFIG = Path(__file__).parents[1] / "config" / "multihead.yaml"
TINY = {
    **{"dims": [60, 120], "instances": 4, "blocks": 1, "tau_max": {"bayes": 7}, "records": 71},
    **{"base_points": 256, "scrambles": 2, "flow_dims": [100, 1e4, 1e8]},
    **{"random_dims": [1e2, 1e5], "random_seeds": 3, "random_points": 512, "tau_random": 40},
}


def section(changes=None):
    merged = {"figures": "escape_time", "escape_time": changes or {}}
    return configuration.load(merged).sections["escape_time"]


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration_is_the_base_set_at_every_scale(scale):
    merged = {"figures": "escape_time", "scale": scale, **yaml.safe_load(CONFIG.read_text())}
    loaded = configuration.load(merged).sections["escape_time"]
    assert (loaded.tokens, loaded.heads, loaded.mean, loaded.std) == (5, 2, (0.8, 0), (0, 2))
    largest = {"smoke": 200, "default": 2000, "paper": 8000}
    assert loaded.dims[-1] == largest[scale] and loaded.flow_dims[-1] >= 1e8
    assert scale == "smoke" or len(loaded.dims) >= 3


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"heads": 1}, "heads: one head cannot specialise; give at least 2"),
        ({"tokens": 2}, "softmax heads never specialise at tokens = 2"),
        ({"std": [0, 0]}, "std: no entry is positive: nothing will specialise"),
        ({"mean": [0, 0]}, "mean: all entries are 0: there is no first phase"),
        ({"dims": [500]}, "dims: [500] will not do; give at least 2"),
        ({"dims": [40, 80, 160]}, "dims[0]: 40 will not do; give a number of at least 50"),
        ({"dims": [500, 250]}, "dims: [500, 250] must increase"),
        ({"instances": 2}, "instances: 2 will not do; give a number of at least 3"),
        ({"blocks": 3}, "blocks: 3 does not divide instances = 16"),
        ({"scrambles": 1}, "scrambles: 1 will not do; give a number of at least 2"),
        ({"flow_dims": [3, 100]}, "flow_dims: 3 will not do; heads start split below 4"),
        ({"tau_max": {"softmax1": 10}}, "will not do; map softmax and bayes"),
        ({"batch": 400}, "batch: unknown key"),
    ],
)
def test_a_bad_value_gives_one_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_smaller_dimensions_have_more_runs_in_as_many_jobs():
    groups = escape_time.experiments(section(), 0)
    for dim, runs in ((250, 128), (500, 64), (2000, 16)):
        blocks = groups[f"sgd_softmax_{dim}"]
        assert len(blocks) == 2
        assert sum(block.parameters["block_size"] for block in blocks) == runs
        assert all(block.parameters["start"] == {"kind": "pairs", "feature": 1} for block in blocks)
    assert len(set(with_inputs(e for group in groups.values() for e in group))) == 4 + 2 * 8 + 8 + 8


@pytest.fixture(scope="module")
def drawn(figure_project):
    small = section(TINY)
    records = figure_project.records(escape_time, small)
    with style.context():
        figure = style.new_figure()
        return figure, escape_time.draw(figure, records, small), records, small


def test_panels_are_labelled_and_everything_is_in_the_table(drawn):
    figure, drawing, records, _ = drawn
    assert len(figure.axes) == 3
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    assert len({tuple(row) for row in drawing.table}) == 1
    limit = records["limit_bayes"][0].datasets
    rows = [
        row["value"]
        for row in drawing.table
        if row["quantity"] == "escape" and row["source"] == "flow, gamma to 0"
    ]
    np.testing.assert_allclose(rows, limit["escape"].mean(axis=0))
    assert drawing.flagged == []


def test_escape_grows_with_log_d_and_arrival_does_not(drawn):
    _, drawing, records, small = drawn
    curves = [Curve.read("bayes", quantity, records, small) for quantity in ("escape", "arrival")]
    escape, arrival = curves
    # 256 points know the rate to a few per cent.
    assert escape.slope == pytest.approx(0.5 / escape.rate, rel=0.1)
    assert abs(arrival.slope) < 0.01 * escape.slope
    # SGD at the larger D is on the flow: 5 standard errors, and the O(1/D) seen at half of it.
    values, errors = escape.difference
    assert abs(values[1]) < 5 * errors[1] + (abs(values[0]) + 2 * errors[0]) / 2
    assert len(drawing.validation) == 2


def test_random_starts_lie_on_the_curve_of_the_pair_that_starts_as_far_apart(drawn):
    _, _, records, small = drawn
    starts = RandomStarts.read("bayes", records, small)
    curve = Curve.read("bayes", "escape", records, small)
    assert starts.escape.shape == (6,) and np.ptp(np.log10(starts.equivalent)) > 3
    pair = np.interp(np.log(starts.equivalent), np.log(curve.dims), curve.limit)
    # 512 points know the rate to 4 %; the overlaps with the mean start at 0.1 / sqrt(D) as well
    np.testing.assert_allclose(starts.escape, pair, rtol=0.1)
    assert starts.fit()[0] == pytest.approx(0.5 / curve.rate, rel=0.1)
    waiting = replace(starts, escape=np.full(6, np.nan))
    assert np.isnan(waiting.fit()[0]) and "6 flows" in waiting.flags()[0]


def test_a_run_that_does_not_get_there_is_flagged_and_left_out(drawn):
    _, _, records, small = drawn
    (block,) = records["sgd_bayes_120"]
    details = dict(block.details)
    m = details["m"].values.copy()
    m[1] = 0.0
    details["m"] = replace(details["m"], values=m)
    changed = records | {"sgd_bayes_120": [replace(block, details=details)]}
    with style.context():
        drawing = escape_time.draw(style.new_figure(), changed, small)
    assert len(drawing.flagged) == 2 and "D = 120" in drawing.flagged[0]
    assert {row["verdict"] for row in drawing.validation} == {validation.UNRELIABLE}
    assert {row["instances"] for row in drawing.validation} == {3}


@pytest.mark.parametrize(
    "factor, verdict", [(1.0, "agree"), (1.05, "disagree"), (0.95, "disagree")]
)
def test_an_error_of_five_per_cent_that_does_not_shrink_disagrees(factor, verdict):
    """Times of 10 with standard errors of .02, above the flow by 2/D in relative terms."""
    dims = np.array([250, 500, 1000])
    flow = 2 * np.log(dims)
    sgd = [
        Point(int(d), f * factor * (1 + 2 / d), 0.02, 16, True)
        for d, f in zip(dims, flow, strict=True)
    ]
    curve = Curve("softmax", "escape", dims, flow, flow, np.zeros(3), sgd, 0.25)
    rows = list(curve.validation())
    assert [row["point"] for row in rows] == ["softmax D=500", "softmax D=1000"]
    assert {row["verdict"] for row in rows} == {verdict}


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(escape_time, section(TINY)) == []
