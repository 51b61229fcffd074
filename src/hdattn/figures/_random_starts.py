"""Escape of heads that start at random: how far apart they start is all that matters.

``k_h(0) ~ N(0, sigma^2 I_D / D)``. A flow whose head spread starts at s stands at ``1 / s^2``, the
dimension of the pair ``+-k*_f / sqrt(D)`` that starts as far apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hdattn.experiment import Experiment
from hdattn.figures import style
from hdattn.figures._ensembles import Ensemble, FlowModel, Flows, ensemble
from hdattn.figures._multihead import NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hdattn.figures.escape_time import Section
    from hdattn.store import Record

BLOCK = 4  # flows that one job does
TAU_POINTS = 400  # times are spaced on a log axis: an escape is read off between two of them


def _model(section: Section, activation: str) -> FlowModel:
    keys = ("tokens", "heads", "mean", "std")
    return FlowModel(activation=activation, **{key: getattr(section, key) for key in keys})


def experiments(section: Section, activation: str, seed: int) -> dict[str, list[Experiment]]:
    """Flows of several seeds at each of the dimensions."""
    roles = {}
    for dim in section.random_dims:
        keys = Ensemble(
            sigma=section.sigma,
            flow_dim=dim,
            points=section.random_points,
            tau_points=TAU_POINTS,
        )
        sizes = {"seeds": section.random_seeds, "block_size": BLOCK}
        model = _model(section, activation)
        roles[_role(activation, dim)] = ensemble(keys, model, seed, section.tau_random, **sizes)
    return roles


def _role(activation: str, dim: float) -> str:
    return f"random_{activation}_{dim:g}"


@dataclass(frozen=True)
class RandomStarts:
    """Flows of one activation: dims [N], spread [N] at the start along the spike, escape [N].

    stopped: a line for each flow that stopped early.
    """

    activation: str
    dims: np.ndarray
    spread: np.ndarray
    escape: np.ndarray
    stopped: list[str]

    @classmethod
    def read(
        cls, activation: str, records: dict[str, list[Record]], section: Section
    ) -> RandomStarts:
        """The flows of all dimensions, one after the other."""
        model = _model(section, activation)
        ensembles = [
            Flows.merge(records[_role(activation, dim)], model, section.random_seeds)
            for dim in section.random_dims
        ]
        spread = [flows.spread(section.feature)[:, 0] for flows in ensembles]
        times = [flows.jumps(section.feature, section.threshold) for flows in ensembles]
        dims = np.repeat(section.random_dims, section.random_seeds)
        stopped = [
            f"D = {dim:g}, {flag}"
            for dim, flows in zip(section.random_dims, ensembles, strict=True)
            for flag in flows.flags()
        ]
        return cls(activation, dims, np.concatenate(spread), np.concatenate(times), stopped)

    @property
    def equivalent(self) -> np.ndarray:
        """Dimension at which the pair starts as far apart, [N]."""
        return self.spread**-2

    def fit(self) -> tuple[float, float]:
        """Slope of the escape time with ln(1 / s^2), and its standard error."""
        known = np.isfinite(self.escape)
        x, y = np.log(self.equivalent[known]), self.escape[known]
        if len(x) < 3:
            return np.nan, np.nan
        (slope, level), *_ = np.polyfit(x, y, 1, full=True)
        scatter = np.sum((y - slope * x - level) ** 2) / (len(x) - 2)
        return float(slope), float(np.sqrt(scatter / np.sum((x - x.mean()) ** 2)))

    def draw(self, axis: Axes) -> None:
        """A small cross for each flow."""
        look = {"marker": "+", "markersize": 3.5, "markeredgewidth": 0.7, "linestyle": ""}
        colour = style.MEANING[self.activation]
        axis.plot(self.equivalent, self.escape, color=colour, alpha=0.8, zorder=2, **look)

    def flags(self) -> list[str]:
        """Lines on flows that stopped early, and on those still on the plateau at the end."""
        missing = int(np.sum(~np.isfinite(self.escape)))
        line = f"{NAMES[self.activation]}: {missing} flows from random starts did not escape"
        return [*self.stopped, line] if missing else self.stopped

    def table(self) -> Iterator[tuple[str, float, float, float | None]]:
        """(source, D, value, standard error) of everything drawn, and the slope."""
        rows = zip(self.dims, self.equivalent, self.escape, strict=True)
        for dim, equivalent, escape in rows:
            yield f"flow, random start at D={dim:g}", equivalent, escape, None
        slope, error = self.fit()
        yield "flow, random starts, slope in ln 1/s^2", self.equivalent.max(), slope, error
