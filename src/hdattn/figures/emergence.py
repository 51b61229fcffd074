"""Modes of the target that emerge one by one as n grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, PositiveGrid, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._curves import add_rows
from hdattn.figures._powerlaw import (
    Exponent,
    Recovery,
    SimulatedPowerLaw,
    around,
    eigenvalues,
    power_law,
    simulations,
    theory,
)
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Modes of the target emerge one by one"
SHARED = ("own *", "trained *")  # with decomposition


class Section(SimulatedPowerLaw):
    """Keys of ``emergence``."""

    spectral_exponent: Exponent = physics(1, "gamma: eigenvalues as i^-gamma.")
    modes: Annotated[tuple[Count, ...], Field(min_length=1, max_length=6)] = physics(
        (1, 2, 4, 8), "Modes whose overlap is shown, counted from the strongest."
    )
    separated: Annotated[tuple[Positive, ...], Field(min_length=2)] = physics(
        (1, 0.1, 0.01), "Relative eigenvalues of a target of a few well-separated levels."
    )
    multiplicities: Annotated[tuple[Count, ...], Field(min_length=2)] = physics(
        (1, 10, 20), "Number of modes of each of these levels."
    )

    @field_validator("multiplicities")
    @classmethod
    def _one_each(cls, value: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        count = len(info.data.get("separated", value))
        if len(value) != count or sum(value) > info.data.get("dim", sum(value)):
            raise ValueError(f"{list(value)} will not do; give {count} counts, no more than dim")
        return value

    sizes: PositiveGrid = size((1e3, 1e5, 1e7), "Sample sizes n of the theory.")
    separated_sizes: PositiveGrid = size((1e2, 1e4, 1e6), "The same for the few modes.")
    alphas: PositiveList = size((0.2, 0.8), "Sample ratios n/d^2 that are trained.")


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory of the power law and of a few modes; training."""
    s, gamma = section, section.spectral_exponent
    few = levels(s)
    roles = {
        "theory": [theory(s, power_law(gamma, s.dim), "optimal", s.sizes)],
        "few": [
            theory(
                s,
                {"kind": "eigenvalues", "eigenvalues": few.tolist()},
                "optimal",
                s.separated_sizes,
            )
        ],
    }
    for dim in (s.simulated_dim, s.small_dim):
        sizes = [alpha * dim**2 for alpha in s.alphas]
        grid = around(sizes, 11)
        roles[f"own {dim}"] = [theory(s, power_law(gamma, dim), "optimal", grid)]
        roles[f"trained {dim}"] = simulations(s, seed, gamma, s.alphas, dim=dim)
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Count of modes, overlaps, plateaus, and error against the count."""
    axes = style.panels(figure, 2, 2, width="double", height=4.6)
    drawing, data, few = Drawing([]), records["theory"][0].datasets, records["few"][0].datasets
    simulated, small = (
        Recovery(records[f"trained {dim}"], records[f"own {dim}"][0])
        for dim in (section.simulated_dim, section.small_dim)
    )
    gamma = section.spectral_exponent
    _count(axes[0], data, eigenvalues(gamma, section.dim), drawing)
    _overlaps(axes[1], simulated, section, drawing)
    _plateaus(axes[2], few, section, drawing)
    style.theory(axes[3], data["recovered"], data["excess"], style.BLUE, marker=".")
    grid = np.array([2.0, max(3.0, data["recovered"].max())])
    middle = np.searchsorted(data["recovered"], np.sqrt(grid[1]))
    guide = data["excess"][middle] * (grid / data["recovered"][middle]) ** (1 - 2 * gamma)
    slope = rf"$k^{{-{2 * gamma - 1:g}}}$"
    axes[3].plot(grid, guide, color=style.BLACK, linestyle="--", linewidth=0.7, label=slope)
    axes[3].set(xscale="log", yscale="log", xlabel="learnt modes $k$", ylabel="excess test error")
    axes[3].legend(loc="best")
    for what, solved in (("power law", data), ("few modes", few)):
        bad = ~solved["converged"] | (solved["flags"] != "")
        drawing.flagged += [f"theory, {what}: unreliable at n = {n:.4g}" for n in solved["n"][bad]]
    for one in (simulated, small):
        drawing.flagged += one.complaints(f"L-BFGS or its theory, d = {one.dim}")
    where = f"gamma={gamma:g}"
    drawing.validation += simulated.validation("emergence", "total", where, small)
    return drawing


def levels(section: Section) -> np.ndarray:
    """Eigenvalues [d] of the few levels, descending, with Q0 = 1; the others are zero."""
    few = np.zeros(section.dim)
    values = np.repeat(section.separated, section.multiplicities)
    few[: values.size] = values
    return few / np.sqrt(np.mean(few**2))


def overlap(data: dict[str, np.ndarray], eigenvalue: float) -> np.ndarray:
    """``1 - b^2/(a l)^2`` [n] of a mode that is kept, else zero."""
    with np.errstate(invalid="ignore"):
        signal = data["a"] * eigenvalue
        kept = (signal > data["b"]) & (signal + data["b"] ** 2 / signal > data["threshold"])
        return np.where(kept, 1 - (data["b"] / signal) ** 2, 0.0)


def emergences(saturation: np.ndarray, modes: np.ndarray) -> np.ndarray:
    """n at which each mode leaves the noise, a l = b, with a and b at saturation."""
    scale, q_hat, v_hat = saturation
    return q_hat * modes.size**2 / (2 * (scale * v_hat * modes) ** 2)


def _count(axis: Axes, data: dict, modes: np.ndarray, drawing: Drawing) -> None:
    """Steps: modes learnt; dashed: how many have left the noise of saturation."""
    axis.step(data["n"], data["recovered"], where="post", color=style.BLUE, label="learnt modes")
    points = emergences(data["saturation"], modes)
    inside = points <= data["n"][-1]
    count = np.arange(1, modes.size + 1)[inside]
    look = {"color": style.VERMILLION, "linestyle": "--", "linewidth": 0.9}
    axis.plot(points[inside], count, label="$c\\,\\ell_k=b$ at saturation", **look)
    axis.set(xscale="log", yscale="log", xlabel="samples $n$", ylabel="number of modes")
    axis.set(ylim=(0.8, None), xlim=data["n"][[0, -1]])
    axis.legend(loc="best")
    columns = {name: data[name] for name in ("n", "recovered", "excess", "lam")}
    add_rows(drawing, series="theory", **columns)
    add_rows(drawing, series="left the noise of saturation", n=points[inside], recovered=count)


def _overlaps(axis: Axes, simulated: Recovery, section: Section, drawing: Drawing) -> None:
    """Squared overlap of single modes: training, and theory at the same d."""
    data, dim = simulated.theory.datasets, simulated.dim
    modes, measured = eigenvalues(section.spectral_exponent, dim), simulated.values("overlap")
    for mode, colour in zip(section.modes, style.SERIES, strict=False):
        line = overlap(data, modes[mode - 1])
        style.theory(axis, data["n"], line, colour, thin=True)
        add_rows(drawing, series=f"theory d={dim}", mode=mode, n=data["n"], overlap=line)
        values = measured[..., -mode]
        mean = values.mean(0)
        error = values.std(0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
        look = {"method": "lbfgs", "label": f"mode {mode}", "flagged": simulated.flagged}
        style.simulation(axis, simulated.sizes, mean, error, colour, **look)
        expected = line[simulated.columns]
        series = f"L-BFGS d={dim}"
        columns = {"overlap": mean, "standard_error": error, "expected": expected}
        add_rows(drawing, series=series, mode=mode, n=simulated.sizes, **columns)
    axis.set(xscale="log", xlabel="samples $n$", ylabel="squared overlap of eigenvectors")
    axis.set_ylim(-0.03, 1.05)
    axis.legend(loc="best", fontsize=6)


def _plateaus(axis: Axes, few: dict, section: Section, drawing: Drawing) -> None:
    """Error of a few modes: a plateau until the next one emerges."""
    style.theory(axis, few["n"], few["excess"], style.BLUE)
    modes = levels(section)
    points = emergences(few["saturation"], np.where(modes > 0, modes, np.nan))
    for n, count in zip(*np.unique(points[modes > 0].round(6), return_counts=True), strict=True):
        if few["n"][0] < n < few["n"][-1]:
            style.threshold(axis, n, f"{count} mode{'s' if count > 1 else ''}")
    axis.set(xscale="log", yscale="log", xlabel="samples $n$", ylabel="excess test error")
    names = ("n", "recovered", "excess", "lam")
    add_rows(drawing, series="few modes", **{name: few[name] for name in names})
