"""One look for every figure: sizes and files, with :mod:`.colours` and :mod:`.marks`.

matplotlib is imported inside the functions, so that reading a figure module stays cheap.
"""

from __future__ import annotations

import contextlib
import csv
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.errors import UserError
from hdattn.figures.colours import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LIGHT_GREY,
    MEANING,
    ORANGE,
    PURPLE,
    SERIES,
    SKY,
    VERMILLION,
)
from hdattn.figures.legends import make_room
from hdattn.figures.marks import (
    MARKERS,
    atom,
    bars,
    curve,
    level,
    simulation,
    theory,
    threshold,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLACK",
    "BLUE",
    "DOUBLE_COLUMN",
    "FORMATS",
    "GREEN",
    "GREY",
    "LIGHT_GREY",
    "MARKERS",
    "MEANING",
    "ORANGE",
    "PURPLE",
    "SERIES",
    "SINGLE_COLUMN",
    "SKY",
    "VERMILLION",
    "WIDTHS",
    "atom",
    "bars",
    "context",
    "curve",
    "letter",
    "level",
    "new_figure",
    "panels",
    "save",
    "simulation",
    "theory",
    "threshold",
    "write_csv",
]

SINGLE_COLUMN = 3.25
DOUBLE_COLUMN = 6.75
WIDTHS = {"single": SINGLE_COLUMN, "double": DOUBLE_COLUMN}
"""Widths in inches of one and of two columns of a paper."""

FORMATS = ("pdf", "png", "svg")
_STYLE_SHEET = Path(__file__).with_name("hdattn.mplstyle")
# No dates and no version numbers: the same figure has the same bytes.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"Creator": "hdattn", "Producer": None, "CreationDate": None},
    "png": {"Software": None},
    "svg": {"Creator": "hdattn", "Date": None},
}


@contextlib.contextmanager
def context(
    sheet: Path | str | None = None, settings: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """Style within which a figure is made, drawn and saved; ``sheet`` is laid on top.

    ``settings`` of one figure's own lie between. Raises ``UserError`` where ``sheet`` is not a
    matplotlib style sheet.
    """
    from matplotlib import style as sheets

    own = [] if sheet is None else [str(sheet)]
    layers = ["default", str(_STYLE_SHEET), dict(settings or {}), *own]
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(sheets.context(layers))
        except OSError as error:
            raise UserError(
                f"style sheet {sheet}: {error}; give the path of an .mplstyle file"
            ) from error
        yield


def new_figure(width: str = "single", height: float = 2.3) -> Figure:
    """Empty figure ``width`` (single or double column) wide and ``height`` inches high."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_width(width), height), layout="constrained")
    FigureCanvasAgg(figure)  # one renderer measures all texts, which it remembers, and draws
    return figure


def _width(width: str) -> float:
    if width not in WIDTHS:
        raise UserError(f"width is {width!r}: choose from {', '.join(WIDTHS)}")
    return WIDTHS[width]


def panels(
    figure: Figure,
    rows: int = 1,
    columns: int = 1,
    *,
    width: str = "single",
    height: float | None = None,
    **subplots: Any,
) -> list[Axes]:
    """Give ``figure`` its size and a grid of panels, lettered (a), (b), ... when several.

    ``height`` is in inches, 2.1 for each row unless given. Panels are in reading order.
    """
    figure.set_size_inches(_width(width), 2.1 * rows if height is None else height)
    axes = list(np.ravel(figure.subplots(rows, columns, squeeze=False, **subplots)))
    if len(axes) > 1:
        for index, axis in enumerate(axes):
            letter(axis, index)
    return axes


def letter(axis: Axes, index: int) -> None:
    """Write the letter of panel ``index`` above the upper left corner of ``axis``."""
    axis.set_title(f"({chr(ord('a') + index)})", loc="left", pad=3)


def save(figure: Figure, stem: Path | str, formats: Sequence[str] = ("pdf", "png")) -> list[Path]:
    """Write ``stem.<format>`` for each format; the same figure gives the same bytes.

    Raises ``UserError`` for a format that is not offered.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise UserError(f"format {unknown[0]!r}: choose from {', '.join(FORMATS)}")
    # Computer Modern's files carry dates before 1970, about which fontTools warns on each page.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    # One layout for all formats: they differ in resolution, which would move things about.
    if (layout := figure.get_layout_engine()) is not None:
        layout.execute(figure)
        if make_room(figure):
            layout.execute(figure)
    figure.set_layout_engine("none")
    written = []
    for name in formats:
        buffer = io.BytesIO()
        _print(figure, name, buffer)
        path = Path(f"{stem}.{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(buffer.getvalue())
        written.append(path)
    return written


def _print(figure: Figure, name: str, buffer: io.BytesIO) -> None:
    """What ``figure.savefig`` does, without the drawing on trial that comes first there."""
    from matplotlib.backend_bases import get_registered_canvas_class

    dpi, canvas = figure.dpi, figure.canvas
    kind = get_registered_canvas_class(name)
    one = canvas if isinstance(canvas, kind) else kind(figure)
    getattr(one, f"print_{name}")(buffer, metadata=_METADATA[name])
    figure.dpi = dpi  # vector formats have one of their own
    figure.set_canvas(canvas)


def write_csv(path: Path | str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write ``rows`` as CSV with one column per key, numbers in full precision.

    A key that a row lacks is an empty cell; columns come in the order they first appear.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row.get(key)) for key in columns] for row in rows)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    return str(value)
