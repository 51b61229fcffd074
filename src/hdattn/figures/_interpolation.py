"""Panels of the figure interpolation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures import style, validation
from hdattn.figures._curves import CurvePanel, add_rows
from hdattn.figures._paths import at_lam
from hdattn.figures._ticks import plain_ticks
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdattn.figures._paths import PathEnsemble, Selection
    from hdattn.figures.interpolation import Section
    from hdattn.store import Record

# Labels count as fitted when the training loss per sample is below this times the least weight
# decay: at lambda = 1e-5 theory has 2e-6 just below the threshold, 1e-4 ten per cent above it.
FITTED = 3.0
CLEAR = 0.3  # of log(alpha/threshold) from which all instances are expected on one side
LIMIT = r"$\lambda\to0$"


def draw_errors(axes, records: dict[str, list[Record]], paths: PathEnsemble, s: Section, drawing):
    """Training loss and test error against alpha, one colour for each weight decay."""
    (ridgeless,) = records["ridgeless"]
    for axis, quantity, label in zip(
        axes, ("train_loss", "test_error"), ("training loss per sample", "test error"), strict=True
    ):
        panel = CurvePanel(axis, quantity, drawing)
        for number, (lam, colour) in enumerate(zip(s.lams, style.SERIES, strict=False)):
            record = at_lam(records["limit"][0], number)
            panel.limit(record, colour, rf"$\lambda=10^{{{np.log10(lam):g}}}$", lam=lam)
            draw = panel.ensemble if lam in s.solved_lams else panel.markers
            draw(paths.at(lam), colour, "lbfgs", lam=lam)
        if quantity == "test_error":
            panel.limit(ridgeless, style.BLACK, LIMIT, lam=0.0)
        name = "interpolation" if quantity == "test_error" else ""
        alpha = float(ridgeless.datasets["alpha_interpolation"])
        style.threshold(axis, alpha, name, height=0.36)
        panel.finish(label)
        plain_ticks(axis.xaxis, (0.05, 0.1, 0.2, 0.5, 1))
    axes[0].set_yscale("log")
    axes[1].legend(loc="best", fontsize=6.5)


def draw_thresholds(axis: Axes, records: dict[str, list[Record]], s: Section, drawing) -> None:
    """Closed forms against kappa0, and which trainings fitted all labels."""
    (record,) = records["thresholds"]
    found = record.datasets
    shades = dict(zip(s.noises, style.SERIES, strict=False))
    for noise, values in zip(found["noise"].tolist(), found["alpha_interpolation"], strict=True):
        if noise in shades:
            label = rf"interpolation, $\Delta={noise:g}$"
            style.theory(axis, found["kappa0"], values, shades[noise], label=label)
        add_rows(
            drawing,
            quantity="alpha_interpolation",
            kappa0=found["kappa0"],
            noise=noise,
            value=values,
        )
    recovery = found["alpha_recovery"]
    style.theory(axis, found["kappa0"], recovery, style.BLACK, label=r"recovery, $\Delta=0$")
    add_rows(drawing, quantity="alpha_recovery", kappa0=found["kappa0"], noise=0.0, value=recovery)
    colour = shades.get(s.noise, style.GREY)
    late = {kappa0: alphas.tolist() for kappa0, alphas in unfinished_probes(records, s)}
    for kappa0, alphas, share in _probes(records, s):
        for alpha, fitted in zip(alphas.tolist(), share, strict=True):
            look = {"fmt": "o" if fitted > 0.5 else "x", "markersize": 4}
            if alpha in late[kappa0]:
                look = {"flagged": [True]}
            style.simulation(axis, [kappa0], [alpha], None, colour, **look)
        add_rows(
            drawing,
            quantity="share of instances fitted",
            kappa0=kappa0,
            noise=s.noise,
            alpha=alphas,
            value=share,
        )
    axis.set(xscale="log", yscale="log", xlabel=r"target rank $\kappa_0=p_0/d$")
    axis.set_ylabel(r"sample ratio $\alpha$ at the threshold")
    plain_ticks(axis.xaxis, (0.02, 0.05, 0.1, 0.2, 0.5, 1))
    plain_ticks(axis.yaxis, (0.05, 0.1, 0.2, 0.4))
    axis.legend(loc="best", fontsize=6.5)


def _probes(records, s: Section) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """(kappa0, alphas, share of the instances whose labels are all fitted)."""
    probes = []
    for kappa0 in s.probe_kappa0s:
        blocks = [record.datasets for record in records[f"probe {kappa0:g}"]]
        losses = np.concatenate([block["train_loss"][..., 0] for block in blocks])
        fitted = losses < FITTED * s.lams[0]
        probes.append((kappa0, blocks[0]["alpha"], fitted.mean(axis=0)))
    return probes


def unfinished_probes(records, s: Section) -> Iterator[tuple[float, np.ndarray]]:
    """(kappa0, alphas at which the training of some instance did not end)."""
    for kappa0 in s.probe_kappa0s:
        blocks = [record.datasets for record in records[f"probe {kappa0:g}"]]
        ended = np.concatenate([block["converged"] for block in blocks]).all(axis=(0, 2))
        yield kappa0, blocks[0]["alpha"][~ended]


def probe_rows(records, s: Section, figure: str) -> list[dict[str, Any]]:
    """Validation rows: well below the threshold all instances are fitted, well above none."""
    found = records["thresholds"][0].datasets
    row = found["noise"].tolist().index(s.noise) if s.noise in found["noise"] else None
    if row is None:
        return []
    rows = []
    late = {kappa0: alphas.tolist() for kappa0, alphas in unfinished_probes(records, s)}
    for kappa0, alphas, share in _probes(records, s):
        column = found["kappa0"].tolist().index(kappa0)
        threshold = found["alpha_interpolation"][row, column]
        for alpha, value in zip(alphas.tolist(), share.tolist(), strict=True):
            if abs(np.log(alpha / threshold)) < CLEAR:
                continue
            error = np.sqrt(value * (1 - value) / s.instances)
            rows.append(
                validation.row(
                    f"kappa0={kappa0:g} alpha={alpha:g}",
                    float(alpha < threshold),
                    value,
                    error,
                    s.instances,
                    0.0,
                    s.probe_dim,
                    figure=figure,
                    quantity="share fitted",
                    reliable=alpha not in late[kappa0],
                )
            )
    return rows


def draw_recovery(axis: Axes, records, ensemble: Selection, s: Section, drawing: Drawing) -> None:
    """Error of S without noise against alpha: it vanishes at the recovery threshold."""
    panel = CurvePanel(axis, "overlap_error", drawing)
    least = s.recovery_lams[0]
    colours = dict(zip(s.lams, style.SERIES, strict=False))
    for number, lam in enumerate(s.recovery_lams):
        record = at_lam(records["clean limit"][0], number)
        label = rf"$\lambda=10^{{{np.log10(lam):g}}}$"
        panel.limit(record, colours.get(lam, style.GREY), label, lam=lam, noise=0.0)
    (ridgeless,) = records["clean ridgeless"]
    panel.limit(ridgeless, style.BLACK, LIMIT, lam=0.0, noise=0.0)
    panel.ensemble(ensemble, colours.get(least, style.GREY), "lbfgs", lam=least, noise=0.0)
    style.threshold(axis, float(ridgeless.datasets["alpha_recovery"]), "recovery")
    panel.finish(r"$\Vert S-S_0\Vert^2/d$ without noise")
    plain_ticks(axis.xaxis, (0.05, 0.1, 0.2, 0.4))
    axis.legend(loc="best", fontsize=6.5)
