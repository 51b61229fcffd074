"""A result in words, for ``hdattn show``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.hdf5 import Dataset

if TYPE_CHECKING:
    from hdattn.store import Record


def summary(path: Path | str, record: Record) -> str:
    """Readable text: what the file holds, from which parameters, made by what."""
    state = "converged" if record.converged else "NOT CONVERGED"
    lines = [str(path), f"{record.kind}: {state}, residual {record.residual:.3g}"]
    lines += [f"warning: {message}" for message in record.messages]
    for title, table in (
        ("parameters", record.parameters),
        ("seeds", record.seeds),
        ("attributes", record.attributes),
        ("provenance", record.provenance),
    ):
        if table:
            lines += ["", title, *(f"  {key:<18} {_short(table[key])}" for key in table)]
    lines += ["", "datasets", *_dataset_lines(record.details)]
    return "\n".join(lines)


def _short(value: Any, width: int = 100) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= width else f"{text[: width - 4]} ..."


def _dataset_lines(details: Mapping[str, Dataset]) -> list[str]:
    rows = [
        (
            name,
            " x ".join(map(str, dataset.values.shape)) or "scalar",
            str(dataset.values.dtype),
            _range(dataset.values),
            f"{dataset.symbol}: {dataset.long_name}" if dataset.symbol else dataset.long_name,
            f"[{', '.join(dataset.axes)}]" if dataset.axes else "",
        )
        for name, dataset in details.items()
    ]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
    return [
        "  " + "  ".join([*(f"{row[i]:<{widths[i]}}" for i in range(4)), *row[4:]]).rstrip()
        for row in rows
    ]


def _range(values: np.ndarray) -> str:
    if values.dtype.kind not in "iuf":
        return ""
    finite = values[np.isfinite(values)]
    missing = values.size - finite.size
    text = f"{finite.min():.6g} .. {finite.max():.6g}" if finite.size else "no values"
    return f"{text} ({missing} not finite)" if missing else text
