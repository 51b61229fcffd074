"""The figures decomposition, emergence and powerlaw_spectra: sections, and real tiny runs."""

import numpy as np
import pytest

from hdattn import configuration
from hdattn.errors import UserError
from hdattn.figures import decomposition, emergence, powerlaw_spectra, style

SIMULATED = {"simulated_dim": 20, "small_dim": 12, "instances": 3, "block_size": 3, "nodes": 8}
SIMULATED |= {"test_samples": 1024, "alphas": [0.5, 2]}
THEORY = {"dim": 60, "sizes": [200, 1e3, 5e3, 3e4, 1e6]}


def section(name, changes=None):
    return configuration.load({"figures": name, name: changes or {}}).sections[name]


def drawn(module, project, changes):
    s = section(module.__name__.split(".")[-1], changes)
    records = project.records(module, s)
    with style.context():
        figure = style.new_figure()
        drawing = module.draw(figure, records, s)
    assert all(axis.get_ylabel() for axis in figure.axes if axis.get_visible())
    assert drawing.flagged == []
    for row in drawing.validation:
        # 5 standard errors of 3 instances, and a finite d = 20
        bound = 5 * row["standard_error"] + 4 / 20 * row["theory"]
        assert abs(row["simulation"] - row["theory"]) < bound, row
    return records, drawing


@pytest.mark.parametrize(
    "name, changes, line",
    [
        ("decomposition", {"spectral_exponent": 0.5}, "spectral_exponent: 0.5 will not do"),
        ("emergence", {"levels": [1]}, "levels"),
        ("emergence", {"multiplicities": [1, 2]}, "give 3 counts, with a sum of at most"),
        ("emergence", {"block_size": 3}, "3 does not divide instances = 4; give whole blocks"),
        ("powerlaw_spectra", {"nodes": 9}, "nodes: 9 will not do"),
        ("powerlaw_spectra", {"lam_eff": 0}, "lam_eff: 0 will not do"),
    ],
)
def test_a_bad_value_gives_one_line(name, changes, line):
    with pytest.raises(UserError) as caught:
        section(name, changes)
    assert line in str(caught.value) and "\n" not in str(caught.value)


def test_the_parts_add_up_to_the_excess(figure_project):
    records, drawing = drawn(decomposition, figure_project, SIMULATED | THEORY)
    data = records["theory"][0].datasets
    for labels in ("", "clean_"):
        parts = sum(decomposition.rescaled(data, name, labels) for name in decomposition.PARTS)
        # by the definition of the factor; quadrature of the errors to 1e-10
        np.testing.assert_allclose(
            parts + data[f"{labels}mismatch"], data[f"{labels}excess"], rtol=1e-6, atol=1e-9
        )
    assert np.all(np.diff(data["under"]) <= 0) and np.all(data["over"] < 0.1 * data["excess"])
    assert {r["quantity"] for r in drawing.validation} == {"total", "approximation"}


def test_modes_emerge_in_steps(figure_project):
    # 12 nodes: with 8 the quadrature ends the fall of the error at 1e-6
    few = {"levels_sizes": np.geomspace(8e4, 1e13, 16).tolist(), "nodes": 12}
    records, drawing = drawn(emergence, figure_project, SIMULATED | THEORY | few)
    data = records["theory"][0].datasets
    modes = np.arange(1, 61.0) ** -1
    points = emergence.emergences(data, modes / np.sqrt(np.mean(modes**2)))
    inside = np.isfinite(points)
    assert np.all(np.diff(points[inside]) > 0) and inside.sum() > 5
    # a mode is counted from where the interpolated noise falls below it
    expected = [int((points[inside] <= n).sum()) for n in data["n"][:-1]]
    before = int(np.argmax(inside))  # modes that have emerged by the first n
    assert np.abs(data["recovered"][:-1] - expected - before).max() <= 1
    many, single = (record.datasets for record in records["levels"])
    assert set(many["recovered"]) <= {0, 1, 101, 10101}
    assert set(single["recovered"]) <= {0, 1, 2, 3}
    # with 100 times as many modes in the next level the error waits for it, with one it does not
    flat, steep = (
        levels["local_exponent"][np.isin(levels["recovered"], learnt)]
        for levels, learnt in ((many, (1, 101)), (single, (1, 2)))
    )
    # .15 to .23 on the plateaus, which last a factor of 25 in n; .88 to 1 without them
    assert flat.min() < 0.3 and flat.max() > 0.7 and steep.min() > 0.8
    rows = [r for r in drawing.table if r["series"].startswith("L-BFGS") and r.get("mode") == 1]
    for row in rows:
        # the strongest mode is far above the noise
        assert row["overlap"] == pytest.approx(row["expected"], abs=0.1)
    assert {r["quantity"] for r in drawing.validation} == {"total", "rank"}


def test_outliers_lie_on_the_curve(figure_project):
    changes = SIMULATED | {"spectral_exponents": [1.5]}
    _, drawing = drawn(powerlaw_spectra, figure_project, changes)
    modes = [r for r in drawing.table if r["series"] == "modes" and r["signal"] > 3]
    assert len(modes) >= 2
    for row in modes:
        # one eigenvalue of a matrix of d = 20: b sqrt(2/d) over sqrt(3 instances) is .18 b
        expected = row["signal"] + 1 / row["signal"]
        assert row["outlier"] == pytest.approx(expected, abs=0.15 * expected + 0.6)
    np.testing.assert_allclose(
        powerlaw_spectra.outliers(0.8, 0.4, 0.1, np.array([2.0, 0.4])), [1.6 + 0.1 - 0.1, np.nan]
    )


@pytest.mark.parametrize(
    "module, changes",
    [
        (decomposition, SIMULATED | THEORY),
        (emergence, SIMULATED | THEORY | {"levels_sizes": [1e5, 1e7, 1e9]}),
        (powerlaw_spectra, SIMULATED | {"spectral_exponents": [1.5]}),
    ],
)
def test_what_did_not_converge_is_listed_and_not_judged(figure_project, module, changes):
    name = module.__name__.rpartition(".")[2]
    assert figure_project.hides(module, section(name, changes)) == []
