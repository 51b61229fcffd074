"""What covers what in a drawn figure: labels on labels, legends on data, labels cut off."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure, FigureBase
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.path import Path
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
            found += [f"{panel} legend on data"] if hides_data(axis) else []
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


def hides_data(axis: Axes) -> bool:
    """Whether the legend of ``axis`` lies upon lines, markers or error bars.

    Lines across the panel (levels, thresholds) do not count.
    """
    legend: Legend | None = axis.get_legend()
    if legend is None or not axis.get_visible():
        return False
    box = legend.get_window_extent().padded(-SLACK)
    return any(_passes(path, box, line) for line in axis.lines for path in _paths(line)) or any(
        path.intersects_bbox(box, filled=False) for bars in _bars(axis) for path in _paths(bars)
    )


def on_text(axis: Axes) -> bool:
    """Whether the legend of ``axis`` lies upon a note in the panel."""
    box = axis.get_legend().get_window_extent()
    notes = (text for text in axis.texts if text.get_visible() and text.get_text().strip())
    return any(_overlap(text.get_window_extent(), box) for text in notes)


def _bars(axis: Axes) -> Iterator[LineCollection]:
    from matplotlib.collections import LineCollection

    yield from (bars for bars in axis.collections if isinstance(bars, LineCollection))


def _paths(artist: Line2D | LineCollection) -> Iterator[Path]:
    """Paths in pixels, of what stands at data coordinates and is seen."""
    transform = artist.get_transform()
    if artist.get_visible() and transform == artist.axes.transData:
        own = artist.get_paths() if hasattr(artist, "get_paths") else [artist.get_path()]
        yield from (transform.transform_path(path) for path in own)


def _passes(path: Path, box: Bbox, line: Line2D) -> bool:
    lined = line.get_linestyle() != "None" and path.intersects_bbox(box, filled=False)
    marked = line.get_marker() not in ("None", None, "")
    return lined or (marked and any(box.contains(*point) for point in path.vertices))


def _within(box: Bbox, page: Bbox) -> bool:
    return page.x0 <= box.x0 and page.y0 <= box.y0 and box.x1 <= page.x1 and box.y1 <= page.y1


def _overlap(one: Bbox, other: Bbox) -> bool:
    return one.padded(-SLACK).overlaps(other.padded(-SLACK))
