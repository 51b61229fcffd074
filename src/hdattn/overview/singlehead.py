"""Panels of the single-head paper."""

from __future__ import annotations

import math
from collections.abc import Callable

from hdattn.figures import style
from hdattn.figures._ticks import plain_ticks
from hdattn.overview.numbers import Numbers
from hdattn.overview.panel import Panel

ALPHA = r"sample ratio $\alpha=n/d^2$"


def learning_curves(panel: Panel, numbers: Numbers) -> None:
    """Test error against alpha for two widths: theory and L-BFGS."""
    rows = numbers.where(quantity="test_error")
    _against_alpha(panel, rows, "kappa", lambda cell: rf"$\kappa={float(cell):g}$")
    for (floor,), _ in numbers.where(quantity="test_error_floor").by("value"):
        panel.level("floor", float(floor), label="floor")
    panel.axis.set_ylabel("test error")
    panel.axis.set_title("theory meets training")
    panel.axis.legend(loc="upper right")


def factorised(panel: Panel, numbers: Numbers) -> None:
    """Test error of factorised and direct training, each at its best weight decay."""
    rows = numbers.where(quantity="test_error")
    names = {"tied": "factorised", "direct": "direct"}
    _against_alpha(panel, rows, "head", names.get)
    panel.axis.set(yscale="log", ylabel="test error")
    panel.axis.set_title("factors find low rank")
    panel.axis.legend(loc="upper right")


def interpolation(panel: Panel, numbers: Numbers) -> None:
    """Test error around the interpolation threshold, for falling weight decays."""
    rows = numbers.where(quantity="test_error")
    _against_alpha(panel, rows, "lam", _decay)
    plain_ticks(panel.axis.xaxis, (0.05, 0.1, 0.2, 0.5, 1))
    panel.axis.set_ylabel("test error")
    panel.axis.set_title("interpolation peak")
    panel.headroom(0.7)
    look = {"ncols": 2, "fontsize": 5.5, "handlelength": 1, "columnspacing": 0.8}
    panel.axis.legend(loc="upper right", **look)


def _against_alpha(
    panel: Panel,
    rows: Numbers,
    key: str,
    label: Callable[[str], str | None],
) -> None:
    """Theory lines in the limit and L-BFGS markers, one colour for each value of ``key``."""
    for ((cell,), curve), colour in zip(rows.by(key), style.SERIES, strict=False):
        limit, trained = curve.where(series="theory"), curve.where(series="lbfgs")
        panel.line(f"theory {key}={cell}", limit, "alpha", "value", colour, label=label(cell))
        if trained.rows:
            panel.points(f"L-BFGS {key}={cell}", trained, "alpha", "value", colour, method="lbfgs")
    panel.axis.set(xscale="log", xlabel=ALPHA)


def _decay(cell: str) -> str:
    lam = float(cell)
    return rf"$\lambda=10^{{{math.log10(lam):g}}}$" if lam else r"$\lambda\to0$"


def spectra(panel: Panel, numbers: Numbers) -> None:
    """Eigenvalues of the trained matrix at alpha = 4: histogram, theory, target, atom at zero."""
    rows = numbers.where(alpha="4.0")
    bars, theory, target = (rows.where(series=s) for s in ("histogram", "theory", "target"))
    left, right = bars.column("s"), bars.column("bin_end")
    look = {"align": "edge", "label": "trained", "flagged": bars.flags()}
    colour = style.MEANING["simulation"]
    style.bars(panel.axis, left, bars.column("value"), right - left, colour, **look)
    panel.note("histogram", left, bars.column("value"))
    x, y = theory.column("s"), theory.column("value")
    style.curve(panel.axis, x, y, style.BLUE, label="theory", flagged=theory.flags().any())
    panel.note("theory", x, y)
    dashed = {"linestyle": "--", "linewidth": 0.8, "label": "target"}
    panel.line("target", target, "s", "value", style.MEANING["target"], **dashed)
    atom = rows.where(series="theory atom")
    (weight,), (doubtful,) = atom.column("value"), atom.flags()
    style.atom(panel.axis, -0.2, 0.16, weight, style.BLUE, flagged=doubtful)
    panel.note("atom at zero", [0.0], [weight])
    top = 1.05 * max(bars.column("value").max(), theory.column("value").max())
    panel.axis.set(xlabel="eigenvalue $s$ of $S$", ylabel=r"density $\rho(s)$", ylim=(0, top))
    panel.axis.set_title(r"weights at $\alpha=4$, atom at 0")
    panel.axis.legend(loc="upper right")


def scaling(panel: Panel, numbers: Numbers) -> None:
    """Excess error against n at the optimal weight decay, with the fitted exponents."""
    chosen = numbers.where(channel="softmax", regime="optimal")
    fits = {g: fit.column("exponent")[0] for (g,), fit in chosen.where(series="fit").by("gamma")}
    curves = chosen.where(series="theory").by("gamma")
    for ((gamma,), curve), colour in zip(curves, style.SERIES, strict=False):
        label = rf"$\gamma={float(gamma):g}$: $n^{{-{fits[gamma]:.2f}}}$"
        panel.line(f"theory gamma={gamma}", curve, "n", "excess", colour, label=label)
    panel.axis.set(xscale="log", yscale="log", xlabel="samples $n$", ylabel="excess error")
    panel.axis.set_title("scaling laws")
    panel.axis.set_ylim(bottom=0.2 * panel.axis.get_ylim()[0])
    panel.axis.legend(loc="lower left", fontsize=5.5, handlelength=1)


def emergence(panel: Panel, numbers: Numbers) -> None:
    """Number of modes learnt against n."""
    steps = numbers.where(series="theory")
    look = {"drawstyle": "steps-post"}
    panel.line("learnt modes", steps, "n", "recovered", style.BLUE, **look)
    panel.axis.set(xscale="log", yscale="log", xlabel="samples $n$", ylabel="modes learnt")
    panel.axis.set_title("one mode after the other")
