"""Spectrum of the trained matrix at four sample ratios: theory and pooled instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, ValidationInfo, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, PositiveList, physics, size
from hdattn.figures import style
from hdattn.figures._curves import add_rows
from hdattn.figures._ensemble import (
    Ensemble,
    rank_allowances,
    theory_complaints,
    theory_flags,
)
from hdattn.figures._singlehead import (
    SingleHead,
    check_dim,
    limit_curve,
    own_curves,
    trainings,
)
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Spectrum of the trained matrix: theory and simulation"
NAME = "spectra"


class Section(SingleHead):
    """Keys of ``spectra``."""

    lam: Positive = physics(0.01, "Weight decay lambda on the factor W.")
    kappa: Positive = physics(1.0, "Width p/d of the trained head.")
    alphas: PositiveList = physics((0.05, 0.5, 4, 40), "Sample ratios n/d^2, one panel each.")
    dims: Annotated[tuple[Count, ...], Field(min_length=1)] = size(
        (100, 100, 100, 50), "Dimension d of the simulation in each panel."
    )
    bins: Count = size(40, "Bins of the histograms.")
    density_points: Count = size(400, "Points of the theory lines.")

    @field_validator("dims")
    @classmethod
    def _one_each(cls, value: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        panels = len(info.data.get("alphas", value))
        if len(value) != panels:
            raise ValueError(f"{len(value)} for {panels} alphas; give one dimension for each panel")
        check_dim(min(value), {key: info.data.get(key) for key in ("kappa0", "kappa")})
        return value

    def panels_of(self, dim: int) -> list[float]:
        """Sample ratios that are simulated at dimension ``dim``."""
        return [alpha for alpha, d in zip(self.alphas, self.dims, strict=True) if d == dim]


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """One theory curve with densities; training at each dimension."""
    s = section
    points = {"density_points": s.density_points}
    roles = {"limit": [limit_curve(s, s.alphas, s.lam, s.kappa, **points)]}
    for dim in dict.fromkeys(s.dims):
        roles[f"own {dim}"] = own_curves(s, seed, dim, s.panels_of(dim), s.lam, s.kappa)
        roles[f"lbfgs {dim}"] = trainings(s, seed, dim, s.panels_of(dim), s.lam, s.kappa)
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """One panel for each alpha."""
    columns = 2 if len(section.alphas) > 1 else 1
    rows = -(-len(section.alphas) // columns)
    axes = style.panels(figure, rows, columns, width="double", height=2.2 * rows)
    drawing = Drawing([])
    limit = records["limit"][0].datasets
    ensembles = {
        dim: Ensemble(records[f"lbfgs {dim}"], records[f"own {dim}"])
        for dim in dict.fromkeys(section.dims)
    }
    for axis, index in zip(axes, range(len(section.alphas)), strict=False):
        panel = Panel(axis, limit, index, ensembles[section.dims[index]], section, drawing)
        panel.draw(legend=index == 0)
    for axis in axes[len(section.alphas) :]:
        axis.set_visible(False)
    drawing.flagged += theory_complaints(records["limit"][0], "limit")
    for ensemble in ensembles.values():
        drawing.flagged += ensemble.complaints(f"L-BFGS, d = {ensemble.dim}")
        where = f"d={ensemble.dim}"
        constants = rank_allowances(ensemble)
        drawing.validation += ensemble.validation(NAME, "rank_fraction", where, constants)
    return drawing


def target_edges(kappa0: float) -> tuple[float, float]:
    """Edges ``s_-+ = (1 -+ k)^2/k`` of that law, k = sqrt(kappa0)."""
    k = np.sqrt(kappa0)
    return (1 - k) ** 2 / k, (1 + k) ** 2 / k


def target_density(s: np.ndarray, kappa0: float) -> np.ndarray:
    """Density of the continuous part of the Marchenko-Pastur target, of mass min(1, kappa0).

    With k = sqrt(kappa0), ``rho(s) = k sqrt((s_+ - s)(s - s_-))/(2 pi s)``.
    """
    k, (low, high) = np.sqrt(kappa0), target_edges(kappa0)
    return k * np.sqrt(np.maximum((high - s) * (s - low), 0)) / (2 * np.pi * s)


@dataclass(frozen=True)
class Panel:
    """The spectrum at one alpha: histogram, theory, target, atom at zero."""

    axis: Axes
    limit: dict[str, np.ndarray]
    index: int
    ensemble: Ensemble
    section: Section
    drawing: Drawing

    @property
    def alpha(self) -> float:
        """Sample ratio."""
        return self.section.alphas[self.index]

    @cached_property
    def line(self) -> tuple[np.ndarray, np.ndarray]:
        """Theory: points and densities."""
        x, y = self.limit["density_x"][self.index], self.limit["density"][self.index]
        return x[np.isfinite(x)], y[np.isfinite(x)]

    @cached_property
    def column(self) -> int:
        """Position of alpha among those that were trained at this dimension."""
        return int(np.flatnonzero(self.ensemble.alphas == self.alpha)[0])

    @cached_property
    def unsolved(self) -> bool:
        """Whether the theory is not to be trusted: its line has a white core."""
        return bool(theory_flags(self.limit)[self.index])

    @cached_property
    def untrained(self) -> bool:
        """Whether the training of some instance did not converge: the histogram is hollow."""
        return not self.ensemble.simulation("converged")[:, self.column].all()

    @cached_property
    def positive(self) -> np.ndarray:
        """Eigenvalues of all instances that count towards the rank."""
        spectra = self.ensemble.simulation("eigenvalues")[:, self.column]
        ranks = np.rint(
            self.ensemble.simulation("rank_fraction")[:, self.column] * spectra.shape[1]
        )
        kept = [s[len(s) - int(rank) :] for s, rank in zip(spectra, ranks, strict=True)]
        return np.concatenate(kept)

    @cached_property
    def top(self) -> float:
        """Right end of the panel: beyond what is to be trusted, or all if nothing is."""
        ends = {"line": self.line[0].max(initial=0), "bars": self.positive.max(initial=0)}
        doubts = {"line": self.unsolved, "bars": self.untrained}
        trusted = [end for name, end in ends.items() if not doubts[name]]
        return 1.05 * max(trusted or ends.values())

    def histogram(self, edges: np.ndarray) -> np.ndarray:
        """Density in bins, of the mass of the positive eigenvalues."""
        total = self.ensemble.instances * self.ensemble.dim
        return np.histogram(self.positive, edges)[0] / (total * np.diff(edges))

    def draw(self, *, legend: bool) -> None:
        """The whole panel."""
        top = self.top
        self._histogram(self.axis, top, "histogram")
        self._curves(self.axis)
        self._atom(top)
        self.axis.set_xlabel("eigenvalue $s$ of $S$")
        self.axis.set_ylabel(r"density $\rho(s)$")
        self.axis.set_title(rf"$\alpha={self.alpha:g}$, $d={self.ensemble.dim}$", pad=3)
        if legend:
            self.axis.legend(loc="center right")
        bulks = self.limit["edges"][self.index]
        if np.isfinite(bulks[1:]).any() and not self.unsolved:
            self._zoom(top=3 * bulks[1, 0])

    def _zoom(self, top: float) -> None:
        """Inset about the gap between two bulks; the panel then shows the upper bulk."""
        inset = self.axis.inset_axes((0.4, 0.28, 0.57, 0.5))
        self._histogram(inset, top, "histogram, inset")
        self._curves(inset)
        inset.set_xlim(0, top)
        inset.tick_params(labelsize=6)
        x, y = self.line
        self.axis.set_ylim(0, 3 * y[x > top / 3].max())

    def _histogram(self, axis: Axes, top: float, series: str) -> None:
        edges = np.linspace(0, top, self.section.bins + 1)
        heights = self.histogram(edges)
        colour = style.MEANING["simulation"]
        hollow = {"facecolor": "white", "edgecolor": colour, "linewidth": 0.8}
        look = hollow if self.untrained else {"color": colour}
        axis.stairs(heights, edges, fill=True, label="trained $S$", **look)
        self._write(series, edges[:-1], heights, bin_end=edges[1:], flagged=self.untrained)

    def _curves(self, axis: Axes) -> None:
        look = {"label": "theory of $S$", "flagged": self.unsolved}
        style.curve(axis, *self.line, style.BLUE, **look)
        low, high = target_edges(self.section.kappa0)
        grid = np.linspace(max(low, high / 1000), high, 500)  # at 0 it may diverge
        target = target_density(grid, self.section.kappa0)
        dashed = {"color": style.MEANING["target"], "linestyle": "--", "linewidth": 0.8}
        axis.plot(grid, target, label="target $S_0$", **dashed)
        self._write("target", grid, target)

    def _atom(self, top: float) -> None:
        theory = float(self.limit["atom_at_zero"][self.index])
        mean, error = (v[self.column] for v in self.ensemble.mean_and_error("rank_fraction"))
        width = 0.02 * top
        bars = ((1.5, theory, style.BLUE), (2.5, 1 - mean, style.MEANING["simulation"]))
        for (place, weight, colour), bad in zip(bars, (self.unsolved, self.untrained), strict=True):
            style.atom(self.axis, -place * width, width, weight, colour, flagged=bad)
        self.axis.set_xlim(-4 * width, top)
        self.axis.text(
            0.97,
            0.95,
            f"weight at 0 (bars): theory {theory:.3f},\ntrained {1 - mean:.3f} $\\pm$ {error:.3f}",
            transform=self.axis.transAxes,
            ha="right",
            va="top",
            fontsize=7,
        )
        solved, trained = {"flagged": self.unsolved}, {"flagged": self.untrained}
        self._write("theory", *self.line, **solved)
        self._write("theory atom", [0.0], [theory], **solved)
        self._write("simulation atom", [0.0], [1 - mean], standard_error=error, **trained)

    def _write(self, series: str, s: Sequence[float], value: Sequence[float], **more: Any) -> None:
        add_rows(self.drawing, alpha=self.alpha, series=series, s=s, value=value, **more)
