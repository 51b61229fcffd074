"""Rank of the minimiser against the sample ratio, for several strengths of weight decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, PositiveGrid, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._curves import CurvePanel
from hdattn.figures._ensemble import Ensemble, rank_allowances, theory_complaints
from hdattn.figures._singlehead import (
    SingleHead,
    check_dim,
    limit_curve,
    own_curves,
    trainings,
)
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Rank of the minimiser against the sample ratio"
SHARED = ("* 0.01",)  # with learning_curves


class Section(SingleHead):
    """Keys of ``rank``."""

    lams: PositiveList = physics(
        (0.001, 0.01, 0.1), "Weight decays lambda, one curve each.", max_length=len(style.SERIES)
    )
    kappa: Positive = physics(1.0, "Width p/d of the trained head.")
    kappa_lines: PositiveList = physics((0.75, 1.0), "Widths p/d marked by horizontal lines.")
    dim: Count = size(60, "Dimension d of the simulations.")
    alphas: PositiveGrid = size((0.1, 0.3, 1, 4), "Sample ratios n/d^2 that are trained.")
    theory_alphas: PositiveGrid = size((0.05, 0.2, 1, 4), "Sample ratios of the theory lines.")

    @field_validator("dim")
    @classmethod
    def _columns(cls, value: int, info: ValidationInfo) -> int:
        return check_dim(value, {key: info.data.get(key) for key in ("kappa0", "kappa")})


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory and training for each lambda."""
    s, roles = section, {}
    for lam in s.lams:
        roles[f"limit {lam:g}"] = [limit_curve(s, s.theory_alphas, lam, s.kappa)]
        roles[f"own {lam:g}"] = own_curves(s, seed, s.dim, s.alphas, lam, s.kappa)
        roles[f"lbfgs {lam:g}"] = trainings(s, seed, s.dim, s.alphas, lam, s.kappa)
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Rank fraction against alpha, one colour per lambda, and the widths that would bind."""
    (axis,) = style.panels(figure, width="single", height=2.5)
    drawing = Drawing([])
    panel = CurvePanel(axis, "rank_fraction", drawing)
    for lam, colour in zip(section.lams, style.SERIES, strict=False):
        ensemble = Ensemble(records[f"lbfgs {lam:g}"], records[f"own {lam:g}"])
        panel.limit(
            records[f"limit {lam:g}"][0], colour, rf"weight decay $\lambda={lam:g}$", lam=lam
        )
        panel.ensemble(ensemble, colour, "lbfgs", lam=lam)
        drawing.flagged += theory_complaints(records[f"limit {lam:g}"][0], f"lambda = {lam:g}")
        drawing.flagged += ensemble.complaints(f"L-BFGS, lambda = {lam:g}")
        drawing.validation += ensemble.validation(
            "rank", "rank_fraction", f"lam={lam:g} L-BFGS", rank_allowances(ensemble)
        )
    for kappa in section.kappa_lines:
        style.level(axis, kappa)
        axis.annotate(
            rf"width $\kappa=p/d={kappa:g}$",
            (0.02, kappa),
            xycoords=axis.get_yaxis_transform(),
            xytext=(0, -2),
            textcoords="offset points",
            va="top",
            fontsize=7,
            color=style.GREY,
        )
    axis.set_ylim(0, 1.05)
    panel.finish("rank fraction of the minimiser")
    _legend(axis, section.dim)
    return drawing


def _legend(axis: Axes, dim: int) -> None:
    """Colours, then what lines and markers are."""
    from matplotlib.lines import Line2D

    grey = {"color": style.GREY}
    thin = {"linewidth": 0.6, "linestyle": (0, (4, 1.5))}
    marker = {"linestyle": "", "marker": style.MARKERS["lbfgs"]}
    handles = [
        *axis.get_legend_handles_labels()[0],
        Line2D([], [], label="theory", **grey),
        Line2D([], [], label=f"theory, $d={dim}$", **grey, **thin),
        Line2D([], [], label=f"trained, $d={dim}$", **grey, **marker),
    ]
    axis.legend(handles=handles, loc="lower right")
