"""``hdattn gallery``: the figures on disk as static pages."""

from __future__ import annotations

from pathlib import Path

import click

from hdattn.commands.output import emit
from hdattn.commands.parsing import Command, as_json, option
from hdattn.commands.workflow import directory_option


@click.command(cls=Command)
@option("--scale", help="Only this scale; without it all that have figures.")
@directory_option
@as_json
def gallery(as_json: bool, scale: str | None, directory: Path) -> None:
    """Write the gallery of the figures on disk.

    results/figures/<scale>/index.html and results/index.html: static pages that need no network,
    with captions, parameters, files, provenance, cost and validation.
    """
    from hdattn.gallery import summary_lines, write_gallery

    written = write_gallery(directory, [scale] if scale else [])
    if as_json:
        pages = [{"path": str(p), "figures": [f.name for f in fs]} for p, fs in written.items()]
        return emit({"pages": pages}, as_json)
    for path, figures in written.items():
        click.echo("\n".join([*summary_lines(figures), f"gallery: {path}"]))
