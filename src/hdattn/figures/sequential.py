"""Directions are learnt one after the other, strongest first: head spreads and times of jumps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, physics, size
from hdattn.figures import _multihead, style
from hdattn.figures._cases import Case
from hdattn.figures._ensembles import Ensemble, FlowModel, Flows, ensemble
from hdattn.figures._multihead import MultiHead
from hdattn.figures._ticks import plain_ticks
from hdattn.figures.drawing import Drawing
from hdattn.figures.staging import SPIKES
from hdattn.multihead.escape import crossing_time, head_spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "Directions are learnt one after the other, strongest first"

CASES = ("flipping", "softmax", "gaussian")
COLOURS = dict(zip(CASES, (style.VERMILLION, style.BLUE, style.GREEN), strict=True))
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
        "bayes": [_multihead.bayes(section)],
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
    jumps = [*_flow_jumps(cases, section.threshold), *_sgd_jumps(case, section.threshold)]
    _times(axes[4], cases, jumps, section.threshold)
    _order(axes[5], jumps)
    drawing.table += [jump.row() for jump in jumps]
    for axis in axes[:4]:
        axis.set_xlabel(r"$\tau$")
        axis.set_ylabel(r"head spread along $f$")
    _legend(figure, axes[3], cases)
    return drawing


@dataclass(frozen=True)
class Jump:
    """When one seed learns one direction; NaN if it did not."""

    case: str
    source: str
    instance: int
    spike: int
    std: float
    tau: float

    def row(self) -> dict[str, Any]:
        """Row of the table."""
        where = {"case": self.case, "source": self.source, "quantity": "jump"}
        return (
            where
            | {"instance": self.instance, "spike": self.spike}
            | {
                "tau": self.tau,
                "value": self.std**2,
            }
        )


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


def _flow_jumps(cases: dict[str, Flows], threshold: float) -> Iterator[Jump]:
    for name, flows in cases.items():
        for spike in flows.flipping:
            for i, tau in enumerate(flows.jumps(spike, threshold)):
                yield Jump(name, "flow", i, spike, flows.model.std[spike], float(tau))


def _sgd_jumps(case: Case, threshold: float) -> Iterator[Jump]:
    for spike in map(int, case.flipping):
        spread = head_spread(case.sgd.m, spike)
        for number, values in zip(map(int, case.sgd.instance), spread, strict=True):
            tau = crossing_time(case.sgd.tau, values, threshold)
            yield Jump("flipping", "sgd", number, spike, case.section.std[spike], tau)


def _times(axis: Axes, cases: dict[str, Flows], jumps: list[Jump], threshold: float) -> None:
    """Time of each jump of the flows against omega^2: geometric mean over seeds, and each seed."""
    for name, flows in cases.items():
        squares = np.array([flows.model.std[f] ** 2 for f in flows.flipping])
        times = np.array([flows.jumps(f, threshold) for f in flows.flipping])
        known = np.isfinite(times).all(axis=1)
        mean = np.exp(np.log(times[known]).mean(axis=1))
        style.theory(axis, squares[known], mean, COLOURS[name])
    for jump in jumps:
        if jump.source == "flow":
            look = {"marker": "o", "markersize": 2, "linestyle": "", "alpha": 0.7}
            axis.plot(jump.std**2, jump.tau, color=COLOURS[jump.case], **look)
    axis.set_yscale("log")
    _decades(axis.yaxis)
    axis.set_xlabel(r"$\omega_f^2$")
    axis.set_ylabel(r"time at which $f$ is learnt")


def _decades(axis: Axis) -> None:
    """Labels at powers of ten alone, of times between 10 and 10^4."""
    low, high = np.log10(axis.get_view_interval())
    plain_ticks(axis, [10.0**k for k in np.arange(np.ceil(low), np.floor(high) + 1)])


def consecutive(jumps: list[Jump]) -> list[tuple[Jump, Jump]]:
    """Pairs (stronger, next weaker) of the directions that one seed has learnt."""
    ordered = sorted(jumps, key=lambda j: (j.case, j.source, j.instance, -j.std, j.spike))
    same = (
        (a, b) for a, b in itertools.pairwise(ordered) if _seed(a) == _seed(b) and a.std > b.std
    )
    return [(a, b) for a, b in same if np.isfinite([a.tau, b.tau]).all()]


def _seed(jump: Jump) -> tuple[str, str, int]:
    return jump.case, jump.source, jump.instance


def _order(axis: Axes, jumps: list[Jump]) -> None:
    """Time of the weaker direction against that of the stronger one: all above the diagonal."""
    pairs = consecutive(jumps)
    for strong, weak in pairs:
        filled = COLOURS[strong.case] if strong.source == "flow" else style.BLACK
        marker = "o" if strong.source == "flow" else "s"
        look = {"color": filled, "marker": marker, "markersize": 2.5, "linestyle": ""}
        axis.plot(strong.tau, weak.tau, **look)
    times = [jump.tau for pair in pairs for jump in pair] or [1.0, 10.0]
    low, high = 0.7 * min(times), 1.5 * max(times)
    axis.plot([low, high], [low, high], color=style.GREY, linewidth=0.7, linestyle="--", zorder=0)
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    for side in (axis.xaxis, axis.yaxis):
        _decades(side)
    axis.set_xlabel(r"time of the stronger direction")
    axis.set_ylabel(r"time of the next weaker one")
    first = sum(weak.tau > strong.tau for strong, weak in pairs)
    note = f"stronger first:\n{first} of {len(pairs)} pairs"
    axis.annotate(note, (0.96, 0.06), xycoords="axes fraction", ha="right", fontsize=6.5)


def _legend(figure: Figure, axis: Axes, cases: dict[str, Flows]) -> None:
    from matplotlib.lines import Line2D

    def dot(colour, label, marker="o"):
        return Line2D([], [], color=colour, marker=marker, markersize=3, linestyle="", label=label)

    spikes = range(1, max(len(flows.model.std) for flows in cases.values()))
    handles = [Line2D([], [], color=SPIKES[f], label=f"$f={f}$") for f in spikes]
    handles += [dot(COLOURS[name], flows.model.label) for name, flows in cases.items()]
    handles.append(dot(style.BLACK, "SGD", "s"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
