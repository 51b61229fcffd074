"""What a figure was made from, as a JSON file beside it: for readers and for the gallery."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdattn import catalogue
from hdattn import figures as figure_modules
from hdattn.experiment import Experiment
from hdattn.fields import Strict
from hdattn.figures.drawing import Drawing
from hdattn.several import Part, file_of

ENDING = ".json"


def write(
    stem: Path,
    name: str,
    section: Strict,
    seed: int,
    experiments: Mapping[str, Sequence[Experiment | Part]],
    drawing: Drawing,
    crowded: Sequence[str] = (),
) -> None:
    """Write ``stem.json``: parameters, files of the cache by role and behind them, flagged points.

    ``crowded`` are lines about labels that overlap (:mod:`hdattn.figures.overlaps`).

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
    text = json.dumps(content, indent=1, ensure_ascii=False)
    stem.with_name(f"{stem.name}{ENDING}").write_text(text + "\n", encoding="utf-8")


def read(stem: Path) -> dict[str, Any] | None:
    """Contents of ``stem.json``; None where a version without such files drew the figure."""
    path = stem.with_name(f"{stem.name}{ENDING}")
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _paths(experiments: Sequence[Experiment] | Mapping[Experiment, None]) -> list[str]:
    return list(dict.fromkeys(str(experiment.path) for experiment in experiments))
