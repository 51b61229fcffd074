"""How large a number may be, wherever one is given: configuration, scans, command line."""

from __future__ import annotations

from typing import Any

SMALLEST, LARGEST = 1e-15, 1e15
"""Sizes of a number that is not zero."""

LARGEST_COUNT = 10**9
LARGEST_SEED = 2**63 - 1

_LONGEST = 60  # characters of a value in a message


def remedy(value: float) -> str | None:
    """What to give instead of a ``value`` of a size that will not do; None where it will."""
    size = abs(value)
    if size > LARGEST and value == value and size != float("inf"):
        return f"give a number of at most {LARGEST:g}" if value > 0 else _at_least(-LARGEST)
    if 0 < size < SMALLEST:
        return f"give 0, or {_at_least(SMALLEST).removeprefix('give ')}"
    return None


def _at_least(number: float) -> str:
    return f"give a number of at least {number:g}"


def shown(value: Any) -> str:
    """A value as messages print it: a dozen digits of a number, the beginning of a text."""
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= LARGEST:
        return f"a number of {len(str(abs(value)))} digits"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
