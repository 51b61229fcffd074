"""Escape and arrival times: flow and SGD at each dimension, put together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures import style, validation
from hdattn.figures._multihead import NAMES
from hdattn.figures._trajectories import Trajectories
from hdattn.multihead.escape import arrival_time, escape_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdattn.figures.escape_time import Section
    from hdattn.store import Record

QUANTITIES = {"escape": "time to leave the plateau", "arrival": "time to reach the plateau"}
LEARNT = 0.5  # part of the mean at which the plateau counts as reached


@dataclass(frozen=True)
class Point:
    """Time of SGD at one D: mean, standard error, runs behind it.

    fine: no run lacks it or diverged.
    """

    dim: int
    value: float
    error: float
    runs: int
    fine: bool


@dataclass(frozen=True)
class Curve:
    """One quantity of one activation.

    dims, limit [N]: flow at gamma to 0, mean over scrambles. flow, flow_error [M]: at the SGD's
    gamma and dimensions. sgd: its points at these.
    """

    activation: str
    quantity: str
    dims: np.ndarray
    limit: np.ndarray
    flow: np.ndarray
    flow_error: np.ndarray
    sgd: list[Point]
    rate: float

    @classmethod
    def read(
        cls, name: str, quantity: str, records: dict[str, list[Record]], section: Section
    ) -> Curve:
        """Curve of activation ``name``, from all its experiments."""
        limit, flow = (records[f"{kind}_{name}"][0].datasets for kind in ("limit", "flow"))
        mean, error = np.transpose([validation.mean_and_error(c) for c in flow[quantity].T])
        points = [
            _point(dim, quantity, Trajectories.merge(records[f"sgd_{name}_{dim}"]), section)
            for dim in section.dims
        ]
        average = limit[quantity].mean(axis=0)
        rate = float(limit["rate"])
        return cls(name, quantity, limit["dim"], average, mean, error, points, rate)

    @property
    def slope(self) -> float:
        """Growth of the time with ln D between the two largest D of the flow."""
        return float((self.limit[-1] - self.limit[-2]) / np.log(self.dims[-1] / self.dims[-2]))

    @property
    def guide(self) -> np.ndarray:
        """Time [N] that grows with ln D as the closed form has it, through the largest D."""
        return self.limit[-1] + 0.5 / self.rate * np.log(self.dims / self.dims[-1])

    @property
    def difference(self) -> tuple[np.ndarray, np.ndarray]:
        """SGD minus flow and its standard error, [M] each."""
        values = np.array([p.value for p in self.sgd]) - self.flow
        return values, np.hypot([p.error for p in self.sgd], self.flow_error)

    def validation(self) -> Iterator[dict[str, Any]]:
        """SGD against the flow at the same D and gamma; the smallest D sets the allowance."""
        values, errors = self.difference
        smallest = self.sgd[0]
        (constant,) = validation.allowance_constants(
            smallest.dim, values[:1] / self.flow[:1], errors[:1] / self.flow[:1]
        )
        for p, theory, error in zip(self.sgd[1:], self.flow[1:], errors[1:], strict=True):
            yield validation.row(
                f"{self.activation} D={p.dim}",
                theory,
                p.value,
                error,
                p.runs,
                constant,
                p.dim,
                figure="escape_time",
                quantity=QUANTITIES[self.quantity],
                reliable=p.fine and smallest.fine,
            )

    def table(self) -> Iterator[dict[str, Any]]:
        """Everything drawn."""
        for dim, value in zip(self.dims, self.limit, strict=True):
            yield self._row("flow, gamma to 0", dim, value)
        for p, value, error in zip(self.sgd, self.flow, self.flow_error, strict=True):
            yield self._row("flow at the SGD's gamma", p.dim, value, error)
            yield self._row("sgd", p.dim, p.value, p.error, p.runs)
        if self.quantity == "escape":
            for dim, value in zip(self.dims, self.guide, strict=True):
                yield self._row("closed form through the largest D", dim, value)
            yield self._row("flow, slope in ln D", self.dims[-1], self.slope)
            yield self._row("closed form, slope in ln D", None, 0.5 / self.rate)

    def _row(self, *values: Any) -> dict[str, Any]:
        return row(self.activation, self.quantity, *values)


def row(
    activation: str,
    quantity: str,
    source: str,
    dim: float | None,
    value: float,
    error: float | None = None,
    runs: int | None = None,
) -> dict[str, Any]:
    """Row of the table of the figure."""
    names = ("activation", "quantity", "source", "dim", "value", "standard_error", "runs")
    values = (activation, quantity, source, dim, value, error, runs)
    return dict(zip(names, values, strict=True))


def _point(dim: int, quantity: str, runs: Trajectories, section: Section) -> Point:
    """Time of ``quantity`` over all runs at one D."""
    if quantity == "escape":
        times = [escape_time(runs.tau, m, section.feature, section.threshold) for m in runs.m]
    else:
        along = int(np.argmax(np.abs(section.mean)))
        mu = section.mean[along]
        times = [arrival_time(runs.tau, m, mu, along, LEARNT) for m in runs.m]
    known = [time for time in times if np.isfinite(time)]
    value, error = validation.mean_and_error(known) if known else (np.nan, np.nan)
    fine = len(known) == len(times) and bool(runs.converged.all())
    return Point(dim, value, error, len(known), fine)


def draw_times(axis: Axes, curve: Curve) -> None:
    """Flows, SGD and, for the escape, the asymptotic slope through the largest D."""
    colour = style.MEANING[curve.activation]
    style.theory(axis, curve.dims, curve.limit, colour, label=NAMES[curve.activation])
    dims = [p.dim for p in curve.sgd]
    style.theory(axis, dims, curve.flow, style.BLACK, thin=True, zorder=4)
    hollow = [not p.fine for p in curve.sgd]
    values, errors = [p.value for p in curve.sgd], [p.error for p in curve.sgd]
    style.simulation(axis, dims, values, errors, colour, method="sgd", flagged=hollow)
    if curve.quantity == "escape":
        look = {"color": style.GREY, "linewidth": 0.8, "linestyle": ":", "zorder": 1}
        axis.plot(curve.dims, curve.guide, **look)
        middle = int(0.45 * len(curve.dims))
        axis.annotate(
            rf"slope $1/(2|\lambda|) = {0.5 / curve.rate:.3f}$" "\n" rf"flow: ${curve.slope:.3f}$",
            (curve.dims[middle], curve.limit[middle]),
            xytext=(4, -5),
            textcoords="offset points",
            va="top",
            fontsize=6.5,
            color=colour,
        )


def draw_difference(axis: Axes, curve: Curve) -> None:
    """SGD minus flow against D; markers at one D stand side by side."""
    escape = curve.quantity == "escape"
    values, errors = curve.difference
    place = {"softmax": 0.94, "bayes": 1.06}[curve.activation] * (0.97 if escape else 1.03)
    dims = place * np.array([p.dim for p in curve.sgd])
    hollow = [not p.fine for p in curve.sgd]
    colour = style.MEANING[curve.activation]
    look = {"fmt": "o" if escape else "s", "flagged": hollow}
    style.simulation(axis, dims, values, errors, colour, **look)
