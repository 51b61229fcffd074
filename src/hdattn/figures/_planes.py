"""Panels of splits along two directions: the plane of overlaps, and the second split in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures import style
from hdattn.figures._ensembles import Flows
from hdattn.figures._splits import row
from hdattn.multihead.escape import crossing_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdattn.store import Record

TOGETHER = 0.02  # heads whose final spread is below this have not split
COLOURS = {"axes": style.BLUE, "corners": style.VERMILLION}


def plane(axis: Axes, name: str, flows: Flows, optima: list[Record]) -> Iterator[dict[str, Any]]:
    """Overlaps with both directions: paths and end points of the flows, and the optimum.

    Heads may change sign and place together, so all are drawn up to the signs: the optimum with
    its mirror images.
    """
    first, second = flows.flipping
    for i, path in enumerate(flows.m):
        for h in range(path.shape[1]):
            points = path[:, h, first], path[:, h, second]
            axis.plot(*points, color=style.LIGHT_GREY, linewidth=0.5, zorder=1)
            end = [values[-1] for values in points]
            axis.plot(*end, marker="o", markersize=3, color=COLOURS[name], linestyle="", zorder=3)
            for spike, values in zip((first, second), points, strict=True):
                place = {"instance": i, "head": h, "spike": spike}
                for t, value in zip(flows.tau, values, strict=True):
                    yield row(name, "m", value, tau=t, **place)
                yield row(name, "end of the flow", values[-1], tau=flows.tau[-1], **place)
        yield row(name, "loss at the end", flows.end_loss[i], tau=flows.tau[-1], instance=i)
    yield from _optima(axis, name, (first, second), optima)
    axis.set(xlabel=rf"$m_{{h{first}}}$", ylabel=rf"$m_{{h{second}}}$")
    omega = ", ".join(f"{flows.model.std[f]:g}" for f in (first, second))
    axis.set_title(rf"$L={flows.model.tokens}$, $\omega=({omega})$", fontsize=7.5, pad=3)


def _optima(axis: Axes, name: str, plane: tuple[int, int], optima: list[Record]):
    """Stars at the optimum, crosses at the best without a second split; their losses.

    Hollow triangles instead where the search did not converge.
    """
    looks = ({"fmt": "*", "markersize": 8}, {"fmt": "x", "markersize": 5})
    lines = []
    for look, record, label in zip(looks, optima, ("best", "one split"), strict=True):
        m = record.datasets["m"][:, list(plane)]
        hollow = np.full(len(m), not record.converged)
        look = {"zorder": 2} | ({} if hollow.all() else look)  # below the ends of the flows
        style.simulation(axis, *m.T, None, style.BLACK, flagged=hollow, **look)
        loss = float(record.datasets["loss"])
        lines.append(f"{label} {loss:.6f}")
        yield row(name, f"loss, {label}", loss)
        for h, overlaps in enumerate(record.datasets["m"]):
            for spike, value in enumerate(overlaps):
                yield row(name, f"m, {label}", value, head=h, spike=spike)
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + 0.35 * (high - low))
    note = {"xycoords": "axes fraction", "ha": "center", "va": "top", "fontsize": 6.5}
    axis.annotate("\n".join(lines), (0.5, 0.98), **note)


def second(axis: Axes, planes: dict[str, Flows]) -> Iterator[dict[str, Any]]:
    """Spread along both directions against time: the second split comes much later."""
    for name, flows in planes.items():
        for number, spike in enumerate(flows.flipping):
            spreads = flows.spread(spike)
            halves = [_half_time(flows.tau, spread) for spread in spreads]
            look = {"linewidth": 0.8, "linestyle": "--" if number else "-"}
            for i, (spread, half) in enumerate(zip(spreads, halves, strict=True)):
                label = _described(flows, spike, halves) if i == 0 else None
                style.theory(axis, flows.tau[1:], spread[1:], COLOURS[name], label=label, **look)
                yield row(name, "time of half the spread", half, instance=i, spike=spike)
                for t, value in zip(flows.tau, spread, strict=True):
                    yield row(name, "spread", value, instance=i, spike=spike, tau=t)
    axis.set(xscale="log", yscale="log", xlim=(1, max(f.tau[-1] for f in planes.values())))
    axis.set(ylim=(1e-5, 1e4), xlabel=r"$\tau$", ylabel="head spread")
    axis.legend(fontsize=6, loc="upper left", title="half reached at (median)", title_fontsize=6)


def _half_time(tau: np.ndarray, spread: np.ndarray) -> float:
    """When a spread [T] reaches half of what it is in the end; NaN where heads stay together."""
    return crossing_time(tau, spread, spread[-1] / 2) if spread[-1] > TOGETHER else np.nan


def _described(flows: Flows, spike: int, halves: list[float]) -> str:
    """Entry of the legend, with the median over the flows that split."""
    known = [half for half in halves if np.isfinite(half)]
    when = rf"$\tau={float(f'{np.median(known):.2g}'):g}$" if known else "no split"
    omega = rf"$\omega_{spike}={flows.model.std[spike]:g}$"
    return f"$L={flows.model.tokens}$, {omega}: {when}"
