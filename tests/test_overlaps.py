"""What covers what in a figure is found, and nothing else is."""

import pytest

from hdattn.figures import style
from hdattn.figures.overlaps import overlaps


def drawn(draw, columns=1):
    """What ``overlaps`` says of a figure whose panels ``draw`` fills."""
    with style.context():
        figure = style.new_figure()
        axes = style.panels(figure, 1, columns)
        for axis in axes:
            axis.plot([0, 1], [0, 1], color=style.BLUE, label="line")
        draw(figure, axes)
        figure.draw_without_rendering()
        return overlaps(figure)


def test_a_tidy_figure_has_none():
    def draw(figure, axes):
        for axis in axes:
            axis.set(xlabel="$x$", ylabel="$y$")
            axis.legend(loc="upper left")
        figure.legend(loc="outside upper center")

    assert drawn(draw, columns=2) == []


def test_crowded_ticks():
    def draw(figure, axes):
        axes[0].set_xticks([0.50, 0.52], ["10000", "20000"])

    assert drawn(draw) == ["panel 1 tick '10000' on panel 1 tick '20000'"]


def test_ticks_out_of_view_and_empty_ones_do_not_count():
    def draw(figure, axes):
        axes[0].set_xticks([0.5, 7, 7.01], ["a", "b", "c"])
        axes[0].set_xticks([0.501], [""], minor=True)
        axes[0].set_xlim(0, 1)

    assert drawn(draw) == []


def test_a_note_on_a_legend_and_a_legend_on_data():
    def draw(figure, axes):
        axes[0].legend(loc="center")
        axes[0].text(0.5, 0.5, "note", transform=axes[0].transAxes, ha="center", va="center")

    assert drawn(draw) == ["panel 1 legend on data", "panel 1 'note' on panel 1 legend"]


@pytest.mark.parametrize("marker", ["o", "None"])
def test_a_single_marker_under_a_legend(marker):
    def draw(figure, axes):
        axes[0].lines[0].remove()
        axes[0].plot([0.5], [0.5], marker=marker, linestyle="None", label="point")
        axes[0].legend(loc="center")

    assert drawn(draw) == (["panel 1 legend on data"] if marker == "o" else [])


def test_a_level_across_the_panel_may_pass_under_a_legend():
    def draw(figure, axes):
        style.level(axes[0], 0.9)
        axes[0].legend(loc="upper left")

    assert drawn(draw) == []


def test_what_is_cut_off():
    def draw(figure, axes):
        figure.text(0.99, 0.02, "beyond")

    assert drawn(draw) == ["'beyond': cut off"]


def test_labels_of_insets_and_subfigures():
    with style.context():
        figure = style.new_figure()
        half, _ = figure.subfigures(1, 2)
        half.suptitle("title")
        axis = half.subplots()
        inset = axis.inset_axes((0.3, 0.3, 0.5, 0.5))
        inset.set_xticks([0.5, 0.51], ["1000", "2000"])
        half.text(0.5, 0.5, "over", ha="center")
        half.text(0.5, 0.5, "under", ha="center")
        figure.draw_without_rendering()
        found = overlaps(figure)
    assert set(found) == {
        "'over' on 'under'",
        "panel 1 inset tick '1000' on panel 1 inset tick '2000'",
    }
