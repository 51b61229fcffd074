"""Dependence on the inverse temperatures of labels and head, and on the number of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, PositiveGrid, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._curves import CurvePanel, add_rows
from hdattn.figures._ensemble import allowances, theory_complaints, theory_flags, theory_values
from hdattn.figures._paths import PathEnsemble, Selection, path_trainings
from hdattn.figures._singlehead import SingleHead, below_dim, check_dim, limit_curve, own_curves
from hdattn.figures._ticks import plain_ticks
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Inverse temperatures and the number of tokens"

NAME = "beta_tokens"
PANELS = {
    "both": (r"$\beta=\beta_0={:g}$", "test_error", "test error"),
    "head": (r"$\beta={:g}$, $\beta_0=1$", "test_error", "test error"),
    "tokens": ("$T={:g}$", "overlap_error", r"$\Vert S-S_0\Vert^2/d$"),
}


class Section(SingleHead):
    """Keys of ``beta_tokens``."""

    kappa: Positive = physics(1.0, "Width p/d of the trained head.")
    lam: Positive = physics(0.01, "Weight decay lambda.")
    both_betas: PositiveList = size(
        (0.5, 1, 2), "Inverse temperatures of labels and head alike.", max_length=len(style.SERIES)
    )
    head_betas: PositiveList = size(
        (0.5, 1, 2), "Those of the head when that of the labels is beta0.", max_length=6
    )
    token_counts: tuple[Annotated[Count, Field(ge=2)], ...] = size(
        (2, 3, 4, 5), "Numbers of tokens T.", min_length=1, max_length=len(style.SERIES)
    )
    dim: Count = size(50, "Dimension d of the simulations.")
    small_dim: Count = size(30, "Smaller dimension, from which finite-size allowances are fitted.")
    alphas: PositiveGrid = size((0.3, 1, 2), "Sample ratios n/d^2 that are trained at T = 2.")
    theory_alphas: PositiveGrid = size((0.2, 0.5, 1, 4), "Those of the theory lines at T = 2.")
    token_nodes: Count = size(
        14, "Sets the nodes^4/6 quasi-random points of the theory at T > 2 (even)."
    )

    @field_validator("dim", "small_dim")
    @classmethod
    def _columns(cls, value: int, info: ValidationInfo) -> int:
        return check_dim(value, {key: info.data.get(key) for key in ("kappa0", "kappa")})

    _smaller = field_validator("small_dim")(below_dim)

    @property
    def cases(self) -> dict[str, list[tuple[float, Section]]]:
        """By panel, the value that varies and the section at it."""
        at = self.model_copy
        return {
            "both": [(b, at(update={"beta": b, "beta0": b})) for b in self.both_betas],
            "head": [(b, at(update={"beta": b})) for b in self.head_betas],
            "tokens": [(t, self._of_tokens(t)) for t in self.token_counts],
        }

    def _of_tokens(self, tokens: int) -> Section:
        """T tokens at the same number of logits: alpha K/2, K = T (T + 1)/2 - 1."""
        factor = 2 / logit_count(tokens)
        grids = {
            name: tuple(float(f"{a * factor:.6g}") for a in getattr(self, name))
            for name in ("alphas", "theory_alphas")
        }
        nodes = self.nodes if tokens == 2 else self.token_nodes
        return self.model_copy(update={"tokens": tokens, "nodes": nodes, **grids})


def logit_count(tokens: int) -> int:
    """K = T (T + 1)/2 - 1, the independent logits of a sample."""
    return tokens * (tokens + 1) // 2 - 1


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory and training of every case, at two dimensions."""
    roles: dict[str, list[Experiment]] = {}
    for panel, cases in section.cases.items():
        for value, s in cases:
            name = f"{panel} {value:g}"
            roles[f"{name} limit"] = [limit_curve(s, s.theory_alphas, s.lam, s.kappa)]
            for prefix, dim in (("", s.dim), ("small ", s.small_dim)):
                at = (s, seed, dim, s.alphas, [s.lam], s.kappa)
                roles[f"{prefix}{name} lbfgs"] = path_trainings(*at)
                roles[f"{prefix}{name} own"] = own_curves(*at)
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Test error at several temperatures; error of S for several T, before and after rescaling."""
    axes = style.panels(figure, 2, 2, width="double", height=4.4)
    drawing = Drawing([])
    for axis, (panel, (label, quantity, title)) in zip(axes, PANELS.items(), strict=False):
        curve = CurvePanel(axis, quantity, drawing)
        for (value, _), colour in zip(section.cases[panel], style.SERIES, strict=False):
            (limit,) = records[f"{panel} {value:g} limit"]
            named = label.format(value)
            ensemble, small = (_ensemble(records, f"{p}{panel} {value:g}") for p in ("", "small "))
            curve.limit(limit, colour, named, panel=panel, at=value)
            curve.ensemble(ensemble, colour, "lbfgs", panel=panel, at=value)
            plain = named.replace("$", "").replace("\\beta", "beta").replace("_0", "0")
            drawing.flagged += theory_complaints(limit, plain) + ensemble.complaints(plain)
            drawing.flagged += small.complaints(f"{plain}, d = {small.dim}")
            constants = allowances(quantity, small)
            drawing.validation += ensemble.validation(NAME, quantity, plain, constants)
        curve.finish(title)
        axis.set_yscale("log")
        axis.legend(loc="best", fontsize=6.5)
    _draw_rescaled(axes[3], records, section, drawing)
    for axis in axes[:2]:
        plain_ticks(axis.yaxis, (0.03, 0.05, 0.1, 0.2, 0.3, 0.5))
    for axis in axes[2:]:
        plain_ticks(axis.yaxis, (0.02, 0.05, 0.1, 0.2, 0.5))
    for axis in axes:
        plain_ticks(axis.xaxis, (0.05, 0.1, 0.2, 0.5, 1, 2, 5))
    return drawing


def _ensemble(records: dict[str, list[Record]], name: str) -> Selection:
    return PathEnsemble(records[f"{name} lbfgs"], records[f"{name} own"]).first()


def _draw_rescaled(axis: Axes, records, section: Section, drawing: Drawing) -> None:
    """Error of S against the number of logits over d^2, K alpha."""
    quantity = "overlap_error"
    for (tokens, _), colour in zip(section.cases["tokens"], style.SERIES, strict=False):
        K = logit_count(tokens)
        datasets = records[f"tokens {tokens:g} limit"][0].datasets
        values, flagged = theory_values(datasets, quantity), theory_flags(datasets)
        style.theory(axis, K * datasets["alpha"], values, colour, flagged=flagged)
        ensemble = _ensemble(records, f"tokens {tokens:g}")
        mean, error = ensemble.mean_and_error(quantity)
        look: dict[str, Any] = {"method": "lbfgs", "flagged": ensemble.flagged}
        style.simulation(axis, K * ensemble.alphas, mean, error, colour, **look)
        row = {"quantity": f"{quantity} against K alpha", "panel": "rescaled", "at": tokens}
        add_rows(drawing, series="theory", alpha=K * datasets["alpha"], value=values, **row)
        add_rows(
            drawing,
            series="lbfgs",
            alpha=K * ensemble.alphas,
            value=mean,
            standard_error=error,
            instances=ensemble.instances,
            **row,
        )
    axis.set(xscale="log", yscale="log", ylabel=PANELS["tokens"][2])
    axis.set_xlabel(r"logits over $d^2$, $K\alpha$")
