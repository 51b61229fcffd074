"""Everything in the panels of a figure becomes a row, whatever drew it, and nothing else does."""

import csv
from functools import partial

import numpy as np
import pytest
from tests.drawn import solid_changes

from hdattn.figures import drawn, style


@pytest.fixture
def panel():
    """A figure of one panel, (a), without anything in it."""
    with style.context():
        figure = style.new_figure()
        (axis,) = style.panels(figure)
        style.letter(axis, 0)
        yield axis


def rows(axis):
    """Rows of the figure, their empty cells left out."""
    found = drawn.rows(axis.figure)
    assert all(tuple(row) == drawn.COLUMNS for row in found)
    return [{k: v for k, v in row.items() if v is not None} for row in found]


def blue(kind, panel="(a)", **cells):
    return {"panel": panel, "kind": kind, "colour": "#0072b2", **cells}


def test_line_without_its_gaps(panel):
    style.theory(panel, [1, 2, 3], [0.1, np.nan, 1 / 3], style.BLUE, label="theory")
    line = blue("line", label="theory")
    assert rows(panel) == [line | {"x": 1.0, "y": 0.1}, line | {"x": 3.0, "y": 1 / 3}]


def test_markers_and_error_bars_hollow_and_filled(panel):
    style.simulation(panel, [1, 2], [3, 4], [0.5, 0.25], style.BLUE, flagged=[True, False])
    assert rows(panel) == [
        blue("markers", hollow=False, x=2.0, y=4.0),
        blue("markers", hollow=True, x=1.0, y=3.0),
        blue("bar", hollow=False, x=2.0, y=4.0, low=3.75, high=4.25),
        blue("bar", hollow=True, x=1.0, y=3.0, low=2.5, high=3.5),
    ]


def test_horizontal_error_bar(panel):
    panel.errorbar([2], [3], xerr=[0.5], fmt="o", color=style.BLUE, label="s", capsize=2)
    bar = blue("bar", label="s", hollow=False, x=1.5, x_end=2.5, y=3.0)
    assert rows(panel) == [blue("markers", label="s", hollow=False, x=2.0, y=3.0), bar]


def test_line_with_markers_is_both(panel):
    panel.plot([1], [2], "o-", color=style.BLUE)
    point = {"x": 1.0, "y": 2.0}
    assert rows(panel) == [blue("line", **point), blue("markers", hollow=False, **point)]


def test_scatter_and_segments(panel):
    panel.scatter([1], [2], color=style.BLUE)
    panel.vlines([3], [4], [5], color=style.BLUE)
    assert rows(panel) == [
        blue("markers", x=1.0, y=2.0),
        blue("line", x=3.0, y=4.0),
        blue("line", x=3.0, y=5.0),
    ]


def test_levels_have_one_coordinate(panel):
    style.level(panel, 0.25, "floor", colour=style.BLUE)
    panel.axvline(4, color=style.BLUE)
    assert rows(panel) == [blue("level", label="floor", y=0.25), blue("level", x=4.0)]


def test_fill_between_two_lines(panel):
    panel.fill_between([1, 2], [0, 1], [5, 3], color=style.BLUE)
    assert rows(panel) == [
        blue("fill", x=1.0, low=0.0, high=5.0),
        blue("fill", x=2.0, low=1.0, high=3.0),
    ]


def test_histogram_filled_hollow_and_without_a_face(panel):
    panel.stairs([3, 4], [0, 1, 5], fill=True, color=style.BLUE)
    panel.stairs([6], [0, 2], fill=True, facecolor="white", edgecolor=style.BLUE)
    panel.stairs([7], [0, 2], color=style.BLUE)
    assert rows(panel) == [
        blue("step", hollow=False, x=0.0, x_end=1.0, y=3.0),
        blue("step", hollow=False, x=1.0, x_end=5.0, y=4.0),
        blue("step", hollow=True, x=0.0, x_end=2.0, y=6.0),
        blue("step", hollow=False, x=0.0, x_end=2.0, y=7.0),
    ]


def test_line_of_a_solution_that_did_not_converge_has_a_white_core(panel):
    style.curve(panel, [1], [2], style.BLUE, label="descent", flagged=True)
    point = {"kind": "line", "x": 1.0, "y": 2.0}
    core = {"panel": "(a)", "colour": "#ffffff", "hollow": True}
    assert rows(panel) == [blue(label="descent", **point), core | point]


def test_levels_that_did_not_converge_have_a_hollow_marker(panel):
    style.level(panel, 0.25, colour=style.BLUE, flagged=True)
    style.threshold(panel, 4, "here", flagged=True)
    found = {(row["kind"], row.get("hollow"), row.get("x"), row.get("y")) for row in rows(panel)}
    lines = {("level", None, None, 0.25), ("level", None, 4.0, None)}
    assert found == lines | {("markers", True, None, 0.25), ("markers", True, 4.0, None)}


def test_bars_hollow_and_filled(panel):
    style.bars(panel, [1, 2], [3, 4], 0.5, style.BLUE, flagged=[True, False])
    found = [(row["hollow"], row["y_end"], row["colour"]) for row in rows(panel)]
    assert found == [(True, 3.0, "#0072b2"), (False, 4.0, "#0072b2")]


def test_bars_in_the_data_and_as_a_share_of_the_panel(panel):
    panel.bar([1], [0.5], 0.5, bottom=2, color=style.BLUE, label="bar")
    style.atom(panel, 3, 0.5, 0.75, style.BLUE)
    bar = blue("patch", label="bar", hollow=False, x=0.75, x_end=1.25, y=2.0, y_end=2.5)
    share = blue("share", hollow=False, x=2.75, x_end=3.25, y=0.0, y_end=0.75)
    assert [row | {"label": "bar"} for row in rows(panel)] == [bar, share | {"label": "bar"}]


def test_polygon_by_its_corners(panel):
    from matplotlib.patches import Polygon

    panel.add_patch(Polygon([[0, 0], [1, 0], [0, 1]], color=style.BLUE))
    corners = {(row["kind"], row["x"], row["y"]) for row in rows(panel)}
    assert corners == {("patch", 0.0, 0.0), ("patch", 1.0, 0.0), ("patch", 0.0, 1.0)}


def test_map_by_its_cells_but_those_masked_and_not_its_colour_bar(panel):
    values = np.ma.masked_array([[0.5, 7.0], [1.5, 2.5]], [[False, True], [False, False]])
    panel.figure.colorbar(panel.pcolormesh([0, 1, 3], [0, 1, 2], values), ax=panel)
    cell = {"panel": "(a)", "kind": "mesh"}
    assert rows(panel) == [
        cell | {"x": 0.0, "x_end": 1.0, "y": 0.0, "y_end": 1.0, "value": 0.5},
        cell | {"x": 0.0, "x_end": 1.0, "y": 1.0, "y_end": 2.0, "value": 1.5},
        cell | {"x": 1.0, "x_end": 3.0, "y": 1.0, "y_end": 2.0, "value": 2.5},
    ]


def test_notes_at_a_point_but_not_at_a_place_of_the_panel(panel):
    panel.text(1, 2, "rate\n2", color=style.BLUE)
    panel.annotate("3", (4, 5), (6, 7), textcoords="offset points", color=style.BLUE)
    panel.text(0.5, 0.5, "in the middle", transform=panel.transAxes)
    panel.annotate("beside", (1, 2), xycoords="axes fraction")
    assert rows(panel) == [
        blue("note", label="rate 2", x=1.0, y=2.0),
        blue("note", label="3", x=4.0, y=5.0),
    ]


def test_twins_insets_and_what_is_not_seen(panel):
    look = {"color": style.BLUE}
    panel.plot([1], [1], **look)
    panel.twinx().plot([1], [2], **look)
    panel.inset_axes((0.5, 0.5, 0.4, 0.4)).plot([1], [3], **look)
    panel.plot([1], [4], visible=False)
    assert {(row["panel"], row["y"]) for row in rows(panel)} == {
        ("(a)", 1.0),
        ("(a) twin", 2.0),
        ("(a) inset", 3.0),
    }
    panel.figure.axes[1].set_visible(False)
    assert "(a) twin" not in {row["panel"] for row in rows(panel)}


def test_anything_else_is_there_by_name(panel):
    panel.imshow([[1, 2], [3, 4]])
    assert rows(panel) == [{"panel": "(a)", "kind": "AxesImage"}]


def test_rows_survive_the_file_in_full_precision(panel, tmp_path):
    y = [0.1 + 0.2, 1e-300, np.pi]
    style.theory(panel, [1, 2, 3], y, style.BLUE)
    style.write_csv(tmp_path / "drawn.csv", drawn.rows(panel.figure))
    with (tmp_path / "drawn.csv").open(newline="") as file:
        assert [float(row["y"]) for row in csv.DictReader(file)] == y


def pair(draw, *values):
    """A figure for each value, drawn with it."""
    with style.context():
        figures = [style.new_figure() for _ in values]
        for figure, value in zip(figures, values, strict=True):
            draw(*style.panels(figure), value)
    return figures


def test_a_change_is_found_where_it_is_not_hollow():
    def draw(axis, value, **look):
        style.simulation(axis, [1, 2], [value, 3], [0.1, 0.2], style.BLUE, **look)

    moved = 4  # a marker and its error bar, here and there
    assert len(solid_changes(*pair(draw, 5, 6))) == moved
    assert solid_changes(*pair(draw, 5, 5)) == []
    hollow = partial(draw, flagged=[True, False])
    assert solid_changes(*pair(hollow, 5, 6)) == []
    elsewhere = partial(draw, flagged=[False, True])
    assert len(solid_changes(*pair(elsewhere, 5, 6))) == moved


def test_a_line_may_pass_through_a_hollow_marker_but_not_move_elsewhere():
    def draw(axis, value, **look):
        style.theory(axis, [1, 2], [value, value], style.BLUE, **look)

    assert solid_changes(*pair(partial(draw, flagged=[True, True]), 5, 6)) == []
    assert len(solid_changes(*pair(partial(draw, flagged=[True, False]), 5, 6))) == 2
