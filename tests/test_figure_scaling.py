"""The figures scaling and phase_diagram: sections, and real tiny runs."""

import numpy as np
import pytest

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import phase_diagram, scaling, style

TINY = {"dims": [60], "nodes": 12, "points": 8, "spectral_exponents": [1.5], "simulated_dim": 16}
TINY |= {"small_dim": 10, "instances": 3, "block_size": 3, "test_samples": 1024, "alphas": [1]}
TINY |= {"large_dims": [500, 5000], "simulated_exponent": 1.5}
MAP = {"dim": 40, "nodes": 8, "sizes": [1e3, 1e5, 1e7], "lams": [0.3, 30]}


def section(name, changes=None):
    return configuration.load({"figures": name, name: changes or {}}).sections[name]


@pytest.mark.parametrize(
    "name, changes, line",
    [
        ("scaling", {"spectral_exponents": [0.5]}, "spectral_exponents[0]: 0.5 will not do"),
        ("scaling", {"points": 5}, "points: 5 will not do"),
        ("scaling", {"simulated_dim": 20}, "small_dim: 40 is not below dim = 20"),
        ("scaling", {"noise": 0}, "noise: 0 will not do"),
        ("phase_diagram", {"spectral_exponent": 0.4}, "spectral_exponent: 0.4 will not do"),
        ("phase_diagram", {"lams": [1]}, "lams"),
    ],
)
def test_a_bad_value_gives_one_line(name, changes, line):
    with pytest.raises(UserError) as caught:
        section(name, changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_slopes_are_drawn_and_training_agrees(figure_project):
    s = section("scaling", TINY)
    records = figure_project.records(scaling, s)
    with style.context():
        figure = style.new_figure()
        drawing = scaling.draw(figure, records, s)
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    assert drawing.flagged == []
    fits = [r for r in drawing.table if r["series"].startswith("fit")]
    # two channels: three regimes of one d, and two of independent modes at two d
    assert len(fits) == 2 * (3 * 1 + 2 * 2)
    for fit in fits:
        # a window of d = 60 is short: drift of order d^-1 times a constant of order one; with a
        # vanishing penalty modes that emerge lower the slope
        allowed = 0.2 if fit["regime"] == "vanishing" else 0.1
        assert fit["exponent"] == pytest.approx(fit["predicted"], abs=allowed), fit
    (row,) = drawing.validation
    # finite d = 16: 5 standard errors of 3 instances and 3/d
    bound = 5 * row["standard_error"] + 3 / 16 * row["theory"]
    assert abs(row["simulation"] - row["theory"]) < bound, row
    (simulated,) = [r for r in drawing.table if r["series"].startswith("L-BFGS")]
    assert simulated["kurtosis"] > 0.3  # products of few modes are far from Gaussian
    assert simulated["floor_of_samples"] > 0


def test_the_map_has_its_boundaries(figure_project):
    s = section("phase_diagram", MAP)
    records = figure_project.records(phase_diagram, s)
    with style.context():
        figure = style.new_figure()
        drawing = phase_diagram.draw(figure, records, s)
    # two penalties and the line t = 2b at three n
    assert len(drawing.table) == 9 and drawing.flagged == []
    lines = phase_diagram.boundaries(s, records["theory"][0].datasets["saturation"])
    strong = [r for r in drawing.table if r["lam"] == 30]
    # S vanishes where lambda is well above the line of the first mode, and is full well below
    # that of the last one
    assert lines["first"][0] < 10 and strong[0]["rank_fraction"] == 0
    assert lines["last"][2] > 60 and strong[2]["rank_fraction"] == pytest.approx(1, abs=1e-6)
    assert np.all(lines["last"] < lines["first"])


@pytest.mark.parametrize(
    "module, name, changes", [(scaling, "scaling", TINY), (phase_diagram, "phase_diagram", MAP)]
)
def test_what_did_not_converge_is_listed_and_not_judged(figure_project, module, name, changes):
    assert figure_project.hides(module, section(name, changes)) == []
