"""Panels of message passing against the iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hdattn.figures import style
from hdattn.figures._amp import Passed, statistics
from hdattn.figures._curves import add_rows
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdattn.store import Record

OVERLAPS = {"Q": (style.BLUE, "$Q$"), "M": (style.VERMILLION, "$M$")}
SIZES = (style.PURPLE, style.BLACK)


def draw_overlaps(axis: Axes, passed: Passed, case: str, drawing: Drawing) -> None:
    for name, (colour, label) in OVERLAPS.items():
        _draw_series(axis, passed, name, case, colour, label, drawing)
    style.theory(axis, [], [], style.BLACK, label="theory")
    style.simulation(axis, [], [], None, style.BLACK, method="amp", label="message passing")
    axis.set_ylabel("overlap")
    axis.set_ylim(0)
    axis.legend(loc="lower right")
    axis.set_xlabel("iteration")


def draw_objective(axis: Axes, sizes: tuple[Passed, Passed], case: str, drawing: Drawing) -> None:
    for passed, colour in zip(sizes, SIZES, strict=True):
        _draw_series(axis, passed, "prox_objective", case, colour, f"$d={passed.dim}$", drawing)
    axis.set_ylabel("objective at the prox")
    axis.set_xlabel("iteration")
    axis.legend(loc="best")


def _draw_series(
    axis: Axes, passed: Passed, name: str, case: str, colour: str, label: str, drawing: Drawing
) -> None:
    """Markers with standard errors on the line of the mean theory, against the iteration."""
    shown = np.unique(np.r_[0:12, np.arange(12, passed.iterations + 1, 3)])
    shown = shown[shown <= passed.iterations]
    theory = passed.theory(name)[:, 0].mean(axis=0)[: passed.iterations + 1]
    values = passed.simulation(name)[:, 0][:, shown]
    mean, error = statistics(values)
    style.theory(axis, np.arange(theory.size), theory, colour)
    style.simulation(axis, shown, mean, error, colour, method="amp", label=label, markersize=2.5)
    where = {"quantity": name, "case": case, "dim": passed.dim}
    add_rows(drawing, **where, series="theory", iteration=np.arange(theory.size), value=theory)
    add_rows(
        drawing,
        **where,
        series="amp",
        iteration=shown,
        value=mean,
        standard_error=error,
        instances=passed.instances,
    )


def draw_excess(
    axis: Axes, passed: Passed, trained: list[Record], case: str, drawing: Drawing
) -> None:
    """Objective of each instance's S above its minimum by L-BFGS, relative to the minimum."""
    minimum = np.concatenate([record.datasets["objective"] for record in trained])[:, 0]
    objective = passed.simulation("objective")[:, 0]
    done = passed.simulation("iterations")[:, 0]
    ended = np.concatenate([record.datasets["converged"] for record in trained])[:, 0]
    for instance, (values, least) in enumerate(zip(objective, minimum, strict=True)):
        excess = values[: done[instance] + 1] / least - 1
        excess[excess <= 0] = np.nan  # below what L-BFGS reached: no place on a logarithmic axis
        label = "over L-BFGS, each instance" if instance == 0 else None
        look = {"linewidth": 0.8, "label": label, "flagged": not ended[instance]}
        style.curve(axis, np.arange(excess.size), excess, style.SKY, **look)
        add_rows(
            drawing,
            quantity="relative excess objective",
            case=case,
            dim=passed.dim,
            series=f"amp instance {instance}",
            iteration=np.arange(excess.size),
            value=excess,
        )
    axis.set_yscale("log")
    axis.set_ylabel("relative excess objective")
    axis.set_xlabel("iteration")
    axis.legend(loc="best")
