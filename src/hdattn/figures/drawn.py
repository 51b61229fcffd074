"""Everything that stands at data coordinates in a figure, as rows: ``<figure>.drawn.csv``.

Rows are taken from the panels themselves, so that nothing drawn is missing. Legends, colour bars,
titles and notes at a place of the panel hold no data of their own and are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures.marks import CORE

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import Collection, QuadMesh
    from matplotlib.container import ErrorbarContainer
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

ENDING = ".drawn.csv"

COLUMNS = ("panel", "kind", "label", "colour", "hollow", "x", "x_end", "y", "y_end")
COLUMNS += ("low", "high", "value")
KINDS = ("line", "markers", "bar", "fill", "step", "patch", "share", "level", "mesh", "note")
"""What a row can be; anything else stands under the name of its class, without coordinates."""

_NO_MARKER = ("", " ", "None", "none", None)


def rows(figure: Figure) -> list[dict[str, Any]]:
    """A row for each point (or bar, cell, ...) of ``figure``, panel by panel, in order of drawing.

    line, markers: ``x``, ``y``; whether ``hollow``, as is the white core of a line. bar: an error
    bar at ``x``, ``y`` from ``low`` to ``high``. fill: at ``x`` between ``low`` and ``high``, or
    the outline. step: height ``y`` from ``x`` to ``x_end``. patch: a rectangle from ``x``, ``y``
    to ``x_end``, ``y_end``. share: the same, ``y`` a fraction of the panel's height. level: a line
    across the panel at ``x`` or ``y``. mesh: ``value`` of a cell. note: text at a point.
    """
    empty = dict.fromkeys(COLUMNS)
    return [
        empty | {"panel": panel} | cells
        for panel, axis in _panels(figure)
        for cells in _of_axes(axis)
    ]


def _panels(figure: Figure) -> Iterator[tuple[str, Axes]]:
    """Every visible panel by its letter, and its twins and insets."""
    names: dict[Any, str] = {}
    for number, axis in enumerate(figure.axes):
        place, letter = axis.get_subplotspec(), axis.get_title(loc="left") or axis.get_title()
        name = f"{names[place]} twin" if place in names else letter or f"panel {number + 1}"
        names.setdefault(place or axis, name)
        if axis.get_label() != "<colorbar>" and axis.get_visible():
            yield name, axis
            yield from ((f"{name} inset", inset) for inset in axis.child_axes)


def _of_axes(axis: Axes) -> Iterator[dict[str, Any]]:
    from matplotlib.container import ErrorbarContainer

    errors = [c for c in axis.containers if isinstance(c, ErrorbarContainer)]
    labels = {c.lines[0]: c.get_label() for c in errors}
    parts = {part for c in errors for part in (*c.lines[1], *c.lines[2])}
    for artist in _artists(axis):
        if artist.get_visible() and artist not in parts:
            named = {"label": _shown(labels.get(artist, artist.get_label()))}
            yield from (named | cells for cells in _cells(artist))
    for container in errors:
        yield from _bars(container)


def _artists(axis: Axes) -> Iterator[Artist]:
    groups = (axis.lines, axis.collections, axis.patches, axis.images, axis.texts)
    yield from itertools.chain(*groups, axis.artists, axis.tables)


def _shown(label: Any) -> str | None:
    """The label, unless matplotlib hides it from legends."""
    return None if str(label).startswith("_") or not label else str(label)


def _cells(artist: Artist) -> Iterator[dict[str, Any]]:
    from matplotlib.collections import Collection, QuadMesh
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    readers = {Line2D: _line, QuadMesh: _mesh, Collection: _collection, Patch: _patch, Text: _note}
    reader = next((r for kind, r in readers.items() if isinstance(artist, kind)), None)
    if reader is None:
        yield {"kind": type(artist).__name__}
    else:
        yield from reader(artist)


def _at_data(artist: Artist) -> tuple[bool, bool]:
    """Whether its x and its y are data coordinates."""
    transform = getattr(artist, "get_data_transform", artist.get_transform)()
    return transform.contains_branch_seperately(artist.axes.transData)


def _line(line: Line2D) -> Iterator[dict[str, Any]]:
    known = _at_data(line)
    if not any(known):
        return
    points = [
        tuple(float(v) if is_data else None for v, is_data in zip(point, known, strict=True))
        for point in np.transpose(line.get_data(orig=False))
        if np.isfinite(point).all()
    ]
    if not all(known):
        points = list(dict.fromkeys(points))
    colour = _hex(line.get_color())
    if line.get_linestyle() not in _NO_MARKER:
        look = {"kind": "line" if all(known) else "level", "colour": colour}
        look |= {"hollow": True} if line.get_label() == CORE else {}
        yield from (look | {"x": x, "y": y} for x, y in points)
    if line.get_marker() not in _NO_MARKER:
        look = {"kind": "markers", "colour": colour, "hollow": _is_hollow(line)}
        yield from (look | {"x": x, "y": y} for x, y in points)


def _is_hollow(line: Line2D) -> bool:
    return _is_white(line.get_markerfacecolor())


def _is_white(face: Any) -> bool:
    return _hex(face) == "#ffffff"


def _bars(container: ErrorbarContainer) -> Iterator[dict[str, Any]]:
    """Error bars, with the point that each belongs to."""
    line, _, groups = container.lines
    look = {"kind": "bar", "label": _shown(container.get_label())}
    look |= {"colour": _hex(line.get_color()), "hollow": _is_hollow(line)}
    for group in groups:
        for point, ends in zip(line.get_xydata(), group.get_segments(), strict=True):
            x, y = map(float, point)
            if len(ends) and ends[0, 0] == ends[-1, 0]:
                yield look | {"x": x, "y": y, "low": float(ends[0, 1]), "high": float(ends[-1, 1])}
            elif len(ends):
                yield look | {"x": float(ends[0, 0]), "x_end": float(ends[-1, 0]), "y": y}


def _collection(group: Collection) -> Iterator[dict[str, Any]]:
    """Fills, segments, and markers of a scatter plot."""
    from matplotlib.collections import FillBetweenPolyCollection, LineCollection

    colours = [*group.get_facecolor(), *group.get_edgecolor()]
    look = {"colour": _hex(colours[0]) if colours else None}
    if group.get_offset_transform().contains_branch(group.axes.transData):
        look |= {"kind": "markers"}
        yield from _points(look, np.ma.filled(group.get_offsets().astype(float), np.nan))
    elif all(_at_data(group)):
        kind = "line" if isinstance(group, LineCollection) else "fill"
        read = _between if isinstance(group, FillBetweenPolyCollection) else _points
        for path in group.get_paths():
            yield from read(look | {"kind": kind}, path.vertices)


def _points(look: dict[str, Any], points: np.ndarray) -> Iterator[dict[str, Any]]:
    for x, y in points[np.isfinite(points).all(axis=1)].tolist():
        yield look | {"x": x, "y": y}


def _between(look: dict[str, Any], outline: np.ndarray) -> Iterator[dict[str, Any]]:
    """Lower and upper end at each x of a fill between two lines."""
    for x in np.unique(outline[:, 0]).tolist():
        heights = outline[outline[:, 0] == x, 1]
        yield look | {"x": x, "low": float(heights.min()), "high": float(heights.max())}


def _patch(patch: Patch) -> Iterator[dict[str, Any]]:
    from matplotlib.patches import Rectangle, StepPatch

    known = _at_data(patch)
    face, edge = patch.get_facecolor(), patch.get_edgecolor()
    hollow = bool(patch.get_fill() and _is_white(face))
    look = {"colour": _hex(face if patch.get_fill() and not hollow else edge), "hollow": hollow}
    if isinstance(patch, StepPatch):
        steps = patch.get_data()
        ends = itertools.pairwise(map(float, steps.edges))
        for (start, end), height in zip(ends, map(float, steps.values), strict=True):
            yield look | {"kind": "step", "x": start, "x_end": end, "y": height}
    elif isinstance(patch, Rectangle) and any(known):
        (x, y), (width, height) = patch.get_xy(), (patch.get_width(), patch.get_height())
        corner = {"x": float(x), "x_end": float(x + width)}
        corner |= {"y": float(y), "y_end": float(y + height)}
        yield look | {"kind": "patch" if all(known) else "share"} | corner
    elif all(known):
        yield from _points(
            look | {"kind": "patch"},
            patch.get_patch_transform().transform_path(patch.get_path()).vertices,
        )


def _mesh(mesh: QuadMesh) -> Iterator[dict[str, Any]]:
    """Value of each cell that is shown, from its first corner to the opposite one."""
    corners = mesh.get_coordinates()
    starts, ends = corners[:-1, :-1].reshape(-1, 2), corners[1:, 1:].reshape(-1, 2)
    values = np.ma.masked_invalid(mesh.get_array()).ravel()
    for (x, y), (x_end, y_end), value in zip(starts.tolist(), ends.tolist(), values, strict=True):
        if value is not np.ma.masked:
            cell = {"x": x, "x_end": x_end, "y": y, "y_end": y_end}
            yield {"kind": "mesh", **cell, "value": float(value)}


def _note(text: Text) -> Iterator[dict[str, Any]]:
    """Text at a point, or the point that an annotation is about."""
    if hasattr(text, "xycoords"):
        known, place = text.xycoords == "data", text.xy
    else:
        known, place = all(_at_data(text)), text.get_position()
    if known and text.get_text().strip():
        x, y = map(float, place)
        written = " ".join(text.get_text().split())
        yield {"kind": "note", "label": written, "colour": _hex(text.get_color()), "x": x, "y": y}


def _hex(colour: Any) -> str:
    from matplotlib.colors import to_hex

    return to_hex(colour)
