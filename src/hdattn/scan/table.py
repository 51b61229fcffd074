"""The files of a scan: a tidy table as CSV and HDF5, and a quick look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hdattn import store
from hdattn.atomic import write_atomically
from hdattn.canonical import canonical_json
from hdattn.catalogue import CACHE
from hdattn.figures import style
from hdattn.scan.sections import Scan


def make_scan(scan: Scan, seed: int, stem: Path, directory: Path = Path()) -> list[dict[str, Any]]:
    """Read the scan's experiments from the cache of ``directory`` and write its files.

    Raises ``CacheError`` for a result that is missing or cannot be trusted. Returns the rows.
    """
    records = {
        role: [
            store.read(directory / CACHE / e.path, kind=e.kind, parameters=e.parameters)
            for e in group
        ]
        for role, group in scan.experiments(seed).items()
    }
    rows = list(scan.rows(records))
    stem.parent.mkdir(parents=True, exist_ok=True)
    _write_hdf5(Path(f"{stem}.h5"), rows, scan, seed)  # first: it tells that all are a scan's
    style.write_csv(Path(f"{stem}.csv"), rows)
    _look(scan, rows, stem)
    return rows


def _write_hdf5(path: Path, rows: Sequence[Mapping[str, Any]], scan: Scan, seed: int) -> None:
    """One dataset per column; the scan as JSON in an attribute."""
    import h5py

    with h5py.File("table", "w", driver="core", backing_store=False) as file:
        file.attrs["scan"] = canonical_json({**scan.model_dump(mode="json"), "seed": seed})
        for name in rows[0]:
            values = np.array([row[name] for row in rows])
            if values.dtype.kind == "U":
                values = values.astype(h5py.string_dtype())
            file.create_dataset(name, data=values)
        file.flush()
        write_atomically(path, file.id.get_file_image())


def _look(scan: Scan, rows: Sequence[Mapping[str, Any]], stem: Path) -> None:
    """The main quantity against the longest axis, a line for each of the other values."""
    (quantity,) = scan.LOOK
    axes = [name for name in scan.AXES if name != "activation"]
    across = max(axes, key=lambda name: len(getattr(scan, name)))
    others = [n for n in scan.AXES if n != across and len(getattr(scan, n)) > 1]
    groups: dict[tuple, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in others), []).append(row)
    with style.context():
        figure = style.new_figure()
        (axis,) = style.panels(figure, width="double", height=3.4)
        for (key, members), colour in zip(groups.items(), _colours(len(groups)), strict=True):
            label = ", ".join(f"{n} = {_plain(v)}" for n, v in zip(others, key, strict=True))
            _line(axis, members, across, quantity, colour, label or None)
        if across in ("alpha", "lam", "strength"):
            axis.set_xscale("log")
        axis.set(xlabel=across, ylabel=quantity.replace("_", " "))
        if others and len(groups) <= 12:
            axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        style.save(figure, stem, ("png",))


def _line(
    axis: Any,
    rows: Sequence[Mapping[str, Any]],
    across: str,
    quantity: str,
    colour: Any,
    label: str | None,
) -> None:
    """A theory line and, where instances were trained, their mean and standard error."""
    x = sorted({row[across] for row in rows})
    at = [[row for row in rows if row[across] == value] for value in x]
    trained = "instance" in rows[0]
    of = "theory_" if trained else ""
    y = [group[0][f"{of}{quantity}"] for group in at]
    doubts = [not g[0][f"{of}converged"] or bool(g[0][f"{of}flags"]) for g in at]
    style.theory(axis, x, y, colour, label=label, flagged=doubts)
    if trained:
        values = [[row[quantity] for row in group] for group in at]
        error = [np.std(v, ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0.0 for v in values]
        doubtful = [not all(row["converged"] for row in group) for group in at]
        look = {"method": "other", "flagged": doubtful}
        style.simulation(axis, x, [np.mean(v) for v in values], error, colour, **look)


def _colours(count: int) -> list[Any]:
    """The palette, or shades from dark to light where it is too short."""
    if count <= len(style.SERIES):
        return list(style.SERIES[:count])
    import matplotlib

    return list(matplotlib.colormaps["viridis"](np.linspace(0, 0.9, count)))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"
