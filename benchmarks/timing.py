"""Times of functions that take turns, and the rows of the table made from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


class MissingRun(Exception):
    """What an entry looks at is not there; says how to get it."""


@dataclass(frozen=True)
class Settings:
    """How to measure: rounds, the folder with a finished default scale, whether only to try.

    rows: those of the entries measured before, by letter.
    """

    rounds: int
    project: Path
    quick: bool = False
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def size(self, full: Any, quick: Any) -> Any:
        """A size, or the small one of a trial run."""
        return quick if self.quick else full


def race(
    functions: Sequence[Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> np.ndarray:
    """Seconds [rounds, functions], the functions taking turns: A B C A B C ...

    Processor time unless another ``clock`` is given. What a first call sets up is not counted.
    """
    for function in functions:
        function()
    seconds = np.empty((rounds, len(functions)))
    for row in seconds:
        for i, function in enumerate(functions):
            begun = clock()
            function()
            row[i] = clock() - begun
    return seconds


def row(
    what: str,
    values: Iterable[float],
    unit: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    detail: str = "",
) -> dict[str, Any]:
    """A line of the table: median, smallest and largest of the values of the rounds.

    Units: ``x`` (a ratio), ``%`` (a share, given as such), or that of the values.
    """
    values = np.atleast_1d(np.asarray(list(values), dtype=float))
    return {
        "what": what,
        "median": float(np.median(values)),
        "low": float(values.min()),
        "high": float(values.max()),
        "rounds": int(values.size),
        "unit": unit,
        "at_least": at_least,
        "at_most": at_most,
        "detail": detail,
    }


def met(line: dict[str, Any]) -> bool | None:
    """Whether the median meets the target of a line; None without a target."""
    if line["at_least"] is None and line["at_most"] is None:
        return None
    low = -np.inf if line["at_least"] is None else line["at_least"]
    high = np.inf if line["at_most"] is None else line["at_most"]
    return bool(low <= line["median"] <= high)


def rms(errors: Any) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))
