"""Best loss of each activation against the strength of the signal, and the Bayes risk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, PositiveGrid, physics, size
from hdattn.figures import style
from hdattn.figures._multihead import ALL_NAMES, SpikeModel, Spreads
from hdattn.figures._optima import (
    MARKER,
    Curve,
    OptimumKeys,
    bayes_curve,
    optimum_curves,
)
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "Best losses against the strength of the signal"

PANELS = {
    "flipping": "flipping spikes",
    "gaussian": "anisotropic Gaussian",
    "isotropic": "isotropic Gaussian",
}
LINES = dict(zip(PANELS, ("-", "--", ":"), strict=True))
ORIENTATION_POINTS = 4096  # in all, at the least: with fewer, heads fit them
STRENGTH = "signal strength"


class Section(SpikeModel, OptimumKeys):
    """Configuration of the figure; at strength s the spreads are s times std."""

    isotropic: Annotated[Spreads, Field(min_length=2)] = physics(
        (1.35, 1.35), "Spreads of the isotropic Gaussian prior, all equal; its mean is zero."
    )
    strengths: PositiveGrid = size(
        {"start": 0.25, "stop": 2, "points": 8, "spacing": "linear"},
        "Strengths of the signal, by which spreads are multiplied.",
    )

    searches: Annotated[Count, Field(ge=2)] = size(
        3, "Independent searches for the heads of the isotropic prior."
    )

    @field_validator("isotropic")
    @classmethod
    def _equal(cls, isotropic: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(isotropic)) > 1 or not isotropic[0] > 0:
            raise ValueError(f"{list(isotropic)} is not isotropic; give equal, positive numbers")
        return isotropic

    def priors(self, panel: str) -> list[dict[str, Any]]:
        """Prior of a panel at each strength."""
        kind = "flip" if panel == "flipping" else "gauss"
        mean, std = (
            ([0.0] * len(self.isotropic), self.isotropic)
            if panel == "isotropic"
            else (self.mean, self.std)
        )
        return [
            {"kind": kind, "mean": list(mean), "std": [float(f"{s * x:.12g}") for x in std]}
            for s in self.strengths
        ]

    @property
    def shown(self) -> int:
        """Position of the strength at which the heads of the isotropic prior are shown."""
        return int(np.argmin(np.abs(np.array(self.strengths) - 1.0)))


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """A curve of each activation and prior; Bayes risks; heads of independent searches."""
    roles = {}
    for panel in PANELS:
        priors = section.priors(panel)
        points = [(prior, section.heads) for prior in priors]
        slug = f"{panel}-H{section.heads}"
        curves = optimum_curves(section, section.tokens, seed, points, slug)
        roles |= {f"{panel}_{name}": [curve] for name, curve in curves.items()}
    every = [prior for panel in PANELS for prior in section.priors(panel)]
    roles["risk"] = [bayes_curve(section.tokens, every, "signal")]
    roles["orientation"] = [_alone(section, seed + k) for k in range(section.searches)]
    return roles


def _alone(section: Section, seed: int) -> Experiment:
    """One search for softmax heads of the isotropic prior, on points of its own."""
    prior = section.priors("isotropic")[section.shown]
    base = max(section.points, ORIENTATION_POINTS) // 2 ** len(section.isotropic)
    return Experiment(
        "multihead/optimum",
        {
            **{"activation": "softmax", "tokens": section.tokens, "prior": prior, "held": []},
            **{"heads": section.heads, "starts": 2, "seed": seed, "base_points": base},
        },
        slug=f"softmax-H{section.heads}-isotropic",
    )


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Losses of the three priors; what each activation leaves; orientation of isotropic heads."""
    axes = style.panels(figure, 2, 3, width="double", height=4.4)
    drawing, strengths = Drawing([]), np.array(section.strengths)
    curves = {}
    risks = np.split(records["risk"][0].datasets["bayes_risk"], len(PANELS))
    for axis, panel, risk in zip(axes, PANELS, risks, strict=False):
        curves[panel] = [
            Curve(name, strengths, records[f"{panel}_{name}"][0], risk) for name in ALL_NAMES
        ]
        _losses(axis, panel, curves[panel])
        for curve in curves[panel]:
            drawing.table += curve.rows(panel, "strength")
            drawing.flagged += curve.flags(PANELS[panel])
    drawing.table += _closed(axes[3], curves)
    drawing.table += _excess(axes[4], curves)
    drawing.table += _orientation(axes[5], records["orientation"], strengths[section.shown])
    drawing.flagged += [
        f"orientation, search {number}: {message}"
        for number, record in enumerate(records["orientation"])
        for message in record.messages
    ]
    _legend(figure)
    return drawing


def _losses(axis: Axes, panel: str, curves: list[Curve]) -> None:
    """Best losses and Bayes risk."""
    for curve in curves:
        curve.draw(axis, curve.loss)
    risk = curves[0].risk
    look = {"linestyle": "--", "zorder": 4, "linewidth": 1.0}
    style.theory(axis, curves[0].x, risk, style.MEANING["bayes_risk"], **look)
    axis.set(xlabel=STRENGTH, ylabel="best loss", ylim=(0, None))
    axis.annotate(
        PANELS[panel], (0.04, 0.05), xycoords="axes fraction", fontsize=7, color=style.GREY
    )


def _closed(axis: Axes, curves: dict[str, list[Curve]]) -> Iterator[dict[str, Any]]:
    """Fraction of the gap between softmax and Bayes that softmax-1 closes."""
    for panel, (softmax, softmax1, _) in curves.items():
        fraction = (softmax.loss - softmax1.loss) / (softmax.loss - softmax.risk)
        look = {"linestyle": LINES[panel], "label": PANELS[panel]}
        softmax1.draw(axis, fraction, others=[softmax], **look)
        yield from _rows(panel, "fraction of the gap closed", "softmax1", softmax.x, fraction)
    axis.set(xlabel=STRENGTH, ylabel="gap closed by softmax-1", ylim=(0, 1))
    axis.legend(fontsize=6, loc="best")


def _excess(axis: Axes, curves: dict[str, list[Curve]]) -> Iterator[dict[str, Any]]:
    """B-softmax above the Bayes risk: nothing but errors where there is a head for each point."""
    for panel, (*_, bayes) in curves.items():
        excess = bayes.loss - bayes.risk
        bayes.draw(axis, np.maximum(excess, 1e-8), linestyle=LINES[panel])
        yield from _rows(panel, "excess over Bayes", "bayes", bayes.x, excess)
    axis.set(xlabel=STRENGTH, ylabel="B-softmax above Bayes", yscale="log", ylim=(1e-8, 1))


def _rows(panel, quantity, activation, x, values) -> Iterator[dict[str, Any]]:
    for strength, value in zip(x, values, strict=True):
        where = {"panel": panel, "quantity": quantity, "activation": activation}
        yield where | {"strength": strength, "value": value}


def _orientation(axis: Axes, records: list[Record], strength: float) -> Iterator[dict[str, Any]]:
    """Softmax heads of the isotropic prior from independent searches."""
    for k, (record, colour) in enumerate(zip(records, style.SERIES, strict=False)):
        loss, m = float(record.datasets["loss"]), record.datasets["m"]
        doubt = "" if record.converged else ", not converged"
        for h, head in enumerate(m):
            label = f"loss {loss:.5f}{doubt}" if h == 0 else None
            style.theory(axis, [0, head[0]], [0, head[1]], colour, label=label)
            hollow = {"method": "lbfgs", "flagged": [not record.converged]}
            style.simulation(axis, head[:1], head[1:2], None, colour, **hollow)
            for spike, value in enumerate(head):
                where = {"panel": "orientation", "quantity": "m", "activation": "softmax"}
                where |= {"strength": strength, "value": value, "instance": k}
                yield where | {"head": h, "spike": spike}
        where = {"panel": "orientation", "quantity": "best loss", "activation": "softmax"}
        error = float(record.datasets["loss_error"])
        yield where | {"strength": strength, "value": loss, "error": error, "instance": k}
    size = 1.25 * max(np.abs(record.datasets["m"][:, :2]).max() for record in records)
    axis.set(xlim=(-size, size), ylim=(-size, 1.9 * size), aspect="equal")
    axis.set(xlabel="$m_{h0}$", ylabel="$m_{h1}$")
    axis.legend(fontsize=6, loc="upper center", title="isotropic, softmax", title_fontsize=6.5)


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=style.MEANING[name], label=label, **MARKER)
        for name, label in ALL_NAMES.items()
    ]
    risk = {"color": style.MEANING["bayes_risk"], "linestyle": "--"}
    handles.append(Line2D([], [], label="Bayes risk", **risk))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
