"""What the workflow does once, when Snakemake reads the Snakefile."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hdattn import cache_check, configuration, physics_code
from hdattn.catalogue import CACHE, FIGURES, Catalogue

_READ_ONLY = re.compile(
    r"--(dry-?run|lint|unlock|report|list(-.*)?|summary|detailed-summary|dag|rulegraph|filegraph|"
    r"d3dag|cleanup-metadata|containerize|archive|help|version|touch|delete-.*|print-.*)(=.*)?"
)
_DRY_SHORT = re.compile(r"-[FRfkpqr]*n[FRfkpqr]*")


def one_thread() -> dict[str, str]:
    """Environment of a job: one thread, since jobs run side by side."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return dict.fromkeys(names, "1")


def reads_only(arguments: Sequence[str]) -> bool:
    """Whether this call of Snakemake only looks (dry run, lint, report, ...)."""
    return any(_READ_ONLY.fullmatch(a) or _DRY_SHORT.fullmatch(a) for a in arguments[1:])


def load_configuration(
    merged: Mapping[str, Any], files: Iterable[str | Path]
) -> configuration.Configuration:
    """Validated configuration; a problem names the file that set the key."""
    contents = [(_short(path), yaml.safe_load(Path(path).read_text()) or {}) for path in files]
    return configuration.load(merged, configuration.Sources(contents))


def _short(path: str | Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def prepare(
    catalogue: Catalogue, configured: configuration.Configuration, *, read_only: bool
) -> None:
    """Check the cache and record the merged configuration beside the figures.

    A read-only call only warns. Otherwise files that cannot be trusted, or that other physics
    code made, are set aside by renaming, so that this run makes them anew.
    """
    experiments = {Path(CACHE) / e.path: e for e in catalogue.experiments}
    report = cache_check.check(Path(CACHE), digests=_digests(experiments.values()))
    doubtful = [(path, problem) for path, problem in report.bad if path in experiments]
    doubtful += [(path, problem) for path, problem in report.stale if path in experiments]
    for path, problem in doubtful:
        action = "would be made anew" if read_only else "set aside and made anew"
        print(f"hdattn: warning: {path}: {problem}; {action}", file=sys.stderr)
    if not read_only:
        cache_check.set_aside([path for path, _ in doubtful])
        _write_if_changed(
            Path(FIGURES) / configured.run.scale / "run_config.yaml",
            yaml.safe_dump(configured.merged(), sort_keys=False),
        )


def _digests(experiments: Iterable[Any]) -> dict[str, str]:
    return {kind: physics_code.physics_digest(kind) for kind in {e.kind for e in experiments}}


def _write_if_changed(path: Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
