"""What the commands print: one JSON object or a small table; warnings go to stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from hdattn.notices import warn as warn  # what else the commands print

_ROWS = 24  # of a table; JSON has them all


def emit(
    values: Mapping[str, Any],
    as_json: bool,
    columns: Sequence[str] = (),
    only_json: Sequence[str] = (),
) -> None:
    """Print ``values``: one JSON object, or lines of ``name value`` above one table.

    ``columns`` names the values that the table holds: sequences of one length, whose items may
    be arrays (``m`` becomes columns ``m_00``, ``m_01``, ...); ``only_json`` those too long for
    text. JSON has no NaN: it becomes null.
    """
    values = plain(values)
    if as_json:
        click.echo(json.dumps(values, allow_nan=False))
        return
    hidden = {*columns, *only_json}
    single = {name: value for name, value in values.items() if name not in hidden}
    click.echo("\n".join([*_lines(single), *_table({name: values[name] for name in columns})]))


def solved(converged: bool, loss: Any) -> int:
    """Exit status of what has this loss; 1 with a warning where it is not finite."""
    found = plain(loss)
    if None in (found if isinstance(found, list) else [found]):
        warn("not converged: the loss is not finite")
        return 1
    return 0 if converged else 1


def progress(items: Sequence[Any], label: str) -> Iterator[Any]:
    """``items`` one by one, with a bar on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    with click.progressbar(items, label=label, file=sys.stderr, show_pos=True) as bar:
        yield from bar


def plain(value: Any) -> Any:
    """``value`` as JSON holds it: arrays as lists, NaN and infinities as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the columns of ``rows`` padded to one width each."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _lines(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    rows = list(_named(values, prefix))
    return aligned(rows) if rows else []


def _named(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _named(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", text(value)


def text(value: Any) -> str:
    """A number to six digits, a list of them in brackets, ``-`` where there is none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
    return "-" if value is None else str(value)


def _table(columns: Mapping[str, list]) -> list[str]:
    if not columns:
        return []
    flat = {}
    for name, items in columns.items():
        flat.update(_flattened(name, items))
    rows = list(zip(*flat.values(), strict=True))
    stride = max(1, -(-len(rows) // _ROWS))
    shown = [*rows[:-1:stride], *rows[-1:]]
    lines = aligned([tuple(flat), *(tuple(map(text, row)) for row in shown)])
    note = f"({len(shown)} of {len(rows)} rows; --json has all)"
    return ["", *lines, *([note] if stride > 1 else [])]


def _flattened(name: str, items: list) -> dict[str, list]:
    """Columns of one name: itself, or one for each entry of its items."""
    if not items or not isinstance(items[0], list):
        return {name: items}
    parts: dict[str, list] = {}
    joint = "" if "_" in name else "_"
    for index, column in enumerate(zip(*items, strict=True)):
        parts.update(_flattened(f"{name}{joint}{index}", list(column)))
    return parts
