"""The figure finite_size: its section, its experiments, and what it draws from a small run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.catalogue import with_inputs
from hdattn.errors import UserError
from hdattn.figures import finite_size, style, validation
from hdattn.figures._deviations import Deviation, Series, extrapolated

CONFIG = Path(__file__).parents[1] / "config" / "multihead.yaml"
SMALL = {
    **{"dims": [60, 120], "instances": 40, "blocks": 1, "gammas": [2, 4], "gamma_dim": 60},
    **{"records": 5, "base_points": 1024, "scrambles": 2},
}


def section(changes=None):
    merged = {"figures": "finite_size", "finite_size": changes or {}}
    return configuration.load(merged).sections["finite_size"]


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration_at_every_scale(scale):
    merged = {"figures": "finite_size", "scale": scale, **yaml.safe_load(CONFIG.read_text())}
    loaded = configuration.load(merged).sections["finite_size"]
    assert (loaded.tokens, loaded.heads, loaded.gamma) == (4, 3, 2)
    largest = {"smoke": 128, "default": 512, "paper": 2048}
    assert loaded.dims[-1] == largest[scale]
    groups = finite_size.experiments(loaded, 0).values()
    assert len(set(with_inputs(e for group in groups for e in group))) <= (
        200 if scale == "paper" else 30
    )


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"heads": 2}, "start_m: give 2 rows (heads) of 2 numbers (spikes)"),
        ({"heads": 1}, "heads: one head cannot specialise; give at least 2"),
        ({"start_r_perp": 0}, "start_r_perp: 0 will not do; give a number above 0"),
        ({"gammas": [2, 1]}, "gammas: the points of a grid must increase"),
        ({"gamma_dim": 20}, "gamma_dim: 20 will not do; give a number of at least 50"),
        ({"activation": "softmax1"}, "activation: 'softmax1' will not do; choose from"),
        ({"tau": 0}, "tau: 0 will not do; give a number above 0"),
    ],
)
def test_a_bad_value_gives_one_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_runs_at_one_gamma_and_dimension_are_shared_between_panels():
    groups = finite_size.experiments(section(), 0)
    assert groups["gamma_2"] == groups["dim_128"]


@pytest.fixture(scope="module")
def drawn(figure_project):
    small = section(SMALL)
    records = figure_project.records(finite_size, small)
    with style.context():
        figure = style.new_figure()
        return figure, finite_size.draw(figure, records, small)


def value(drawing, **where):
    rows = [row for row in drawing.table if all(row[key] == v for key, v in where.items())]
    assert len(rows) == 1
    return rows[0]["value"], rows[0]["standard_error"]


def test_panels_are_labelled_and_everything_is_in_the_table(drawn):
    figure, drawing = drawn
    assert len(figure.axes) == 3
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    assert len({tuple(row) for row in drawing.table}) == 1
    assert len(drawing.table) == (2 + 2) * 5 + 2 * 3 + 2 * 3 + 2 * 50  # the last: two lines
    assert drawing.flagged == []


def test_deviation_halves_with_the_term_and_stays_without(drawn):
    """.108(5) and .055(5) with the term, .31 and .26 without it: bounds at 4 standard errors."""
    _, drawing = drawn
    small, large = (value(drawing, panel="D", source="sgd minus flow", dim=d) for d in (60, 120))
    assert abs(small[0] - 2 * large[0]) < 4 * np.hypot(small[1], 2 * large[1])
    assert large[0] > 3 * large[1]
    bare, error = value(drawing, panel="D", source="sgd minus gradient flow", dim=120)
    gap, _ = value(drawing, panel="gamma", source="flow minus gradient flow", gamma=2)
    assert bare - large[0] == pytest.approx(gap, rel=1e-12) and gap > 10 * error
    assert {row["verdict"] for row in drawing.validation} == {validation.AGREE}


def test_gap_of_the_flows_grows_in_proportion_to_gamma(drawn):
    gaps = [
        value(drawn[1], panel="gamma", source="flow minus gradient flow", gamma=g)[0]
        for g in (2, 4)
    ]
    # .2027 and .422: the term enters linearly at first, and heads that grow feel it more.
    assert gaps[1] / gaps[0] == pytest.approx(2, rel=0.1)


def deviations(term, runs=300):
    """SGD at D = 64, 128, 256, 512: 1.14 + 6/D, known to .0012; the flow with ``term``."""
    still = Series(np.array([10.0]), np.array([0.936]), np.array([1e-4]), 4, True)
    flow = Series(np.array([10.0]), np.array([0.936 + term]), np.array([1e-4]), 4, True)
    for dim in (64, 128, 256, 512):
        mean, error = 1.14 + 6 / dim, 0.0012
        sgd = Series(np.array([10.0]), np.array([mean]), np.array([error]), runs, True)
        yield Deviation(dim, 2.0, sgd, flow, still)


def test_extrapolation_cancels_what_falls_as_one_over_d():
    mean, error = extrapolated(list(deviations(0.204)))
    assert mean == pytest.approx(1.14, rel=1e-14)
    assert error == pytest.approx(0.0012 * np.sqrt(5), rel=1e-12)


@pytest.mark.parametrize("factor, verdict", [(1.0, "agree"), (0.95, "disagree"), (0.0, "disagree")])
def test_five_per_cent_of_the_gamma_term_are_seen(factor, verdict):
    rows = list(finite_size._validation(list(deviations(0.204 * factor)), section()))
    assert len(rows) == 4
    assert rows[-1]["point"].endswith("1/D to 0") and rows[-1]["verdict"] == verdict


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(finite_size, section(SMALL)) == []
