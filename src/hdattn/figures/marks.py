"""Theory as lines and levels, simulations as markers and bars; hollow what is not to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures.colours import GREY, MEANING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"lbfgs": "o", "adam": "D", "sgd": "o", "amp": "s", "other": "^"}
"""Marker of each way to simulate."""

LEAST_HOLLOW = 3.5
"""Least size of a hollow marker, that of the style sheet."""

CORE = "_core"
"""Label, unseen, of the white core of a line."""


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
