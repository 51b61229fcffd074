"""Specialisation in stages: overlaps, head spread and loss, SGD on the flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from hdattn.experiment import Experiment
from hdattn.fields import Count, size
from hdattn.figures import _multihead, style, validation
from hdattn.figures._cases import Case
from hdattn.figures._multihead import NAMES, MultiHead
from hdattn.figures._timed import Timed
from hdattn.figures._trajectories import loss_windows
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "Heads learn the mean together, then specialise in stages"
SHARED = ("*",)  # with activations

FLOW_STEPS = 2  # times of the flow between two records of SGD
SPIKES = (style.BLACK, style.PURPLE, style.ORANGE, style.SKY, style.GREEN)  # colour of direction f


class Section(Timed, MultiHead):
    """Configuration of the figure."""

    records: Annotated[Count, Field(ge=5)] = size(41, "Times at which SGD is recorded.")


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """SGD and flow of each activation in blocks, both from the same initial weights."""
    data = _multihead.data_blocks(section, seed)
    roles = {"bayes": [_multihead.bayes(section)]}
    for name in section.activations:
        tau_max, records = section.tau_max[name], section.records
        times = FLOW_STEPS * (records - 1) + 1
        roles[f"sgd_{name}"] = [_multihead.sgd(section, name, tau_max, records, d) for d in data]
        roles[f"flow_{name}"] = [_multihead.flow(section, name, tau_max, times, d) for d in data]
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """A row of panels for each activation: overlaps of one run, spread of all runs, mean loss."""
    cases = [Case.read(name, records, section) for name in section.activations]
    axes = style.panels(figure, len(cases), 3, width="double", height=0.4 + 1.9 * len(cases))
    drawing = Drawing([])
    for case, row in zip(cases, np.reshape(axes, (-1, 3)), strict=True):
        for axis, panel in zip(row, (_overlaps, _spreads, _losses), strict=True):
            panel(Panel(axis, case, drawing.table))
            axis.set_xlim(0, section.tau_max[case.activation])
        drawing.validation += case.validation("staging")
        drawing.flagged += case.flags()
    for axis in axes[-3:]:
        axis.set_xlabel(r"$\tau = \gamma\,\times$ samples$\,/D$")
    _legend(figure, section)
    return drawing


@dataclass(frozen=True)
class Panel:
    """Axes of one case, and the table in which everything drawn is noted."""

    axis: Axes
    case: Case
    table: list[dict[str, Any]]

    def flow(
        self, quantity: str, values: Sequence[float], colour: str, look: dict[str, Any], **where
    ) -> None:
        """Line of the flow; ``where`` names instance, head and spike."""
        tau = self.case.flow.tau
        style.theory(self.axis, tau, values, colour, **look)
        self._note(quantity, "flow", tau, values, [None] * len(tau), where)

    def sgd(
        self,
        quantity: str,
        tau: Sequence[float],
        values: Sequence[float],
        colour: str,
        look: dict[str, Any],
        error: Sequence[float] | None = None,
        **where,
    ) -> None:
        """Markers of SGD, hollow for an unreliable instance."""
        known = dict(zip(self.case.sgd.instance, self.case.reliable, strict=True))
        hollow = np.full(len(tau), not known.get(where.get("instance"), True))
        look = look | {"method": "sgd", "flagged": hollow}
        style.simulation(self.axis, tau, values, error, colour, **look)
        self._note(
            quantity, "sgd", tau, values, [None] * len(tau) if error is None else error, where
        )

    def _note(self, quantity, source, tau, values, errors, where) -> None:
        place = {key: where.get(key) for key in ("instance", "head", "spike")}
        start = {"activation": self.case.activation, "quantity": quantity, "source": source} | place
        self.table.extend(
            start | {"tau": t, "value": value, "standard_error": error}
            for t, value, error in zip(tau, values, errors, strict=True)
        )


def _colour(spike: int) -> str:
    return SPIKES[spike % len(SPIKES)]


def _overlaps(panel: Panel) -> None:
    """m_hf of every head in one run."""
    case, axis = panel.case, panel.axis
    number = int(case.sgd.instance[case.example])
    for spike in range(len(case.section.std)):
        for head in range(case.section.heads):
            where = {"instance": number, "head": head, "spike": spike}
            flow, sgd = (t.m[case.example, :, head, spike] for t in (case.flow, case.sgd))
            panel.flow("m", flow, _colour(spike), {"linewidth": 0.8}, **where)
            panel.sgd("m", case.sgd.tau, sgd, _colour(spike), {"markersize": 1.6}, **where)
    axis.set_ylabel(rf"overlaps $m_{{hf}}$, {NAMES[case.activation]}")
    text = f"run {number} of {len(case.sgd.instance)}"
    axis.annotate(text, (0.04, 0.95), xycoords="axes fraction", va="top", fontsize=7)


def _spreads(panel: Panel) -> None:
    """Spread over the heads in all runs, along the directions that split, on a log axis."""
    case, axis = panel.case, panel.axis
    for spike in map(int, case.flipping):
        for position, number in enumerate(map(int, case.sgd.instance)):
            where = {"instance": number, "spike": spike}
            flow, sgd = (t.spread[position, :, spike] for t in (case.flow, case.sgd))
            panel.flow("spread", flow, _colour(spike), {"linewidth": 0.5, "alpha": 0.7}, **where)
            panel.sgd("spread", case.sgd.tau, sgd, _colour(spike), {"markersize": 1.2}, **where)
        _growth(panel, spike)
    axis.set_yscale("log")
    axis.set_ylabel(r"spread of $m_{hf}$ over heads")


def _growth(panel: Panel, spike: int) -> None:
    """Exponential growth at the closed-form rate, through the geometric mean of the flows."""
    case = panel.case
    middle = case.sgd.tau[case.split] / 2
    spread = case.flow.at(case.flow.spread[case.averaged], np.array([middle]))[:, 0, spike]
    tau = middle * np.array([0.4, 1.6])
    guide = np.exp(np.log(spread).mean() + case.rate(spike) * (tau - middle))
    panel.axis.plot(tau, guide, color=style.BLACK, linewidth=0.8, linestyle="--", zorder=4)


def _losses(panel: Panel) -> None:
    """Loss: flow and mean over runs; plateau and Bayes risk."""
    case, colour = panel.case, style.MEANING[panel.case.activation]
    for position in case.averaged:
        where = {"instance": int(case.flow.instance[position])}
        panel.flow(
            "loss", case.flow.loss[position], colour, {"linewidth": 0.4, "alpha": 0.5}, **where
        )
    panel.flow("loss", case.flow.loss[case.averaged].mean(axis=0), colour, {})
    edges = loss_windows(case.sgd.tau)
    runs = case.sgd.loss[case.averaged]
    mean, error = np.transpose([validation.mean_and_error(column) for column in runs.T])
    middle = (edges[1:] + edges[:-1]) / 2
    panel.sgd("loss", middle, mean, colour, {"markersize": 2.2}, error)
    _level(panel, "plateau_loss", "plateau", above=True)
    _level(panel, "bayes_risk", "Bayes risk", above=False)
    bottom, top = panel.axis.get_ylim()
    panel.axis.set_ylim(bottom - 0.08 * (top - bottom), top)  # room for the lower label
    panel.axis.set_ylabel("loss per sample")


def _level(panel: Panel, key: str, name: str, *, above: bool) -> None:
    """Dashed line with its value written at its right end."""
    value = panel.case.levels[key]
    style.level(panel.axis, value)
    panel.axis.annotate(
        f"{name} {value:.4f}",
        (0.97, value),
        xycoords=panel.axis.get_yaxis_transform(),
        xytext=(0, 2 if above else -2),
        textcoords="offset points",
        ha="right",
        va="bottom" if above else "top",
        fontsize=6.5,
        color=style.GREY,
    )


def _legend(figure: Figure, section: Section) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=_colour(f), label=_direction(f, mean, std))
        for f, (mean, std) in enumerate(zip(section.mean, section.std, strict=True))
    ]
    handles += [
        Line2D([], [], color=style.GREY, label="flow"),
        Line2D([], [], color=style.GREY, linestyle="", marker="o", markersize=2.5, label="SGD"),
        Line2D([], [], color="k", linestyle="--", linewidth=0.8, label=r"$e^{|\lambda_f|\tau}$"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))


def _direction(spike: int, mean: float, std: float) -> str:
    value = rf"\omega_{spike} = {std:g}" if std else rf"\mu_{spike} = {mean:g}"
    return rf"$f = {spike}$: ${value}$"
