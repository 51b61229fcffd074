"""What two drawings of a figure show differently, and whether it is hollow there."""

from __future__ import annotations

from typing import Any

from hdattn.figures import drawn

_DIGITS = 9  # significant digits to which two numbers are the same: less is rounding
Row = tuple[tuple[str, Any], ...]


def solid_changes(one, other) -> list[str]:
    """What only one of two figures shows, unless it is hollow, or a hollow marker stands there.

    Colours and labels are left out.

    A line or a bar may pass through a point that does not count, if a hollow marker is on it.
    """
    rows = [[_rounded(row) for row in drawn.rows(figure)] for figure in (one, other)]
    hollow = {_place(row) for row in (*rows[0], *rows[1]) if row["hollow"]}
    shown, again = ({_known(row) for row in part} for part in rows)
    return [
        ", ".join(f"{value}" for _, value in _known(row))
        for row in (*rows[0], *rows[1])
        if _known(row) in shown ^ again and _place(row) not in hollow
    ]


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["panel"], row["x"], row["y"]


def _known(row: dict[str, Any]) -> Row:
    return tuple((k, v) for k, v in row.items() if v is not None and k not in ("label", "colour"))


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
        for key, value in row.items()
    }
