"""Time to reach the plateau and time to leave it, against the dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, ValidationInfo, field_validator
from pydantic.functional_validators import AfterValidator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, PositiveGrid, physics, size
from hdattn.figures import _random_starts, style
from hdattn.figures._ensembles import LEAST_DIM
from hdattn.figures._escape import LEARNT, QUANTITIES, Curve, draw_difference, draw_times, row
from hdattn.figures._multihead import (
    NAMES,
    USUAL_SIGMA,
    SobolPoints,
    Spreads,
    Vector,
)
from hdattn.figures._sizes import SizeScan, sgd_blocks
from hdattn.figures._ticks import plain_ticks
from hdattn.figures._timed import TAU_MAX, TauMax, Timed
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "The plateau is reached at once and left after a time that grows as log D"


def _dimensions(dims: tuple[float, ...]) -> tuple[float, ...]:
    if dims[0] < LEAST_DIM:
        raise ValueError(f"{dims[0]:g} will not do; give dimensions of at least {LEAST_DIM}")
    return dims


class Section(Timed, SizeScan):
    """Configuration of the figure."""

    heads: Count = physics(2, "Heads H.")
    mean: Vector = physics((0.8, 0.0), "Mean of the signal along each hidden spike.")
    std: Spreads = physics(
        (0.0, 2.0), "Size of the random sign along each hidden spike; 0 for a constant one."
    )
    threshold: Positive = physics(
        0.5, "Half the largest difference of overlaps at which heads count as split."
    )
    tau_max: TauMax = size({"softmax": 14, "bayes": 8}, TAU_MAX)
    records: Annotated[Count, Field(ge=20)] = size(281, "Times at which SGD is recorded.")
    flow_dims: PositiveGrid = size(
        {"start": 100, "stop": 1e8, "points": 9}, "Dimensions D of the flow at gamma to 0."
    )

    @field_validator("mean")
    @classmethod
    def _phases(cls, mean: tuple[float, ...]) -> tuple[float, ...]:
        if not any(mean):
            raise ValueError("all entries are 0: there is no first phase; make one of them nonzero")
        return mean

    @field_validator("flow_dims")
    @classmethod
    def _small_seeds(cls, dims: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        least = 1 / info.data.get("threshold", 0.5) ** 2
        if dims[0] <= least:
            raise ValueError(f"{dims[0]:g} will not do; heads start split below {least:g}")
        return dims

    sigma: Positive = physics(
        0.1, "Random starts of the flow are N(0, sigma^2 / dim).", usual=USUAL_SIGMA
    )
    random_dims: Annotated[PositiveGrid, AfterValidator(_dimensions)] = size(
        (1e2, 1e4), "Dimensions D of the random starts."
    )
    random_seeds: Count = size(8, "Random starts at each of these dimensions.")
    random_points: SobolPoints = size(8192, "Sobol points in all of a flow from a random start.")
    tau_random: Positive = size(90, "Last time of these flows.")

    @property
    def feature(self) -> int:
        """Direction along which the heads start apart: the one that splits first."""
        return int(np.argmax(self.std))

    @property
    def start(self) -> dict[str, Any]:
        """Initial weights +-k*_f / sqrt(D)."""
        return {"kind": "pairs", "feature": self.feature}


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Flows at gamma to 0 over all D and at the SGD's gamma at its D; SGD at each D."""
    roles = {}
    for name, tau_max in section.tau_max.items():
        roles[f"limit_{name}"] = [_escape(section, name, 0.0, section.flow_dims)]
        roles |= _random_starts.experiments(section, name, seed)
        roles[f"flow_{name}"] = [_escape(section, name, section.gamma, section.dims)]
        for dim in section.dims:
            roles[f"sgd_{name}_{dim}"] = sgd_blocks(
                section, seed, name, dim, section.gamma, section.start, tau_max, section.records
            )
    return roles


def _escape(section: Section, activation: str, gamma: float, dims: Sequence[float]) -> Experiment:
    return Experiment(
        "multihead/escape",
        {"activation": activation, "tokens": section.tokens, "prior": section.prior}
        | {"heads": section.heads, "gamma": gamma, "feature": section.feature, "dims": dims}
        | {"threshold": section.threshold, "learnt": LEARNT}
        | {"base_points": section.base_points, "scrambles": section.scrambles},
        slug=f"{activation}-gamma{gamma:g}",
    )


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Time to leave the plateau, time to reach it, and SGD minus flow for both."""
    axes = style.panels(figure, 1, 3, width="double", height=2.5, width_ratios=[1.3, 1, 1])
    drawing = Drawing([])
    for name in section.activations:
        drawing.flagged += [
            f"{NAMES[name]}: a flow at {which} did not get there in the time given"
            for kind, which in (("limit", "gamma to 0"), ("flow", f"gamma = {section.gamma:g}"))
            if not records[f"{kind}_{name}"][0].converged
        ]
        starts = _random_starts.RandomStarts.read(name, records, section)
        starts.draw(axes[0])
        drawing.flagged += starts.flags()
        drawing.table += [row(name, "escape", *values) for values in starts.table()]
        for axis, quantity in zip(axes, QUANTITIES, strict=False):
            curve = Curve.read(name, quantity, records, section)
            draw_times(axis, curve)
            draw_difference(axes[2], curve)
            drawing.table += curve.table()
            drawing.validation += curve.validation()
            drawing.flagged += [
                f"{NAMES[name]}, D = {p.dim}: a run diverged or lacks its {QUANTITIES[quantity]}"
                for p in curve.sgd
                if not p.fine
            ]
    _label(axes, section)
    return drawing


def _label(axes: list[Axes], section: Section) -> None:
    """Scales, labels, and the meaning of lines and markers."""
    from matplotlib.lines import Line2D

    for axis in axes:
        axis.set_xscale("log")
        axis.set_xlabel("$D$")
    axes[0].set_ylabel(r"time to leave the plateau, $\tau$")
    axes[1].set_ylabel(r"time to reach the plateau, $\tau$")
    axes[2].set_ylabel("SGD minus flow, in $\\tau$")
    axes[0].set_ylim(bottom=0)
    axes[1].set_ylim(0, 1.5 * axes[1].get_ylim()[1])
    low, high = axes[2].get_ylim()
    axes[2].set_ylim(low, high + 0.15 * (high - low))  # room for the legend
    axes[2].axhline(0, color=style.GREY, linewidth=0.6, zorder=0)
    plain_ticks(axes[2].xaxis, section.dims)
    axes[2].set_xlim(section.dims[0] / 1.5, section.dims[-1] * 1.5)

    def entry(label: str, **look: Any) -> Line2D:
        look = {"color": style.GREY, "linestyle": "", "markersize": 3.5} | look
        return Line2D([], [], label=label, **look)

    lines = [
        entry(NAMES[name], color=style.MEANING[name], linestyle="-") for name in section.activations
    ]
    thin = {"linestyle": (0, (4, 1.5)), "linewidth": 0.6, "color": style.BLACK}
    lines.append(entry(rf"flow, $\gamma = {section.gamma:g}$", **thin))
    axes[1].legend(handles=[*lines, entry("SGD", marker="o")], loc="upper center", ncols=2)
    axes[0].legend(handles=[entry("random starts", marker="+")], loc="upper left")
    both = [entry("leave", marker="o"), entry("reach", marker="s")]
    axes[2].legend(handles=both, ncols=2, loc="upper center")
