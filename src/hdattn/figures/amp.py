"""Message passing on training sets, iterate by iterate, beside its state evolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, NonNegative, Positive, physics, size
from hdattn.figures import style, validation
from hdattn.figures._amp import (
    Pair,
    Passed,
    Passing,
    own_trajectories,
    passings,
    validation_rows,
)
from hdattn.figures._amp_panels import draw_excess, draw_objective, draw_overlaps
from hdattn.figures._singlehead import SingleHead, below_dim, check_dim, trainings
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Message passing against its state evolution, iterate by iterate"

NAME = "amp"
CASES = ("easy", "hard")
COMPARED = ("Q", "M", "prox_objective")
CHECKED = (1, 2, 3, 5, 8, 12, 20)  # iterations in the validation table, of the undamped runs
TOLERANCE = 1e-5
SAME_OBJECTIVE = 1e-6
Damping = Annotated[NonNegative, Field(lt=1)]


class Section(SingleHead):
    """Keys of ``amp``."""

    kappa: Positive = physics(1.0, "Width p/d behind lambda_eff = lam sqrt(kappa).")
    easy_alpha: Positive = physics(2.0, "Sample ratio n/d^2 of the easy point.")
    easy_lam: Positive = physics(0.1, "Weight decay of the easy point.")
    hard_alpha: Positive = physics(0.5, "Sample ratio of the hard point.")
    hard_lam: Positive = physics(0.01, "Weight decay of the hard point.")
    damping: Damping = physics(0.3, "Damping at the hard point (below 1).")
    dim: Count = size(80, "Dimension d of the simulations.")
    small_dim: Count = size(40, "Smaller dimension, to see the deviations shrink.")
    iterations: Count = size(60, "Largest number of iterations.")

    @field_validator("dim", "small_dim")
    @classmethod
    def _columns(cls, value: int, info: ValidationInfo) -> int:
        return check_dim(value, {key: info.data.get(key) for key in ("kappa0", "kappa")})

    _smaller = field_validator("small_dim")(below_dim)

    @field_validator("iterations")
    @classmethod
    def _enough(cls, value: int) -> int:
        if value < max(CHECKED):
            raise ValueError(f"{value} will not do; give at least {max(CHECKED)}")
        return value

    def passing(self, case: str) -> Passing:
        """How message passing is run at the easy or the hard point."""
        easy = case == "easy"
        return Passing(
            alphas=[self.easy_alpha if easy else self.hard_alpha],
            lams=[self.easy_lam if easy else self.hard_lam],
            damping=0.0 if easy else self.damping,
            iterations=self.iterations,
            tolerance=TOLERANCE,
            kappa=self.kappa,
        )


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Message passing and its theory at both points and two sizes; training of the larger."""
    roles = {}
    for case in CASES:
        passing = section.passing(case)
        for name, dim in (("", section.dim), ("small ", section.small_dim)):
            roles[f"{name}{case}"] = passings(section, seed, dim, passing)
            roles[f"{name}{case} own"] = own_trajectories(section, seed, dim, passing)
        ((alpha,), (lam,)) = passing.alphas, passing.lams
        roles[f"{case} trained"] = trainings(
            section, seed, section.dim, [alpha], lam, section.kappa
        )
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """A row for each point: overlaps, objective at the prox, distance to the ERM minimum."""
    axes = style.panels(figure, 2, 3, width="double", height=4.2)
    drawing = Drawing([])
    for case, row in zip(CASES, (axes[:3], axes[3:]), strict=True):
        passing = section.passing(case)
        passed = Passed(records[case], records[f"{case} own"])
        small = Passed(records[f"small {case}"], records[f"small {case} own"])
        draw_overlaps(row[0], passed, case, drawing)
        draw_objective(row[1], (small, passed), case, drawing)
        draw_excess(row[2], passed, records[f"{case} trained"], case, drawing)
        (alpha,), (lam,) = passing.alphas, passing.lams
        damped = f", damping ${passing.damping:g}$" if passing.damping else ""
        row[0].set_title(
            rf"$\alpha={alpha:g}$, $\lambda={lam:g}${damped}", loc="right", fontsize=7, pad=3
        )
        trained = np.concatenate([r.datasets["converged"] for r in records[f"{case} trained"]])
        if not trained.all():
            drawing.flagged.append(f"L-BFGS, d = {passed.dim}, {case}: not converged")
        for size_ in (passed, small):
            drawing.flagged += size_.complaints(f"message passing, d = {size_.dim}, {case}")
        drawing.validation += _validation(passed, small, case, damped=bool(passing.damping))
        drawing.validation.append(_at_the_minimum(passed, records[f"{case} trained"], case))
    return drawing


def _validation(passed: Passed, small: Passed, case: str, *, damped: bool) -> list[dict]:
    """Rows at several iterations; of damped runs, whose theory is exact at the end, the last."""
    iterations = [passed.theory("Q").shape[2] - 1] if damped else list(CHECKED)
    reliable = tuple([p.reached(t, damped) for t in iterations] for p in (passed, small))
    rows = []
    for name in COMPARED:
        large_pair, small_pair = (
            Pair(p.dim, p.simulation(name)[:, 0, iterations], p.theory(name)[:, 0, iterations])
            for p in (passed, small)
        )
        rows += validation_rows(
            large_pair,
            small_pair,
            [f"{case} point, iteration={t}" for t in iterations],
            reliable,
            figure=NAME,
            quantity=name,
        )
    return rows


def _at_the_minimum(passed: Passed, trained: list[Record], case: str) -> dict:
    """The objective that message passing ends with is that of L-BFGS, to one part in a million.

    An error of 5 % in the Onsager term alone lifts it by 5e-6.
    """
    minimum = np.concatenate([record.datasets["objective"] for record in trained])[:, 0]
    return validation.paired_row(
        f"{case} point, end against L-BFGS",
        minimum,
        passed.simulation("objective")[:, 0, -1],
        SAME_OBJECTIVE * passed.dim,
        passed.dim,
        figure=NAME,
        quantity="objective",
        reliable=passed.reached(0, ended=True) and all(record.converged for record in trained),
    )
