"""What a figure drew, read back from its CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np


class Numbers:
    """Rows of a figure's CSV file, cells as they are written there."""

    def __init__(self, rows: Sequence[dict[str, str]]):
        self.rows = list(rows)

    @classmethod
    def read(cls, path: Path) -> Numbers:
        """All rows of a file."""
        with path.open(newline="", encoding="utf-8") as file:
            return cls(list(csv.DictReader(file)))

    def where(self, **cells: str) -> Numbers:
        """The rows with these cells."""
        wanted = cells.items()
        return Numbers([row for row in self.rows if all(row[key] == cell for key, cell in wanted)])

    def by(self, *columns: str) -> Iterator[tuple[tuple[str, ...], Numbers]]:
        """The cells of ``columns`` in the order they first appear, and the rows with them."""
        groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
        for row in self.rows:
            groups.setdefault(tuple(row[column] for column in columns), []).append(row)
        for cells, rows in groups.items():
            yield cells, Numbers(rows)

    def column(self, name: str) -> np.ndarray:
        """A column as numbers [rows]; an empty cell is NaN."""
        return np.array([float(row[name] or "nan") for row in self.rows])

    def flags(self) -> np.ndarray:
        """Which rows were drawn hollow [rows]."""
        return np.array([row.get("flagged") == "true" for row in self.rows], bool)
