"""Exponents of the excess error: experiments, and the panels that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hdattn.experiment import Experiment
from hdattn.figures import style
from hdattn.figures._curves import add_rows
from hdattn.figures._ensemble import theory_flags
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdattn.figures.scaling import Section
    from hdattn.store import Record

CHANNELS = ("softmax", "linear")
EDGE = 1e-3  # rounding of the ends of a window
# Independent modes leave out how they deform the bulk, which a vanishing penalty keeps.
ALONE = ("optimal", "fixed")
SHOWN = "state evolution"  # the method whose first dimension is drawn against n
REGIMES = {
    "optimal": r"optimal $\lambda\propto\sqrt{n}$",
    "fixed": r"fixed strong $\lambda$",
    "vanishing": r"vanishing $\lambda$",
}
STYLES = {"optimal": "-", "fixed": "--", "vanishing": ""}
MARKS = {"optimal": "lbfgs", "fixed": "amp", "vanishing": "other"}
COLOURS = {"optimal": style.BLUE, "fixed": style.VERMILLION, "vanishing": style.GREEN}


def experiment(section: Section, gamma: float, dims: Sequence[int], modes: str) -> Experiment:
    """Exponents of one gamma at several dimensions, all regimes and channels."""
    return Experiment(
        "singlehead/exponents",
        {
            "spectral_exponent": gamma,
            "noise": section.noise,
            "channels": list(CHANNELS),
            "dims": list(dims),
            "modes": modes,
            "points": section.points,
            "nodes": section.nodes,
        },
        slug=f"{modes}-gamma{gamma:g}",
    )


@dataclass(frozen=True, eq=False)
class Exponents:
    """Record of the exponents of one gamma."""

    record: Record

    @property
    def gamma(self) -> float:
        """Spectral exponent."""
        return float(self.record.parameters["spectral_exponent"])

    @property
    def dims(self) -> np.ndarray:
        """Dimensions [k]."""
        return self.record.datasets["dim"]

    def at(self, name: str, channel: str, regime: str) -> np.ndarray:
        """Values [dim, ...] of a channel and a regime."""
        return self.record.datasets[name][CHANNELS.index(channel), list(REGIMES).index(regime)]

    def doubtful(self, channel: str, regime: str) -> np.ndarray:
        """Points [dim, n] that are not to be trusted."""
        return theory_flags({n: self.at(n, channel, regime) for n in ("converged", "flags")})

    def fit_flagged(self, channel: str, regime: str) -> np.ndarray:
        """Dimensions [dim] whose fit takes in a point that is not to be trusted."""
        n, ends = (self.at(name, channel, regime) for name in ("n", "window"))
        inside = (n >= ends[:, :1] * (1 - EDGE)) & (n <= ends[:, 1:] * (1 + EDGE))
        return (inside & self.doubtful(channel, regime)).any(axis=1)

    def predicted(self, regime: str) -> float:
        """Exponent as d grows."""
        return float(self.record.datasets["predicted"][list(REGIMES).index(regime)])

    def limit(self, channel: str, regime: str) -> float:
        """Exponent as d grows, extrapolated from the two largest dimensions."""
        from hdattn.singlehead.exponents import extrapolate

        return extrapolate(self.dims, self.at("exponent", channel, regime), self.gamma)

    def write(self, drawing: Drawing, method: str) -> None:
        """Rows of all curves and fits, and a line for each point that is not to be trusted."""
        for channel in CHANNELS:
            for regime in REGIMES if method == SHOWN else ALONE:
                for k, dim in enumerate(self.dims.tolist()):
                    where = {"gamma": self.gamma, "regime": regime, "channel": channel, "dim": dim}
                    shown = method == SHOWN and k == 0
                    self._write_one(drawing, "" if shown else f" {method} d={dim}", where, k)

    def _write_one(self, drawing: Drawing, suffix: str, where: dict, k: int) -> None:
        channel, regime = where["channel"], where["regime"]
        curve = {name: self.at(name, channel, regime)[k] for name in ("n", "excess", "lam")}
        bad = self.doubtful(channel, regime)[k]
        local = -np.gradient(np.log(curve["excess"]), np.log(curve["n"]), edge_order=2)
        more = {"local_exponent": local, "flagged": bad}
        add_rows(drawing, series=f"theory{suffix}", **where, **curve, **more)
        exponent, error, window = (
            self.at(name, channel, regime)[k] for name in ("exponent", "error", "window")
        )
        fit = {"exponent": exponent, "error": error, "predicted": self.predicted(regime)}
        ends = {"window_start": window[0], "window_end": window[1]}
        rest = {"extrapolated": self.limit(channel, regime)} if self.dims.size > 1 else {}
        rest["flagged"] = self.fit_flagged(channel, regime)[k]
        add_rows(drawing, series=f"fit{suffix}", **where, **fit, **ends, **rest)
        what = ", ".join(f"{name} {value}" for name, value in where.items())
        drawing.flagged += [
            f"theory{suffix}, {what}: not to be trusted at n = {n:.4g}" for n in curve["n"][bad]
        ]


def curves(axis: Axes, regime: str, found: Sequence[Exponents]) -> None:
    """Lines: softmax at the first dimension; dotted: linear output; black: fits of the softmax."""
    for exponents, colour in zip(found, style.SERIES, strict=False):
        for channel in CHANNELS:
            n, excess = (exponents.at(name, channel, regime)[0] for name in ("n", "excess"))
            bad = exponents.doubtful(channel, regime)[0]
            look = {} if channel == "softmax" else {"linestyle": ":", "linewidth": 0.9}
            label = _label(exponents, regime) if channel == "softmax" else None
            style.theory(axis, n, excess, colour, label=label, flagged=bad, **look)
        if not exponents.fit_flagged("softmax", regime)[0]:
            _slope(axis, exponents, regime)
    axis.set(xscale="log", yscale="log", xlabel="samples $n$", ylabel="excess error")
    dim = rf"$d={found[0].dims[0]}$"
    axis.set_title(f"{REGIMES[regime]}, {dim}", fontsize=7, pad=3, loc="right")


def _label(exponents: Exponents, regime: str) -> str:
    value, error = (exponents.at(name, "softmax", regime)[0] for name in ("exponent", "error"))
    found = rf"$\gamma={exponents.gamma:g}$: {value:.3f} $\pm$ {error:.3f}"
    return f"{found} ({exponents.predicted(regime):.3f})"


def _slope(axis: Axes, exponents: Exponents, regime: str) -> None:
    """The fitted power law over its window."""
    n, excess, ends, exponent = (
        exponents.at(name, "softmax", regime)[0] for name in ("n", "excess", "window", "exponent")
    )
    inside = (n >= ends[0] * (1 - EDGE)) & (n <= ends[1] * (1 + EDGE))
    middle = np.exp(np.mean(np.log(n[inside])))
    height = np.exp(np.mean(np.log(excess[inside])))
    line = height * (ends / middle) ** -exponent
    axis.plot(ends, line, color=style.BLACK, linewidth=0.7, zorder=4)


def against_gamma(axis: Axes, found: Sequence[Exponents]) -> None:
    """Fitted exponents of the largest dimension with their errors, on the predicted lines."""
    from hdattn.singlehead.exponents import predicted_exponent

    gammas = np.array([exponents.gamma for exponents in found])
    grid = np.linspace(max(gammas.min() - 0.1, 0.51), gammas.max() + 0.1, 100)
    for regime, colour in COLOURS.items():
        line = [predicted_exponent(regime, gamma) for gamma in grid]
        style.theory(axis, grid, line, colour, label=f"{regime}, predicted")
        for channel, method, shift in (("softmax", "lbfgs", -0.01), ("linear", "amp", 0.01)):
            value, error = (
                np.array([exponents.at(name, channel, regime)[-1] for exponents in found])
                for name in ("exponent", "error")
            )
            look = {"method": method, "label": channel if regime == "optimal" else None}
            look["flagged"] = [exponents.fit_flagged(channel, regime)[-1] for exponents in found]
            style.simulation(axis, gammas + shift, value, error, colour, **look)
    axis.set(xlabel=r"spectral exponent $\gamma$", ylabel="exponent of the excess")
    axis.set_title(f"state evolution, $d={found[0].dims[-1]}$", fontsize=7, pad=3, loc="right")
    axis.legend(loc="best", fontsize=5.5)


def against_dim(axis: Axes, found: Sequence[Exponents], large: Sequence[Exponents]) -> None:
    """Fitted minus predicted exponent of the softmax against d: both methods."""
    for exponents, other, colour in zip(found, large, style.SERIES, strict=False):
        for regime, line in STYLES.items():
            target = exponents.predicted(regime)
            label = rf"$\gamma={exponents.gamma:g}$" if regime == "optimal" else None
            if regime in ALONE:
                drift = other.at("exponent", "softmax", regime) - target
                look = {"linestyle": line, "flagged": other.fit_flagged("softmax", regime)}
                style.theory(axis, other.dims, drift, colour, label=label, **look)
            drift = exponents.at("exponent", "softmax", regime) - target
            look = {"method": MARKS[regime], "markersize": 3}
            look["flagged"] = exponents.fit_flagged("softmax", regime)
            style.simulation(axis, exponents.dims, drift, None, colour, **look)
    for regime, line in STYLES.items():
        mark = {"marker": style.MARKERS[MARKS[regime]], "markersize": 3, "linestyle": line}
        axis.plot([], [], color=style.BLACK, label=regime, **mark)
    axis.axhline(0, color=style.GREY, linewidth=0.6, zorder=0)
    axis.set(xscale="log", xlabel="dimension $d$", ylabel="fitted $-$ predicted exponent")
    axis.legend(loc="best", fontsize=5.5, ncols=2)
