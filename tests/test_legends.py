"""Legends move off what is drawn before a figure is saved."""

import numpy as np
import pytest

from hdattn.figures import style
from hdattn.figures.overlaps import overlaps

X = np.linspace(0, 1, 50)


def saved(folder, draw):
    """The panel that ``draw`` fills, and what overlaps once the figure is saved."""
    with style.context():
        figure = style.new_figure()
        (axis,) = style.panels(figure)
        draw(axis)
        style.save(figure, folder / "figure", ("png",))
        return axis, overlaps(figure)


def test_another_corner_where_one_is_free(tmp_path):
    def draw(axis):
        axis.plot(X, X, label="rising")
        axis.legend(loc="upper right")
        axis.set_ylim(-0.05, 1.05)

    axis, found = saved(tmp_path, draw)
    assert found == [] and axis.get_ylim() == (-0.05, 1.05)


@pytest.mark.parametrize(
    "scale, heights, limits",
    [("linear", np.cos(40 * X), (-1.1, 1.1)), ("log", 10 ** np.cos(40 * X), (0.09, 11))],
)
def test_a_longer_axis_where_none_is(tmp_path, scale, heights, limits):
    def draw(axis):
        axis.plot(X, heights, label="everywhere")
        axis.set(yscale=scale, ylim=limits)
        axis.legend(loc="center")

    axis, found = saved(tmp_path, draw)
    low, high = axis.get_ylim()
    assert found == [] and low <= limits[0] and high >= limits[1] and (low, high) != limits


def test_error_bars_and_notes_are_not_hidden(tmp_path):
    def draw(axis):
        style.simulation(axis, [0.0, 0.9], [0.0, 0.5], [0.1, 0.5], style.BLUE, label="long bar")
        axis.text(0, 0.9, "a note")
        axis.legend(loc="upper right")

    _, found = saved(tmp_path, draw)
    assert found == []


def test_a_legend_in_a_free_place_stays_where_it_was_put(tmp_path):
    def draw(axis):
        axis.plot(X, X, label="rising")
        axis.legend(loc="lower right")

    axis, _ = saved(tmp_path, draw)
    assert axis.get_legend()._loc == 4  # matplotlib's number of "lower right"


def test_a_legend_too_large_for_any_place_is_reported(tmp_path):
    def draw(axis):
        for number in range(12):
            axis.plot(X, np.cos(40 * X), label=f"line {number}")
        axis.legend()

    _, found = saved(tmp_path, draw)
    assert any("legend on data" in line for line in found)
