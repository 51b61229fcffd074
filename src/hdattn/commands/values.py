"""Types of option values: finite numbers with limits, vectors and matrices."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import click

from hdattn.ranges import LARGEST_COUNT, LARGEST_SEED

_LARGEST = 1e300  # a JSON number beyond this is taken for an infinity


class Number(click.ParamType):
    """Finite number of at least ``low``, above ``above`` (excluded) and of at most ``high``."""

    def __init__(self, *, low=None, above=None, high=None, whole=False):
        """Type with these limits; ``whole`` for integers."""
        self.low, self.above, self.high, self.whole = low, above, high, whole
        self.name = "integer" if whole else "number"

    @property
    def wanted(self) -> str:
        """What would do, in words."""
        limits = {"of at least": self.low, "above": self.above, "of at most": self.high}
        words = [f"{text} {value}" for text, value in limits.items() if value is not None]
        kind = "a whole number" if self.whole else "a finite number"
        return " ".join(["give", kind, " and ".join(words)]).rstrip()

    def convert(self, value, param, ctx):
        """The number, an int where ``whole``."""
        try:
            number = float(value)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a number; {self.wanted}", param, ctx)
        if not (math.isfinite(number) and self._within(number)):
            self.fail(f"{value} will not do; {self.wanted}", param, ctx)
        return int(number) if self.whole else number

    def _within(self, number: float) -> bool:
        return (
            (number.is_integer() or not self.whole)
            and (self.low is None or number >= self.low)
            and (self.above is None or number > self.above)
            and (self.high is None or number <= self.high)
        )


class Vector(click.ParamType):
    """Numbers with commas between, ``0.8,0``, or a JSON list: a list of floats."""

    name = "numbers"

    def convert(self, value, param, ctx):
        """The list of numbers."""
        if not isinstance(value, str):
            return value
        row = _json(value if value.lstrip().startswith("[") else f"[{value}]")
        if not _is_row(row):
            self.fail(f"{value!r} is not a list of finite numbers; write it as 0.8,0", param, ctx)
        return [float(number) for number in row]


class Matrix(click.ParamType):
    """A JSON list of rows of equal length, ``[[1,0],[0,1]]``: a list of lists of floats."""

    name = "matrix"

    def convert(self, value, param, ctx):
        """The rows."""
        if not isinstance(value, str):
            return value
        rows = _json(value)
        if not (isinstance(rows, list) and rows and all(map(_is_row, rows))):
            example = "write its rows as '[[1,0],[0,1]]'"
            self.fail(f"{value!r} is not a matrix of finite numbers; {example}", param, ctx)
        if len({len(row) for row in rows}) > 1:
            self.fail(f"{value!r} has rows of different lengths; make them equal", param, ctx)
        return [[float(number) for number in row] for row in rows]


class Key(click.ParamType):
    """A name and its value in JSON, ``df=3``, ``sizes=[1,2]``: a pair."""

    name = "key"

    def convert(self, value, param, ctx):
        """The name and the number, list of numbers or text."""
        if not isinstance(value, str):
            return value
        name, equals, text = value.partition("=")
        if not (equals and name.isidentifier() and text):
            self.fail(
                f"{value!r} is no key with a value; write it as df=3 or sizes=[1,2]", param, ctx
            )
        parsed = _json(text)
        return name, text if parsed is None else parsed


def _json(text: str) -> Any:
    """What the JSON ``text`` holds, None if it is none; ``.5`` is taken for ``0.5``."""
    try:
        return json.loads(re.sub(r"(?<!\d)\.(?=\d)", "0.", text))
    except (ValueError, RecursionError):
        return None


def _is_row(row: Any) -> bool:
    return isinstance(row, list) and bool(row) and all(map(_is_number, row))


def _is_number(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and abs(value) < _LARGEST


POSITIVE = Number(above=0)
NON_NEGATIVE = Number(low=0)
ANY_NUMBER = Number()
COUNT = Number(low=1, high=LARGEST_COUNT, whole=True)
INSTANCES = Number(low=1, high=10_000, whole=True)
HEADS = Number(low=1, high=1000, whole=True)
STARTS = Number(low=1, high=1000, whole=True)
TIMES = Number(low=2, high=100_000, whole=True)
WHOLE = Number(low=0, high=LARGEST_SEED, whole=True)
TOKENS = Number(low=2, high=1000, whole=True)
POINTS = Number(low=2, high=1_000_000, whole=True)
VECTOR = Vector()
MATRIX = Matrix()
KEY = Key()
