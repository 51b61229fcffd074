"""Hessian eigenvalues at the plateau against the variance of the signal, and what sets them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, FigureSection, NonNegative, PositiveGrid, physics, size
from hdattn.figures import style
from hdattn.figures._multihead import NAMES, SobolPoints, SpikeModel, Spreads, Vector
from hdattn.figures._stability import MEASURES, Spectrum, row
from hdattn.figures._ticks import plain_ticks
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "The plateau is unstable along each spike in proportion to its variance and to 1/H"

MARKERS = {"autograd": ("o", 3.0), "growth_rate": ("x", 5.5)}  # shape and size
LINES = ("-", "--", ":", "-.")  # of the curves of one activation, in order
Tokens = Annotated[tuple[Annotated[Count, Field(ge=2)], ...], Field(min_length=2)]


class Section(SpikeModel, FigureSection):
    """Configuration of the figure."""

    heads: Annotated[tuple[Count, ...], Field(min_length=1)] = physics(
        (2, 4, 8), "Numbers of heads H."
    )
    mean: Vector = physics((0.8, 0, 0, 0, 0), "Mean of the signal along each hidden spike.")
    std: Spreads = physics(
        (0.0, 1.0, 1.4, 1.7, 2.0), "Size of the random sign along each spike, 0 for a constant one."
    )
    base_points: SobolPoints = size(1024, "Sobol points before symmetrisation, a power of two.")
    scrambles: Annotated[Count, Field(ge=3)] = size(
        8, "Independent scrambles of the Sobol points, behind means and standard errors."
    )
    token_grid: Tokens = size(
        (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 34, 40),
        "Tokens L on the axis of panel c.",
    )
    mu_curves: Annotated[tuple[NonNegative, ...], Field(min_length=1, max_length=len(LINES))] = (
        physics((0, 0.8, 1.6), "Means of the curves of panel c.")
    )
    mu_grid: PositiveGrid = size(
        {"start": 0.01, "stop": 4, "points": 41, "spacing": "linear"},
        "Means on the axis of panel d.",
    )
    token_curves: Annotated[Tokens, Field(max_length=len(LINES))] = physics(
        (2, 3, 5, 10), "Tokens L of the curves of panel d, and of the markers."
    )

    @field_validator("heads")
    @classmethod
    def _several(cls, heads: tuple[int, ...]) -> tuple[int, ...]:
        if min(heads) < 2:
            raise ValueError("one head cannot specialise; give at least 2 in each entry")
        return heads

    @field_validator("tokens")
    @classmethod
    def _unstable(cls, tokens: int) -> int:
        if tokens == 2:
            raise ValueError(
                "softmax heads never specialise at tokens = 2, where beta vanishes: what a head "
                "gains on sequences read rightly it loses on their mirror images; give at least 3"
            )
        return tokens

    @property
    def mu(self) -> float:
        """Size of the mean."""
        return float(sum(self.mean))


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Measured eigenvalues for each H, and at a few L; closed forms on two grids."""
    pair = {"kind": "flip", "mean": (section.mu, 0.0), "std": (0.0, max(section.std))}
    roles = {}
    for name in NAMES:
        heads = _measured(section, name, (section.tokens,), section.prior, section.heads)
        tokens = _measured(section, name, section.token_curves, pair, (2,))
        roles |= {f"heads_{name}": [heads], f"tokens_{name}": [tokens]}
    roles["against_tokens"] = [_closed(section.token_grid, section.mu_curves)]
    roles["against_mu"] = [_closed(section.token_curves, section.mu_grid)]
    return roles


def _measured(
    section: Section,
    activation: str,
    tokens: Sequence[int],
    prior: dict[str, Any],
    heads: Sequence[int],
) -> Experiment:
    return Experiment(
        "multihead/stability",
        {"activation": activation, "tokens": tokens, "prior": prior, "heads": heads}
        | {"base_points": section.base_points, "scrambles": section.scrambles},
        slug=f"{activation}-{len(tokens)}x{len(heads)}",
    )


def _closed(tokens: Sequence[int], mu: Sequence[float]) -> Experiment:
    return Experiment(
        "multihead/plateau",
        {"tokens": tokens, "mu": mu},
        slug=f"{len(tokens)}x{len(mu)}",
    )


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Growth rates against the variance, softmax and B-softmax; beta against L and against mu."""
    axes = style.panels(figure, 2, 2, width="double", height=4.6)
    drawing = Drawing([])
    for axis, name in zip(axes, NAMES, strict=False):
        spectra = Spectrum.read(records[f"heads_{name}"][0])
        _rates(axis, spectra)
        points = Spectrum.read(records[f"tokens_{name}"][0])
        _beta_points(axes[2], [p.tokens for p in points], points)
        _beta_points(axes[3], [section.mu] * len(points), points)
        for panel, group in (("variance", spectra), ("tokens", points)):
            for spectrum in group:
                drawing.table += spectrum.table(panel)
                drawing.validation += spectrum.validation()
    drawing.table += _beta_lines(axes[2], records["against_tokens"][0], "tokens")
    drawing.table += _beta_lines(axes[3], records["against_mu"][0], "mu")
    beta = r"$\beta=-H\lambda_f\,/\,2\omega_f^2$"
    axes[2].set(xscale="log", xlabel="number of tokens $L$", ylabel=beta)
    plain_ticks(axes[2].xaxis, [2, 3, 5, 10, 20, 40])
    axes[3].set(xlabel=r"mean $\mu$", ylabel=beta, xlim=(0, section.mu_grid[-1]))
    _legends(axes, section)
    return drawing


def _rates(axis: Axes, spectra: Sequence[Spectrum]) -> None:
    """-lambda_f against omega_f^2: closed form as a line through 0, both measures as markers."""
    for spectrum, colour in zip(spectra, _shades(len(spectra)), strict=True):
        steepest = np.argmax(spectrum.variance)
        end = 1.08 * spectrum.variance[steepest]
        top = 1.08 * spectrum.closed[steepest]
        style.theory(axis, [0, end], [0, top], colour, label=f"$H = {spectrum.heads}$ heads")
        for name in MEASURES:
            values = spectrum.variance, spectrum.mean[name], spectrum.error[name]
            _mark(axis, *values, colour, name)
    axis.set(xlim=(0, None), ylim=(0, None), xlabel=r"$\mathrm{Var}\,\theta_f = \omega_f^2$")
    axis.set_ylabel(rf"growth rate $-\lambda_f$, {NAMES[spectra[0].activation]}")


def _mark(axis: Axes, x, y, error, colour: str, name: str) -> None:
    """Markers of one measure."""
    shape, width = MARKERS[name]
    style.simulation(axis, x, y, error, colour, fmt=shape, markersize=width)


def _shades(count: int) -> list[str]:
    return [style.SERIES[i % len(style.SERIES)] for i in (2, 3, 4, 5, 6, 0, 1)[:count]]


def _beta_points(axis: Axes, x: Sequence[float], points: Sequence[Spectrum]) -> None:
    """beta from the measured growth rates."""
    for name in MEASURES:
        y = [float((p.mean[name] * p.per_beta)[0]) for p in points]
        error = [float((p.error[name] * p.per_beta)[0]) for p in points]
        _mark(axis, x, y, error, style.MEANING[points[0].activation], name)


def _beta_lines(axis: Axes, record: Record, along: str) -> Iterator[dict[str, Any]]:
    """Closed forms against L or mu, a line for each value of the other; rows of the table."""
    data = record.datasets
    grid = data[along]
    others = data["mu" if along == "tokens" else "tokens"]
    for name in NAMES:
        beta = data[f"beta_{name}"] if along == "mu" else data[f"beta_{name}"].T
        for other, values, line in zip(others, beta, LINES, strict=False):
            axis.plot(grid, values, color=style.MEANING[name], linestyle=line, linewidth=1)
            for at, value in zip(grid, values, strict=True):
                tokens, mu = (at, other) if along == "tokens" else (other, at)
                yield row(along, name, int(tokens), None, mu, None, "closed form", value)


def _legends(axes: list[Axes], section: Section) -> None:
    from matplotlib.lines import Line2D

    def entry(label: str, **look: Any) -> Line2D:
        return Line2D([], [], label=label, **({"color": style.GREY, "linewidth": 1} | look))

    axes[0].legend(loc="upper left")
    markers = [
        entry(label, linestyle="", marker=MARKERS[name][0], markersize=MARKERS[name][1])
        for name, label in MEASURES.items()
    ]
    axes[1].legend(handles=[entry("closed form"), *markers], loc="upper left")
    names = [entry(label, color=style.MEANING[name]) for name, label in NAMES.items()]
    means = [
        entry(rf"mean $\mu = {mu:g}$", linestyle=line)
        for mu, line in zip(section.mu_curves, LINES, strict=False)
    ]
    axes[2].legend(handles=[*names, *means], loc="upper right")
    tokens = [
        entry(f"$L = {length}$ tokens", linestyle=line)
        for length, line in zip(section.token_curves, LINES, strict=False)
    ]
    axes[3].legend(handles=[*names, *tokens], loc="upper right")
