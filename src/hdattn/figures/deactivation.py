"""Heads that switch off: their total attention on sequences of their own sign and of the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, physics, size
from hdattn.figures import _multihead, style, validation
from hdattn.figures._ensembles import Ensemble, FlowModel, ensemble
from hdattn.figures._multihead import ALL_NAMES, MultiHead, SpikeModel, Spreads, Vector
from hdattn.figures._pruned import BLOCK, colour, experiment, label
from hdattn.figures.drawing import Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "Heads switch off on sequences of the other sign"

GROUPS = ("own", "other")
SEQUENCE_SECONDS = 3e-8  # to draw one component of a token and to score it


class Section(MultiHead, Ensemble):
    """Configuration of the figure; the model keys are those of the first row, with SGD."""

    heads: Annotated[Count, Field(ge=2)] = physics(2, "Heads H of the first row.")
    mean: Vector = physics((0.8, 0.0), "Mean of the signal along each hidden spike.")
    std: Spreads = physics((0.0, 2.0), "Size of the random sign along each hidden spike.")
    many: SpikeModel = physics(SpikeModel(heads=8), "Heads of the second row, gradient flow.")
    tau_sgd: Positive = size(40, "Time at which SGD and its flow end.")
    tau_max: Positive = size(3000, "Time at which the gradient flow ends.")
    sequences: Annotated[Count, Field(ge=1000)] = size(
        20000, "Sequences on which heads are looked at, for each instance."
    )
    tested: Annotated[Count, Field(ge=256)] = size(
        2048, "D-dimensional sequences on which each run of SGD is tested."
    )


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """Heads trained by SGD and by its flow, and by gradient flow, seen on fresh sequences."""
    data = _multihead.data_blocks(section, seed)
    drawing = SEQUENCE_SECONDS * section.block_size * section.tokens * section.dim
    law = {"drawn": "population", "sequences": section.sequences}
    seen = {"drawn": "tokens", "sequences": section.tested}
    roles = {}
    for name in ALL_NAMES:
        runs = [_multihead.sgd(section, name, section.tau_sgd, 2, d) for d in data]
        flows = [_multihead.flow(section, name, section.tau_sgd, 2, d) for d in data]
        many = FlowModel(activation=name, **section.many.model_dump())
        long = ensemble(section, many, seed, section.tau_max, 1, block_size=BLOCK)
        kind, seconds = "multihead/deactivation", 10 + drawing * section.tested
        roles[f"sgd_{name}"] = [experiment(kind, r, "trained", seen, seconds) for r in runs]
        roles[f"flow_{name}"] = [experiment(kind, f, "trained", law, 20) for f in flows]
        roles[f"many_{name}"] = [experiment(kind, f, "trained", law, 20) for f in long]
    return roles


@dataclass(frozen=True)
class Seen:
    """Total attention of I instances: mean, median, count [I, H, 2], histogram [I, H, 2, bins]."""

    edges: np.ndarray
    mean: np.ndarray
    median: np.ndarray
    count: np.ndarray
    histogram: np.ndarray
    converged: bool

    @classmethod
    def merge(cls, records: list[Record]) -> Seen:
        """All blocks."""
        blocks = [record.datasets for record in records]
        names = ("mean", "median", "count", "histogram")
        arrays = {name: np.concatenate([b[name] for b in blocks]) for name in names}
        converged = all(record.converged for record in records)
        return cls(blocks[0]["edges"], **arrays, converged=converged)

    def over_heads(self, name: str) -> np.ndarray:
        """Mean over the heads that have such sequences, [I, 2] or [I, 2, bins]."""
        return np.nanmean(getattr(self, name), axis=1)


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """A row for a few heads with SGD, a row for many; a column for each activation."""
    axes = np.reshape(style.panels(figure, 2, 3, width="double", height=3.9), (2, 3))
    drawing = Drawing([])
    for column, name in enumerate(ALL_NAMES):
        flow, sgd, many = (
            Seen.merge(records[f"{kind}_{name}"]) for kind in ("flow", "sgd", "many")
        )
        for axis, seen, row in ((axes[0, column], flow, "few"), (axes[1, column], many, "many")):
            drawing.table += _distribution(axis, seen, row, name)
        drawing.table += _markers(axes[0, column], sgd, name)
        drawing.validation += _validation(section, name, flow, sgd)
        drawing.flagged += [
            f"{label(name)}, {what}: training did not reach its end"
            for what, seen in (("flow", flow), ("SGD", sgd), ("gradient flow", many))
            if not seen.converged
        ]
    for axis, model in zip(axes[:, 0], (section, section.many), strict=True):
        omega = ",\\,".join(f"{s:g}" for s in model.std if s)
        axis.set_ylabel(rf"fraction ($\omega={omega}$, $H={model.heads}$)")
    for axis in axes[1]:
        axis.set_xlabel(r"total attention $S_h$ of a head")
    _legend(figure)
    return drawing


def _distribution(axis: Axes, seen: Seen, row: str, name: str) -> Iterator[dict[str, Any]]:
    """Histograms on own and other sequences, their means and medians."""
    notes, histogram = [], seen.over_heads("histogram").mean(axis=0)
    centers = 0.5 * (seen.edges[1:] + seen.edges[:-1])
    for group, text in enumerate(GROUPS):
        mean, median = (seen.over_heads(x)[:, group].mean() for x in ("mean", "median"))
        notes.append(f"{text}: mean {mean:.3f}, median {median:.3f}")
        yield _row(row, name, "flow", text, "mean", None, mean)
        yield _row(row, name, "flow", text, "median", None, median)
        shade = colour(name) if group == 0 else style.GREY
        axis.stairs(histogram[group], seen.edges, color=shade, linewidth=1.1, zorder=3 - group)
        fill = {"color": shade, "alpha": 0.25, "linewidth": 0}
        axis.stairs(histogram[group], seen.edges, fill=True, **fill)
        for center, value in zip(centers, histogram[group], strict=True):
            yield _row(row, name, "flow", text, "fraction", center, value)
    axis.set(yscale="log", xlim=(-0.02, 1.02), ylim=(1e-4, 30))
    axis.annotate(
        "\n".join(notes), (0.5, 0.97), xycoords="axes fraction", ha="center", va="top", fontsize=6
    )
    axis.set_title(label(name), fontsize=7.5, pad=3)


def _markers(axis: Axes, seen: Seen, name: str) -> Iterator[dict[str, Any]]:
    """Heads trained by SGD, on D-dimensional sequences: mean and standard error over the runs."""
    centers = 0.5 * (seen.edges[1:] + seen.edges[:-1])
    histogram = seen.over_heads("histogram")
    for group, text in enumerate(GROUPS):
        pairs = [validation.mean_and_error(column) for column in histogram[:, group].T]
        mean, error = np.transpose(pairs)
        shown = mean > 2 * error
        shade = colour(name) if group == 0 else style.GREY
        hollow = np.full(shown.sum(), not seen.converged)
        look = {"method": "sgd", "markersize": 2, "flagged": hollow}
        style.simulation(axis, centers[shown], mean[shown], error[shown], shade, **look)
        for center, value, bar in zip(centers, mean, error, strict=True):
            yield _row("few", name, "sgd", text, "fraction", center, value, bar)
        for quantity in ("mean", "median"):
            value, bar = validation.mean_and_error(seen.over_heads(quantity)[:, group])
            yield _row("few", name, "sgd", text, quantity, None, value, bar)


def _row(row, name, source, group, quantity, total, value, error=None) -> dict[str, Any]:
    where = {"row": row, "activation": name, "source": source, "sequences": group}
    where |= {"quantity": quantity, "total_attention": total}
    return where | {"value": value, "standard_error": error}


def _validation(section: Section, name: str, flow: Seen, sgd: Seen) -> Iterator[dict[str, Any]]:
    """Mean total attention, run by run; C = E |theta|^2, of which 1/D enters the loss.

    That of softmax is 1 whatever the heads.
    """
    if name == "softmax":
        return
    constant = float(np.sum(np.square([section.mean, section.std])))
    for group, text in enumerate(GROUPS):
        yield validation.paired_row(
            f"{name} tau={section.tau_sgd:g} {text} sign",
            flow.over_heads("mean")[:, group],
            sgd.over_heads("mean")[:, group],
            constant,
            section.dim,
            figure="deactivation",
            quantity="total attention of a head",
            reliable=flow.converged and sgd.converged,
        )


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=style.BLUE, alpha=0.4, label="own sign (coloured)"),
        Patch(facecolor=style.GREY, alpha=0.4, label="other sign"),
        Line2D([], [], color=style.BLACK, marker="o", markersize=2.5, linestyle="", label="SGD"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
