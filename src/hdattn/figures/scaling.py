"""Excess error of power-law targets against n: slopes, fitted and predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from hdattn.experiment import Experiment
from hdattn.fields import Count, PositiveGrid, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._curves import add_rows
from hdattn.figures._powerlaw import (
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
REGIMES = {"optimal": r"optimal $\lambda\propto\sqrt{n}$", "fixed": r"fixed strong $\lambda$"}
CHANNELS = ("softmax", "linear")


class Section(SimulatedPowerLaw):
    """Keys of ``scaling``."""

    spectral_exponents: Annotated[tuple[Exponent, ...], Field(min_length=1, max_length=6)] = (
        physics((0.75, 1, 1.25, 1.5), "Spectral exponents gamma, one colour each.")
    )
    simulated_exponent: Exponent = physics(1.25, "gamma of the simulations.")
    points: Annotated[Count, Field(ge=8)] = size(20, "Sample sizes n of a theory curve.")
    alphas: PositiveList = size((0.2, 0.8), "Sample ratios n/d^2 that are trained.")
    large_dim: Count = size(100000, "Dimension d of the independent-mode formula.")
    large_sizes: PositiveGrid = size((1e6, 1e8, 1e10), "Sample sizes n of that formula.")


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory for each exponent, regime and channel; training at two dimensions."""
    s, roles = section, {}
    for gamma in s.spectral_exponents:
        for regime in REGIMES:
            for channel in CHANNELS:
                made = theory(s, power_law(gamma, s.dim), regime, s.points, channel=channel)
                roles[f"{channel} {regime} {gamma:g}"] = [made]
        many = power_law(gamma, s.large_dim)
        large = theory(s, many, "optimal", s.large_sizes, channel="independent")
        roles[f"independent {gamma:g}"] = [large]
    gamma = s.simulated_exponent
    for dim in (s.simulated_dim, s.small_dim):
        sizes = around([alpha * dim**2 for alpha in s.alphas], 3)
        roles[f"own {dim}"] = [theory(s, power_law(gamma, dim), "optimal", sizes)]
        roles[f"trained {dim}"] = simulations(s, seed, gamma, s.alphas, dim=dim)
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Two regimes, the exponents, and local exponents at a very large d."""
    axes = style.panels(figure, 2, 2, width="double", height=4.8)
    drawing, s = Drawing([]), section
    for axis, regime in zip(axes, REGIMES, strict=False):
        _curves(axis, regime, records, s, drawing)
    simulated, small = (
        Recovery(records[f"trained {dim}"], records[f"own {dim}"][0])
        for dim in (s.simulated_dim, s.small_dim)
    )
    _simulation(axes[0], simulated, drawing)
    axes[0].legend(fontsize=6, loc="lower left")
    axes[1].legend(fontsize=6, loc="lower left")
    _exponents(axes[2], records, s)
    _large(axes[3], records, s, drawing)
    for one in (simulated, small):
        drawing.flagged += one.complaints(f"L-BFGS or its theory, d = {one.dim}")
    where = f"gamma={s.simulated_exponent:g}"
    drawing.validation += simulated.validation("scaling", "total", where, small)
    return drawing


def _curves(axis: Axes, regime: str, records: dict, section: Section, drawing: Drawing) -> None:
    """Lines: softmax; dashed: linear output; black: the fit of the softmax in its window."""
    for gamma, colour in zip(section.spectral_exponents, style.SERIES, strict=False):
        for channel in CHANNELS:
            record = records[f"{channel} {regime} {gamma:g}"][0]
            data, bad = record.datasets, _flags(record)
            look = {} if channel == "softmax" else {"linestyle": ":", "linewidth": 0.9}
            exponent, error = data["exponent"]
            found = rf"$\gamma={gamma:g}$: {exponent:.2f} $\pm$ {error:.2f}"
            name = f"{found} ({_predicted(regime, gamma):.2f})"
            label = name if channel == "softmax" else None
            style.theory(axis, data["n"], data["excess"], colour, label=label, flagged=bad, **look)
            where = {"gamma": gamma, "regime": regime, "channel": channel}
            columns = {name: data[name] for name in ("n", "excess", "local_exponent", "lam")}
            add_rows(drawing, series="theory", **where, **columns, flagged=bad)
            window = {"window_start": data["window"][0], "window_end": data["window"][1]}
            add_rows(drawing, series="fit", **where, exponent=exponent, error=error, **window)
            drawing.flagged += [
                f"theory, {channel}, {regime}, gamma = {gamma:g}: not to be trusted at n = {n:.4g}"
                for n in data["n"][bad]
            ]
            if channel == "softmax":
                _slope(axis, data)
    axis.set(xscale="log", yscale="log", xlabel="samples $n$", ylabel="excess error")
    axis.text(
        0.97, 0.95, REGIMES[regime], transform=axis.transAxes, ha="right", va="top", fontsize=7
    )


def _slope(axis: Axes, data: dict[str, np.ndarray]) -> None:
    """The fitted power law over its window."""
    ends = data["window"]
    inside = (data["n"] >= ends[0]) & (data["n"] <= ends[1])
    middle = np.exp(np.mean(np.log(data["n"][inside])))
    height = np.exp(np.mean(np.log(data["excess"][inside])))
    line = height * (ends / middle) ** -data["exponent"][0]
    axis.plot(ends, line, color=style.BLACK, linewidth=0.7, zorder=4)


def _predicted(regime: str, gamma: float) -> float:
    return 1 - 0.5 / gamma if regime == "optimal" else 2 - 1 / gamma


def _flags(record: Record) -> np.ndarray:
    return ~record.datasets["converged"] | (record.datasets["flags"] != "")


def _simulation(axis: Axes, simulated: Recovery, drawing: Drawing) -> None:
    """Training above the samples' own floor, and the theory at the same d (thin)."""
    mean, error = simulated.mean_and_error("excess")
    expected = simulated.expected("excess")
    style.theory(axis, simulated.sizes, expected, style.BLACK, thin=True)
    label = f"L-BFGS, $d={simulated.dim}$"
    look = {"method": "lbfgs", "label": label, "flagged": simulated.flagged}
    style.simulation(axis, simulated.sizes, mean, error, style.BLACK, **look)
    floors = {
        "floor_of_samples": simulated.values("test_error_floor").mean(0),
        "floor_of_theory": simulated.predicted("test_error_floor"),
        "kurtosis": simulated.values("kurtosis").mean(0),
    }
    add_rows(
        drawing,
        series=f"L-BFGS d={simulated.dim}",
        n=simulated.sizes,
        excess=mean,
        standard_error=error,
        theory=expected,
        **floors,
    )


def _exponents(axis: Axes, records: dict, section: Section) -> None:
    """Fitted exponents with their errors, on the predicted lines."""
    gammas = np.array(section.spectral_exponents)
    grid = np.linspace(gammas.min() - 0.1, gammas.max() + 0.1, 100)
    grid = grid[grid > 0.5]
    for regime, colour in zip(REGIMES, (style.BLUE, style.VERMILLION), strict=True):
        line = [_predicted(regime, gamma) for gamma in grid]
        style.theory(axis, grid, line, colour, label=f"{regime}, predicted")
        for channel, method, shift in (("softmax", "lbfgs", -0.008), ("linear", "amp", 0.008)):
            found = [records[f"{channel} {regime} {g:g}"][0].datasets["exponent"] for g in gammas]
            value, error = np.array(found).T
            look = {"method": method, "label": f"{regime}, {channel}"}
            style.simulation(axis, gammas + shift, value, error, colour, **look)
    axis.set(xlabel=r"spectral exponent $\gamma$", ylabel="exponent of the excess")
    axis.legend(loc="best", fontsize=6)


def _large(axis: Axes, records: dict, section: Section, drawing: Drawing) -> None:
    """Local exponents of the independent-mode formula, towards the predicted levels."""
    for gamma, colour in zip(section.spectral_exponents, style.SERIES, strict=False):
        data = records[f"independent {gamma:g}"][0].datasets
        local = -np.gradient(np.log(data["excess"]), np.log(data["n"]))
        style.theory(axis, data["n"], local, colour)
        style.level(axis, _predicted("optimal", gamma), colour=colour)
        columns = {"n": data["n"], "excess": data["excess"], "local_exponent": local}
        add_rows(drawing, series=f"independent modes d={section.large_dim}", gamma=gamma, **columns)
    title = rf"independent modes, $d=10^{{{np.log10(section.large_dim):.3g}}}$, optimal $\lambda$"
    axis.set(xscale="log", xlabel="samples $n$", ylabel="local exponent", ylim=(0, 1))
    axis.text(0.97, 0.95, title, transform=axis.transAxes, ha="right", va="top", fontsize=7)
