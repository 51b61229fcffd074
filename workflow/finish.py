"""What the workflow does when a run ends, well or not: its record, the gallery, and a summary."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from hdattn import atomic, configuration_files, figures, gallery
from hdattn.canonical import canonical_json
from hdattn.catalogue import FIGURES
from hdattn.configuration import Configuration
from hdattn.errors import UserError
from hdattn.figures import details
from hdattn.gallery.collect import Page
from hdattn.notices import warn


def finish(base: Path, configured: Configuration, workflow: Any) -> None:
    """Record what the figures of this run were made with, write the gallery, and sum up."""
    scale, names = configured.run.scale, list(configured.sections)
    unmade = {job.rule.name for job in workflow.dag.needrun_jobs()} & set(names)
    if any(Path(FIGURES, scale).glob("*/*.png")):
        try:
            record(Path(FIGURES, scale), configured)
            written = gallery.write_gallery(Path(), [scale], base / gallery.CAPTIONS)
        except (UserError, OSError) as error:
            warn(f"the gallery is not made: {error}; try 'hdattn gallery'")
        else:
            for path, pages in written.items():
                lines = [*summary([page for page in pages if page.name in names], unmade)]
                print("\n".join([*lines, f"gallery: {path}"]), file=sys.stderr)


def record(folder: Path, configured: Configuration) -> None:
    """Write ``run_config.yaml``: the merged configuration of the figures that lie in ``folder``.

    Of a figure that could not be made the section of an older run stays, as the older figure does.
    """
    path, content = folder / "run_config.yaml", configured.merged()
    older = _older(path)
    unmade = [name for name in configured.sections if not _is_made(folder, name, content)]
    if len(unmade) == len(configured.sections):
        return  # all that lies there is of an older run
    for name in unmade:
        del content[name]
        content |= {name: older[name]} if name in older else {}
    content["figures"] = [name for name in content["figures"] if name in content]
    text = yaml.safe_dump(content, sort_keys=False)
    if not (path.exists() and path.read_bytes() == text.encode()):
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise atomic.cannot_write(path, error) from None


def _is_made(folder: Path, name: str, content: Mapping[str, Any]) -> bool:
    """Whether the figure was drawn with the section and the seed of this run."""
    made = details.read(folder / figures.module(name).MODEL / name) or {}
    asked = {"parameters": content[name], "seed": content["seed"]}
    return canonical_json({key: made.get(key) for key in asked}) == canonical_json(asked)


def _older(path: Path) -> dict[str, Any]:
    try:
        return configuration_files.read_file(path)
    except UserError:
        return {}  # there is none, or it is damaged


def summary(pages: Collection[Page], unmade: Collection[str]) -> list[str]:
    """A line per figure; of one that could not be made none of its older numbers."""
    lines = gallery.summary_lines([page for page in pages if page.name not in unmade])
    kept = {page.name for page in pages}
    return lines + [
        f"{name}: not made in this run{' (older figure kept)' if name in kept else ''}"
        for name in sorted(unmade)
    ]
