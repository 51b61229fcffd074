"""The trained head at its best weight decay against the Bayes-optimal error."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, NonNegative, Positive, PositiveGrid, physics, size
from hdattn.figures import style
from hdattn.figures._amp import Passing, own_trajectories, passings, validation_rows
from hdattn.figures._bayes import (
    LOOK,
    Comparison,
    draw_decay,
    draw_errors,
    draw_floor,
    draw_gap,
)
from hdattn.figures._curves import SAMPLE_RATIO
from hdattn.figures._ensemble import theory_complaints
from hdattn.figures._paths import LamRange, best_curve
from hdattn.figures._singlehead import SingleHead, below_dim, check_dim, data_blocks
from hdattn.figures._ticks import plain_ticks
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Trained at the best weight decay against Bayes-optimal"
SHARED = ("erm", "best")  # with regularisation

NAME = "bayes"
TOLERANCE = 1e-4  # of message passing: its errors are then right to far less than their spread


class Section(SingleHead):
    """Keys of ``bayes``."""

    kappa: Positive = physics(1.0, "Width p/d behind lambda_eff = lam sqrt(kappa).")
    lam_range: LamRange = physics(
        (1e-3, 1.0), "Weight decays [low, high] among which the best is sought."
    )
    damping: Annotated[NonNegative, Field(lt=1)] = physics(
        0.65, "Damping of message passing (below 1)."
    )
    dim: Count = size(80, "Dimension d of message passing.")
    small_dim: Count = size(40, "Smaller dimension, from which finite-size allowances are fitted.")
    alphas: PositiveGrid = size((0.2, 0.5, 1, 2), "Sample ratios n/d^2 of message passing.")
    theory_alphas: PositiveGrid = size((0.05, 0.2, 1, 4), "Sample ratios of the theory lines.")
    iterations: Count = size(120, "Largest number of iterations.")

    @field_validator("dim", "small_dim")
    @classmethod
    def _columns(cls, value: int, info: ValidationInfo) -> int:
        return check_dim(value, {key: info.data.get(key) for key in ("kappa0", "kappa")})

    _smaller = field_validator("small_dim")(below_dim)

    @property
    def limit(self) -> dict:
        """Parameters of the limit target."""
        target = {"kind": "mp", "kappa0": self.kappa0}
        physics_ = {"noise": self.noise, "tokens": self.tokens, "beta0": self.beta0}
        return {"target": target, **physics_}

    def passing(self, denoiser: str, best: Experiment) -> Passing:
        """How message passing is run; the bayes denoiser needs no weight decay."""
        return Passing(
            alphas=self.alphas,
            lams=best if denoiser == "soft" else [0.0] * len(self.alphas),
            denoiser=denoiser,
            damping=self.damping,
            iterations=self.iterations,
            tolerance=TOLERANCE,
            kappa=self.kappa,
        )


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory lines, the best weight decay where message passing runs, and message passing."""
    best = best_curve(section, section.alphas, section.kappa, section.lam_range)
    roles = {
        "erm": [best_curve(section, section.theory_alphas, section.kappa, section.lam_range)],
        "optimal": [_optimal(section)],
        "best": [best],
    }
    for name, dim in (("", section.dim), ("small ", section.small_dim)):
        for denoiser in LOOK:
            passing = section.passing(denoiser, best)
            roles[f"{name}{denoiser}"] = passings(section, seed, dim, passing)
            if denoiser == "soft":
                # what is compared is the fixed point, which damping leaves alone
                undamped = replace(passing, damping=0.0)
                roles[f"{name}soft own"] = own_trajectories(section, seed, dim, undamped)
        roles[f"{name}bayes own"] = [
            _optimal_of(section, data) for data in data_blocks(section, seed, dim)
        ]
    return roles


def _optimal(section: Section) -> Experiment:
    parameters = {**section.limit, "alphas": list(section.theory_alphas)}
    return Experiment("singlehead/bayes_optimal", parameters, slug="limit")


def _optimal_of(section: Section, data: Experiment) -> Experiment:
    """Bayes-optimal for the targets of a block."""
    block, dim = data.parameters["block"], data.parameters["data"]["dim"]
    return Experiment(
        "singlehead/bayes_optimal",
        {**data.parameters, "alphas": list(section.alphas)},
        {"data": data},
        slug=f"own-d{dim}-b{block}",
    )


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Test error, its gap to the optimum, error of S, and the best weight decay."""
    axes = style.panels(figure, 2, 2, width="double", height=4.2)
    (erm,), (optimal,) = records["erm"], records["optimal"]
    large, small = Comparison(records, ""), Comparison(records, "small ")
    drawing = Drawing([], flagged=large.complaints() + small.complaints())
    for quantity, axis in (("test_error", axes[0]), ("overlap_error", axes[2])):
        draw_errors(axis, quantity, erm.datasets, optimal.datasets, large, drawing)
        drawing.validation += _validation(quantity, large, small)
    axes[0].set_ylabel("test error")
    axes[2].set_ylabel(r"$\Vert S-S_0\Vert^2/d$")
    draw_floor(axes[0], section, drawing)
    draw_gap(axes[1], erm.datasets, optimal.datasets, large, drawing)
    draw_decay(axes[3], erm.datasets, section, drawing)
    for axis in axes:
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(SAMPLE_RATIO)
    plain_ticks(axes[0].yaxis, (0.1, 0.2, 0.3))
    plain_ticks(axes[1].yaxis, (0.02, 0.05, 0.1, 0.2, 0.3))
    plain_ticks(axes[3].yaxis, (0.02, 0.03, 0.05, 0.1))
    for record in (erm, records["best"][0]):
        drawing.flagged += theory_complaints(record, "best weight decay")
    drawing.flagged += theory_complaints(optimal, "Bayes-optimal")
    return drawing


def _validation(quantity: str, large: Comparison, small: Comparison) -> list[dict]:
    return [
        row
        for denoiser, (_, label) in LOOK.items()
        for row in validation_rows(
            large.pair(denoiser, quantity),
            small.pair(denoiser, quantity),
            [f"alpha={alpha:g} {label}" for alpha in large.alphas],
            (large.converged(denoiser), small.converged(denoiser)),
            figure=NAME,
            quantity=quantity,
        )
    ]
