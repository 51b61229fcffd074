"""The look of the figures: what a printer and a reader need."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from hdattn.errors import UserError
from hdattn.figures import style


def _example():
    figure = style.new_figure()
    left, right = style.panels(figure, 1, 2, width="double")
    x = np.geomspace(0.1, 4, 12)
    style.theory(left, x, x**2, style.BLUE, label=r"$\kappa=1$")
    style.theory(left, x, x**2 + 0.1, style.BLUE, thin=True)
    flagged = [False] * 11 + [True]
    style.simulation(left, x, x**2, 0.1 * x, style.BLUE, method="adam", flagged=flagged)
    style.threshold(left, 1.0, r"$\alpha_{\rm interp}$")
    style.level(left, 2.0, "floor")
    style.atom(right, 0.0, 0.1, 0.3, style.GREY)
    left.legend()
    return figure


def _saved(stem, *formats):
    with style.context():
        return [path.read_bytes() for path in style.save(_example(), stem, formats)]


def test_the_same_figure_has_the_same_bytes(tmp_path):
    formats = ("pdf", "png", "svg")
    assert _saved(tmp_path / "a", *formats) == _saved(tmp_path / "b", *formats)


def test_pdf_embeds_truetype_and_carries_no_date(tmp_path):
    (pdf,) = _saved(tmp_path / "a", "pdf")
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert b"Date" not in pdf


def test_sizes_are_those_of_one_and_two_columns():
    with style.context():
        figure = style.new_figure()
        assert figure.get_size_inches()[0] == style.SINGLE_COLUMN
        axes = style.panels(figure, 2, 2, width="double", height=4.0)
    assert tuple(figure.get_size_inches()) == (style.DOUBLE_COLUMN, 4.0)
    assert [a.get_title(loc="left") for a in axes] == ["(a)", "(b)", "(c)", "(d)"]


def test_flagged_points_are_hollow_and_lose_no_point():
    with style.context():
        figure = style.new_figure()
        (axis,) = style.panels(figure)
        flagged = [False, True, False]
        style.simulation(axis, [1, 2, 3], [4, 5, 6], None, style.BLUE, flagged=flagged, label="s")
    lines = {line.get_markerfacecolor(): line.get_xydata().tolist() for line in axis.lines}
    assert lines == {style.BLUE: [[1, 4], [3, 6]], "white": [[2, 5]]}
    assert axis.get_legend_handles_labels()[1] == ["s"]


def test_a_label_is_kept_when_all_points_are_flagged():
    with style.context():
        (axis,) = style.panels(style.new_figure())
        style.simulation(axis, [1], [4], [0.1], style.BLUE, flagged=[True], label="s")
    assert axis.get_legend_handles_labels()[1] == ["s"]


def test_atom_is_as_high_as_its_weight():
    with style.context():
        (axis,) = style.panels(style.new_figure())
        axis.set_ylim(0, 17)
        style.atom(axis, -0.1, 0.25, 0.6, style.GREY)
    (bar,) = axis.patches
    to_axes = axis.transAxes.inverted()
    top = to_axes.transform(bar.get_window_extent().corners())[:, 1].max()
    assert top == pytest.approx(0.6, abs=1e-9)  # rounding only


def test_a_users_style_sheet_lies_on_top(tmp_path):
    import matplotlib

    sheet = tmp_path / "mine.mplstyle"
    sheet.write_text("font.size: 13\n")
    with style.context(sheet):
        assert matplotlib.rcParams["font.size"] == 13
        assert matplotlib.rcParams["pdf.fonttype"] == 42


def test_wrong_choices_are_one_line(tmp_path):
    with pytest.raises(UserError, match="style sheet"), style.context(tmp_path / "none.mplstyle"):
        pass
    with pytest.raises(UserError, match=r"format 'jpg': choose from pdf, png, svg"):
        style.save(None, tmp_path / "a", ("jpg",))
    with pytest.raises(UserError, match=r"width is 'wide': choose from single, double"):
        style.new_figure("wide")


def test_csv_keeps_every_digit(tmp_path):
    third = 1 / 3
    rows = [
        {"alpha": np.float64(third), "flagged": np.bool_(True), "name": "a, b"},
        {"alpha": 2, "more": None},
    ]
    style.write_csv(tmp_path / "t.csv", rows)
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines == ["alpha,flagged,name,more", f'{third!r},true,"a, b",', "2,,,"]
    assert float(lines[1].split(",")[0]) == third


def test_importing_the_style_imports_no_matplotlib():
    code = "import sys, hdattn.figures.style; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
