"""Local exponent of the excess error in the plane of sample size and weight decay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hdattn.experiment import Experiment
from hdattn.fields import PositiveGrid, physics, size
from hdattn.figures import style
from hdattn.figures._curves import add_rows
from hdattn.figures._powerlaw import Exponent, PowerLaw, eigenvalues, power_law, theory
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "singlehead"
TITLE = "Scaling regimes of a power-law target"
STRONGEST = 2.0  # of the colours


class Section(PowerLaw):
    """Keys of ``phase_diagram``."""

    spectral_exponent: Exponent = physics(1.25, "gamma: eigenvalues as i^-gamma.")
    sizes: PositiveGrid = size((1e4, 1e6, 1e8), "Sample sizes n.")
    lams: PositiveGrid = size((0.01, 1, 100), "Weight decays lambda.")


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """One curve in n for each lambda."""
    target = power_law(section.spectral_exponent, section.dim)
    return {
        "theory": [
            theory(section, target, "fixed", section.sizes, lam_eff=lam) for lam in section.lams
        ]
    }


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """The map, and cuts through it."""
    axes = style.panels(figure, 1, 2, width="double", height=2.7)
    curves, drawing = [record.datasets for record in records["theory"]], Drawing([])
    _map(figure, axes[0], curves, section)
    _cuts(axes[1], curves, section)
    for lam, curve in zip(section.lams, curves, strict=True):
        bad = ~curve["converged"] | (curve["flags"] != "")
        columns = {name: curve[name] for name in ("n", "excess", "local_exponent", "rank_fraction")}
        add_rows(drawing, lam=lam, flagged=bad, **columns)
        drawing.flagged += [
            f"theory, lambda = {lam:g}: not converged or unreliable at n = {n:.4g}"
            for n in curve["n"][bad]
        ]
    return drawing


def boundaries(section: Section, saturation: np.ndarray) -> dict[str, np.ndarray]:
    """lambda of each boundary at ``section.sizes``: at saturation, see hdattn.singlehead.scaling.

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
    unknown = [~c["converged"] | (c["flags"] != "") | (c["Q"] == 0) for c in curves]
    shown = np.ma.masked_array(exponents, unknown)
    image = axis.pcolormesh(
        n, lams, shown, shading="nearest", cmap="viridis", vmin=0, vmax=STRONGEST, rasterized=True
    )
    figure.colorbar(image, ax=axis, label=r"local exponent $-d\ln E/d\ln n$", extend="max")
    lines = boundaries(section, curves[0]["saturation"])
    looks = {
        "noise": ("-", "$t=2b$"),
        "first": ("--", "first mode kept"),
        "last": (":", "all kept"),
    }
    for name, (line, label) in looks.items():
        axis.plot(n, lines[name], color="white", linestyle=line, linewidth=1.1, label=label)
    axis.axvline(lines["resolved"][0], color="white", linestyle="-.", linewidth=0.8)
    axis.axvline(section.dim**2, color="white", linewidth=0.6)
    _rates(axis, lines, section)
    axis.set(xscale="log", yscale="log", xlabel="samples $n$", ylabel=r"weight decay $\lambda$")
    axis.set(xlim=(n[0], n[-1]), ylim=(lams[0], lams[-1]), facecolor=style.LIGHT_GREY)
    look = {"labelcolor": "white", "facecolor": "black", "framealpha": 0.4, "frameon": True}
    axis.legend(loc="upper left", fontsize=6, **look)


def _rates(axis: Axes, lines: dict[str, np.ndarray], section: Section) -> None:
    """The four rates, each in its region: strong, all kept, weak, and on the line t = 2b."""
    gamma, n, lams = section.spectral_exponent, np.array(section.sizes), np.array(section.lams)
    middle, high = n.size // 3, lams[-1] / 5
    first = n[0] * high / lines["first"][0]
    last = n[0] * high / lines["last"][0]
    spots = {
        f"{2 - 1 / gamma:.2f}": (np.sqrt(first * last), high),
        "2": (last * 8, high),
        "1": (n[-1] / 30, lams[0] * 6),
        f"{1 - 0.5 / gamma:.2f}": (n[middle], lines["noise"][middle]),
    }
    look = {"color": "white", "fontsize": 8, "ha": "center", "va": "center"}
    for rate, (x, y) in spots.items():
        if n[0] < x < n[-1]:
            axis.text(x, y, f"$n^{{-{rate}}}$", **look)


def _cuts(axis: Axes, curves: list, section: Section) -> None:
    """Local exponents of a weak, a middle and a strong penalty, with the rates expected."""
    chosen = np.unique(np.linspace(0, len(section.lams) - 1, 4).round().astype(int))
    for index, colour in zip(chosen, style.SERIES, strict=False):
        curve, lam = curves[index], section.lams[index]
        good = curve["converged"] & (curve["flags"] == "") & (curve["Q"] > 0)
        exponents = np.where(good, curve["local_exponent"], np.nan)
        style.theory(axis, curve["n"], exponents, colour, label=rf"$\lambda={lam:.3g}$")
    gamma = section.spectral_exponent
    for rate in (1 - 0.5 / gamma, 1.0, 2 - 1 / gamma, 2.0):
        style.level(axis, rate)
        axis.annotate(f"{rate:.2f}", (1.01, rate), xycoords=axis.get_yaxis_transform(), fontsize=6)
    axis.set(xscale="log", xlabel="samples $n$", ylabel="local exponent", ylim=(-0.1, 2.3))
    axis.legend(loc="upper left", fontsize=6)
