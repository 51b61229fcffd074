"""Errors of the trained head against the sample ratio: theory, and training with two optimisers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, PositiveGrid, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._curves import CurvePanel, add_rows, draw_residuals
from hdattn.figures._ensemble import Ensemble, allowances, theory_complaints, theory_flags
from hdattn.figures._singlehead import (
    SingleHead,
    below_dim,
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
TITLE = "Errors against the sample ratio: state evolution and training"
SHARED = ("own 1", "lbfgs 1")  # with rank

NAME = "learning_curves"
QUANTITIES = {
    "test_error": "test error",
    "train_loss": "training loss per sample",
    "overlap_error": r"overlap error $\Vert S-S_0\Vert^2/d$",
}
DESCENT = {"lbfgs": (style.BLACK, "L-BFGS"), "adam": (style.GREEN, "Adam")}
RESIDUALS = ("test_error", "overlap_error")


class Section(SingleHead):
    """Keys of ``learning_curves``."""

    lam: Positive = physics(0.01, "Weight decay lambda on the factor W.")
    kappas: PositiveList = physics(
        (0.75, 1.0),
        "Widths p/d of the trained head, one curve each.",
        max_length=len(style.SERIES),
    )
    dim: Count = size(60, "Dimension d of the simulations.")
    small_dim: Count = size(30, "Smaller dimension, to see the residuals shrink.")
    alphas: PositiveGrid = size((0.1, 0.3, 1, 4), "Sample ratios n/d^2 that are trained.")
    adam_alphas: PositiveList = size((0.3, 1.0), "Those that Adam trains as well (largest kappa).")
    theory_alphas: PositiveGrid = size((0.05, 0.2, 1, 4), "Sample ratios of the theory lines.")
    descent_alpha: Positive = physics(1.0, "Sample ratio at which descents are followed.")
    start_scales: PositiveList = physics(
        (0.1, 1.0, 2.0), "Sizes of the entries of the initial W in the descents."
    )

    @field_validator("dim", "small_dim")
    @classmethod
    def _columns(cls, value: int, info: ValidationInfo) -> int:
        return check_dim(value, {key: info.data.get(key) for key in ("kappa0", "kappas")})

    _smaller = field_validator("small_dim")(below_dim)

    @field_validator("adam_alphas")
    @classmethod
    def _trained(cls, value: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        strangers = sorted(set(value) - set(info.data.get("alphas", value)))
        if strangers:
            raise ValueError(f"{strangers[0]:g} is not among alphas; add it there")
        return value

    @property
    def one_instance(self) -> Section:
        """The same section with a single instance, whose descent is followed."""
        return self.model_copy(update={"instances": 1, "block_size": 1})


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory, training at two sizes, Adam, and the descents of one instance."""
    s, single, widest = section, section.one_instance, section.kappas[-1]
    roles: dict[str, list[Experiment]] = {}
    for kappa in s.kappas:
        roles[f"limit {kappa:g}"] = [limit_curve(s, s.theory_alphas, s.lam, kappa)]
        roles[f"own {kappa:g}"] = own_curves(s, seed, s.dim, s.alphas, s.lam, kappa)
        roles[f"lbfgs {kappa:g}"] = trainings(s, seed, s.dim, s.alphas, s.lam, kappa)
    roles["adam"] = trainings(s, seed, s.dim, s.adam_alphas, s.lam, widest, "adam")
    roles["small own"] = own_curves(s, seed, s.small_dim, s.alphas, s.lam, widest)
    roles["small lbfgs"] = trainings(s, seed, s.small_dim, s.alphas, s.lam, widest)
    at = [s.descent_alpha]
    roles["descent limit"] = [limit_curve(s, at, s.lam, widest)]
    roles["descent own"] = own_curves(single, seed, s.dim, at, s.lam, widest)
    for optimizer in DESCENT:
        roles[f"descent {optimizer}"] = [
            experiment
            for trial, scale in enumerate(s.start_scales)
            for experiment in trainings(
                single, seed, s.dim, at, s.lam, widest, optimizer, start=(trial, scale)
            )
        ]
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Six panels: three errors against alpha, a descent, residuals of two quantities."""
    axes = style.panels(figure, 2, 3, width="double", height=4.3)
    drawing = Drawing([])
    ensembles = {
        kappa: Ensemble(records[f"lbfgs {kappa:g}"], records[f"own {kappa:g}"])
        for kappa in section.kappas
    }
    widest = section.kappas[-1]
    adam = Ensemble(records["adam"], records[f"own {widest:g}"])
    small = Ensemble(records["small lbfgs"], records["small own"])
    for axis, quantity in zip(axes, QUANTITIES, strict=False):
        panel = CurvePanel(axis, quantity, drawing)
        _draw_errors(panel, records, ensembles, adam)
    _draw_descents(axes[3], records, drawing)
    for axis, quantity in zip(axes[4:], RESIDUALS, strict=True):
        sizes = {style.PURPLE: small, style.BLACK: ensembles[widest]}
        draw_residuals(axis, quantity, sizes, drawing)
    drawing.flagged += adam.complaints(f"Adam, kappa = {widest:g}")
    drawing.flagged += small.complaints(f"L-BFGS, d = {small.dim}")
    for which in ("limit", "own"):
        drawing.flagged += theory_complaints(records[f"descent {which}"][0], "descents")
    for optimizer, (_, label) in DESCENT.items():
        for trial, record in enumerate(records[f"descent {optimizer}"]):
            if not record.converged:
                drawing.flagged.append(f"descent of {label}, start {trial}: not converged")
    for kappa, ensemble in ensembles.items():
        drawing.flagged += theory_complaints(records[f"limit {kappa:g}"][0], f"kappa = {kappa:g}")
        drawing.flagged += ensemble.complaints(f"L-BFGS, kappa = {kappa:g}")
    for quantity in QUANTITIES:
        constants = allowances(quantity, small)
        for kappa, ensemble in ensembles.items():
            where = f"kappa={kappa:g} L-BFGS"
            drawing.validation += ensemble.validation(NAME, quantity, where, constants)
        where = f"kappa={widest:g} Adam"
        drawing.validation += adam.validation(NAME, quantity, where, constants)
    return drawing


def _draw_errors(
    panel: CurvePanel,
    records: dict[str, list[Record]],
    ensembles: dict[float, Ensemble],
    adam: Ensemble,
) -> None:
    for (kappa, ensemble), colour in zip(ensembles.items(), style.SERIES, strict=False):
        (limit,) = records[f"limit {kappa:g}"]
        panel.limit(limit, colour, rf"$\kappa={kappa:g}$", kappa=kappa)
        panel.ensemble(ensemble, colour, "lbfgs", kappa=kappa)
    colour, label = DESCENT["adam"]
    # Adam lies behind, and larger: both optimisers reach the same minimum.
    look = {"markersize": 6, "zorder": 2.5}
    panel.markers(adam, colour, "adam", label, look, kappa=kappa)
    panel.finish(QUANTITIES[panel.quantity])
    if panel.quantity == "test_error":
        floor = float(limit.datasets["test_error_floor"][0])
        flagged = bool(theory_flags(limit.datasets)[0])
        style.level(panel.axis, floor, "floor", flagged=flagged)
        add_rows(panel.drawing, quantity="test_error_floor", series="theory", value=floor)
        handles, labels = panel.axis.get_legend_handles_labels()
        # The last, Adam, is explained elsewhere.
        panel.axis.legend(handles[:-1], labels[:-1], loc="best")
    if panel.quantity == "overlap_error":
        _explain_lines(panel.axis, ensemble.dim)


def _explain_lines(axis: Axes, dim: int) -> None:
    """Legend of what lines and markers are, whatever their colour."""
    style.theory(axis, [], [], style.BLACK, label="theory, limit")
    style.theory(axis, [], [], style.BLACK, thin=True, label=f"theory, $d={dim}$")
    style.simulation(axis, [], [], None, style.BLACK, method="lbfgs", label="L-BFGS")
    handles, labels = axis.get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    chosen = ["theory, limit", f"theory, $d={dim}$", "L-BFGS", "Adam"]
    axis.legend([known[label] for label in chosen], chosen, loc="best")


def _draw_descents(axis: Axes, records: dict[str, list[Record]], drawing: Drawing) -> None:
    for optimizer, (colour, label) in DESCENT.items():
        for trial, record in enumerate(records[f"descent {optimizer}"]):
            history = record.datasets["history"][0, 0]
            history = history[np.isfinite(history)]
            step = np.arange(len(history))
            look = {"linewidth": 0.8, "label": None if trial else label}
            style.curve(axis, step + 1, history, colour, flagged=not record.converged, **look)
            add_rows(
                drawing,
                quantity="objective",
                series=f"{optimizer} start {trial}",
                step=step,
                value=history,
            )
    for role, name, line in (("limit", "theory, limit", "-"), ("own", "theory, target", "--")):
        solved = records[f"descent {role}"][0].datasets
        value = float(solved["objective"].ravel()[0])
        look = {"colour": style.VERMILLION, "linewidth": 0.8, "linestyle": line, "zorder": 2}
        style.level(axis, value, name, flagged=theory_flags(solved).any(), **look)
        add_rows(drawing, quantity="objective", series=f"theory {role}", value=value)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("step of the optimiser, plus one")
    axis.set_ylabel("objective per sample")
    axis.legend(loc="best")
