"""What covers what in a drawn figure: labels on labels, legends on data, labels cut off."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, FigureBase
    from matplotlib.legend import Legend
    from matplotlib.transforms import Bbox

SLACK = 2.0  # pixels at 200 dpi that do not count: boxes of text leave room below the line


class _Label(NamedTuple):
    """Something to read, and where it stands in pixels."""

    name: str
    box: Bbox


def overlaps(figure: Figure) -> list[str]:
    """A line for each pair of labels that overlap, label cut off, and legend upon data.

    ``figure`` must have been drawn or saved. Boxes that only touch do not count.
    """
    found, labels = [], []
    for part in _parts(figure):
        for name, artist in _loose(part):
            labels += _label(name, artist)
        for number, axis in enumerate(part.axes if part is figure else ()):
            panel = axis.get_title(loc="left") or axis.get_title() or f"panel {number + 1}"
            labels += _of_axes(panel, axis)
            found += _hidden_data(panel, axis)
    page = figure.bbox.padded(SLACK)
    found += [f"{one.name}: cut off" for one in labels if not _within(one.box, page)]
    for one, other in itertools.combinations(labels, 2):
        if _overlap(one.box, other.box):
            found.append(f"{one.name} on {other.name}")
    return found


def _parts(figure: FigureBase) -> Iterator[FigureBase]:
    """The figure and its subfigures."""
    yield figure
    for part in figure.subfigs:
        yield from _parts(part)


def _loose(part: FigureBase) -> Iterator[tuple[str, Artist]]:
    """Legends and texts of no panel."""
    yield from (("legend of the figure", legend) for legend in part.legends)
    yield from ((f"{text.get_text()!r}", text) for text in part.texts)


def _of_axes(panel: str, axis: Axes) -> Iterator[_Label]:
    if not axis.get_visible():
        return
    for position in ("left", "center", "right"):
        if text := axis.get_title(loc=position):
            title = {"left": axis._left_title, "center": axis.title, "right": axis._right_title}
            yield from _label(f"title {text!r}", title[position])
    for one in (axis.xaxis, axis.yaxis):
        yield from _of_axis(panel, one)
    for text in axis.texts:
        yield from _label(f"{panel} {text.get_text()!r}", text)
    if (legend := axis.get_legend()) is not None:
        yield from _label(f"{panel} legend", legend)
    for inset in axis.child_axes:
        yield from _of_axes(f"{panel} inset", inset)


def _of_axis(panel: str, axis: Axis) -> Iterator[_Label]:
    """The label of an axis, its offset text, and the tick labels that are in view."""
    yield from _label(f"{panel} {axis.get_label_text()!r}", axis.label)
    yield from _label(f"{panel} offset", axis.get_offset_text())
    low, high = sorted(axis.get_view_interval())
    margin = 1e-9 * (high - low)
    for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
        if low - margin <= tick.get_loc() <= high + margin:
            for text in (tick.label1, tick.label2):
                yield from _label(f"{panel} tick {text.get_text()!r}", text)


def _label(name: str, artist: Artist) -> Iterator[_Label]:
    """``artist`` with its box, where there is something to read."""
    text = getattr(artist, "get_text", lambda: "legend")()
    if artist.get_visible() and text.strip():
        yield _Label(name, artist.get_window_extent())


def _hidden_data(panel: str, axis: Axes) -> list[str]:
    """Where the legend of ``axis`` lies upon lines or markers; lines across the panel are none."""
    legend: Legend | None = axis.get_legend()
    if legend is None or not axis.get_visible():
        return []
    box = legend.get_window_extent().padded(-SLACK)
    for line in axis.lines:
        data = line.get_transform() == axis.transData
        path = line.get_transform().transform_path(line.get_path())
        lined = line.get_linestyle() != "None" and path.intersects_bbox(box, filled=False)
        marked = line.get_marker() not in ("None", None, "") and any(
            box.contains(*point) for point in path.vertices
        )
        if data and line.get_visible() and (lined or marked):
            return [f"{panel} legend on data"]
    return []


def _within(box: Bbox, page: Bbox) -> bool:
    return page.x0 <= box.x0 and page.y0 <= box.y0 and box.x1 <= page.x1 and box.y1 <= page.y1


def _overlap(one: Bbox, other: Bbox) -> bool:
    return one.padded(-SLACK).overlaps(other.padded(-SLACK))
