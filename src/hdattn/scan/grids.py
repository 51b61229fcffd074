"""Axes of a scan: a number, a list, or ``start:stop:points``."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator
from pydantic.functional_validators import AfterValidator, BeforeValidator

from hdattn.fields import (
    MAXIMUM_POINTS,
    Count,
    NonNegative,
    Number,
    Positive,
    Strict,
    six_digits,
)
from hdattn.ranges import remedy, shown

MAXIMUM_SCAN = 100_000
"""Points of a scan."""

_REMEDY = "give a number, numbers with commas between, or start:stop:points (log, or :linear)"


def expand(value: Any) -> Any:
    """A list from a number, ``0.01,0.1`` or ``0.1:10:30`` (even in the logarithm; ``:linear``).

    Raises ``ValueError`` for a text that is none of these.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, str):
        return value
    if ":" in value:
        return _grid(value)
    return [_number(part, value) for part in value.split(",")]


def _grid(text: str) -> list[float]:
    start, stop, points, *spacing = (part.strip() for part in [*text.split(":", 3), "", ""])
    spacing = spacing[0] or "log"
    ends = _number(start, text), _number(stop, text)
    count = _number(points, text)
    if spacing not in ("log", "linear") or count != int(count) or count < 2 or ends[0] >= ends[1]:
        raise ValueError(f"{text!r} is no grid; start below stop, at least 2 points, log or linear")
    if spacing == "log" and ends[0] <= 0:
        raise ValueError(f"{text!r}: a log grid starts above 0; write {text}:linear")
    if count > MAXIMUM_POINTS:
        raise ValueError(f"{text!r}: give at most {MAXIMUM_POINTS} points")
    space = np.geomspace if spacing == "log" else np.linspace
    return six_digits(space(*ends, int(count)))


def _number(part: str, text: str) -> float:
    try:
        number = float(part)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{shown(text)} is no axis of a scan; {_REMEDY}")
    advice = remedy(number)
    if advice:
        raise ValueError(f"{shown(text)}: {number:g} will not do; {advice}")
    return number


def _increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    if any(b <= a for a, b in itertools.pairwise(values)):
        raise ValueError("the points of an axis must increase, without repeats")
    return values


class Axes(Strict):
    """Base of the scans: a model with the keys ``AXES``, each an axis."""

    AXES: ClassVar[tuple[str, ...]]

    @model_validator(mode="after")
    def _finite_time(self) -> Axes:
        points = math.prod(len(getattr(self, name)) for name in self.AXES)
        if points > MAXIMUM_SCAN:
            raise ValueError(f"its axes make {points} points; give at most {MAXIMUM_SCAN}")
        return self


_Input = BeforeValidator(expand, json_schema_input_type=float | str | list[float | str])


def _axis(item: Any) -> Any:
    return Annotated[
        tuple[item, ...],
        AfterValidator(_increasing),
        Field(min_length=1, max_length=MAXIMUM_POINTS),
        _Input,
    ]


PositiveAxis = _axis(Positive)
Numbers = Annotated[tuple[Number, ...], Field(min_length=1), _Input]
NonNegativeNumbers = Annotated[tuple[NonNegative, ...], Field(min_length=1), _Input]
NonNegativeAxis = _axis(NonNegative)
CountAxis = _axis(Count)
