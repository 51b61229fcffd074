"""The figure stability: its section, its experiments, and what it draws from a tiny run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.catalogue import with_inputs
from hdattn.errors import UserError
from hdattn.figures import stability, style, validation
from hdattn.figures._stability import Spectrum

CONFIG = Path(__file__).parents[1] / "config" / "multihead.yaml"
TINY = {
    **{"heads": [2, 3], "mean": [0.8, 0, 0], "std": [0, 1, 2], "base_points": 256},
    **{"scrambles": 4, "token_grid": [2, 5, 9], "token_curves": [2, 5], "mu_grid": [0.5, 0.8, 2]},
}


def section(changes=None):
    return configuration.load({"figures": "stability", "stability": changes or {}}).sections[
        "stability"
    ]


@pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
def test_project_configuration_shows_three_numbers_of_heads(scale):
    merged = {"figures": "stability", "scale": scale, **yaml.safe_load(CONFIG.read_text())}
    loaded = configuration.load(merged).sections["stability"]
    assert loaded.heads == (2, 4, 8) and 2 in loaded.token_curves
    groups = stability.experiments(loaded, 0).values()
    assert len(set(with_inputs(e for group in groups for e in group))) == 6


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"heads": [1, 2]}, "heads: one head cannot specialise; give at least 2 in each entry"),
        ({"tokens": 2}, "tokens: softmax heads never specialise at tokens = 2"),
        ({"std": [0, 0, 0, 0, 0]}, "std: no entry is positive: nothing will specialise"),
        ({"scrambles": 2}, "scrambles: 2 will not do; give a number of at least 3"),
        ({"base_points": 300}, "base_points: 300 is not a power of two"),
        ({"token_grid": [1, 5, 9]}, "token_grid[0]: 1 will not do; give a number of at least 2"),
        ({"mu_curves": [0, -1]}, "mu_curves[1]: -1 will not do; give a number of at least 0"),
        ({"token_curves": [2, 3, 4, 5, 6]}, "token_curves: "),
    ],
)
def test_a_bad_value_gives_one_line_that_says_how_to_mend_it(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def drawn(figure_project):
    small = section(TINY)
    records = figure_project.records(stability, small)
    with style.context():
        figure = style.new_figure()
        return figure, stability.draw(figure, records, small), records


def test_panels_are_labelled_and_everything_is_in_the_table(drawn):
    figure, drawing, _ = drawn
    assert len(figure.axes) == 4
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    assert len({tuple(row) for row in drawing.table}) == 1
    zero = [
        row["value"]
        for row in drawing.table
        if row["activation"] == "softmax" and row["tokens"] == 2 and row["panel"] == "mu"
    ]
    assert len(zero) == 3 and np.abs(zero).max() < 1e-10  # the quadrature's rounding
    # per activation: 2 heads and 2 spikes, and 2 numbers of tokens; by two measures
    assert len(drawing.validation) == 2 * (2 * 2 + 2) * 2


def test_closed_form_agrees_with_this_run(drawn):
    verdicts = [row["verdict"] for row in drawn[1].validation]
    assert set(verdicts) == {validation.AGREE}


def test_growth_is_proportional_to_variance_and_to_one_over_heads(drawn):
    two, three = Spectrum.read(drawn[2]["heads_bayes"][0])
    assert (two.heads, three.heads) == (2, 3)
    np.testing.assert_array_equal(two.variance, [1, 4])
    assert two.closed[1] / two.closed[0] == pytest.approx(4, rel=1e-14)
    # The same points at both H: the sampling error scales with the eigenvalue.
    ratio = two.mean["autograd"] / three.mean["autograd"]
    np.testing.assert_allclose(ratio, 1.5, rtol=1e-9)


def test_a_wrong_eigenvalue_disagrees():
    spectrum = Spectrum(
        *("bayes", 5, 2, np.array([4.0]), np.array([0.6])),
        {"autograd": np.array([0.63]), "growth_rate": np.array([0.602])},
        {"autograd": np.array([0.001]), "growth_rate": np.array([0.001])},
        8,
    )
    assert [row["verdict"] for row in spectrum.validation()] == ["disagree", "agree"]
