"""Spectra of heads trained on power-law targets: outliers leave the bulk one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from hdattn.experiment import Experiment
from hdattn.fields import Positive, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._curves import add_rows
from hdattn.figures._powerlaw import (
    Exponent,
    Recovery,
    SimulatedPowerLaw,
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
TITLE = "Spectra of power-law targets and their modes"
DOT = {"fmt": "o", "markersize": 1.5}


class Section(SimulatedPowerLaw):
    """Keys of ``powerlaw_spectra``."""

    spectral_exponents: Annotated[tuple[Exponent, ...], Field(min_length=1, max_length=3)] = (
        physics((0.75, 1, 1.5), "Spectral exponents gamma, one panel each.")
    )
    lam_eff: Positive = physics(
        0.05, "lambda_eff, weak, so that the bulk below the outliers is seen too."
    )
    alphas: PositiveList = size((0.2, 0.8), "Sample ratios n/d^2 that are trained.", max_length=6)


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory and training for each exponent, at two dimensions."""
    s, roles = section, {}
    for gamma in s.spectral_exponents:
        for dim in (s.simulated_dim, s.small_dim):
            sizes = [alpha * dim**2 for alpha in s.alphas]
            shared = {"regime": "fixed", "lam_eff": s.lam_eff}
            grid = sizes if len(sizes) > 1 else [sizes[0], 2 * sizes[0]]
            roles[f"own {gamma:g} {dim}"] = [theory(s, power_law(gamma, dim), sizes=grid, **shared)]
            roles[f"trained {gamma:g} {dim}"] = simulations(
                s, seed, gamma, s.alphas, dim=dim, **shared
            )
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Eigenvalues against rank for each gamma; outliers and overlaps on one curve."""
    axes = style.panels(figure, 2, 3, width="double", height=4.4)
    drawing = Drawing([])
    for index, gamma in enumerate(section.spectral_exponents):
        simulated, small = (
            Recovery(records[f"trained {gamma:g} {dim}"], records[f"own {gamma:g} {dim}"][0])
            for dim in (section.simulated_dim, section.small_dim)
        )
        _ranks(axes[index], simulated, gamma, drawing)
        _universal(axes[3:], simulated, gamma, style.SERIES[index], drawing)
        for one in (simulated, small):
            what = f"L-BFGS or its theory, gamma = {gamma:g}, d = {one.dim}"
            drawing.flagged += one.complaints(what)
        rows = simulated.validation("powerlaw_spectra", "total", f"gamma={gamma:g}", small)
        drawing.validation += rows
    _curves(axes[3:])
    for axis in axes[len(section.spectral_exponents) : 3]:
        axis.set_visible(False)
    return drawing


def outliers(a: float, b: float, threshold: float, modes: np.ndarray) -> np.ndarray:
    """``a l + b^2/(a l) - t`` of modes above the noise; NaN for the others."""
    signal = a * modes
    out = (signal > b) & (signal + b**2 / signal > threshold)
    return np.where(out, signal + b**2 / signal - threshold, np.nan)


def _ranks(axis: Axes, simulated: Recovery, gamma: float, drawing: Drawing) -> None:
    """Eigenvalues against rank, log-log; thin lines: the theory's outliers; bars: bulk edges."""
    modes = eigenvalues(gamma, simulated.dim)
    rank = np.arange(1, simulated.dim + 1)
    values = simulated.values("eigenvalues")[..., ::-1]
    a, b, t = (simulated.predicted(name) for name in ("a", "b", "threshold"))
    for i, colour in zip(range(len(a)), style.SERIES, strict=False):
        mean = np.where(values[:, i].mean(0) > 1e-3, values[:, i].mean(0), np.nan)
        bad, doubtful = simulated.flagged[i], simulated.theory_flagged[i]
        look = {"label": rf"$\alpha={simulated.alphas[i]:g}$", "flagged": np.full(rank.size, bad)}
        style.simulation(axis, rank, mean, None, colour, **DOT, **look)
        expected = outliers(a[i], b[i], t[i], modes)
        style.curve(axis, rank, expected, colour, flagged=doubtful)
        edge = 2 * b[i] - t[i]
        if edge > 0:
            style.level(axis, edge, colour=colour, flagged=doubtful)
        where = {"gamma": gamma, "alpha": simulated.alphas[i], "bulk_edge": edge, "flagged": bad}
        add_rows(drawing, series="spectrum", **where, rank=rank, value=mean, expected=expected)
    target = {"color": style.MEANING["target"], "linestyle": ":", "linewidth": 0.8}
    axis.plot(rank, modes, label="target", **target)
    axis.set(xscale="log", yscale="log", xlabel="rank", ylabel="eigenvalue of $S$")
    axis.text(0.97, 0.95, rf"$\gamma={gamma:g}$", transform=axis.transAxes, ha="right", va="top")
    axis.legend(fontsize=6, loc="lower left")


def _universal(axes: list[Axes], simulated, gamma: float, colour: str, drawing) -> None:
    """Outliers of R, overlaps, and the target seen by the eigenvectors of S, against a l/b."""
    modes = eigenvalues(gamma, simulated.dim)
    values, overlaps, seen = (
        simulated.values(name)[..., ::-1] for name in ("eigenvalues", "overlap", "seen")
    )
    a, b, t = (simulated.predicted(name) for name in ("a", "b", "threshold"))
    for i in range(len(a)):
        x = a[i] * modes / b[i]
        kept = x > 0.5
        measured = {
            "outlier": (values[:, i].mean(0) + t[i]) / b[i],
            "overlap": overlaps[:, i].mean(0),
            "seen": np.where(values[:, i] > 0, seen[:, i], 0).mean(0) / modes,
        }
        bad = simulated.flagged[i]
        look = {"label": rf"$\gamma={gamma:g}$" if i == 0 else None}
        look["flagged"] = np.full(kept.sum(), bad)
        for axis, column in zip(axes, measured.values(), strict=True):
            style.simulation(axis, x[kept], column[kept], None, colour, **DOT, **look)
        columns = {name: column[kept] for name, column in measured.items()}
        where = {"gamma": gamma, "alpha": simulated.alphas[i], "flagged": bad}
        add_rows(drawing, series="modes", **where, signal=x[kept], **columns)


def _curves(axes: list[Axes]) -> None:
    """Theory: x + 1/x and 1 - 1/x^2 above x = 1."""
    x = np.geomspace(1, 60, 200)
    style.theory(axes[0], x, x + 1 / x, style.BLACK, label="$x+1/x$")
    for axis in axes[1:]:
        style.theory(axis, x, 1 - x**-2, style.BLACK, label="$1-1/x^2$")
        axis.set(xscale="log", xlim=(0.5, 60), ylim=(-0.03, 1.1))
    axes[0].set(xscale="log", yscale="log", ylabel="eigenvalue of $R$ over $b$", xlim=(0.5, 60))
    axes[1].set_ylabel("squared overlap")
    axes[2].set_ylabel(r"$v^TS_0v/\ell_i$")
    for axis in axes:
        style.threshold(axis, 1, "emergence")
        axis.set_xlabel(r"$x=a\,\ell_i/b$")
        axis.legend(loc="best", fontsize=6)
