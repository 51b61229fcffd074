"""Directions are learnt one after the other, strongest first: head spreads and times of jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, physics, size
from hdattn.figures import _multihead, style
from hdattn.figures._cases import Case
from hdattn.figures._ensembles import Ensemble, FlowModel, Flows, ensemble
from hdattn.figures._jumps import CASES, COLOURS, flow_jumps, order, sgd_jumps, times
from hdattn.figures._multihead import MultiHead
from hdattn.figures.drawing import Drawing
from hdattn.figures.staging import SPIKES
from hdattn.multihead.escape import head_spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "Directions are learnt one after the other, strongest first"

BLOCK = 5  # flows that one job does


class Section(MultiHead, Ensemble):
    """Configuration of the figure; the model keys are those of the B-softmax heads."""

    softmax: FlowModel = physics(FlowModel(), "Softmax heads on random signs.")
    gaussian: FlowModel = physics(
        FlowModel(activation="bayes", amplitudes="gauss", std=(0, 2, 1.2)),
        "Heads on normal amplitudes with a different spread along each spike.",
    )
    threshold: Positive = physics(
        0.5, "A direction is learnt when half the range of m_hf over heads reaches this."
    )
    seeds: Annotated[Count, Field(ge=2)] = size(5, "Seeds of the flows in each case.")
    tau_flow: dict[str, Positive] = size(
        {"flipping": 6000, "softmax": 6000, "gaussian": 1000}, "Last time of the flows."
    )
    tau_sgd: Positive = size(300, "Last time of SGD, gamma samples / dim.")
    records: Annotated[Count, Field(ge=5)] = size(41, "Times at which SGD is recorded.")

    @field_validator("tau_flow")
    @classmethod
    def _complete(cls, tau_flow: dict[str, float]) -> dict[str, float]:
        if set(tau_flow) != set(CASES):
            raise ValueError(f"{tau_flow} will not do; map each of {', '.join(CASES)} to a time")
        return tau_flow

    @field_validator("softmax")
    @classmethod
    def _unstable(cls, softmax: FlowModel) -> FlowModel:
        if softmax.activation == "softmax" and softmax.tokens == 2:
            raise ValueError(
                "softmax heads never specialise at tokens = 2, where their growth rate vanishes; "
                "set tokens to 3 or more"
            )
        return softmax

    @property
    def models(self) -> dict[str, FlowModel]:
        """Model of each case."""
        keys = ("tokens", "heads", "mean", "std")
        flipping = FlowModel(activation="bayes", **{key: getattr(self, key) for key in keys})
        return {"flipping": flipping, "softmax": self.softmax, "gaussian": self.gaussian}


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Flows of all cases; SGD of the first from its own starts, each with its own flow."""
    data = _multihead.data_blocks(section, seed)
    times = (section.tau_sgd, section.records)
    sizes = {"seeds": section.seeds, "block_size": BLOCK}
    return {
        "sgd_bayes": [_multihead.sgd(section, "bayes", *times, d) for d in data],
        "flow_bayes": [_multihead.flow(section, "bayes", *times, d) for d in data],
        **{
            name: ensemble(section, model, seed, section.tau_flow[name], **sizes)
            for name, model in section.models.items()
        },
    }


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Spreads of three cases, SGD on its flows, times of the jumps, and their order."""
    axes = style.panels(figure, 2, 3, width="double", height=4.4)
    cases = {
        name: Flows.merge(records[name], model, section.seeds)
        for name, model in section.models.items()
    }
    case = Case.read("bayes", records, section)
    drawing = Drawing([], list(case.validation("sequential")), case.flags())
    for axis, (name, flows) in zip(axes, cases.items(), strict=False):
        drawing.table += _spreads(axis, name, flows, section.threshold)
        drawing.flagged += flows.flags()
    drawing.table += _simulated(axes[3], case)
    jumps = [*flow_jumps(cases, section.threshold), *sgd_jumps(case, section.threshold)]
    times(axes[4], cases, jumps, section.threshold)
    order(axes[5], jumps)
    drawing.table += [jump.row() for jump in jumps]
    for axis in axes[:4]:
        axis.set_xlabel(r"$\tau$")
        axis.set_ylabel(r"head spread along $f$")
    _legend(figure, axes[3], cases)
    return drawing


def _spreads(axis: Axes, name: str, flows: Flows, threshold: float) -> list[dict[str, Any]]:
    """Spread along each direction, a thin line for each seed."""
    rows = []
    for spike in flows.flipping:
        for i, spread in enumerate(flows.spread(spike)):
            style.theory(axis, flows.tau, spread, SPIKES[spike], linewidth=0.7, alpha=0.8)
            rows += _rows(name, "flow", i, spike, flows.tau, spread)
    axis.set_xscale("log")
    axis.set_xlim(1, flows.tau[-1])
    axis.set_ylim(bottom=0)
    style.level(axis, threshold)
    axis.set_title(flows.model.label, fontsize=7.5, pad=3)
    return rows


def _simulated(axis: Axes, case: Case) -> list[dict[str, Any]]:
    """SGD and the flow from the start of each run."""
    rows, runs = [], ((case.flow, "flow"), (case.sgd, "sgd"))
    for spike in map(int, case.flipping):
        for position, number in enumerate(map(int, case.sgd.instance)):
            for run, source in runs:
                spread = head_spread(run.m, spike)[position]
                rows += _rows("flipping", source, number, spike, run.tau, spread)
                if source == "flow":
                    style.theory(axis, run.tau, spread, SPIKES[spike], linewidth=0.6, alpha=0.8)
                    continue
                hollow = np.full(len(run.tau), not case.reliable[position])
                look = {"method": "sgd", "markersize": 1.4, "flagged": hollow}
                style.simulation(axis, run.tau, spread, None, SPIKES[spike], **look)
    axis.set_xlim(0, case.sgd.tau[-1])
    axis.set_ylim(bottom=0)
    axis.set_title(f"SGD, $D={case.section.dim}$", fontsize=7.5, pad=3)
    return rows


def _rows(case, source, instance, spike, tau, values) -> list[dict[str, Any]]:
    where = {"case": case, "source": source, "quantity": "spread"}
    where |= {"instance": instance, "spike": spike}
    return [where | {"tau": t, "value": v} for t, v in zip(tau, values, strict=True)]


def _legend(figure: Figure, axis: Axes, cases: dict[str, Flows]) -> None:
    from matplotlib.lines import Line2D

    def dot(colour, label, marker="o"):
        return Line2D([], [], color=colour, marker=marker, markersize=3, linestyle="", label=label)

    spikes = range(1, max(len(flows.model.std) for flows in cases.values()))
    handles = [Line2D([], [], color=SPIKES[f], label=f"$f={f}$") for f in spikes]
    handles += [dot(COLOURS[name], flows.model.label) for name, flows in cases.items()]
    handles.append(dot(style.BLACK, "SGD", "s"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
