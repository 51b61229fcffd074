"""Biases and output scale of softmax-1: SGD on the flow, and their comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures import style, validation
from hdattn.figures._cases import Case
from hdattn.figures._trajectories import Trajectories

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTITIES = {"mean bias b_h": "b", "output scale c": "c"}


def table_row(case: Case, quantity: str, source: str, value: float, **where: Any) -> dict[str, Any]:
    """Row of the table of the figure ``activations``."""
    place = {key: where.get(key) for key in ("dim", "instance", "head", "tau", "standard_error")}
    return {
        "activation": case.activation,
        "quantity": quantity,
        "source": source,
        **place,
        "value": value,
    }


def biases(axis: Axes, case: Case, gradient: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
    """b_h and c of the run nearest to the median distance from its flow, and of a gradient flow."""
    dashed = {"linewidth": 0.5, "linestyle": "--"}
    for name, colour, columns in (
        ("b", style.GREEN, gradient["b"][0].T),
        ("c", style.BLACK, gradient["c"][:1]),
    ):
        for head, values in enumerate(columns):
            style.theory(axis, gradient["tau"][1:], values[1:], colour, **dashed)
            for tau, value in zip(gradient["tau"], values, strict=True):
                where = {"head": head if name == "b" else None, "tau": tau}
                yield table_row(case, name, "gradient flow", value, instance=0, **where)
    number, dim = int(case.sgd.instance[case.example]), case.section.dim
    for run, source in ((case.flow, "flow"), (case.sgd, "sgd")):
        lines = [("b", style.GREEN, h, run.b[case.example, :, h]) for h in range(run.b.shape[2])]
        lines.append(("c", style.BLACK, None, run.c[case.example]))
        for name, colour, head, values in lines:
            if source == "flow":
                style.theory(axis, run.tau[1:], values[1:], colour, linewidth=0.9)
            else:
                look = {"method": "sgd", "markersize": 1.8}
                style.simulation(axis, run.tau[1:], values[1:], None, colour, **look)
            for tau, value in zip(run.tau, values, strict=True):
                yield table_row(
                    case, name, source, value, dim=dim, instance=number, head=head, tau=tau
                )
    axis.set(xlabel=r"$\tau$", ylabel="softmax-1: $b_h$ (green) and $c$", xscale="log")
    axis.set_xlim(1, gradient["tau"][-1])


def bias_rows(case: Case, figure: str) -> Iterator[dict[str, Any]]:
    """Theory against simulation of b and c, half-way to the first split and at it."""
    constant = float(np.sum(np.square([case.section.mean, case.section.std])))
    tau, end, dim = case.sgd.tau, case.split, case.section.dim
    for quantity, name in QUANTITIES.items():
        theory, simulation = (_scalar(run, name, tau) for run in (case.flow, case.sgd))
        for k in sorted({max(1, end // 2), end}):
            yield validation.paired_row(
                f"{case.activation} tau={tau[k]:g}",
                theory[case.averaged, k],
                simulation[case.averaged, k],
                constant,
                dim,
                figure=figure,
                quantity=quantity,
                reliable=bool(case.reliable.all()),
            )


def _scalar(run: Trajectories, name: str, tau: np.ndarray) -> np.ndarray:
    """c, or the mean of b over heads, at times ``tau``: [I, T]."""
    values = run.at(getattr(run, name), tau)
    return values.mean(axis=2) if values.ndim == 3 else values
