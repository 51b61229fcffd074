"""The figure spectra: its section, its experiments, and a real tiny run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from hdattn import configuration
from hdattn.catalogue import with_inputs
from hdattn.errors import UserError
from hdattn.figures import spectra, style
from hdattn.singlehead.targets import MarchenkoPastur

CONFIG = Path(__file__).parents[1] / "config" / "singlehead.yaml"
TINY = {
    "alphas": [0.5, 4, 40],
    "dims": [12, 12, 8],
    "instances": 3,
    "block_size": 3,
    "nodes": 12,
    "test_samples": 64,
    "bins": 12,
    "density_points": 80,
}


def section(changes=None, scale="default"):
    merged = {"figures": "spectra", "scale": scale, "spectra": changes or {}}
    return configuration.load(merged).sections["spectra"]


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"alphas": [1, 2]}, "dims: 4 for 2 alphas; give one dimension for each panel"),
        ({"dims": [100, 100, 100, 0]}, "dims[3]: 0 will not do; give a number of at least 1"),
        ({"kappa": 0.01}, "dims: 50 leaves no column for kappa = 0.01; give at least 100"),
        ({"bins": 0}, "bins: 0 will not do; give a number of at least 1"),
        ({"lam": -1}, "lam: -1 will not do; give a number above 0"),
    ],
)
def test_a_bad_value_gives_one_line(changes, line):
    with pytest.raises(UserError) as caught:
        section(changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def paths(changes):
    groups = spectra.experiments(section(changes), 0).values()
    return {str(e.path) for e in with_inputs(e for group in groups for e in group)}


def test_more_instances_only_add_blocks():
    few, many = paths({"instances": 2}), paths({"instances": 4})
    assert few < many
    assert len(many) - len(few) == 2 * 3  # a block: data, theory and training, at two dimensions
    assert few == paths({"instances": 2, "bins": 7})


def test_panels_of_one_dimension_share_their_training():
    groups = spectra.experiments(section(), 0)
    assert groups["lbfgs 100"][0].parameters["alphas"] == [0.05, 0.5, 4]
    assert groups["lbfgs 50"][0].parameters["alphas"] == [40]


def test_job_count_at_default_scale():
    merged = {"figures": "spectra", **yaml.safe_load(CONFIG.read_text())}
    loaded = configuration.load(merged).sections["spectra"]
    groups = spectra.experiments(loaded, 0).values()
    assert len(set(with_inputs(e for group in groups for e in group))) <= 40


def test_target_density_is_the_marchenko_pastur_law():
    s = np.array([0.15, 0.5, 1.0, 2.0, 4.0])
    # the law smoothed by a semicircle of width 0.01, by the cubic of the free convolution:
    # off the edges the smoothing moves the density by about 1e-4
    smoothed = MarchenkoPastur(0.5).convolve(0.005).density(s)
    np.testing.assert_allclose(spectra.target_density(s, 0.5), smoothed, atol=1e-3)
    fine = np.linspace(0.01, 5, 200_001)
    assert np.trapezoid(spectra.target_density(fine, 0.5), fine) == pytest.approx(0.5, abs=1e-5)


@pytest.fixture(scope="module")
def drawn(figure_project):
    records = figure_project.records(spectra, section(TINY))
    with style.context():
        figure = style.new_figure()
        return figure, records, spectra.draw(figure, records, section(TINY))


def rows(drawing, alpha, series):
    return [r for r in drawing.table if (r["alpha"], r["series"]) == (alpha, series)]


def test_histogram_has_the_mass_of_the_rank(drawn):
    _, records, drawing = drawn
    ranks = records["lbfgs 12"][0].datasets["rank_fraction"].mean(0)
    for column, alpha in enumerate((0.5, 4)):
        bins = rows(drawing, alpha, "histogram")
        mass = sum(r["value"] * (r["bin_end"] - r["s"]) for r in bins)
        assert mass == pytest.approx(ranks[column])  # every positive eigenvalue is in a bin
        (atom,) = rows(drawing, alpha, "simulation atom")
        assert atom["value"] == pytest.approx(1 - mass)


def test_both_weights_of_the_atom_are_written(drawn):
    figure, records, drawing = drawn
    (theory,) = rows(drawing, 4, "theory atom")
    assert theory["value"] == pytest.approx(records["limit"][0].datasets["atom_at_zero"][1])
    text = "".join(t.get_text() for t in figure.axes[1].texts)
    assert f"theory {theory['value']:.3f}" in text and "trained 0." in text


def test_the_split_bulk_has_an_inset_and_unused_panels_are_gone(drawn):
    figure, _, drawing = drawn
    insets = [len(axis.child_axes) for axis in figure.axes[:4]]
    assert insets == [0, 0, 1, 0]
    assert not figure.axes[3].get_visible()
    assert rows(drawing, 40, "histogram, inset")
    assert len(drawing.validation) == 3 and drawing.flagged == []


def test_what_did_not_converge_is_listed_and_not_judged(figure_project):
    assert figure_project.hides(spectra, section(TINY)) == []
