"""Where a figure comes from: its section, module, caption, test, results and experiments."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from hdattn import figures as figure_modules
from hdattn import project
from hdattn.catalogue import CACHE, FigureEntry, with_inputs
from hdattn.configuration_files import FILES
from hdattn.figures.code import helpers

_CHECKOUT = Path(__file__).resolve().parents[2]


def where(directory: Path, name: str, scale: str | None = None) -> dict[str, Any]:
    """Everything that makes figure ``name``, at ``scale`` or the configured one.

    ``section``, ``module``, ``helpers``, ``caption`` and ``test`` are places (None where there is
    none), ``outputs`` and ``experiments`` files with ``made``, whether they are there. Raises
    ``UserError`` for an unknown figure or scale.
    """
    module = figure_modules.module(name)
    catalogue = project.catalogue_of(directory, scale)
    entry = catalogue.figures[name]
    return {
        "name": name,
        "model": entry.model,
        "title": entry.title,
        "scale": entry.scale,
        "section": _section(directory, name),
        "module": _shown(Path(module.__file__), directory),
        "helpers": [_shown(path, directory) for path in helpers(name)],
        "caption": _beside(directory, f"workflow/report/{name}.rst"),
        "test": _test_of(directory, name),
        "outputs": _files(directory, [f"{entry.stem}.{e}" for e in _endings()]),
        "experiments": _experiments(directory, entry),
    }


def text(found: dict[str, Any]) -> str:
    """The same for reading: a line per place, and experiments counted by kind."""
    lines = [f"{found['name']}: {found['title']} ({found['model']}, scale {found['scale']})"]
    for key in ("section", "module", "caption", "test"):
        lines.append(f"  {key:<9} {found[key] or '-'}")
    lines += [f"  {'helper':<9} {path}" for path in found["helpers"]]
    lines += [f"  {'made' if f['made'] else 'not made':<9} {f['path']}" for f in found["outputs"]]
    total = Counter(e["kind"] for e in found["experiments"])
    made = Counter(e["kind"] for e in found["experiments"] if e["made"])
    lines += [f"  {made[k]} of {n} made: {CACHE}/{k}/" for k, n in total.items()]
    return "\n".join(lines)


def _endings() -> list[str]:
    return [*project.ENDINGS, "json", "drawn.csv", "validation.csv"]


def _section(directory: Path, name: str) -> str | None:
    """``file:line`` of the figure's section."""
    for file in FILES:
        path = directory / file
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.match(rf"{re.escape(name)}\s*:", line):
                return f"{path}:{number}"
    return None


def _experiments(directory: Path, entry: FigureEntry) -> list[dict[str, Any]]:
    found = dict.fromkeys(with_inputs(entry.direct()))
    files = _files(directory, [str(CACHE / e.path) for e in found])
    return [{"kind": e.kind, **file} for e, file in zip(found, files, strict=True)]


def _files(directory: Path, paths: list[str]) -> list[dict[str, Any]]:
    return [{"path": path, "made": (directory / path).is_file()} for path in paths]


def _test_of(directory: Path, name: str) -> str | None:
    """The figure's test: the file named after it, else the first that imports it."""
    own = _beside(directory, f"tests/test_figure_{name}.py")
    shared = sorted((directory / "tests").glob("test_figure_*.py"))
    found = (f"tests/{p.name}" for p in shared if re.search(rf"import .*\b{name}\b", p.read_text()))
    return own or next(found, None)


def _beside(directory: Path, path: str) -> str | None:
    """A file of the project's folder, else of the checkout this package lies in."""
    for base in (directory, _CHECKOUT):
        if (base / path).is_file():
            return _shown(base / path, directory)
    return None


def _shown(path: Path, directory: Path) -> str:
    """``path`` as seen from the working directory, if it lies in the project's folder."""
    base, full = directory.resolve(), path.resolve()
    return str(directory / full.relative_to(base)) if full.is_relative_to(base) else str(path)
