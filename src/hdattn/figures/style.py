"""One look for every figure: sizes, colours with a fixed meaning, markers, files.

Colours are Okabe and Ito's, which colour-blind readers tell apart. matplotlib is imported inside
the functions, so that reading a figure module stays cheap.
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
from hdattn.figures.legends import make_room

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SINGLE_COLUMN = 3.25
DOUBLE_COLUMN = 6.75
WIDTHS = {"single": SINGLE_COLUMN, "double": DOUBLE_COLUMN}
"""Widths in inches of one and of two columns of a paper."""

BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, GREY, LIGHT_GREY = "#E69F00", "#56B4E9", "#000000", "#666666", "#C8C8C8"

SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""Colours of the values of one parameter, in order (kappa, lambda, D, head, ...)."""

MEANING = {
    "softmax": BLUE,
    "bayes": VERMILLION,
    "softmax1": GREEN,
    "bayes_risk": BLACK,
    "target": GREY,
    "simulation": LIGHT_GREY,
    "threshold": GREY,
    "reference": BLACK,
}
"""Colours that mean one thing in all figures (``bayes`` is B-softmax, ``bayes_risk`` its bound)."""

MARKERS = {"lbfgs": "o", "adam": "D", "sgd": "o", "amp": "s", "other": "^"}
"""Marker of each way to simulate."""

LEAST_HOLLOW = 3.5
"""Least size of a hollow marker, that of the style sheet."""

CORE = "_core"
"""Label, unseen, of the white core of a line."""

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
    from matplotlib.figure import Figure

    return Figure(figsize=(_width(width), height), layout="constrained")


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


def theory(
    axis: Axes,
    x: Sequence[float],
    y: Sequence[float],
    colour: str,
    *,
    label: str | None = None,
    thin: bool = False,
    flagged: Sequence[bool] | None = None,
    **line: Any,
) -> None:
    """Theory line; ``thin`` is for the theory of the simulated, finite targets.

    Flagged points (not converged, unreliable) are marked hollow on the line.
    """
    line.setdefault("linewidth", 0.6 if thin else 1.2)
    if thin:
        line.setdefault("linestyle", (0, (4, 1.5)))
    axis.plot(x, y, color=colour, label=label, **line)
    if flagged is not None and np.any(flagged):
        chosen = np.asarray(flagged, bool)
        _hollow(axis, np.asarray(x)[chosen], np.asarray(y)[chosen], colour)


def _hollow(axis: Axes, x: Any, y: Any, colour: str, **look: Any) -> None:
    """Hollow markers on a line."""
    bare = {"linestyle": "", "marker": MARKERS["other"], "markerfacecolor": "white"}
    axis.plot(x, y, color=colour, **bare, **look)


def curve(
    axis: Axes,
    x: Sequence[float],
    y: Sequence[float],
    colour: str,
    *,
    label: str | None = None,
    flagged: bool = False,
    **line: Any,
) -> None:
    """Line of one solution, which converged as a whole or not: then it has a white core."""
    line.setdefault("linewidth", 1.2)
    axis.plot(x, y, color=colour, label=label, **line | {"linewidth": line["linewidth"] + flagged})
    if flagged:
        axis.plot(x, y, color="white", label=CORE, **line)


def simulation(
    axis: Axes,
    x: Sequence[float],
    y: Sequence[float],
    error: Sequence[float] | None,
    colour: str,
    *,
    method: str = "other",
    label: str | None = None,
    flagged: Sequence[bool] | None = None,
    **marker: Any,
) -> None:
    """Markers with error bars; flagged points (not converged, unreliable) are hollow.

    Hollow ones are large enough to be seen to be. ``error``: one for both ends [n], or a lower and
    an upper one [2, n].
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    error = None if error is None else np.asarray(error, float)
    hollow = np.zeros(len(x), bool) if flagged is None else np.asarray(flagged, bool)
    look = {"fmt": MARKERS[method], "color": colour, "elinewidth": 0.7, "zorder": 3, **marker}
    visible = {"markersize": max(marker.get("markersize", 0), LEAST_HOLLOW)}
    for chosen, face in ((~hollow, colour), (hollow, "white")):
        if chosen.any() or (label is not None and face == colour):
            bars = None if error is None else error[..., chosen]
            named = {"label": label} if face == colour else visible
            axis.errorbar(x[chosen], y[chosen], bars, markerfacecolor=face, **(look | named))


def threshold(
    axis: Axes, x: float, label: str, *, height: float = 0.97, flagged: bool = False
) -> None:
    """Thin vertical dashed line at ``x``; its label stands beside it at ``height`` (0 to 1).

    A flagged one (not converged, unreliable) has a hollow marker at its foot.
    """
    colour = MEANING["threshold"]
    axis.axvline(x, color=colour, linewidth=0.6, linestyle="--", zorder=0)
    if flagged:
        _hollow(axis, [x], [0], colour, transform=axis.get_xaxis_transform(), clip_on=False)
    axis.annotate(
        label,
        (x, height),
        xycoords=axis.get_xaxis_transform(),
        xytext=(-2, 0),
        textcoords="offset points",
        rotation=90,
        ha="right",
        va="top",
        fontsize=6.5,
        color=colour,
    )


def level(
    axis: Axes,
    y: float,
    label: str | None = None,
    *,
    colour: str = GREY,
    flagged: bool = False,
    **line: Any,
) -> None:
    """Thin horizontal dashed line at ``y`` (a floor, a plateau, a bound), for the legend.

    A flagged one (not converged, unreliable) has a hollow marker at its right end.
    """
    look = {"linewidth": 0.7, "linestyle": "--", "zorder": 0} | line
    axis.axhline(y, color=colour, label=label, **look)
    if flagged:
        _hollow(axis, [1], [y], colour, transform=axis.get_yaxis_transform(), clip_on=False)


def bars(
    axis: Axes,
    x: Sequence[float],
    heights: Sequence[float],
    width: float | Sequence[float],
    colour: str,
    *,
    flagged: Sequence[bool],
    **bar: Any,
) -> None:
    """Bars; flagged ones (not converged, unreliable) are hollow."""
    drawn = axis.bar(x, heights, width, color=colour, linewidth=0, **bar)
    for patch, hollow in zip(drawn, flagged, strict=True):
        if hollow:
            patch.set(facecolor="white", edgecolor=colour, linewidth=0.8)


def atom(
    axis: Axes, x: float, width: float, weight: float, colour: str, *, flagged: bool = False
) -> None:
    """Bar at ``x`` for a point mass: ``weight`` is its height as a fraction of the panel's."""
    share = axis.get_xaxis_transform()
    bars(axis, [x], [weight], width, colour, flagged=[flagged], transform=share)


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

    dpi = figure.dpi
    canvas = get_registered_canvas_class(name)(figure)
    getattr(canvas, f"print_{name}")(buffer, metadata=_METADATA[name])
    figure.dpi = dpi  # vector formats have one of their own


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
