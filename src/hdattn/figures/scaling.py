"""Excess error of power-law targets against n: slopes, fitted and predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hdattn.experiment import Experiment
from hdattn.fields import Count, PositiveList, physics, size
from hdattn.figures import _exponents, style
from hdattn.figures._curves import add_rows
from hdattn.figures._ensemble import theory_flags
from hdattn.figures._powerlaw import (
    Dimension,
    Exponent,
    Recovery,
    SimulatedPowerLaw,
    around,
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
TITLE = "Scaling laws of power-law targets"
DEVIATIONS = {
    "test error": ("test_error", style.GREY),
    "floor $E_0$": ("test_error_floor", style.VERMILLION),
    "excess above own $E_0$": ("excess", style.BLUE),
    r"$\|S-cS_0\|^2$": ("total", style.GREEN),
}
"""Measured quantities beside theory's, and their colours."""

Dimensions = Annotated[tuple[Dimension, ...], Field(min_length=1, max_length=6)]


class Section(SimulatedPowerLaw):
    """Keys of ``scaling``."""

    spectral_exponents: Annotated[tuple[Exponent, ...], Field(min_length=1, max_length=6)] = (
        physics((0.75, 1, 1.25, 1.5), "Spectral exponents gamma, one colour each.")
    )
    simulated_exponent: Exponent = physics(1.25, "gamma of the simulations.")
    dims: Dimensions = size(
        (300, 1000), "Dimensions d of the state evolution; curves are drawn for the first."
    )
    large_dims: Dimensions = size(
        (300, 3000, 30000), "Dimensions d of the theory with independent modes."
    )
    points: Annotated[Count, Field(ge=8)] = size(12, "Sample sizes n of a theory curve.")
    alphas: PositiveList = size((0.2, 0.8), "Sample ratios n/d^2 that are trained.")


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Exponents of each gamma by two methods; training at two dimensions."""
    s = section
    roles = {
        modes: [_exponents.experiment(s, gamma, dims, modes) for gamma in s.spectral_exponents]
        for modes, dims in (("interacting", s.dims), ("independent", s.large_dims))
    }
    gamma = s.simulated_exponent
    for dim in (s.simulated_dim, s.small_dim):
        sizes = around([alpha * dim**2 for alpha in s.alphas], 7)
        roles[f"own {dim}"] = [theory(s, power_law(gamma, dim), "optimal", sizes)]
        roles[f"trained {dim}"] = simulations(s, seed, gamma, s.alphas, dim=dim)
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Three regimes, their exponents, how these approach the limit, and training."""
    axes = style.panels(figure, 2, 3, width="double", height=4.6)
    drawing, s = Drawing([]), section
    simulated, small = (
        Recovery(records[f"trained {dim}"], records[f"own {dim}"][0])
        for dim in (s.simulated_dim, s.small_dim)
    )
    found = [_exponents.Exponents(record) for record in records["interacting"]]
    large = [_exponents.Exponents(record) for record in records["independent"]]
    for axis, regime in zip(axes, _exponents.REGIMES, strict=False):
        _exponents.curves(axis, regime, found)
    _simulation(axes[0], simulated, drawing)
    for axis in axes[:3]:
        axis.legend(fontsize=5, loc="lower left")
    _exponents.against_gamma(axes[3], found)
    _exponents.against_dim(axes[4], found, large)
    _deviations(axes[5], simulated, drawing)
    for method, group in ((_exponents.SHOWN, found), ("independent modes", large)):
        for exponents in group:
            exponents.write(drawing, method)
    for one in (simulated, small):
        drawing.flagged += one.complaints(f"L-BFGS or its theory, d = {one.dim}")
    where = f"gamma={s.simulated_exponent:g}"
    drawing.validation += simulated.validation("scaling", "total", where, small)
    return drawing


def _simulation(axis: Axes, simulated: Recovery, drawing: Drawing) -> None:
    """Training above the samples' own floor, and the theory at the same d (thin)."""
    mean, error = simulated.mean_and_error("excess")
    data = simulated.theory.datasets
    thin = {"thin": True, "flagged": theory_flags(data)}
    style.theory(axis, data["n"], data["excess"], style.BLACK, **thin)
    label = f"L-BFGS, $d={simulated.dim}$"
    look = {"method": "lbfgs", "label": label, "flagged": simulated.flagged}
    style.simulation(axis, simulated.sizes, mean, error, style.BLACK, **look)
    floors = {
        "floor_of_samples": simulated.values("test_error_floor").mean(0),
        "floor_of_theory": simulated.predicted("test_error_floor"),
        "kurtosis": simulated.values("kurtosis").mean(0),
    }
    expected = {"standard_error": error, "theory": simulated.expected("excess")}
    columns = {"n": simulated.sizes, "excess": mean, **expected, **floors}
    add_rows(drawing, series=f"L-BFGS d={simulated.dim}", **columns)


def _deviations(axis: Axes, simulated: Recovery, drawing: Drawing) -> None:
    """What scores that are not Gaussian change, relative to the theory, which takes them to be."""
    for label, (quantity, colour) in DEVIATIONS.items():
        expected = simulated.expected(quantity)
        mean, error = (part / expected for part in simulated.mean_and_error(quantity))
        look = {"method": "lbfgs", "label": label, "flagged": simulated.flagged}
        style.simulation(axis, simulated.alphas, mean - 1, error, colour, **look)
        columns = {"deviation": mean - 1, "standard_error": error, "n": simulated.sizes}
        add_rows(drawing, series="simulation over theory", quantity=quantity, **columns)
    axis.axhline(0, color=style.GREY, linewidth=0.6, zorder=0)
    axis.set(xscale="log", xlabel=r"$\alpha=n/d^2$", ylabel="simulation/theory $- 1$")
    axis.legend(loc="best", fontsize=6, title=f"$d={simulated.dim}$", title_fontsize=6)
