"""What it costs to remove heads: the cliff of B-softmax, the gradual loss of softmax."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from hdattn.experiment import Experiment
from hdattn.fields import Count, NonNegative, Positive, physics, size
from hdattn.figures import _multihead, style
from hdattn.figures._multihead import SobolPoints
from hdattn.figures._pruned import (
    TrainedSection,
    colour,
    experiment,
    label,
    spread_name,
)
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.figures._ensembles import FlowModel
    from hdattn.store import Record

MODEL = "multihead"
TITLE = "Pruning: B-softmax loses nothing until one head for each signal is left"

LINES = {
    "joint": "-",
    "renormalised": "-",
    "kept": ":",
    "refitted": "--",
    "retrained": (0, (1, 1)),
}
HeadCounts = Annotated[tuple[Annotated[Count, Field(ge=2)], ...], Field(min_length=1, max_length=2)]
Spread = Annotated[tuple[Positive, ...], Field(min_length=1, max_length=3)]


class Section(TrainedSection):
    """Configuration of the figure."""

    spreads: Annotated[tuple[Spread, ...], Field(min_length=1, max_length=2)] = physics(
        ((2.0,), (1.5, 1.2)), "Sizes of the random signs, a set of spikes each."
    )
    heads: HeadCounts = physics((6, 8), "Numbers of heads H, a panel each for every set of spikes.")
    retrain_tau: NonNegative = physics(
        0, "Time for which the flow trains the survivors again, in curves of their own; 0: never."
    )
    seeds: Count = size(2, "Seeds of the flows in each case.")
    scan_points: SobolPoints = size(
        1024, "Base points on which the subsets of B-softmax heads are compared."
    )


@dataclass(frozen=True)
class Panel:
    """One set of spikes and number of heads."""

    spread: tuple[float, ...]
    model: FlowModel

    @property
    def name(self) -> str:
        """For tables."""
        return f"omega={spread_name(self.spread)} H={self.model.heads}"

    @property
    def support(self) -> int:
        """Number of signals, 2^(number of random signs)."""
        return 2 ** len(self.spread)

    def role(self, activation: str) -> str:
        """Role of the experiments."""
        return f"{activation}_{self.name}"


def _panels(section: Section) -> list[Panel]:
    return [Panel(s, section.model(s, h)) for s in section.spreads for h in section.heads]


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Pruned heads of every activation on every panel, and the Bayes risks."""
    extra = {"scan_points": section.scan_points, "retrain_tau": section.retrain_tau}
    roles = {}
    for panel in _panels(section):
        roles[f"bayes_{spread_name(panel.spread)}"] = [_multihead.bayes(panel.model)]
        for activation in section.activations:
            flows = section.flows(panel.model, activation, seed, section.seeds)
            seconds = 20 + 0.02 * 2**panel.model.heads
            roles[panel.role(activation)] = [
                experiment("multihead/pruning", flow, "flows", extra, seconds) for flow in flows
            ]
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Loss with the Bayes risk above, its increase on a log axis below; a column for each panel."""
    panels = _panels(section)
    axes = np.reshape(
        style.panels(figure, 2, len(panels), width="double", height=4.0), (2, len(panels))
    )
    drawing = Drawing([])
    for panel, (above, below) in zip(panels, axes.T, strict=True):
        risk = float(records[f"bayes_{spread_name(panel.spread)}"][0].datasets["bayes_risk"])
        for activation in section.activations:
            group = records[panel.role(activation)]
            drawing.table += _curves(above, below, panel, activation, group)
            drawing.flagged += _flags(panel, activation, group, risk)
        drawing.table.append(_row(panel, "bayes risk", None, None, None, risk))
        style.level(above, risk, colour=style.MEANING["bayes_risk"])
        _finish(above, below, panel)
    axes[0, 0].set_ylabel("loss")
    axes[1, 0].set_ylabel("loss increase")
    _legend(figure, records, section, panels)
    return drawing


def _row(panel, quantity, activation, protocol, instance, value, **where) -> dict[str, Any]:
    start = {"panel": panel.name, "quantity": quantity, "activation": activation}
    start |= {"protocol": protocol, "instance": instance, "value": value}
    return start | {key: where.get(key) for key in ("removed", "error", "c", "kept")}


def _curves(
    above: Axes, below: Axes, panel: Panel, activation: str, records: list[Record]
) -> Iterator[dict[str, Any]]:
    """Mean over seeds under each protocol, and a band from the least to the largest."""
    for number, protocol in enumerate(map(str, records[0].datasets["protocol"])):
        look = {"linestyle": LINES[protocol], "linewidth": 1.1, "marker": "o", "markersize": 2.2}
        for axis, quantity in ((above, "loss"), (below, "increase")):
            values = np.concatenate([r.datasets[quantity][:, number] for r in records])
            removed = np.arange(values.shape[1])
            style.theory(axis, removed, values.mean(axis=0), colour(activation), **look)
            band = {"color": colour(activation), "alpha": 0.15, "linewidth": 0}
            axis.fill_between(removed, values.min(axis=0), values.max(axis=0), **band)
        for record in records:
            yield from _rows(panel, activation, protocol, number, record.datasets)


def _rows(panel, activation, protocol, number, datasets) -> Iterator[dict[str, Any]]:
    for position, instance in enumerate(datasets["instance"]):
        place = (position, number)
        for removed, kept in enumerate(datasets["kept"][place]):
            where = {"removed": removed, "error": datasets["loss_error"][place][removed]}
            where |= {"c": datasets["c"][place][removed]}
            where |= {"kept": " ".join(map(str, np.flatnonzero(kept)))}
            for quantity in ("loss", "increase"):
                value = datasets[quantity][place][removed]
                yield _row(panel, quantity, activation, protocol, int(instance), value, **where)


def _flags(panel: Panel, activation: str, records: list[Record], risk: float) -> Iterator[str]:
    """Doubts of the step, and losses below the Bayes risk, which no error allows."""
    for record in records:
        where = f"{label(activation)}, {panel.name}"
        yield from (f"{where}, {message}" for message in record.messages)
        if not record.converged:
            yield f"{where}: the integrator of the flow stopped early"
        slack = record.datasets["loss"] + record.datasets["loss_error"] - risk
        if slack.min() < -1e-6:
            yield f"{where}: a loss {-slack.min():.1e} below the Bayes risk"


def _finish(above: Axes, below: Axes, panel: Panel) -> None:
    """Scales, and where one head for each signal is left."""
    heads = panel.model.heads
    omega = spread_name(panel.spread).replace(",", ",\\,")
    above.set_title(rf"$\omega={omega}$, $H={heads}$", fontsize=7.5, pad=3)
    below.set_yscale("symlog", linthresh=1e-4, linscale=0.5)
    below.set_ylim(-2e-4, 1)
    below.set_xlabel("heads removed")
    for axis in (above, below):
        axis.set_xticks(range(0, heads, 2 if heads > 6 else 1))
        if heads > panel.support:
            style.threshold(axis, heads - panel.support, r"$H-|\mathrm{supp}|$")


def _legend(figure, records, section, panels) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for activation in section.activations:
        names = list(map(str, records[panels[0].role(activation)][0].datasets["protocol"]))
        for name in names:
            text = label(activation) + (f", {name}" if len(names) > 1 else "")
            look = {"color": colour(activation), "linestyle": LINES[name]}
            handles.append(Line2D([], [], label=text, **look))
    bound = {"color": style.MEANING["bayes_risk"], "linestyle": "--", "linewidth": 0.7}
    handles.append(Line2D([], [], label="Bayes risk", **bound))
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
