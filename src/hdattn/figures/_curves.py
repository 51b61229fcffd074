"""Panels that show simulated curves beside their theory, and write down what they draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures import style
from hdattn.figures._ensemble import Ensemble, theory_flags, theory_values
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdattn.store import Record

SAMPLE_RATIO = r"sample ratio $\alpha=n/d^2$"


def add_rows(drawing: Drawing, **columns: Any) -> None:
    """Append to the table of ``drawing`` the rows of columns of one length; scalars repeat."""
    lengths = [len(column) for column in columns.values() if np.ndim(column)]
    for i in range(max(lengths, default=1)):
        row = {key: c[i] if np.ndim(c) else c for key, c in columns.items()}
        drawing.table.append(row)


@dataclass(frozen=True)
class CurvePanel:
    """A panel that shows one quantity against alpha, and writes down what it draws."""

    axis: Axes
    quantity: str
    drawing: Drawing

    def limit(self, record: Record, colour: str, label: str, **point: Any) -> None:
        """Theory in the limit: a line, hollow markers where it is not to be trusted."""
        datasets = record.datasets
        values, flagged = theory_values(datasets, self.quantity), theory_flags(datasets)
        style.theory(self.axis, datasets["alpha"], values, colour, label=label, flagged=flagged)
        self._write("theory", datasets["alpha"], value=values, flagged=flagged, **point)

    def ensemble(
        self, ensemble: Ensemble, colour: str, method: str, label: str | None = None, **point: Any
    ) -> None:
        """Markers with standard errors, and a thin line: theory for the instances' targets."""
        own, flagged = ensemble.theory(self.quantity).mean(axis=0), ensemble.theory_flagged
        style.theory(self.axis, ensemble.alphas, own, colour, thin=True, flagged=flagged)
        series = f"theory d={ensemble.dim}"
        self._write(series, ensemble.alphas, value=own, flagged=flagged, **point)
        self.markers(ensemble, colour, method, label, **point)

    def markers(
        self,
        ensemble: Ensemble,
        colour: str,
        method: str,
        label: str | None = None,
        look: Mapping[str, Any] | None = None,
        **point: Any,
    ) -> None:
        """Markers with standard errors over instances, hollow where flagged."""
        value, error = ensemble.mean_and_error(self.quantity)
        alphas, flagged = ensemble.alphas, ensemble.flagged
        style.simulation(
            self.axis,
            alphas,
            value,
            error,
            colour,
            method=method,
            label=label,
            flagged=flagged,
            **(look or {}),
        )
        self._write(
            method,
            alphas,
            value=value,
            standard_error=error,
            instances=ensemble.instances,
            flagged=flagged,
            **point,
        )

    def finish(self, label: str) -> None:
        """Axes against alpha, logarithmic."""
        self.axis.set_xscale("log")
        self.axis.set_xlabel(SAMPLE_RATIO)
        self.axis.set_ylabel(label)

    def _write(self, series: str, alphas: np.ndarray, **columns: Any) -> None:
        add_rows(self.drawing, quantity=self.quantity, series=series, alpha=alphas, **columns)


def draw_residuals(
    axis: Axes, quantity: str, ensembles: Mapping[str, Ensemble], drawing: Drawing
) -> None:
    """Simulation minus theory over theory against alpha, one colour for each dimension."""
    for colour, ensemble in ensembles.items():
        mean, error = ensemble.residual(quantity)
        label = f"$d={ensemble.dim}$"
        alphas, flagged = ensemble.alphas, ensemble.flagged
        style.simulation(
            axis, alphas, mean, error, colour, method="lbfgs", label=label, flagged=flagged
        )
        add_rows(
            drawing,
            quantity=f"{quantity} relative residual",
            series=f"d={ensemble.dim}",
            alpha=alphas,
            value=mean,
            standard_error=error,
            instances=ensemble.instances,
            flagged=flagged,
        )
    axis.axhline(0, color=style.GREY, linewidth=0.6, zorder=0)
    axis.set_xscale("log")
    axis.set_xlabel(SAMPLE_RATIO)
    axis.set_ylabel(f"relative residual, {quantity.replace('_', ' ')}")
    axis.legend(loc="best")
