"""Local exponent of the excess error in the plane of sample size and weight decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hdattn.experiment import Experiment
from hdattn.fields import PositiveGrid, physics, size
from hdattn.figures import style
from hdattn.figures._curves import add_rows
from hdattn.figures._ensemble import theory_flags
from hdattn.figures._powerlaw import Dimension, Exponent, PowerLaw, eigenvalues, power_law, theory
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Scaling regimes of a power-law target"
STRONGEST = 2.0  # of the colours
CUT_COLOURS = (*style.SERIES[:4], style.BLACK)


class Section(PowerLaw):
    """Keys of ``phase_diagram``."""

    spectral_exponent: Exponent = physics(1.25, "gamma: eigenvalues as i^-gamma.")
    dim: Dimension = size(300, "Dimension d of the theory's target.")
    sizes: PositiveGrid = size((1e4, 1e6, 1e8), "Sample sizes n.")
    lams: PositiveGrid = size((0.01, 1, 100), "Weight decays lambda.")


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """One curve in n for each lambda, and one along the line t = 2b."""
    target = power_law(section.spectral_exponent, section.dim)
    return {
        "theory": [
            theory(section, target, "fixed", section.sizes, lam_eff=lam) for lam in section.lams
        ],
        "line": [theory(section, target, "optimal", section.sizes)],
    }


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """The map, and cuts through it."""
    axes = style.panels(figure, 1, 2, width="double", height=2.7)
    curves, drawing = [record.datasets for record in records["theory"]], Drawing([])
    line = records["line"][0].datasets
    _map(figure, axes[0], curves, section)
    _cuts(axes[1], curves, line, section)
    for lam, curve in [*zip(section.lams, curves, strict=True), ("t=2b", line)]:
        bad = theory_flags(curve)
        columns = {name: curve[name] for name in ("n", "excess", "local_exponent", "rank_fraction")}
        add_rows(drawing, lam=lam, flagged=bad, **columns)
        drawing.flagged += [
            f"theory, lambda = {lam}: not converged or unreliable at n = {n:.4g}"
            for n in curve["n"][bad]
        ]
    return drawing


def boundaries(section: Section, saturation: np.ndarray) -> dict[str, np.ndarray]:
    """lambda of each boundary at ``section.sizes``: at saturation, see hdattn.singlehead.regimes.

    noise: t = 2b. first, last: the threshold meets the first and the last mode.
    """
    scale, q_hat, v_hat = saturation
    n, d = np.array(section.sizes), section.dim
    modes = eigenvalues(section.spectral_exponent, d)
    return {
        "noise": np.sqrt(2 * n * q_hat) / d,
        "first": scale * v_hat * modes[0] * n / d**2,
        "last": scale * v_hat * modes[-1] * n / d**2,
        "resolved": np.full(n.size, q_hat * d**2 / (2 * (scale * v_hat * modes[-1]) ** 2)),
    }


def _map(figure: Figure, axis: Axes, curves: list, section: Section) -> None:
    n, lams = np.array(section.sizes), np.array(section.lams)
    exponents = np.array([curve["local_exponent"] for curve in curves])
    unknown = [theory_flags(c) | (c["Q"] == 0) for c in curves]
    shown = np.ma.masked_array(exponents, unknown)
    image = axis.pcolormesh(
        n, lams, shown, shading="nearest", cmap="viridis", vmin=0, vmax=STRONGEST, rasterized=True
    )
    figure.colorbar(image, ax=axis, label=r"local exponent $-d\ln E/d\ln n$", extend="max")
    lines = boundaries(section, curves[0]["saturation"])
    gamma = section.spectral_exponent
    looks = {
        "noise": ("-", f"$t=2b$; along it $n^{{-{1 - 0.5 / gamma:.2f}}}$"),
        "first": ("--", "first mode kept"),
        "last": (":", "all kept"),
    }
    for name, (line, label) in looks.items():
        axis.plot(n, lines[name], color="white", linestyle=line, linewidth=1.1, label=label)
    resolved = {"linestyle": "-.", "linewidth": 0.8, "label": "all above the noise"}
    axis.axvline(lines["resolved"][0], color="white", **resolved)
    axis.axvline(section.dim**2, color="white", linewidth=0.6, label="$n=d^2$")
    _rates(axis, lines, section)
    axis.set(xscale="log", yscale="log", xlabel="samples $n$", ylabel=r"weight decay $\lambda$")
    axis.set(xlim=(n[0], n[-1]), ylim=(lams[0], lams[-1]), facecolor=style.LIGHT_GREY)
    look = {"labelcolor": "white", "facecolor": style.GREY, "framealpha": 1, "frameon": True}
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper left", ncols=5, **look)


def _rates(axis: Axes, lines: dict[str, np.ndarray], section: Section) -> None:
    """The other rates, each in its region: strong, all kept, weak."""
    gamma, n, lams = section.spectral_exponent, np.array(section.sizes), np.array(section.lams)
    high, top = lams[-1] / 5, lams[-1] / 2
    first, last = (n[0] * high / lines[name][0] for name in ("first", "last"))
    kept, edge = n[0] * top / lines["last"][0], n[0] * (top / lines["noise"][0]) ** 2
    spots = {
        f"{2 - 1 / gamma:.2f}": (np.sqrt(first * last), high),
        "2": (np.sqrt(kept * min(edge, n[-1])), top),
        "1": (n[-1] / 30, lams[0] * 6),
    }
    look = {"color": "white", "fontsize": 8, "ha": "center", "va": "center"}
    for rate, (x, y) in spots.items():
        if n[0] < x < n[-1]:
            axis.text(x, y, f"$n^{{-{rate}}}$", **look)


def _cuts(axis: Axes, curves: list, line: dict, section: Section) -> None:
    """Local exponents at four penalties and along t = 2b, with the rates expected."""
    chosen = np.unique(np.linspace(0, len(section.lams) - 1, 4).round().astype(int))
    cuts = [(rf"$\lambda={section.lams[i]:.3g}$", curves[i]) for i in chosen]
    for (label, curve), colour in zip([*cuts, ("$t=2b$", line)], CUT_COLOURS, strict=False):
        good = ~theory_flags(curve) & (curve["Q"] > 0)
        exponents = np.where(good, curve["local_exponent"], np.nan)
        style.theory(axis, curve["n"], exponents, colour, label=label)
    gamma = section.spectral_exponent
    for rate in (1 - 0.5 / gamma, 1.0, 2 - 1 / gamma, 2.0):
        style.level(axis, rate)
        axis.annotate(f"{rate:.2f}", (1.01, rate), xycoords=axis.get_yaxis_transform(), fontsize=6)
    axis.set(xscale="log", xlabel="samples $n$", ylabel="local exponent", ylim=(-0.1, 2.3))
    axis.legend(loc="upper left", fontsize=6)
