"""Ticks of log axes that span less than two decades or show chosen values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axis import Axis


def plain_ticks(axis: Axis, values: Sequence[float]) -> None:
    """Ticks at those of these values that are in view and nowhere else, as plain numbers."""
    low, high = sorted(axis.get_view_interval())
    values = [value for value in values if low <= value <= high]
    axis.set_ticks(values, labels=[f"{value:g}" for value in values])
    axis.set_ticks([], minor=True)
