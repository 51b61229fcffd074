"""What a figure was made from, as a JSON file beside it: for readers and for the gallery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdattn import catalogue, published
from hdattn import figures as figure_modules
from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.fields import Strict
from hdattn.figures.drawing import Drawing
from hdattn.notices import warn_once
from hdattn.several import Part, file_of

ENDING = published.ENDING
_SHAPE = {"experiments": dict, "inputs": list, "flagged": list, "overlaps": list}


def write(
    stem: Path,
    name: str,
    section: Strict,
    seed: int,
    experiments: Mapping[str, Sequence[Experiment | Part]],
    drawing: Drawing,
    crowded: Sequence[str] = (),
    endings: Sequence[str] = (),
) -> None:
    """Write ``stem.json``: parameters, files of the cache by role and behind them, flagged points.

    ``crowded`` are lines about labels that overlap (:mod:`hdattn.figures.overlaps`), ``endings``
    those of the figure's files, whose SHA-256 it holds (:mod:`hdattn.published`).

    Nothing in it depends on time or place, so that it is the same whenever the figure is.
    """
    files = {role: [file_of(e) for e in group] for role, group in experiments.items()}
    direct = [e for group in files.values() for e in group]
    behind = dict.fromkeys(e for e in catalogue.with_inputs(direct) if e not in set(direct))
    module = figure_modules.module(name)
    content = {
        "name": name,
        "model": module.MODEL,
        "title": module.TITLE,
        "seed": seed,
        "parameters": section.model_dump(mode="json"),
        "experiments": {role: _paths(group) for role, group in files.items()},
        "inputs": _paths(behind),
        "flagged": drawing.flagged,
        "overlaps": list(crowded),
    }
    published.write(stem, content, endings)


def read(stem: Path) -> dict[str, Any] | None:
    """Contents of ``stem.json``; None where there is none or, with a warning, a damaged one."""
    try:
        content = published.read(stem)
    except UserError as error:
        warn_once(f"{error}; the next run draws the figure anew")
        return None
    wrong = content and [
        k for k, kind in _SHAPE.items() if not isinstance(content.get(k, kind()), kind)
    ]
    if wrong:
        warn_once(f"{stem}{ENDING}: damaged at {wrong[0]!r}; remove it and run again")
        return None
    return content


def _paths(experiments: Sequence[Experiment] | Mapping[Experiment, None]) -> list[str]:
    return list(dict.fromkeys(str(experiment.path) for experiment in experiments))
