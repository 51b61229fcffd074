"""Scans that were asked for on the command line, noted so that their results are known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from hdattn.atomic import write_atomically
from hdattn.canonical import canonical_json, digest
from hdattn.catalogue import SCANS as FOLDER
from hdattn.catalogue import with_inputs
from hdattn.configuration import scan_from
from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.scan.sections import Scan

NOTES = FOLDER / "asked"


def note(scan: Scan, seed: int, directory: Path) -> Path:
    """Note ``scan`` in the project's folder ``directory``, one file for each; its path."""
    content = {"scan": scan.model_dump(mode="json"), "seed": seed}
    path = directory / NOTES / f"{scan.model}-{digest(content)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, canonical_json(content).encode() + b"\n")
    return path


def experiments(directory: Path) -> Iterator[Experiment]:
    """What the noted scans need, inputs first; notes that are none (any more) are passed over."""
    for path in sorted((directory / NOTES).glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            scan = scan_from(content["scan"]["model"], content["scan"], path.name)
        except (UserError, ValueError, KeyError, TypeError):
            continue  # damaged, or from a version with other keys: nothing asks for its files
        for group in scan.experiments(content["seed"]).values():
            yield from with_inputs(group)
