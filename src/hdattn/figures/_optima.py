"""Best losses along a curve: their keys, experiments and records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, field_validator

from hdattn.experiment import Experiment
from hdattn.fields import Count, FigureSection, size
from hdattn.figures import style
from hdattn.figures._multihead import ALL_NAMES, SobolPoints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdattn.store import Record

MARKER = {"marker": style.MARKERS["other"], "markersize": 2.6}
Point = tuple[dict[str, Any], int]


class OptimumKeys(FigureSection):
    """Keys of the search for optima."""

    starts: Count = size(
        2, "Random starts of the search at each point, besides those from its neighbours."
    )
    points: Annotated[SobolPoints, Field(ge=64)] = size(
        16384, "Sobol points of the search in all, with their images, a power of two."
    )
    polish: Count = size(
        1, "How many times as many other points the last descent takes; 1 for no such descent."
    )

    @field_validator("polish")
    @classmethod
    def _power(cls, polish: int) -> int:
        if polish & (polish - 1):
            raise ValueError(f"{polish} is not a power of two; take 1, 2 or 4")
        return polish


def optimum_curves(
    section: OptimumKeys, tokens: int, seed: int, points: Sequence[Point], slug: str
) -> dict[str, Experiment]:
    """Optima of each activation along ``points``, pairs of a prior and a number of heads."""
    shared = {
        "tokens": tokens,
        "points": [{"prior": prior, "heads": heads} for prior, heads in points],
        "starts": section.starts,
        "polish": section.polish,
        "base_points": max(2, section.points // 2 ** _images_log2(points[0][0])),
        "seed": seed,
    }
    return {
        name: Experiment(
            "multihead/optima",
            shared | {"activation": name},
            slug=f"{name}-{slug}",
        )
        for name in ALL_NAMES
    }


def _images_log2(prior: dict[str, Any]) -> int:
    """Base-2 logarithm, rounded up, of the images that each point has."""
    if "support" in prior:
        return int(np.ceil(np.log2(len(prior["support"]))))
    return sum(s > 0 for s in prior["std"])


def bayes_curve(tokens: int, priors: Sequence[dict[str, Any]], slug: str) -> Experiment:
    """Bayes risk of each prior."""
    return Experiment(
        "multihead/bayes_curve",
        {"tokens": tokens, "priors": list(priors)},
        slug=slug,
    )


@dataclass(frozen=True)
class Curve:
    """Optima of one activation along a curve, and the Bayes risk [P] there."""

    activation: str
    x: np.ndarray
    record: Record
    risk: np.ndarray

    @cached_property
    def data(self) -> dict[str, np.ndarray]:
        """Arrays of the record, first axis point."""
        return self.record.datasets

    @property
    def loss(self) -> np.ndarray:
        """Best loss [P], by quadrature."""
        return self.data["loss"]

    @property
    def flagged(self) -> np.ndarray:
        """[P] True where heads overfit their points or the descent did not converge."""
        return self.data["overfit"].astype(bool) | ~self.data["converged"].astype(bool)

    def flags(self, panel: str) -> list[str]:
        """One line for each doubt."""
        return [f"{panel}, {ALL_NAMES[self.activation]}: {text}" for text in self.record.messages]

    def draw(
        self, axis: Axes, values: np.ndarray, *, others: Sequence[Curve] = (), **look: Any
    ) -> None:
        """Line with a marker at each point, hollow where it is flagged, or one of ``others`` is."""
        colour = style.MEANING[self.activation]
        style.theory(axis, self.x, values, colour, **look)
        flagged = np.any([curve.flagged for curve in (self, *others)], axis=0)
        where = {"markersize": MARKER["markersize"], "flagged": flagged}
        style.simulation(axis, self.x, values, None, colour, **where)

    def rows(self, panel: str, x_name: str) -> Iterator[dict[str, Any]]:
        """A row of the table for each point."""
        for i, x in enumerate(self.x):
            yield {
                "panel": panel,
                "quantity": "best loss",
                "activation": self.activation,
                x_name: x,
                "value": self.loss[i],
                "error": self.data["loss_error"][i],
                "sampling_error": self.data["sampling_error"][i],
                "bayes_risk": self.risk[i],
                "c": self.data["c"][i],
                "flagged": self.flagged[i],
            }
