"""What a job does, counted: the units of each operation, and the memory it needs at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MB = 1e6

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Work:
    """Units of each operation by name (:mod:`hdattn.cost.operations`), and resident memory (MB)."""

    units: Mapping[str, float]
    memory_mb: float


MODELS: dict[str, Callable[[Parameters], Work]] = {}
"""Work of an experiment, by its kind."""


def model(*kinds: str) -> Callable[[Callable[[Parameters], Work]], Callable[[Parameters], Work]]:
    """Register the work of experiments of these kinds."""

    def register(function: Callable[[Parameters], Work]) -> Callable[[Parameters], Work]:
        MODELS.update(dict.fromkeys(kinds, function))
        return function

    return register


def added(*counts: Mapping[str, float]) -> dict[str, float]:
    """Sum of units by operation."""
    total: dict[str, float] = {}
    for count in counts:
        for name, units in count.items():
            total[name] = total.get(name, 0.0) + units
    return total


def times(factor: float, count: Mapping[str, float]) -> dict[str, float]:
    """Units ``factor`` times over."""
    return {name: factor * units for name, units in count.items()}
