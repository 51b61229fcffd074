"""Training on sequences against training on attention matrices: they merge as d grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, PositiveGrid, physics, size
from hdattn.figures import style
from hdattn.figures._curves import CurvePanel, add_rows
from hdattn.figures._ensemble import allowances, theory_complaints
from hdattn.figures._paths import PathEnsemble, Selection, path_trainings
from hdattn.figures._singlehead import SingleHead, check_dim, limit_curve, own_curves
from hdattn.figures._ticks import plain_ticks
from hdattn.figures.drawing import Drawing
from hdattn.figures.validation import mean_and_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Sequences or attention matrices as labels"

NAME = "tasks"
QUANTITIES = {"test_error": "test error", "train_loss": "training loss per sample"}
TASKS = {"seq2lab": "o", "seq2seq": "s"}
SHADES = (style.SKY, style.BLUE, style.PURPLE, style.VERMILLION)


class Section(SingleHead):
    """Keys of ``tasks``."""

    kappa: Positive = physics(1.0, "Width p/d of the trained head.")
    lam: Positive = physics(0.01, "Weight decay lambda.")
    dims: tuple[Count, ...] = size(
        (30, 40, 60),
        "Dimensions d, increasing; the largest is judged, the least sets its allowance.",
        min_length=2,
        max_length=len(SHADES),
    )
    alphas: PositiveGrid = size((0.3, 1, 2), "Sample ratios n/d^2 that are trained.")
    theory_alphas: PositiveGrid = size((0.2, 0.5, 1, 4), "Sample ratios of the theory lines.")

    @field_validator("dims")
    @classmethod
    def _sizes(cls, value: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        if list(value) != sorted(set(value)):
            raise ValueError("the dimensions must increase, without repeats")
        check_dim(value[0], {key: info.data.get(key) for key in ("kappa0", "kappa")})
        return value


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Both tasks on the same data at every dimension; one theory for both."""
    s = section
    roles = {"limit": [limit_curve(s, s.theory_alphas, s.lam, s.kappa)]}
    for dim in s.dims:
        at = (s, seed, dim, s.alphas, [s.lam], s.kappa)
        roles[f"own {dim}"] = own_curves(*at)
        for task in TASKS:
            roles[f"{task} {dim}"] = path_trainings(*at, task=task)
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Test error and training loss against alpha; the gap between the tasks against d."""
    axes = style.panels(figure, 1, 3, width="double", height=2.5)
    drawing = Drawing([])
    (limit,) = records["limit"]
    ensembles = {
        (task, dim): _ensemble(records, task, dim) for task in TASKS for dim in section.dims
    }
    for axis, (quantity, label) in zip(axes, QUANTITIES.items(), strict=False):
        panel = CurvePanel(axis, quantity, drawing)
        panel.limit(limit, style.BLACK, "theory")
        for dim, colour in zip(section.dims, SHADES, strict=False):
            for task, marker in TASKS.items():
                look = {"fmt": marker, "markersize": 3.5}
                name = f"{task}, $d={dim}$"
                panel.markers(ensembles[task, dim], colour, "lbfgs", name, look, task=task, dim=dim)
        panel.finish(label)
        plain_ticks(axis.xaxis, (0.2, 0.5, 1, 2))
    axes[0].set_yscale("log")
    plain_ticks(axes[0].yaxis, (0.1, 0.15, 0.2, 0.3))
    axes[0].legend(loc="best", fontsize=6)
    _draw_gaps(axes[2], ensembles, section, drawing)
    drawing.flagged += theory_complaints(limit, "both tasks")
    for (task, dim), ensemble in ensembles.items():
        drawing.flagged += ensemble.complaints(f"{task}, d = {dim}")
    for task in TASKS:
        large, small = (ensembles[task, section.dims[i]] for i in (-1, 0))
        for quantity in QUANTITIES:
            constants = allowances(quantity, small)
            drawing.validation += large.validation(NAME, quantity, task, constants)
    return drawing


def _ensemble(records: dict[str, list[Record]], task: str, dim: int) -> Selection:
    return PathEnsemble(records[f"{task} {dim}"], records[f"own {dim}"]).first()


def _draw_gaps(axis: Axes, ensembles, section: Section, drawing: Drawing) -> None:
    """Test error of seq2seq over that of seq2lab less one, instance by instance, against d."""
    dims = np.array(section.dims, float)
    for a, colour in zip(range(len(section.alphas)), style.SERIES, strict=False):
        gaps = []
        flagged = [any(ensembles[t, dim].flagged[a] for t in TASKS) for dim in section.dims]
        for dim in section.dims:
            sequences, labels = (
                ensembles[task, dim].simulation("test_error")[:, a]
                for task in ("seq2seq", "seq2lab")
            )
            gaps.append(mean_and_error(sequences / labels - 1))
        mean, error = np.array(gaps).T
        alpha = section.alphas[a]
        look = {"method": "lbfgs", "label": rf"$\alpha={alpha:g}$", "flagged": flagged}
        style.simulation(axis, dims, mean, error, colour, **look)
        add_rows(
            drawing,
            quantity="test error, seq2seq over seq2lab less 1",
            alpha=alpha,
            dim=section.dims,
            value=mean,
            standard_error=error,
            flagged=flagged,
        )
        if a == len(section.alphas) // 2:
            _guide(axis, dims, mean, flagged)
    axis.axhline(0, color=style.GREY, linewidth=0.6, zorder=0)
    axis.set(xlabel=r"dimension $d$", ylabel="test error, seq2seq/seq2lab less 1")
    axis.legend(loc="best", fontsize=6)


def _guide(axis: Axes, dims: np.ndarray, gaps: np.ndarray, flagged: list[bool]) -> None:
    """1/d through the first gap that is to be trusted, if there is one."""
    trusted = np.flatnonzero(~np.array(flagged))
    if trusted.size:
        first = trusted[0]
        guide = gaps[first] * dims[first] / dims
        style.theory(axis, dims, guide, style.GREY, label=r"$\propto 1/d$")
