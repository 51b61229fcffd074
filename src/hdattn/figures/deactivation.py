"""Heads that switch off: their total attention on sequences of their own sign and of the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, physics, size
from hdattn.figures import _multihead, style, validation
from hdattn.figures._multihead import ALL_NAMES, MultiHead, SobolPoints, SpikeModel, Spreads, Vector
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "Heads switch off on sequences of the other sign"

SHOWN = ("softmax1", "bayes")  # softmax heads always attend with weight 1
GROUPS = ("own", "other")


class Section(MultiHead):
    """Configuration of the figure; the model keys are those of the first row, with SGD."""

    heads: Annotated[Count, Field(ge=2)] = physics(2, "Heads H of the first row.")
    mean: Vector = physics((0.8, 0.0), "Mean of the signal along each hidden spike.")
    std: Spreads = physics((0.0, 2.0), "Size of the random sign along each hidden spike.")
    many: SpikeModel = physics(SpikeModel(heads=8), "Heads of the second row, gradient flow.")
    flow_dim: Annotated[Positive, Field(ge=10)] = physics(
        10000, "Dimension D that sets the size of the seeds of the gradient flow."
    )
    tau_sgd: dict[str, Positive] = size(
        {"softmax1": 300, "bayes": 40},
        "Time at which SGD and its flow end; the biases of softmax-1 take long.",
    )
    tau_max: Positive = size(3000, "Time at which the gradient flow ends.")
    points: Annotated[SobolPoints, Field(ge=64)] = size(
        4096, "Sobol points of the gradient flow in all, with their images, a power of two."
    )
    sequences: Annotated[Count, Field(ge=1000)] = size(
        20000, "Sequences on which heads are looked at, for each instance."
    )
    tested: Annotated[Count, Field(ge=256)] = size(
        2048, "D-dimensional sequences on which each run of SGD is tested."
    )

    @field_validator("tau_sgd")
    @classmethod
    def _complete(cls, tau_sgd: dict[str, float]) -> dict[str, float]:
        if set(tau_sgd) != set(SHOWN):
            raise ValueError(f"{tau_sgd} will not do; map each of {', '.join(SHOWN)} to a time")
        return tau_sgd


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """For each activation, heads trained by SGD, by its flow, and many by gradient flow."""
    data = _multihead.data_blocks(section, seed)
    many = section.many
    law = {"tokens": many.tokens, "prior": many.prior, "heads": many.heads}
    law |= {"sigma": section.sigma, "dim": int(section.flow_dim)}
    law |= {"tau_max": section.tau_max, "points": section.points}
    shared = {"seed": seed, "sequences": section.sequences, "tested": section.tested, "many": law}
    roles = {}
    for name in SHOWN:
        sources = {
            "sgd": [_multihead.sgd(section, name, section.tau_sgd[name], 2, d) for d in data],
            "flow": [_multihead.flow(section, name, section.tau_sgd[name], 2, d) for d in data],
        }
        seen = {source: [e.parameters for e in group] for source, group in sources.items()}
        inputs = {
            f"{source}_{k}": e for source, group in sources.items() for k, e in enumerate(group)
        }
        parameters = shared | seen | {"activation": name}
        roles[name] = [Experiment("multihead/deactivation", parameters, inputs, name)]
    return roles


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """A row for a few heads with SGD, a row for many; a column for each activation."""
    axes = np.reshape(style.panels(figure, 2, 2, width="double", height=4.0), (2, 2))
    drawing = Drawing([])
    for name, column in zip(SHOWN, axes.T, strict=True):
        (record,) = records[name]
        for axis, source in zip(column, ("flow", "many"), strict=True):
            drawing.table += _distribution(axis, record, source, name)
        drawing.table += _markers(column[0], record, name)
        drawing.validation += _validation(section, name, record)
        if not record.converged:
            drawing.flagged.append(f"{ALL_NAMES[name]}: a training did not reach its end")
        column[0].set_title(ALL_NAMES[name], fontsize=8, pad=3)
    for (left, right), model in zip(axes, (section, section.many), strict=True):
        omega = ",\\,".join(f"{s:g}" for s in model.std if s)
        left.set_ylabel(rf"fraction ($\omega={omega}$, $H={model.heads}$)")
        for axis in (left, right):
            axis.set_xlabel(r"total attention $S_h$ of a head")
    _legend(figure)
    return drawing


def over_heads(record: Record, source: str, name: str) -> np.ndarray:
    """Mean over the heads that have such sequences, [instance, own or other(, bin)]."""
    return np.nanmean(record.datasets[f"{source}_{name}"], axis=1)


def _distribution(axis: Axes, record: Record, source: str, name: str) -> Iterator[dict[str, Any]]:
    """Histograms on own and other sequences, their means and medians; a bar for softmax at 1."""
    edges, notes = record.datasets["edges"], []
    centers = 0.5 * (edges[1:] + edges[:-1])
    histogram = over_heads(record, source, "histogram").mean(axis=0)
    style.atom(axis, 1.0, 0.012, 0.72, style.MEANING["softmax"])
    for group, text in enumerate(GROUPS):
        mean, median = (over_heads(record, source, x)[:, group].mean() for x in ("mean", "median"))
        notes.append(f"{text}: mean {mean:.3f}, median {median:.3f}")
        for quantity, value in (("mean", mean), ("median", median)):
            yield _row(name, source, text, quantity, None, value)
        shade = _shade(name, group)
        axis.stairs(histogram[group], edges, color=shade, linewidth=1.1, zorder=4 - group)
        fill = {"color": shade, "alpha": 0.25, "linewidth": 0}
        axis.stairs(histogram[group], edges, fill=True, **fill)
        for center, value in zip(centers, histogram[group], strict=True):
            yield _row(name, source, text, "fraction", center, value)
    axis.set(yscale="log", xlim=(-0.02, 1.02), ylim=(1e-4, 30))
    place = {"xycoords": "axes fraction", "ha": "center", "va": "top", "fontsize": 6.5}
    axis.annotate("\n".join(notes), (0.5, 0.97), **place)


def _shade(name: str, group: int) -> str:
    return style.MEANING[name] if group == 0 else style.GREY


def _markers(axis: Axes, record: Record, name: str) -> Iterator[dict[str, Any]]:
    """Heads trained by SGD, on D-dimensional sequences: mean and standard error over the runs."""
    edges = record.datasets["edges"]
    centers = 0.5 * (edges[1:] + edges[:-1])
    histogram = over_heads(record, "sgd", "histogram")
    for group, text in enumerate(GROUPS):
        pairs = [validation.mean_and_error(column) for column in histogram[:, group].T]
        mean, error = np.transpose(pairs)
        shown = mean > 2 * error  # on a log axis
        hollow = np.full(shown.sum(), not record.converged)
        look = {"method": "sgd", "markersize": 2, "flagged": hollow}
        style.simulation(
            axis, centers[shown], mean[shown], error[shown], _shade(name, group), **look
        )
        for center, value, bar in zip(centers, mean, error, strict=True):
            yield _row(name, "sgd", text, "fraction", center, value, bar)
        for quantity in ("mean", "median"):
            value, bar = validation.mean_and_error(over_heads(record, "sgd", quantity)[:, group])
            yield _row(name, "sgd", text, quantity, None, value, bar)


def _row(name, source, group, quantity, total, value, error=None) -> dict[str, Any]:
    where = {"activation": name, "source": source, "sequences": group, "quantity": quantity}
    return where | {"total_attention": total, "value": value, "standard_error": error}


def _validation(section: Section, name: str, record: Record) -> Iterator[dict[str, Any]]:
    """Mean total attention of the heads of SGD, run by run, against those of their flows.

    The allowance is C/D with C = E |theta|^2, as that of the loss.
    """
    constant = float(np.sum(np.square([section.mean, section.std])))
    theory, simulation = (over_heads(record, source, "mean") for source in ("flow", "sgd"))
    for group, text in enumerate(GROUPS):
        yield validation.paired_row(
            f"{name} tau={section.tau_sgd[name]:g} {text} sign",
            theory[:, group],
            simulation[:, group],
            constant,
            section.dim,
            figure="deactivation",
            quantity="total attention of a head",
            reliable=record.converged,
        )


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    def patch(colour: str, text: str, alpha: float = 0.4) -> Patch:
        return Patch(facecolor=colour, alpha=alpha, label=text)

    handles = [
        *(patch(style.MEANING[name], f"own sign, {ALL_NAMES[name]}") for name in SHOWN),
        patch(style.GREY, "other sign"),
        patch(style.MEANING["softmax"], "softmax, always", 1),
        Line2D([], [], color=style.BLACK, marker="o", markersize=2.5, linestyle="", label="SGD"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
