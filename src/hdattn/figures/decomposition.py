"""What the excess test error consists of, against n."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hdattn.experiment import Experiment
from hdattn.fields import Positive, PositiveGrid, PositiveList, physics, size
from hdattn.figures import style
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
TITLE = "Decomposition of the excess error"
SHARED = ("own *", "trained *")  # with emergence
PARTS = {"under": style.VERMILLION, "approximation": style.SKY, "over": style.GREEN}
QUANTITIES = {**PARTS, "total": style.BLACK}


class Section(SimulatedPowerLaw):
    """Keys of ``decomposition``."""

    spectral_exponent: Exponent = physics(1, "gamma: eigenvalues as i^-gamma.")
    lam_eff: Positive | None = physics(
        None, "A constant lambda_eff in place of the one that grows as sqrt(n)."
    )
    dim: Dimension = size(300, "Dimension d of the theory's target.")
    sizes: PositiveGrid = size((1e3, 1e5, 1e7), "Sample sizes n of the theory.")
    alphas: PositiveList = size((0.2, 0.8), "Sample ratios n/d^2 that are trained.")


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Theory on a grid of n; theory and training at the simulated dimensions."""
    s, gamma = section, section.spectral_exponent
    regime = "optimal" if s.lam_eff is None else "fixed"
    chosen = {"lam_eff": s.lam_eff}
    roles = {"theory": [theory(s, power_law(gamma, s.dim), regime, s.sizes, **chosen)]}
    for dim in (s.simulated_dim, s.small_dim):
        sizes = [alpha * dim**2 for alpha in s.alphas]
        grid = around(sizes, 30)
        roles[f"own {dim}"] = [theory(s, power_law(gamma, dim), regime, grid, **chosen)]
        roles[f"trained {dim}"] = simulations(
            s, seed, gamma, s.alphas, dim=dim, regime=regime, **chosen
        )
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Stacked parts, the factor, simulations, and clean labels."""
    axes = style.panels(figure, 2, 2, width="double", height=4.6)
    drawing, data = Drawing([]), records["theory"][0].datasets
    simulated, small = (
        Recovery(records[f"trained {dim}"], records[f"own {dim}"][0])
        for dim in (section.simulated_dim, section.small_dim)
    )
    _stack(axes[0], data)
    figure.legend(loc="outside upper left", ncols=len(PARTS) + 1)
    _factor(axes[1], data)
    _simulated(axes[2], simulated, drawing)
    _clean(axes[3], data)
    for axis in axes:
        axis.set(xscale="log", xlabel="samples $n$")
    names = (*PARTS, "mismatch", "excess", "rescale", "slope", "recovered")
    names += ("clean_mismatch", "clean_excess", "clean_rescale", "clean_slope")
    columns = {name: data[name] for name in names}
    columns |= {f"rescaled_{name}": rescaled(data, name) for name in PARTS}
    columns |= {"clean_parts": data["clean_excess"] - data["clean_mismatch"]}
    bad = theory_flags(data)
    add_rows(drawing, series="theory", n=data["n"], **columns, flagged=bad)
    drawing.flagged += [f"theory: not to be trusted at n = {n:.4g}" for n in data["n"][bad]]
    for one in (simulated, small):
        drawing.flagged += one.complaints(f"L-BFGS or its theory, d = {one.dim}")
    where = f"gamma={section.spectral_exponent:g}"
    for quantity in ("total", "approximation"):
        drawing.validation += simulated.validation("decomposition", quantity, where, small)
    return drawing


def rescaled(data: dict[str, np.ndarray], name: str, labels: str = "") -> np.ndarray:
    """A part of the test error [n]: the three add up to excess - mismatch."""
    return data[name] * data[f"{labels}slope"] * data[f"{labels}rescale"]


def _stack(axis: Axes, data: dict[str, np.ndarray]) -> None:
    """Shares of the excess, stacked; a gap where the theory is not to be trusted."""
    excess = np.where(theory_flags(data), np.nan, data["excess"])
    shares = [np.maximum(rescaled(data, name) / excess, 0) for name in PARTS]
    shares.append(data["mismatch"] / excess)
    labels, colours = (*PARTS, "mismatch"), (*PARTS.values(), style.GREY)
    axis.stackplot(data["n"], *shares, labels=labels, colors=colours, linewidth=0, alpha=0.85)
    axis.set(ylabel="share of the excess", ylim=(0, 1.02), xlim=data["n"][[0, -1]])


def _factor(axis: Axes, data: dict[str, np.ndarray]) -> None:
    """Excess and parts, log-log, and the factor of the softmax on the right."""
    look = {"flagged": theory_flags(data)}
    for name, colour in PARTS.items():
        part = rescaled(data, name)
        style.theory(axis, data["n"], np.where(part > 0, part, np.nan), colour, label=name, **look)
    style.theory(axis, data["n"], data["excess"], style.BLACK, label="excess", **look)
    axis.set(yscale="log", ylabel="excess test error", ylim=(data["excess"].min() / 30, None))
    twin = axis.twinx()
    style.theory(twin, data["n"], data["rescale"], style.PURPLE, linestyle="--", **look)
    twin.set(ylim=(0, 1.2))
    twin.set_ylabel("rescale factor (dashed)", color=style.PURPLE)
    axis.legend(fontsize=6, loc="lower left")


def _simulated(axis: Axes, simulated: Recovery, drawing: Drawing) -> None:
    """Parts of ||S - c S0||^2/d: training, and the theory at the same d."""
    data = simulated.theory.datasets
    bad = theory_flags(data)
    for name, colour in QUANTITIES.items():
        line = sum(data[part] for part in PARTS) if name == "total" else data[name]
        style.theory(axis, data["n"], line, colour, thin=True, flagged=bad)
        row = {"series": f"theory d={simulated.dim}", "part": name}
        add_rows(drawing, **row, n=data["n"], value=line, flagged=bad)
        mean, error = simulated.mean_and_error(name)
        label = r"$\|S-cS_0\|^2/d$" if name == "total" else name
        look = {"method": "lbfgs", "label": label, "flagged": simulated.flagged}
        style.simulation(axis, simulated.sizes, mean, error, colour, **look)
        series = f"L-BFGS d={simulated.dim}"
        columns = {"value": mean, "standard_error": error, "expected": simulated.expected(name)}
        add_rows(drawing, series=series, part=name, n=simulated.sizes, **columns)
    axis.set(ylabel=rf"part of the distance, $d={simulated.dim}$")
    axis.legend(loc="best", fontsize=6)


def _clean(axis: Axes, data: dict[str, np.ndarray]) -> None:
    """Against labels without noise the scale at saturation is not the best: mismatch."""
    n, clean, bad = data["n"], data["clean_excess"], theory_flags(data)
    style.theory(axis, n, clean, style.BLACK, label="excess, clean labels", flagged=bad)
    rest = clean - data["clean_mismatch"]
    rest = np.where(rest > 0, rest, np.nan)
    style.theory(axis, n, rest, style.BLUE, label="its parts", flagged=bad)
    level = float(data["clean_mismatch"][0])
    style.level(axis, level, f"mismatch {level:.3g}", flagged=bad[0])
    axis.set(yscale="log", ylabel="excess test error")
    axis.legend(fontsize=6, loc="lower left")
