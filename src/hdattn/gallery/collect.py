"""What lies on disk of the figures of one scale: files, parameters, provenance, cost, verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hdattn import figures as figure_modules
from hdattn import published
from hdattn.catalogue import CACHE
from hdattn.figures import details, drawn, validation
from hdattn.job_costs import Cost, job_costs

FILES = {
    "PDF": ".pdf",
    "SVG": ".svg",
    "PNG": ".png",
    "numbers drawn (CSV)": ".csv",
    "all that is in the panels (CSV)": drawn.ENDING,
    "validation (CSV)": validation.PART_ENDING,
    "made from (JSON)": details.ENDING,
}


@dataclass
class Page:
    """One figure of one scale.

    Attributes
    ----------
    stem: path of its files without their ending.
    parameters: its section; None where the figure's version left no JSON file.
    experiments: paths in the cache by role; those behind them are in ``inputs``.
    provenance: what the results say about their origin, a list of distinct values each.
    problems: files that are not as they were drawn.
    overlaps: labels that lie upon others or are cut off, legends upon data.
    costs: of all its jobs that left a benchmark file, by the rule that ran them.
    """

    name: str
    model: str
    title: str
    stem: Path
    files: dict[str, Path]
    parameters: dict[str, Any] | None = None
    experiments: dict[str, list[str]] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    provenance: dict[str, list[str]] = field(default_factory=dict)
    flagged: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    validation: list[dict[str, Any]] = field(default_factory=list)
    costs: dict[str, Cost] = field(default_factory=dict)

    @property
    def cached(self) -> list[str]:
        """Every file of the cache behind the figure, once."""
        direct = (path for paths in self.experiments.values() for path in paths)
        return list(dict.fromkeys([*self.inputs, *direct]))

    def verdicts(self) -> dict[str, int]:
        """How many points have each verdict."""
        kinds = (validation.AGREE, validation.DISAGREE, validation.UNRELIABLE)
        return {kind: sum(row["verdict"] == kind for row in self.validation) for kind in kinds}


def collect(directory: Path, scale_folder: Path) -> list[Page]:
    """The figures in ``scale_folder``, multihead first; ``directory`` holds the results."""
    known = {name: i for i, name in enumerate(figure_modules.names())}
    stems = [path.with_suffix("") for path in scale_folder.glob("*/*.png")]
    stems = [stem for stem in stems if stem.parent.name in figure_modules.MODELS]
    stems.sort(key=lambda stem: (stem.parent.name, known.get(stem.name, len(known)), stem.name))
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in validation.collect(scale_folder):
        rows.setdefault(row["figure"], []).append(row)
    return [_page(directory, stem, rows.get(stem.name, [])) for stem in stems]


def _page(directory: Path, stem: Path, rows: list[dict[str, Any]]) -> Page:
    files = {
        label: path
        for label, ending in FILES.items()
        if (path := stem.with_name(stem.name + ending)).is_file()
    }
    found = details.read(stem) or {}
    page = Page(
        stem.name,
        stem.parent.name,
        found.get("title", _title(stem.name)),
        stem,
        files,
        found.get("parameters"),
        found.get("experiments", {}),
        found.get("inputs", []),
        flagged=found.get("flagged", []),
        overlaps=found.get("overlaps", []),
        problems=published.problems(stem),
        validation=rows,
    )
    cache = directory / CACHE
    page.missing = [path for path in page.cached if not (cache / path).is_file()]
    page.provenance = _provenance(cache / path for path in page.cached if path not in page.missing)
    if found:  # else what it was made from is not known
        page.costs = job_costs(directory, stem.parents[1].name, stem.name, page.cached)
    return page


def _title(name: str) -> str:
    return figure_modules.module(name).TITLE if name in figure_modules.names() else ""


def _provenance(files: Iterable[Path]) -> dict[str, list[str]]:
    """Versions, commits, hosts and threads in the attributes of result files."""
    found: dict[str, dict[str, None]] = {}
    for file in files:
        for key, value in _origin(file):
            found.setdefault(key, {})[value] = None
    return {key: list(values) for key, values in found.items()}


def _origin(file: Path) -> Iterator[tuple[str, str]]:
    """Pairs of what a result file says of its origin; none where it cannot be read."""
    import h5py

    try:
        with h5py.File(file, "r", locking=False) as opened:
            attributes = dict(opened.attrs)
    except OSError:
        yield "unreadable files", file.name
        return
    for key, label in (("package_version", "hdattn"), ("git_commit", "commit")):
        yield label, str(attributes.get(key, "")) or "unknown"
    libraries = json.loads(attributes.get("library_versions", "{}"))
    yield "libraries", ", ".join(f"{name} {version}" for name, version in libraries.items())
    yield "threads", str(attributes.get("threads", "unknown"))
    yield "host", str(attributes.get("host", "unknown"))
