"""What it costs to remove heads: the cliff of B-softmax, the gradual loss of softmax."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, FigureSection, NonNegative, Number, Positive, physics, size
from hdattn.figures import style
from hdattn.figures._activation_names import ActivationName, colour, label
from hdattn.figures._multihead import ALL_NAMES, USUAL_SIGMA, SobolPoints
from hdattn.figures._pruning import Panel, doubts, gather, impossible, method, reached, row, rows
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
LINEAR = 1e-3  # loss increases below this are on a linear scale
Spread = Annotated[tuple[Positive, ...], Field(min_length=1, max_length=3)]


class Section(FigureSection):
    """Configuration of the figure."""

    tokens: Annotated[Count, Field(ge=2)] = physics(5, "Tokens L of a sequence.")
    mu: Number = physics(0.8, "Mean of the signal along the first spike, which is constant.")
    spreads: Annotated[tuple[Spread, ...], Field(min_length=1, max_length=2)] = physics(
        ((2.0,), (1.5, 1.2)), "Sizes of the random signs along the other spikes, a list a case."
    )
    heads: HeadCounts = physics((6, 8), "Numbers of heads H, a panel each for every case.")
    activations: Annotated[tuple[ActivationName, ...], Field(min_length=1, max_length=4)] = physics(
        tuple(ALL_NAMES), "Activations shown; the name of an extension is one."
    )
    sigma: Positive = physics(0.1, "Initial weights are N(0, sigma^2 / dim).", usual=USUAL_SIGMA)
    flow_dim: Annotated[Positive, Field(ge=10)] = physics(
        10000, "Dimension D that sets the size of the seeds of the flows."
    )
    retrain_tau: NonNegative = physics(
        0, "Time for which the flow trains the survivors again, in curves of their own; 0: never."
    )
    seeds: Count = size(2, "Seeds of the flows in each case.")
    points: Annotated[SobolPoints, Field(ge=64)] = size(
        4096, "Sobol points of a flow in all, with their images, a power of two."
    )
    tau_max: Positive = size(3000, "Time for which the flow trains the heads.")
    scan_points: SobolPoints = size(
        1024, "Base points on which the subsets of B-softmax heads are compared."
    )

    @field_validator("activations")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError(f"{list(names)} names one twice; leave the second out")
        return names

    def panels(self) -> list[Panel]:
        """Every case with every number of heads."""
        return [Panel(number, self.mu, *case) for number, case in enumerate(self.cases())]

    def cases(self) -> list[tuple[tuple[float, ...], int]]:
        """Spreads and numbers of heads."""
        return list(itertools.product(self.spreads, self.heads))


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Heads of each activation, trained and pruned in all cases; an experiment for each seed."""
    panels = section.panels()
    shared = {
        "tokens": section.tokens,
        "cases": [panel.case for panel in panels],
        "sigma": section.sigma,
        "dim": int(section.flow_dim),
        "points": section.points,
        "tau_max": section.tau_max,
        "scan_points": section.scan_points,
        "retrain_tau": section.retrain_tau,
        "seed": seed,
        "block_size": 1,
    }
    return {
        name: [
            Experiment(
                "multihead/pruning",
                shared | {"activation": name, "block": block},
                slug=f"{name}-b{block}",
            )
            for block in range(section.seeds)
        ]
        for name in section.activations
    }


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Loss with the Bayes risk above, its increase on a log axis below; a column for each panel."""
    panels = section.panels()
    axes = style.panels(figure, 2, len(panels), width="double", height=4.2)
    axes = np.reshape(axes, (2, len(panels)))
    drawing = Drawing([])
    for panel, (above, below) in zip(panels, axes.T, strict=True):
        risk = float(records[section.activations[0]][0].datasets["bayes_risk"][panel.number])
        for activation in section.activations:
            drawing.table += _curves(above, below, panel, activation, records[activation])
            drawing.flagged += impossible(panel, activation, records[activation], risk)
        drawing.table.append(row(panel, "bayes risk", None, None, None, risk))
        style.level(above, risk, colour=style.MEANING["bayes_risk"])
        _finish(above, below, panel, method(records[section.activations[0]], panel))
    for activation in section.activations:
        drawing.flagged += doubts(panels, activation, records[activation])
    axes[0, 0].set_ylabel("loss")
    axes[1, 0].set_ylabel("loss increase")
    _legend(figure, records, section)
    return drawing


def _curves(
    above: Axes, below: Axes, panel: Panel, activation: str, records: list[Record]
) -> Iterator[dict[str, Any]]:
    """Mean over seeds under each protocol, and a band from the least to the largest.

    Hollow, and without the band, where the flow of some seed stopped early.
    """
    for number, protocol in enumerate(map(str, records[0].datasets["protocol"])):
        look = {"linestyle": LINES[protocol], "linewidth": 1.0, "marker": "o", "markersize": 2}
        stopped = not reached(panel, records)
        band = {"color": colour(activation), "alpha": 0.15, "linewidth": 0}
        for axis, quantity in ((above, "loss"), (below, "increase")):
            values = gather(records, quantity, panel, number)
            removed, hollow = np.arange(panel.heads), np.full(panel.heads, stopped)
            mean = values.mean(axis=0)
            style.theory(axis, removed, mean, colour(activation), flagged=hollow, **look)
            if not stopped:
                axis.fill_between(removed, values.min(axis=0), values.max(axis=0), **band)
        yield from rows(panel, activation, protocol, number, records)


def _finish(above: Axes, below: Axes, panel: Panel, method: str) -> None:
    """Scales, where one head for each signal is left, and whether subsets were found greedily."""
    omega = ",\\,".join(f"{x:g}" for x in panel.spread)
    note = ", greedy" if method == "greedy" else ""
    above.set_title(rf"$\omega={omega}$, $H={panel.heads}${note}", fontsize=7.5, pad=3)
    below.set_yscale("symlog", linthresh=LINEAR, linscale=0.6)
    below.set_ylim(-3 * LINEAR, 1)
    below.set_xlabel("heads removed")
    for axis in (above, below):
        axis.set_xticks(range(0, panel.heads, 2 if panel.heads > 6 else 1))
        if panel.heads > panel.support:
            text = r"$H-|\mathrm{supp}|$" if axis is above else ""
            style.threshold(axis, panel.heads - panel.support, text)


def _legend(figure: Figure, records: dict[str, list[Record]], section: Section) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for activation in section.activations:
        names = list(map(str, records[activation][0].datasets["protocol"]))
        for name in names:
            text = label(activation) + (f", {name}" if len(names) > 1 else "")
            look = {"color": colour(activation), "linestyle": LINES[name]}
            handles.append(Line2D([], [], label=text, **look))
    bound = {"color": style.MEANING["bayes_risk"], "linestyle": "--", "linewidth": 0.7}
    handles.append(Line2D([], [], label="Bayes risk", **bound))
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
