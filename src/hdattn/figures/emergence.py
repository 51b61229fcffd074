"""Modes of the target that emerge one by one as n grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, PositiveGrid, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._curves import add_rows
from hdattn.figures._ensemble import theory_flags
from hdattn.figures._powerlaw import (
    Dimension,
    Exponent,
    Recovery,
    SimulatedPowerLaw,
    around,
    eigenvalues,
    power_law,
    simulations,
    squared_overlap,
    theory,
)
from hdattn.figures.drawing import Drawing
from hdattn.figures.validation import mean_and_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Modes of the target emerge one by one"
SHARED = ("own *", "trained *")  # with decomposition
RESOLVED = 1e-8  # excess that the quadrature of the channel tells from zero
JUMP = {"fmt": "v", "markersize": 4}
GUIDE = {"color": style.BLACK, "linestyle": "--", "linewidth": 0.7}


class Section(SimulatedPowerLaw):
    """Keys of ``emergence``."""

    spectral_exponent: Exponent = physics(1, "gamma: eigenvalues as i^-gamma.")
    modes: Annotated[tuple[Count, ...], Field(min_length=1, max_length=6)] = physics(
        (1, 2, 4, 8), "Modes whose overlap is shown, counted from the strongest."
    )
    levels: Annotated[tuple[Positive, ...], Field(min_length=2)] = physics(
        (1, 0.01, 0.0001), "Relative eigenvalues of targets of a few well-separated levels."
    )
    multiplicities: Annotated[tuple[Count, ...], Field(min_length=2)] = physics(
        (1, 100, 10000), "Modes of each level of one of these targets; the other has one of each."
    )
    levels_dim: Count = physics(100000, "Dimension d of these targets; their other modes are 0.")

    @field_validator("levels_dim")
    @classmethod
    def _room(cls, value: int, info: ValidationInfo) -> int:
        if not {"levels", "multiplicities"} <= set(info.data):
            return value  # they have a line of their own
        levels, counts = info.data["levels"], info.data["multiplicities"]
        if len(levels) != len(counts) or sum(counts) > value:
            raise ValueError(
                f"multiplicities {list(counts)} will not do; give {len(levels)} counts, with a sum "
                f"of at most levels_dim = {value}"
            )
        return value

    dim: Dimension = size(300, "Dimension d of the power law.")
    sizes: PositiveGrid = size((1e3, 1e5, 1e7), "Sample sizes n of the theory.")
    levels_sizes: PositiveGrid = size((1e5, 1e9, 1e13), "The same for the few levels.")
    alphas: PositiveList = size((0.2, 0.8), "Sample ratios n/d^2 that are trained.")


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory of the power law and of few levels; training."""
    s, gamma = section, section.spectral_exponent
    roles = {
        "theory": [theory(s, power_law(gamma, s.dim), "optimal", s.sizes)],
        "levels": [
            theory(s, few_levels(s, counts), "optimal", s.levels_sizes)
            for counts in multiplicities(s).values()
        ],
    }
    for dim in (s.simulated_dim, s.small_dim):
        sizes = [alpha * dim**2 for alpha in s.alphas]
        grid = around(sizes, 30)
        roles[f"own {dim}"] = [theory(s, power_law(gamma, dim), "optimal", grid)]
        roles[f"trained {dim}"] = simulations(s, seed, gamma, s.alphas, dim=dim)
    return roles


def multiplicities(section: Section) -> dict[str, tuple[int, ...]]:
    """Numbers of modes of the levels: as given, and one each."""
    counts = section.multiplicities
    return {f"{', '.join(map(str, counts))} modes": counts, "one mode each": (1,) * len(counts)}


def few_levels(section: Section, counts: tuple[int, ...]) -> dict[str, Any]:
    """Target of an experiment."""
    return {
        "kind": "levels",
        "levels": list(section.levels),
        "multiplicities": list(counts),
        "dim": section.levels_dim,
    }


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Count of modes, overlaps, plateaus, and error against the count."""
    axes = style.panels(figure, 2, 2, width="double", height=4.6)
    drawing, data = Drawing([]), records["theory"][0].datasets
    simulated, small = (
        Recovery(records[f"trained {dim}"], records[f"own {dim}"][0])
        for dim in (section.simulated_dim, section.small_dim)
    )
    _count(axes[0], data, simulated, section, drawing)
    _overlaps(axes[1], simulated, section, drawing)
    few = dict(zip(multiplicities(section), records["levels"], strict=True))
    _plateaus(axes[2], few, section, drawing)
    _against_count(axes[3], data, section.spectral_exponent)
    columns = {name: data[name] for name in ("n", "recovered", "excess", "lam")}
    add_rows(drawing, series="theory", **columns, flagged=theory_flags(data))
    for what, record in {"power law": records["theory"][0], **few}.items():
        doubtful = record.datasets["n"][theory_flags(record.datasets)]
        drawing.flagged += [f"theory, {what}: unreliable at n = {n:.4g}" for n in doubtful]
    for one in (simulated, small):
        drawing.flagged += one.complaints(f"L-BFGS or its theory, d = {one.dim}")
    where = f"gamma={section.spectral_exponent:g}"
    for quantity in ("total", "rank"):
        drawing.validation += simulated.validation("emergence", quantity, where, small)
    return drawing


def emergences(data: dict[str, np.ndarray], modes: np.ndarray) -> np.ndarray:
    """n at which each mode leaves the noise, a l = b, b that of the theory at n; NaN beyond.

    Between sizes at which the theory is to be trusted.
    """
    log_n, noise = np.log(data["n"]), np.log(data["b"] / data["a"])
    known = np.isfinite(noise) & ~theory_flags(data)
    crossing = np.interp(-np.log(modes), -noise[known], log_n[known], left=np.nan, right=np.nan)
    return np.exp(crossing)


def _count(axis: Axes, data: dict, simulated: Recovery, section: Section, drawing) -> None:
    """Steps: learnt modes, where BBP says (dots); rank of S, theory and training."""
    points = emergences(data, eigenvalues(section.spectral_exponent, section.dim))
    count = np.arange(1, points.size + 1)
    label = rf"learnt modes, $d={section.dim}$"
    steps = {"drawstyle": "steps-post", "label": label, "flagged": theory_flags(data)}
    style.theory(axis, data["n"], data["recovered"], style.BLUE, **steps)
    look = {"color": style.VERMILLION, "markersize": 2.5, "linestyle": "", "marker": "o"}
    axis.plot(points, count, label=r"$a\,\ell_k=b$", **look)
    own = simulated.theory.datasets
    thin = {"thin": True, "flagged": theory_flags(own)}
    style.theory(axis, own["n"], simulated.dim * own["rank_fraction"], style.BLACK, **thin)
    mean, error = simulated.mean_and_error("rank")
    label = rf"rank of $S$, $d={simulated.dim}$"
    look = {"method": "lbfgs", "label": label, "flagged": simulated.flagged}
    style.simulation(axis, simulated.sizes, mean, error, style.BLACK, **look)
    axis.set(xscale="log", yscale="log", xlabel="samples $n$", ylabel="number of modes")
    axis.set(ylim=(0.8, None), xlim=data["n"][[0, -1]])
    axis.legend(loc="best", fontsize=6)
    expected = simulated.expected("rank")
    columns = {"rank": mean, "standard_error": error, "expected": expected}
    add_rows(drawing, series=f"L-BFGS d={simulated.dim}", n=simulated.sizes, **columns)


def _overlaps(axis: Axes, simulated: Recovery, section: Section, drawing: Drawing) -> None:
    """What S holds of single modes: training, and theory at the same d."""
    data, dim = simulated.theory.datasets, simulated.dim
    modes = eigenvalues(section.spectral_exponent, dim)
    captured, paired = (simulated.values(name) for name in ("captured", "overlap"))
    for mode, colour in zip(section.modes, style.SERIES, strict=False):
        line = squared_overlap(data, modes[mode - 1])
        style.theory(axis, data["n"], line, colour, flagged=theory_flags(data))
        means, errors = zip(
            *(mean_and_error(column) for column in captured[..., -mode].T), strict=True
        )
        look = {"method": "lbfgs", "label": f"mode {mode}", "flagged": simulated.flagged}
        style.simulation(axis, simulated.sizes, means, errors, colour, **look)
        columns = {"overlap": means, "standard_error": errors, "expected": line[simulated.columns]}
        columns["paired"] = paired[..., -mode].mean(0)
        add_rows(drawing, series=f"L-BFGS d={dim}", mode=mode, n=simulated.sizes, **columns)
    axis.set(xscale="log", xlabel="samples $n$", ylabel="squared overlap with $S$")
    axis.set_ylim(-0.03, 1.05)
    axis.legend(loc="best", fontsize=6, title=f"$d={dim}$", title_fontsize=6)


def _plateaus(axis: Axes, few: dict[str, Record], section: Section, drawing: Drawing) -> None:
    """Error of few levels: plateaus where the next has many more modes, else none."""
    for (label, record), colour in zip(few.items(), style.SERIES, strict=False):
        data, bad = record.datasets, theory_flags(record.datasets)
        shown = np.where(data["excess"] > RESOLVED, data["excess"], np.nan)
        style.theory(axis, data["n"], shown, colour, label=label, flagged=bad)
        columns = {name: data[name] for name in ("n", "recovered", "excess", "lam")}
        add_rows(drawing, series=label, **columns, flagged=bad)
        jumps = np.flatnonzero(np.diff(data["recovered"]))
        points = data["n"][jumps], data["excess"][jumps]
        style.simulation(axis, *points, None, colour, flagged=bad[jumps], **JUMP)
    style.simulation(axis, [], [], None, style.GREY, label="a level emerges", **JUMP)
    axis.set(xscale="log", yscale="log", xlabel="samples $n$", ylabel="excess test error")
    axis.legend(fontsize=6, loc="lower left")


def _against_count(axis: Axes, data: dict, gamma: float) -> None:
    """Excess error against the number of learnt modes, and the slope of its tail."""
    counts, first = np.unique(data["recovered"], return_index=True)
    kept = counts > 0
    counts, excess, bad = counts[kept], data["excess"][first][kept], theory_flags(data)[first][kept]
    look = {"marker": ".", "label": "state evolution", "flagged": bad}
    style.theory(axis, counts, excess, style.BLUE, **look)
    if not bad.all():
        last = np.flatnonzero(~bad)[-1]
        guide = excess[last] * (counts[~bad] / counts[last]) ** (1.0 - 2 * gamma)
        axis.plot(counts[~bad], guide, **GUIDE, label=rf"$k^{{-{2 * gamma - 1:g}}}$")
    axis.set(xscale="log", yscale="log", xlabel="learnt modes $k$", ylabel="excess test error")
    axis.legend(loc="best", fontsize=6)
