"""A panel of the overview: draws what a figure drew, and notes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.figures import style
from hdattn.overview.numbers import Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass
class Panel:
    """One panel; ``rows`` collects what is drawn on ``axis``."""

    figure: str
    axis: Axes
    rows: list[dict[str, Any]] = field(default_factory=list)

    def line(self, series: str, chosen: Numbers, x: str, y: str, colour: str, **look: Any) -> None:
        """Column ``y`` against ``x`` as a theory line."""
        columns = chosen.column(x), chosen.column(y)
        if chosen.flags().any():
            look["flagged"] = chosen.flags()
        style.theory(self.axis, *columns, colour, **look)
        self.note(series, *columns)

    def points(
        self, series: str, chosen: Numbers, x: str, y: str, colour: str, **look: Any
    ) -> None:
        """Column ``y`` against ``x`` as markers, with the file's standard errors."""
        columns = chosen.column(x), chosen.column(y)
        errors = chosen.column("standard_error")
        bars = errors if np.isfinite(errors).any() else None
        style.simulation(self.axis, *columns, bars, colour, flagged=chosen.flags(), **look)
        self.note(series, *columns, errors)

    def level(self, series: str, y: float, **look: Any) -> None:
        """A dashed level."""
        style.level(self.axis, y, **look)
        self.note(series, [np.nan], [y])

    def headroom(self, share: float) -> None:
        """Room for the legend: ``share`` of a linear axis more at its top."""
        bottom, top = self.axis.get_ylim()
        self.axis.set_ylim(bottom, top + share * (top - bottom))

    def note(
        self,
        series: str,
        x: Sequence[float],
        y: Sequence[float],
        errors: Sequence[float] | None = None,
    ) -> None:
        """Keep what was drawn for the overview's own CSV file."""
        for index, (abscissa, value) in enumerate(zip(x, y, strict=True)):
            error = np.nan if errors is None else errors[index]
            row = {"figure": self.figure, "series": series, "x": abscissa, "value": value}
            self.rows.append(row | {"standard_error": error if np.isfinite(error) else None})
