"""Legends that hide no data: another corner, or a longer axis, before a figure is saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hdattn.figures.overlaps import hides_data, on_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CORNERS = {"upper": ("right", "left", "center"), "lower": ("left", "right", "center")}
_GROWTHS = (0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)  # of the vertical axis, in its own scale


def make_room(figure: Figure) -> bool:
    """Move the legends of ``figure`` off its lines, error bars and notes; whether one moved.

    The figure must have been laid out. Where no corner is free the vertical axis is made longer on
    the side of the legend, at most twofold; what still overlaps then is left as it was, for
    :func:`hdattn.figures.overlaps.overlaps` to report.
    """
    moved = [_free(axis) for axis in figure.axes if _covers(axis)]
    return any(moved)


def _covers(axis: Axes) -> bool:
    legend = axis.get_legend()
    return legend is not None and axis.get_visible() and (hides_data(axis) or on_text(axis))


def _free(axis: Axes) -> bool:
    legend = axis.get_legend()
    limits, place = axis.get_ylim(), legend._loc
    for where, ends in _places(axis, limits):
        legend.set_loc(where)
        axis.set_ylim(ends)
        if not _covers(axis):
            return True
    legend.set_loc(place)
    axis.set_ylim(limits)
    return False


def _places(axis: Axes, limits: tuple[float, float]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Corners with the limits of the vertical axis, the shortest axis first."""
    scale = axis.yaxis.get_transform()
    low, high = (float(end) for end in scale.transform(limits))
    for growth in _GROWTHS:
        more = growth * (high - low)
        for side, corners in _CORNERS.items():
            ends = (low, high + more) if side == "upper" else (low - more, high)
            for corner in corners:
                yield f"{side} {corner}", tuple(scale.inverted().transform(ends))
