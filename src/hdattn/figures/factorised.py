"""Training a factor against training the matrix directly, each at its own best weight decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, NonNegative, Positive, PositiveGrid, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._curves import SAMPLE_RATIO, CurvePanel, add_rows
from hdattn.figures._ensemble import allowances, theory_complaints, theory_flags
from hdattn.figures._paths import LamRange, PathEnsemble, best_curve, path_trainings
from hdattn.figures._singlehead import SingleHead, below_dim, check_dim, own_curves
from hdattn.figures._ticks import plain_ticks
from hdattn.figures.drawing import Drawing
from hdattn.figures.validation import mean_and_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Factorised against direct training, each at its best weight decay"

NAME = "factorised"
LOOK = {"tied": (style.BLUE, "factorised"), "direct": (style.VERMILLION, "direct")}
PENALTY = {"tied": "nuclear", "direct": "frobenius"}


class Section(SingleHead):
    """Keys of ``factorised``."""

    kappa0: Positive = physics(0.05, "Rank of the target over the dimension, p0/d.")
    noise: NonNegative = physics(0.05, "Delta, the variance of the noise inside the label softmax.")
    kappa: Positive = physics(1.0, "Width p/d of the factor, behind lambda_eff = lam sqrt(kappa).")
    lam_ranges: dict[str, LamRange] = physics(
        {"tied": (3e-4, 1.0), "direct": (1e-4, 0.1)},
        "Weight decays [low, high] among which theory seeks the best, of tied and direct.",
    )
    scan_alpha: Positive = physics(0.2, "Sample ratio at which kappa0 is varied; one of alphas.")
    dim: Count = size(60, "Dimension d of the simulations.")
    small_dim: Count = size(40, "Smaller dimension, from which finite-size allowances are fitted.")
    alphas: PositiveGrid = size((0.1, 0.2, 0.5, 1), "Sample ratios n/d^2 that are trained.")
    lams: PositiveGrid = size(
        (0.005, 0.015, 0.04, 0.1), "Weight decays tried in training a factor."
    )
    direct_lams: PositiveGrid = size(
        (0.001, 0.002, 0.004, 0.008), "Weight decays tried in direct training."
    )
    validation_samples: Count = size(8192, "Fresh samples on which the best of them is chosen.")
    theory_alphas: PositiveGrid = size((0.05, 0.2, 1, 4), "Sample ratios of the theory lines.")
    scan_kappa0s: PositiveList = size((0.2, 0.5), "Other ranks p0/d that are trained.")
    scan_theory_kappa0s: PositiveGrid = size((0.05, 0.2, 1), "Ranks p0/d of the theory lines.")

    @field_validator("lam_ranges")
    @classmethod
    def _both(cls, value: dict) -> dict:
        if set(value) != set(LOOK):
            raise ValueError("give a range [low, high] of tied and of direct, and nothing else")
        return value

    @field_validator("dim", "small_dim")
    @classmethod
    def _columns(cls, value: int, info: ValidationInfo) -> int:
        return check_dim(value, {key: info.data.get(key) for key in ("kappa0", "kappa")})

    _smaller = field_validator("small_dim")(below_dim)

    @field_validator("alphas")
    @classmethod
    def _scanned(cls, value: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        wanted = info.data.get("scan_alpha", value[0])
        if wanted not in value:
            raise ValueError(f"scan_alpha = {wanted:g} is not among them; add it")
        return value

    def grid(self, head: str) -> tuple[float, ...]:
        """Weight decays tried in training a head."""
        return self.lams if head == "tied" else self.direct_lams

    def of_rank(self, kappa0: float) -> Section:
        """The same section with another target."""
        return self.model_copy(update={"kappa0": kappa0})


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory at the best weight decay, training along paths, and both against kappa0."""
    s, roles = section, {}
    for head in LOOK:
        roles[f"{head} limit"] = [_best(s, head, s.theory_alphas)]
        roles |= _simulated(s, seed, head, "", s.dim, s.alphas)
        roles |= _simulated(s, seed, head, "small ", s.small_dim, s.alphas)
        scan = [s.of_rank(kappa0) for kappa0 in s.scan_theory_kappa0s]
        roles[f"{head} scan limit"] = [_best(one, head, [s.scan_alpha]) for one in scan]
        for kappa0 in s.scan_kappa0s:
            one = s.of_rank(kappa0)
            roles |= _simulated(one, seed, head, f"{kappa0:g} ", s.dim, [s.scan_alpha])
    return roles


def _best(section: Section, head: str, alphas) -> Experiment:
    return best_curve(section, alphas, section.kappa, section.lam_ranges[head], PENALTY[head])


def _simulated(section: Section, seed, head, prefix, dim, alphas) -> dict[str, list[Experiment]]:
    at = (section, seed, dim, alphas, section.grid(head), section.kappa)
    validation = section.validation_samples
    return {
        f"{prefix}{head}": path_trainings(*at, head=head, validation_samples=validation),
        f"{prefix}{head} own": own_curves(*at, penalty=PENALTY[head]),
    }


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Test error and best weight decay against alpha, test error against kappa0."""
    axes = style.panels(figure, 1, 3, width="double", height=2.4)
    drawing = Drawing([])
    for head, (colour, label) in LOOK.items():
        paths, small = (
            PathEnsemble(records[f"{prefix}{head}"], records[f"{prefix}{head} own"])
            for prefix in ("", "small ")
        )
        (limit,) = records[f"{head} limit"]
        best = paths.best()
        panel = CurvePanel(axes[0], "test_error", drawing)
        panel.limit(limit, colour, label, head=head)
        panel.ensemble(best, colour, "lbfgs", head=head)
        panel.finish("test error at the best weight decay")
        _draw_decays(axes[1], limit, paths, colour, head, drawing)
        _draw_scan(axes[2], records, section, head, best, drawing)
        drawing.flagged += theory_complaints(limit, f"{label}, best weight decay")
        for one in (paths, small):
            drawing.flagged += one.complaints(f"{label}, d = {one.dim}")
        drawing.flagged += _at_ends(paths, label)
        drawing.flagged += _at_range_ends(limit, section.lam_ranges[head], label)
        for quantity in ("test_error", "overlap_error"):
            constants = allowances(quantity, small.best())
            drawing.validation += best.validation(NAME, quantity, label, constants)
    axes[0].set_yscale("log")
    plain_ticks(axes[0].yaxis, (0.01, 0.02, 0.05, 0.1, 0.2))
    axes[0].legend(loc="best")
    axes[2].set(xscale="log", yscale="log", xlabel=r"target rank $\kappa_0=p_0/d$")
    axes[2].set_ylabel(rf"test error at $\alpha={section.scan_alpha:g}$")
    plain_ticks(axes[1].yaxis, (0.002, 0.005, 0.01, 0.02, 0.05, 0.1))
    plain_ticks(axes[2].yaxis, (0.01, 0.02, 0.05, 0.1, 0.2))
    plain_ticks(axes[2].xaxis, (0.05, 0.1, 0.2, 0.5, 1))
    return drawing


def _draw_decays(
    axis: Axes, limit: Record, paths: PathEnsemble, colour: str, head: str, drawing: Drawing
) -> None:
    """Best weight decay: theory, and the geometric mean of what validation chose."""
    alphas, lams = limit.datasets["alpha"], limit.datasets["lam"]
    doubtful = theory_flags(limit.datasets)
    style.theory(axis, alphas, lams, colour, flagged=doubtful)
    row = {"quantity": "best_lam", "head": head}
    add_rows(drawing, series="theory", alpha=alphas, value=lams, flagged=doubtful, **row)
    columns = np.log(paths.chosen()).T
    mean, error = np.array([mean_and_error(column) for column in columns]).T
    middle = np.exp(mean)
    # bars of the logarithm
    bars = np.array([middle - np.exp(mean - error), np.exp(mean + error) - middle])
    look = {"method": "lbfgs", "flagged": paths.flagged}
    style.simulation(axis, paths.alphas, middle, bars, colour, **look)
    add_rows(
        drawing,
        series="lbfgs",
        alpha=paths.alphas,
        value=middle,
        standard_error=middle * error,
        flagged=paths.flagged,
        **row,
    )
    axis.set(xscale="log", yscale="log", xlabel=SAMPLE_RATIO, ylabel=r"best weight decay $\lambda$")


def _draw_scan(axis: Axes, records, section: Section, head: str, base, drawing: Drawing) -> None:
    """Test error at one alpha against the rank of the target."""
    colour = LOOK[head][0]
    label, found = LOOK[head][1], records[f"{head} scan limit"]
    limits = [record.datasets["test_error"][0] for record in found]
    flagged = [bool(theory_flags(record.datasets)[0]) for record in found]
    style.theory(axis, section.scan_theory_kappa0s, limits, colour, flagged=flagged)
    row = {"quantity": "scan_test_error", "head": head, "alpha": section.scan_alpha}
    columns = {"kappa0": section.scan_theory_kappa0s, "value": limits, "flagged": flagged}
    add_rows(drawing, series="theory", **columns, **row)
    for kappa0, record in zip(section.scan_theory_kappa0s, found, strict=True):
        drawing.flagged += theory_complaints(record, f"{label}, kappa0 = {kappa0:g}")
    points = {section.kappa0: (base, base.alphas.tolist().index(section.scan_alpha))}
    for kappa0 in section.scan_kappa0s:
        paths = PathEnsemble(records[f"{kappa0:g} {head}"], records[f"{kappa0:g} {head} own"])
        points[kappa0] = (paths.best(), 0)
        drawing.flagged += paths.complaints(f"{label}, kappa0 = {kappa0:g}")
    kappa0s = sorted(points)
    chosen = [(points[k][0].mean_and_error("test_error"), points[k][1]) for k in kappa0s]
    mean, error = np.array([[both[0][a], both[1][a]] for both, a in chosen]).T
    flagged, doubtful = (
        [bool(getattr(points[k][0], name)[points[k][1]]) for k in kappa0s]
        for name in ("flagged", "theory_flagged")
    )
    own = [points[k][0].theory("test_error")[:, points[k][1]].mean() for k in kappa0s]
    style.theory(axis, kappa0s, own, colour, thin=True, flagged=doubtful)
    style.simulation(axis, kappa0s, mean, error, colour, method="lbfgs", flagged=flagged)
    columns = {"kappa0": kappa0s, "value": own, "flagged": doubtful}
    add_rows(drawing, series=f"theory d={base.dim}", **columns, **row)
    add_rows(
        drawing,
        series="lbfgs",
        kappa0=kappa0s,
        value=mean,
        standard_error=error,
        instances=base.instances,
        flagged=flagged,
        **row,
    )


def _at_range_ends(limit: Record, lam_range: tuple[float, float], label: str) -> list[str]:
    """Where theory found no minimum inside the range."""
    alphas, lams = limit.datasets["alpha"], limit.datasets["lam"]
    outside = (lams < 1.1 * lam_range[0]) | (lams > lam_range[1] / 1.1)
    return [
        f"{label}: best weight decay at an end of lam_ranges at alpha = {alpha:g}"
        for alpha in alphas[outside]
    ]


def _at_ends(paths: PathEnsemble, label: str) -> list[str]:
    """Where most instances chose an end of the weight decays tried."""
    trained = paths.chosen()
    if len(paths.lams) < 3:
        return []  # there are only ends
    ends = np.isin(trained, paths.lams[[0, -1]]).mean(axis=0) > 0.5
    return [
        f"{label}: the best weight decay tried is the last one at alpha = {alpha:g}"
        for alpha in paths.alphas[ends]
    ]
