"""Training with factors from far below to above the rank of the solution, tied and untied."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, PositiveGrid, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._curves import add_rows
from hdattn.figures._ensemble import allowances, rank_allowances, theory_complaints, theory_flags
from hdattn.figures._paths import PathEnsemble, Selection, path_trainings
from hdattn.figures._singlehead import SingleHead, below_dim, check_dim, limit_curve, own_curves
from hdattn.figures.drawing import Drawing
from hdattn.figures.validation import mean_and_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Width of the factor against the rank of the solution; untied factors"

NAME = "width"
QUANTITIES = {
    "test_error": "test error",
    "objective": "objective per sample",
    "rank_fraction": "rank fraction",
}
LOOK = {"tied": (style.BLUE, "lbfgs", "tied"), "untied": (style.VERMILLION, "other", "untied")}
SHARES = {
    "asymmetry": (style.VERMILLION, "antisymmetric part"),
    "negativity": (style.PURPLE, "negative eigenvalues"),
}
CLEAR = 1.05  # times the rank fraction: widths from which theory has to hold


class Section(SingleHead):
    """Keys of ``width``."""

    alpha: Positive = physics(1.0, "Sample ratio n/d^2.")
    lam_eff: Positive = physics(0.1, "lambda sqrt(kappa), the same at all widths.")
    dim: Count = size(50, "Dimension d of the simulations.")
    small_dim: Count = size(30, "Smaller dimension, from which finite-size allowances are fitted.")
    kappas: PositiveGrid = size((0.2, 0.4, 0.6, 1), "Widths p/d that are trained.")
    untied_kappas: PositiveList = size((0.4, 1), "Widths p/d of untied factors.")

    @field_validator("dim", "small_dim")
    @classmethod
    def _columns(cls, value: int, info: ValidationInfo) -> int:
        return check_dim(value, {"kappa0": info.data.get("kappa0")})

    _smaller = field_validator("small_dim")(below_dim)

    @field_validator("kappas", "untied_kappas")
    @classmethod
    def _wide(cls, value: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        least = 1 / info.data.get("small_dim", 1000)
        if value[0] < least / 2:
            raise ValueError(
                f"{value[0]:g} leaves no column at small_dim; give {least:.2g} or more"
            )
        return value


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """One theory for all widths; training at each, and the widest at a smaller dimension."""
    s, kappa, lam_eff = section, 1.0, [section.lam_eff]
    roles = {
        "limit": [limit_curve(s, [s.alpha], s.lam_eff, kappa)],
        "own": own_curves(s, seed, s.dim, [s.alpha], lam_eff, kappa),
        "small own": own_curves(s, seed, s.small_dim, [s.alpha], lam_eff, kappa),
        "small": _trained(s, seed, s.small_dim, s.kappas[-1], "tied"),
    }
    for head, widths in (("tied", s.kappas), ("untied", s.untied_kappas)):
        for width in widths:
            roles[f"{head} {width:g}"] = _trained(s, seed, s.dim, width, head)
    return roles


def _trained(section: Section, seed: int, dim: int, kappa: float, head: str) -> list[Experiment]:
    lams = [section.lam_eff / math.sqrt(kappa)]
    return path_trainings(section, seed, dim, [section.alpha], lams, kappa, head=head)


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Test error, objective and rank against the width; how far untied factors leave the cone."""
    axes = style.panels(figure, 2, 2, width="double", height=4.2)
    drawing = Drawing([])
    (limit,) = records["limit"]
    rank = float(limit.datasets["rank_fraction"][0])
    heads = {
        "tied": {k: _ensemble(records, f"tied {k:g}", "own") for k in section.kappas},
        "untied": {k: _ensemble(records, f"untied {k:g}", "own") for k in section.untied_kappas},
    }
    for axis, (quantity, label) in zip(axes, QUANTITIES.items(), strict=False):
        _draw_theory(axis, quantity, limit, heads["tied"], section, drawing)
        for head, ensembles in heads.items():
            _draw_trained(axis, quantity, head, ensembles, drawing)
        bad = bool(theory_flags(limit.datasets)[0])
        style.threshold(axis, rank, "rank of the solution", flagged=bad)
        axis.set_ylabel(label)
    kappas = np.array(section.kappas)
    axes[2].plot(kappas, kappas, color=style.GREY, linewidth=0.7, label=r"$\kappa$")
    axes[2].set_ylim(0, 1.05)
    axes[0].legend(loc="best")
    _draw_shares(axes[3], heads["untied"], drawing)
    for axis in axes:
        axis.set_xlabel(r"width $\kappa=p/d$")
        axis.set_xlim(0, max(section.kappas) * 1.03)
    drawing.flagged += theory_complaints(limit, "all widths")
    for head, ensembles in heads.items():
        for kappa, ensemble in ensembles.items():
            drawing.flagged += ensemble.complaints(f"{head}, kappa = {kappa:g}")
    small = _ensemble(records, "small", "small own")
    drawing.flagged += small.complaints(f"tied, d = {small.dim}")
    for kappa, ensemble in heads["tied"].items():
        if kappa > CLEAR * ensemble.theory("rank_fraction").max():
            drawing.validation += _validation(ensemble, small, kappa)
    return drawing


def _ensemble(records: dict[str, list[Record]], trained: str, own: str) -> Selection:
    return PathEnsemble(records[trained], records[own]).first()


def _draw_theory(axis: Axes, quantity, limit: Record, tied, section: Section, drawing) -> None:
    """Theory: one value from the rank fraction on, dotted below it, where it does not hold."""
    value, rank = (float(limit.datasets[name][0]) for name in (quantity, "rank_fraction"))
    widest = section.kappas[-1]
    ensemble = next(iter(tied.values()))
    own = float(ensemble.theory(quantity).mean())
    bad = bool(theory_flags(limit.datasets)[0])
    doubtful = bad or bool(ensemble.theory_flagged[0])
    look = {"flagged": [bad] * 2}
    style.theory(axis, [rank, widest], [value] * 2, style.BLACK, label="theory", **look)
    style.theory(axis, [0, rank], [value] * 2, style.BLACK, linestyle=":", linewidth=1, **look)
    style.theory(axis, [rank, widest], [own] * 2, style.BLACK, thin=True, flagged=[doubtful] * 2)
    row = {"quantity": quantity, "kappa": widest}
    add_rows(drawing, series="theory", value=value, flagged=bad, **row)
    add_rows(drawing, series=f"theory d={section.dim}", value=own, flagged=doubtful, **row)


def _draw_trained(axis: Axes, quantity, head, ensembles: dict[float, Selection], drawing) -> None:
    colour, method, label = LOOK[head]
    kappas = list(ensembles)
    points = np.array([np.ravel(e.mean_and_error(quantity)) for e in ensembles.values()])
    flagged = [bool(e.flagged[0]) for e in ensembles.values()]
    look = {"method": method, "label": label, "flagged": flagged}
    style.simulation(axis, kappas, *points.T, colour, **look)
    add_rows(
        drawing,
        quantity=quantity,
        series=head,
        kappa=kappas,
        value=points[:, 0],
        standard_error=points[:, 1],
        instances=ensembles[kappas[0]].instances,
        flagged=flagged,
    )


def _draw_shares(axis: Axes, untied: dict[float, Selection], drawing: Drawing) -> None:
    """How far the untied S is from symmetric, and its symmetric part from the cone."""
    flagged = [bool(e.flagged[0]) for e in untied.values()]
    for name, (colour, label) in SHARES.items():
        columns = [e.simulation(name)[:, 0] for e in untied.values()]
        mean, error = np.array([mean_and_error(column) for column in columns]).T
        style.simulation(axis, list(untied), mean, error, colour, label=label, flagged=flagged)
        add_rows(
            drawing,
            quantity=name,
            series="untied",
            kappa=list(untied),
            value=mean,
            standard_error=error,
            flagged=flagged,
        )
    axis.set_ylim(bottom=0)
    axis.set_ylabel(r"share of $\Vert S\Vert^2$, untied")
    axis.legend(loc="best")


def _validation(ensemble: Selection, small: Selection, kappa: float) -> list[dict]:
    rows = []
    for quantity in QUANTITIES:
        is_rank = quantity == "rank_fraction"
        constants = rank_allowances(ensemble) if is_rank else allowances(quantity, small)
        rows += ensemble.validation(NAME, quantity, f"kappa={kappa:g}", constants)
    return rows
