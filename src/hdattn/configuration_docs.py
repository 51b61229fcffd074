"""config/README.md and config/schema.json, generated from the typed models.

``python -m hdattn.configuration_docs`` writes both into the ``config`` folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hdattn import figures as figure_modules
from hdattn.configuration import BUILT_IN_SCALES, LIKE, Run
from hdattn.fields import is_size
from hdattn.scan.sections import SCANS

_INTRODUCTION = """# Configuration

<!-- Generated from the typed models by `make docs`; a test keeps this page in step. -->

`config.yaml` says what to run and at which scale; `multihead.yaml` and `singlehead.yaml` hold one
section per figure. Everything is validated before any job runs: each problem is one line that
names the file and the key and ends with the remedy.

    snakemake --cores 8 --config scale=smoke figures=[staging]      # keys on the command line
    snakemake --cores 8 --configfile mine.yaml                      # a file of your own on top

**Scales.** A section may hold `scales: {smoke: {...}, default: {...}, paper: {...}}`, whose keys
replace those of the section. The three built-in scales change only *sizes* (marked below). A scale
of your own may change anything, starts from `default` (or from what it is `like`), and writes to
`results/figures/<its name>/`, so that a changed parameter never overwrites the published figures:

    learning_curves:
      scales:
        lownoise: {noise: 0.1}
        quick: {like: smoke, noise: 0.1}

then `make figures SCALE=lownoise FIGURES=learning_curves`.

**Numbers** may be written as `1e-3`. **Grids** are increasing lists, or
`{start: 0.1, stop: 4, points: 12, spacing: log}` (or `linear`).
"""


_SCANS = """
## scans (config.yaml)

Grids of your own, through the same cache; none unless you name some. An axis is a number, a list,
or `start:stop:points` (even in the logarithm; `start:stop:points:linear`).

    scans:
      decay: {model: singlehead, alpha: "0.1:10:30", lam: [0.01, 0.1]}

then `snakemake scans` (or `snakemake scan_decay`) makes `results/scans/decay.csv`, `.h5` (the same
table) and `.png` (a quick look). The command `hdattn scan` does the same without a configuration.
"""


def schema() -> dict[str, Any]:
    """JSON schema of the merged configuration: the run's keys and one section per figure."""
    run = Run.model_json_schema()
    definitions = run.pop("$defs", {})
    for name in figure_modules.names():
        section = _section_model(name).model_json_schema()
        definitions.update(section.pop("$defs", {}))
        keys = section["properties"]
        like = {"enum": list(BUILT_IN_SCALES), "description": "Scale that this one changes."}
        scale = {
            "type": "object",
            "properties": {**keys, LIKE: like},
            "additionalProperties": False,
        }
        keys = {**keys, "scales": {"type": "object", "additionalProperties": scale}}
        run["properties"][name] = {**section, "properties": keys}
    run["properties"]["scans"] = _scans_schema(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **run,
        "title": "hdattn",
        **({"$defs": definitions} if definitions else {}),
    }


def _scans_schema(definitions: dict[str, Any]) -> dict[str, Any]:
    """Any number of scans by name, each of one of the models."""
    kinds = []
    for model in SCANS.values():
        section = model.model_json_schema()
        definitions.update(section.pop("$defs", {}))
        section["required"] = sorted({*section.get("required", []), "model"})
        kinds.append(section)
    return {"type": "object", "additionalProperties": {"oneOf": kinds}}


def readme() -> str:
    """Text of config/README.md."""
    parts = [_INTRODUCTION, "## config.yaml\n", _table(Run)]
    parts.append(_SCANS)
    for name, model in SCANS.items():
        parts += [f"### A scan of {name}\n", _table(model)]
    for name in figure_modules.names():
        module = figure_modules.module(name)
        parts.append(f"\n## {name} ({module.MODEL}.yaml)\n\n{module.TITLE}.\n")
        parts.append(_table(module.Section))
    return "\n".join(parts)


def _section_model(name: str) -> type[BaseModel]:
    return figure_modules.module(name).Section


def _table(model: type[BaseModel]) -> str:
    lines = ["| key | default | size | meaning |", "|---|---|---|---|"]
    for name, info in model.model_fields.items():
        shown = "to be given" if info.is_required() else f"`{_json(info.default)}`"
        kind = "yes" if is_size(model, name) else ""
        lines.append(f"| `{name}` | {shown} | {kind} | {info.description} |")
    return "\n".join(lines) + "\n"


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def write(folder: Path) -> None:
    """Write README.md and schema.json into ``folder``."""
    folder.joinpath("README.md").write_text(readme(), encoding="utf-8")
    text = json.dumps(schema(), indent=2, ensure_ascii=False)
    folder.joinpath("schema.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path("config"))
    print("wrote config/README.md and config/schema.json")
