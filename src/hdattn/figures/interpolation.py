"""The interpolation threshold: errors around it as the weight decay vanishes, and where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, PositiveGrid, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._ensemble import allowances, complaints_at, theory_complaints
from hdattn.figures._interpolation import (
    draw_errors,
    draw_recovery,
    draw_thresholds,
    probe_rows,
    unfinished_probes,
)
from hdattn.figures._paths import PathEnsemble, at_lam, path_trainings
from hdattn.figures._singlehead import SingleHead, below_dim, check_dim, limit_curve, own_curves
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Errors around the interpolation threshold, and the thresholds"

NAME = "interpolation"
# Of L-BFGS: S to 1 % where labels are fitted, at a quarter of the evaluations.
LOOSE = 1e-5


class Section(SingleHead):
    """Keys of ``interpolation``."""

    kappa: Positive = physics(1.0, "Width p/d of the trained head.")
    lams: PositiveList = size(
        (1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        "Weight decays, one curve each; all trained.",
        max_length=len(style.SERIES),
    )
    solved_lams: PositiveList = size(
        (1e-3, 1e-2, 1e-1), "Those whose theory is solved for the instances' own targets too."
    )
    noises: PositiveList = physics((0.1, 0.5, 2), "Noises Delta, a line of thresholds each.")
    recovery_lams: PositiveList = size(
        (1e-4, 1e-3, 1e-2), "Weight decays shown without noise; the least is trained."
    )
    dim: Count = size(50, "Dimension d of the simulations.")
    small_dim: Count = size(30, "Smaller dimension, from which finite-size allowances are fitted.")
    alphas: PositiveGrid = size((0.08, 0.15, 0.3, 0.6), "Sample ratios n/d^2 that are trained.")
    theory_alphas: PositiveGrid = size((0.05, 0.15, 0.3, 1), "Sample ratios of the theory lines.")
    ridgeless_alphas: PositiveGrid = size(
        (0.05, 0.1, 0.14), "Sample ratios of the limit lambda to 0, below the threshold."
    )
    theory_kappa0s: PositiveGrid = size((0.05, 0.2, 1), "Ranks p0/d of the threshold lines.")
    probe_dim: Count = size(24, "Dimension d at which thresholds are probed by training.")
    probe_kappa0s: PositiveList = size((0.25, 1), "Ranks p0/d at which they are, at this noise.")
    probe_alphas: PositiveGrid = size((0.08, 0.3), "Sample ratios at which they are.")
    recovery_alphas: PositiveGrid = size((0.1, 0.3), "Sample ratios trained without noise.")
    recovery_theory_alphas: PositiveGrid = size((0.05, 0.2, 0.4), "Those of theory without noise.")

    @field_validator("dim", "small_dim")
    @classmethod
    def _columns(cls, value: int, info: ValidationInfo) -> int:
        return check_dim(value, {key: info.data.get(key) for key in ("kappa0", "kappa")})

    _smaller = field_validator("small_dim")(below_dim)

    @field_validator("solved_lams")
    @classmethod
    def _trained(cls, value: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        strangers = sorted(set(value) - set(info.data.get("lams", value)))
        if strangers:
            raise ValueError(f"{strangers[0]:g} is not among lams; add it there")
        return value

    @property
    def noiseless(self) -> Section:
        """The same section without noise."""
        return self.model_copy(update={"noise": 0.0})

    def limit(self) -> dict:
        """Parameters of the model in the limit."""
        names = ("noise", "tokens", "beta", "beta0", "kappa")
        return {name: getattr(self, name) for name in names} | {
            "target": {"kind": "mp", "kappa0": self.kappa0},
            "penalty": "nuclear",
        }


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory and training with noise and without, closed forms, and probes of the thresholds."""
    s, clean = section, section.noiseless
    roles = {
        "limit": [limit_curve(s, s.theory_alphas, s.lams, s.kappa)],
        "ridgeless": [_ridgeless(s, s.ridgeless_alphas)],
        "clean limit": [limit_curve(clean, s.recovery_theory_alphas, s.recovery_lams, s.kappa)],
        "clean ridgeless": [_ridgeless(clean, s.recovery_theory_alphas)],
        "thresholds": [_thresholds(s)],
    }
    for prefix, dim in (("", s.dim), ("small ", s.small_dim)):
        at = (s, seed, dim, s.alphas)
        trained = s.solved_lams if prefix else s.lams
        roles[f"{prefix}lbfgs"] = path_trainings(*at, trained, s.kappa, tolerance=LOOSE)
        roles[f"{prefix}own"] = own_curves(*at, s.solved_lams, s.kappa)
        at = (clean, seed, dim, s.recovery_alphas)
        roles[f"{prefix}clean lbfgs"] = path_trainings(
            *at, s.recovery_lams, s.kappa, tolerance=LOOSE
        )
        roles[f"{prefix}clean own"] = own_curves(*at, s.recovery_lams[:1], s.kappa)
    for kappa0 in s.probe_kappa0s:
        probed = s.model_copy(update={"kappa0": kappa0})
        roles[f"probe {kappa0:g}"] = path_trainings(
            probed, seed, s.probe_dim, s.probe_alphas, s.lams, s.kappa, tolerance=LOOSE
        )
    return roles


def _ridgeless(section: Section, alphas) -> Experiment:
    parameters = {**section.limit(), "alphas": list(alphas)}
    slug = f"noise{section.noise:g}"
    return Experiment("singlehead/ridgeless", parameters, slug=slug)


def _thresholds(section: Section) -> Experiment:
    kappa0s = sorted({*section.theory_kappa0s, *section.probe_kappa0s})
    noises = sorted({*section.noises, section.noise} - {0.0})
    parameters = {"kappa0s": kappa0s, "noises": noises, "tokens": section.tokens}
    return Experiment("singlehead/thresholds", parameters, slug="closed-form")


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Training loss and test error against alpha, thresholds against kappa0, recovery."""
    axes = style.panels(figure, 2, 2, width="double", height=4.4)
    drawing, s = Drawing([]), section
    paths = PathEnsemble(records["lbfgs"], records["own"])
    small = PathEnsemble(records["small lbfgs"], records["small own"])
    draw_errors(axes[:2], records, paths, s, drawing)
    draw_thresholds(axes[2], records, s, drawing)
    clean, small_clean = (
        PathEnsemble(records[f"{p}clean lbfgs"], records[f"{p}clean own"]) for p in ("", "small ")
    )
    draw_recovery(axes[3], records, clean.at(s.recovery_lams[0]), s, drawing)
    drawing.flagged += _complaints(records, [paths, small, clean, small_clean], s)
    for lam in s.solved_lams:
        for quantity in ("test_error", "train_loss"):
            constants = allowances(quantity, small.at(lam))
            rows = paths.at(lam).validation(NAME, quantity, f"lam={lam:g}", constants)
            drawing.validation += rows
    least = s.recovery_lams[0]
    constants = allowances("test_error", small_clean.at(least))
    drawing.validation += clean.at(least).validation(
        NAME, "test_error", f"lam={least:g} without noise", constants
    )
    drawing.validation += probe_rows(records, s, NAME)
    return drawing


def _complaints(
    records: dict[str, list[Record]], ensembles: list[PathEnsemble], s: Section
) -> Iterator[str]:
    """One line for each point of theory or training that is not to be trusted."""
    for role, lams, more in (("limit", s.lams, ""), ("clean limit", s.recovery_lams, ", no noise")):
        for number, lam in enumerate(lams):
            record = at_lam(records[role][0], number)
            yield from theory_complaints(record, f"lambda = {lam:g}{more}")
    for role, more in (("ridgeless", ""), ("clean ridgeless", ", no noise")):
        yield from theory_complaints(records[role][0], f"lambda to 0{more}")
    for paths, more in zip(ensembles, ("", "", ", no noise", ", no noise"), strict=True):
        for lam in paths.lams.tolist():
            yield from paths.at(lam).complaints(f"lambda = {lam:g}, d = {paths.dim}{more}")
    for kappa0, alphas in unfinished_probes(records, s):
        yield from complaints_at(f"probe, kappa0 = {kappa0:g}", alphas)
