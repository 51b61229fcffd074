"""Test error and rank against the weight decay, and the best weight decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, PositiveGrid, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._curves import SAMPLE_RATIO, CurvePanel, add_rows
from hdattn.figures._ensemble import allowances, rank_allowances, theory_complaints, theory_flags
from hdattn.figures._paths import (
    LamRange,
    PathEnsemble,
    at_lam,
    best_curve,
    path_trainings,
)
from hdattn.figures._singlehead import SingleHead, below_dim, check_dim, limit_curve, own_curves
from hdattn.figures._ticks import plain_ticks
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Test error and rank against the weight decay; the best weight decay"
SHARED = ("best", "optimum")  # with bayes

NAME = "regularisation"
QUANTITIES = {"test_error": "test error", "rank_fraction": "rank fraction"}
WEIGHT_DECAY = r"weight decay $\lambda$"


class Section(SingleHead):
    """Keys of ``regularisation``."""

    kappa: Positive = physics(1.0, "Width p/d of the trained head.")
    lam_range: LamRange = physics(
        (1e-3, 1.0), "Weight decays [low, high] among which theory seeks the best."
    )
    dim: Count = size(50, "Dimension d of the simulations.")
    small_dim: Count = size(30, "Smaller dimension, from which finite-size allowances are fitted.")
    alphas: PositiveList = size(
        (0.5, 2.0), "Sample ratios n/d^2, one curve each.", max_length=len(style.SERIES)
    )
    lams: PositiveGrid = size((0.01, 0.1, 1), "Weight decays that are trained.")
    theory_lams: PositiveGrid = size((0.01, 0.1, 1), "Weight decays of the theory lines.")
    theory_alphas: PositiveGrid = size((0.05, 0.2, 1, 4), "Sample ratios of the best weight decay.")

    @field_validator("dim", "small_dim")
    @classmethod
    def _columns(cls, value: int, info: ValidationInfo) -> int:
        return check_dim(value, {key: info.data.get(key) for key in ("kappa0", "kappa")})

    _smaller = field_validator("small_dim")(below_dim)


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory over weight decays and at the best ones; training along paths at two sizes."""
    s = section
    roles = {
        "limit": [limit_curve(s, s.alphas, s.theory_lams, s.kappa)],
        "best": [best_curve(s, s.theory_alphas, s.kappa, s.lam_range)],
        "optimum": [best_curve(s, s.alphas, s.kappa, s.lam_range)],
    }
    for prefix, dim in (("", s.dim), ("small ", s.small_dim)):
        at = (s, seed, dim, s.alphas, s.lams, s.kappa)
        roles[f"{prefix}lbfgs"] = path_trainings(*at)
        roles[f"{prefix}own"] = own_curves(*at)
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Test error and rank against lambda; the best lambda and the rank there against alpha."""
    axes = style.panels(figure, 2, 2, width="double", height=4.2)
    drawing = Drawing([])
    paths, small = (
        PathEnsemble(records[f"{prefix}lbfgs"], records[f"{prefix}own"])
        for prefix in ("", "small ")
    )
    for axis, quantity in zip(axes[::2], QUANTITIES, strict=True):
        for a, colour in zip(range(len(section.alphas)), style.SERIES, strict=False):
            _draw_limit(axis, quantity, records, section, a, colour, drawing)
            _draw_trained(axis, quantity, paths, a, colour, drawing)
        axis.set(xscale="log", xlabel=WEIGHT_DECAY, ylabel=QUANTITIES[quantity])
    axes[0].set_yscale("log")
    plain_ticks(axes[0].yaxis, (0.1, 0.2, 0.3))
    axes[0].legend(loc="best")
    (best,) = records["best"]
    _draw_best_decay(axes[1], best, records["optimum"][0], drawing)
    panel = CurvePanel(axes[3], "rank_fraction", drawing)
    panel.limit(best, style.BLACK, r"at the best $\lambda$", at="best")
    panel.finish(r"rank fraction at the best $\lambda$")
    for axis in axes[2:]:
        style.level(axis, section.kappa0, "target")
    axes[3].legend(loc="best")
    for record in (best, records["optimum"][0]):
        drawing.flagged += theory_complaints(record, "best weight decay")
    for number, lam in enumerate(section.theory_lams):
        record = at_lam(records["limit"][0], number)
        drawing.flagged += theory_complaints(record, f"lambda = {lam:g}")
    for lam in section.lams:
        for one in (paths.at(lam), small.at(lam)):
            drawing.flagged += one.complaints(f"lambda = {lam:g}, d = {one.dim}")
    drawing.validation += _validation(paths, small)
    return drawing


def _draw_limit(axis: Axes, quantity, records, section: Section, a, colour, drawing) -> None:
    """Theory in the limit, and a star at the best weight decay."""
    alpha = section.alphas[a]
    curves = records["limit"][0].datasets
    values, flagged = curves[quantity][:, a], theory_flags(curves)[:, a]
    label = rf"$\alpha={alpha:g}$"
    style.theory(axis, section.theory_lams, values, colour, label=label, flagged=flagged)
    row = {"quantity": quantity, "alpha": alpha}
    add_rows(
        drawing, series="theory", lam=section.theory_lams, value=values, flagged=flagged, **row
    )
    best = records["optimum"][0].datasets
    _star(axis, best["lam"][a], best[quantity][a], colour, flagged=theory_flags(best)[a])
    columns = {"value": best[quantity][a], "flagged": theory_flags(best)[a]}
    add_rows(drawing, series="optimum", lam=best["lam"][a], **columns, **row)


def _star(axis: Axes, x: float, y: float, colour: str, *, flagged: bool) -> None:
    """Best weight decay by theory."""
    look = {"fmt": "*", "markersize": 9, "zorder": 4, "flagged": [flagged]}
    style.simulation(axis, [x], [y], None, colour, **look)


def _draw_trained(axis: Axes, quantity, paths: PathEnsemble, a, colour, drawing) -> None:
    ensembles = [paths.at(lam) for lam in paths.lams]
    own = [e.theory(quantity)[:, a].mean() for e in ensembles]
    doubtful = [bool(e.theory_flagged[a]) for e in ensembles]
    style.theory(axis, paths.lams, own, colour, thin=True, flagged=doubtful)
    points = np.array([np.array(e.mean_and_error(quantity))[:, a] for e in ensembles])
    flagged = [bool(e.flagged[a]) for e in ensembles]
    style.simulation(axis, paths.lams, *points.T, colour, method="lbfgs", flagged=flagged)
    row = {"quantity": quantity, "alpha": float(paths.alphas[a]), "lam": paths.lams}
    series = f"theory d={ensembles[0].dim}"
    add_rows(drawing, series=series, value=own, flagged=doubtful, **row)
    add_rows(
        drawing,
        series="lbfgs",
        value=points[:, 0],
        standard_error=points[:, 1],
        instances=ensembles[0].instances,
        flagged=flagged,
        **row,
    )


def _draw_best_decay(axis: Axes, best: Record, optimum: Record, drawing: Drawing) -> None:
    curve, marked = best.datasets, optimum.datasets
    flagged, doubtful = theory_flags(curve), theory_flags(marked)
    style.theory(axis, curve["alpha"], curve["lam"], style.BLACK, flagged=flagged)
    stars = zip(marked["alpha"], marked["lam"], style.SERIES, doubtful, strict=False)
    for alpha, lam, colour, bad in stars:
        _star(axis, alpha, lam, colour, flagged=bad)
    columns = {"alpha": curve["alpha"], "value": curve["lam"], "flagged": flagged}
    add_rows(drawing, quantity="lam", series="best", **columns)
    axis.set(xscale="log", yscale="log", xlabel=SAMPLE_RATIO, ylabel=r"best weight decay $\lambda$")
    plain_ticks(axis.yaxis, (0.02, 0.05, 0.1))


def _validation(paths: PathEnsemble, small: PathEnsemble) -> list[dict]:
    rows = []
    for lam in paths.lams.tolist():
        large, where = paths.at(lam), f"lam={lam:g}"
        constants = {
            "test_error": allowances("test_error", small.at(lam)),
            "rank_fraction": rank_allowances(large),
        }
        for quantity in QUANTITIES:
            rows += large.validation(NAME, quantity, where, constants[quantity])
    return rows
