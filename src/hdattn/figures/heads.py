"""Best loss against the number of heads, what it consists of, and the heads of B-softmax."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.fields import Count, Positive, physics, size
from hdattn.figures import style
from hdattn.figures._multihead import ALL_NAMES, SpikeModel, Vector
from hdattn.figures._optima import MARKER, Curve, OptimumKeys, bayes_curve, optimum_curves
from hdattn.figures.drawing import Drawing
from hdattn.multihead.priors import DiscretePrior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hdattn.store import Record

MODEL = "multihead"
TITLE = "Best losses against the number of heads"

PANELS = {"flipping": "flipping spikes", "discrete": "discrete prior"}
PARTS = {
    "miss": ("misses", style.GREY),
    "aligned": ("noise, aligned heads", style.SKY),
    "cross": ("cross term", style.LIGHT_GREY),
    "misaligned": ("noise, misaligned heads", style.ORANGE),
}
"""Parts of the loss in the order in which bars show them, what they are called, and colours."""


def _increasing(heads: tuple[int, ...]) -> tuple[int, ...]:
    if any(b <= a for a, b in itertools.pairwise(heads)):
        raise ValueError(f"{list(heads)} must increase, without repeats")
    return heads


HeadCounts = Annotated[tuple[Count, ...], Field(min_length=2), AfterValidator(_increasing)]


class Section(SpikeModel, OptimumKeys):
    """Configuration of the figure."""

    heads: HeadCounts = size((1, 2, 3, 4, 5, 6, 7, 8), "Numbers of heads H on flipping spikes.")
    support: Annotated[tuple[Vector, ...], Field(min_length=2)] = physics(
        ((2.0, 0.0), (0.0, 1.5), (-1.0, -1.5)), "Points theta of the discrete prior, a row each."
    )
    weights: Annotated[tuple[Positive, ...], Field(min_length=2)] = physics(
        (0.5, 0.3, 0.2), "Their probabilities."
    )
    discrete_heads: HeadCounts = size((1, 2, 3, 4, 5), "Numbers of heads H on the discrete prior.")

    @field_validator("heads")
    @classmethod
    def _several(cls, heads: tuple[int, ...]) -> tuple[int, ...]:
        return heads  # one head is of interest here

    @field_validator("weights")
    @classmethod
    def _prior(cls, weights: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        support = info.data.get("support")
        if support is not None:
            try:
                DiscretePrior(support, weights)
            except UserError as error:
                raise ValueError(str(error).removeprefix("prior: ")) from error
        return weights

    @property
    def discrete(self) -> DiscretePrior:
        """The discrete prior."""
        return DiscretePrior(self.support, self.weights)

    def curves(self) -> dict[str, tuple[dict[str, Any], tuple[int, ...], int]]:
        """Prior, numbers of heads and size of the support of each panel."""
        flips = 2 ** np.count_nonzero(self.std)
        return {
            "flipping": (self.prior, self.heads, int(flips)),
            "discrete": (self.discrete.to_dict(), self.discrete_heads, len(self.support)),
        }


def experiments(section: Section, seed: int) -> dict[str, list[Experiment]]:
    """A curve of each activation and prior; both Bayes risks."""
    roles = {}
    for panel, (prior, heads, _) in section.curves().items():
        points = [(prior, count) for count in heads]
        curves = optimum_curves(section, section.tokens, seed, points, f"heads-{panel}")
        roles |= {f"{panel}_{name}": [curve] for name, curve in curves.items()}
    priors = [prior for prior, *_ in section.curves().values()]
    return roles | {"risk": [bayes_curve(section.tokens, priors, "heads")]}


def draw(figure: Figure, records: dict[str, list[Record]], section: Section) -> Drawing:
    """Best losses of both priors, the heads of B-softmax, and the parts of the loss."""
    axes = style.panels(figure, 2, 3, width="double", height=4.4)
    drawing, risks = Drawing([]), records["risk"][0].datasets["bayes_risk"]
    curves = {}
    for axis, (panel, (_, heads, support)), risk in zip(
        axes, section.curves().items(), risks, strict=False
    ):
        curves[panel] = [
            Curve(
                *(name, np.array(heads), records[f"{panel}_{name}"][0]),
                risk=np.full(len(heads), risk),
            )
            for name in ALL_NAMES
        ]
        _losses(axis, PANELS[panel], curves[panel], support)
        for curve in curves[panel]:
            drawing.table += curve.rows(panel, "heads")
            drawing.flagged += curve.flags(PANELS[panel])
    drawing.table += _posterior(axes[2], curves["discrete"][-1], section.discrete)
    top = 1.05 * max(curve.loss.max() for curve in curves["flipping"])
    for axis, curve in zip(axes[3:], curves["flipping"], strict=True):
        drawing.table += _parts(axis, curve)
        axis.set_ylim(0, top)
    _legend(figure, axes[3])
    return drawing


def _losses(axis: Axes, name: str, curves: list[Curve], support: int) -> None:
    """Best losses, Bayes risk and the size of the support."""
    for curve in curves:
        curve.draw(axis, curve.loss)
    axis.axhline(
        curves[0].risk[0], color=style.MEANING["bayes_risk"], linestyle="--", linewidth=1.0
    )
    style.threshold(axis, support, r"$|\mathrm{supp}|$")
    axis.set(xlabel="heads $H$", ylabel=f"best loss, {name}")
    axis.set_xticks(curves[0].x)


def _posterior(axis: Axes, bayes: Curve, prior: DiscretePrior) -> Iterator[dict[str, Any]]:
    """Learnt overlaps and biases against those of the posterior, up to a common bias."""
    from scipy.optimize import linear_sum_assignment

    from hdattn.multihead.bayes import bayes_point

    theta, exact = bayes_point(prior)
    found = np.flatnonzero(bayes.x == len(theta))
    if not found.size:
        axis.annotate(f"no curve point at H = {len(theta)}", (0.1, 0.5), xycoords="axes fraction")
        return
    m, b = (bayes.data[name][found[0], : len(theta)] for name in ("m", "b"))
    distance = np.linalg.norm(m[:, None] - theta, axis=2)
    head, point = linear_sum_assignment(distance)
    b, exact = (values - values.mean() for values in (b[head], exact[point]))
    low, high = -2.6, 2.6
    drawn = (
        ("m", theta[point], m[head], style.VERMILLION, "o", r"$m_{hf}$ against $\theta_f$"),
        ("b", exact, b, style.BLACK, "s", r"$b_h$ against $\ln P-\frac{1}{2}|\theta|^2$"),
    )
    for name, x, y, colour, marker, label in drawn:
        look = {"fmt": marker, "markersize": 3, "label": label, "alpha": 0.6}
        hollow = np.full(np.size(x), bayes.flagged[found[0]])
        style.simulation(axis, np.ravel(x), np.ravel(y), None, colour, flagged=hollow, **look)
        low, high = min(low, 1.2 * np.min(x)), max(high, 1.2 * np.max(x))
        for h, (learnt, known) in enumerate(zip(y, x, strict=True)):
            for f, (value, target) in enumerate(zip(*np.atleast_1d(learnt, known), strict=True)):
                where = {"panel": "posterior", "quantity": name, "activation": "bayes"}
                where |= {"heads": len(theta), "head": h, "spike": f if name == "m" else None}
                yield where | {"value": value, "exact": target}
    axis.plot([low, high], [low, high], color=style.GREY, linewidth=0.7, zorder=0)
    axis.set(xlabel="posterior", ylabel="learnt, B-softmax", xlim=(low, high), ylim=(low, high))
    axis.legend(fontsize=6, loc="upper left")


def _parts(axis: Axes, curve: Curve) -> Iterator[dict[str, Any]]:
    """Parts of the loss as stacked bars."""
    bottom = np.zeros(len(curve.x))
    for name, (_, colour) in PARTS.items():
        values = curve.data[name]
        style.bars(axis, curve.x, values, 0.75, colour, bottom=bottom, flagged=curve.flagged)
        bottom += values
        for heads, value in zip(curve.x, values, strict=True):
            where = {"panel": "parts", "quantity": name, "activation": curve.activation}
            yield where | {"heads": heads, "value": value}
    axis.axhline(curve.risk[0], color=style.MEANING["bayes_risk"], linestyle="--", linewidth=1.0)
    axis.set(xlabel="heads $H$", ylabel=f"loss, {ALL_NAMES[curve.activation]}")
    axis.set_xticks(curve.x)


def _legend(figure: Figure, axis: Axes) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], color=style.MEANING[name], label=label, **MARKER)
        for name, label in ALL_NAMES.items()
    ]
    risk = {"color": style.MEANING["bayes_risk"], "linestyle": "--"}
    handles.append(Line2D([], [], label="Bayes risk", **risk))
    handles += [Patch(color=colour, label=label) for label, colour in PARTS.values()]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
