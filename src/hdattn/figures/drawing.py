"""What a figure module returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Drawing:
    """What a figure module returns.

    Attributes
    ----------
    table: rows (dicts with the same keys) of the numbers drawn, by name; becomes the CSV.
    validation: theory against simulation, see :mod:`hdattn.figures.validation`.
    flagged: one line for each point that is drawn hollow, and why.
    """

    table: list[dict[str, Any]]
    validation: list[dict[str, Any]] = field(default_factory=list)
    flagged: list[str] = field(default_factory=list)
