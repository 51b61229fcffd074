"""``hdattn where``: the places that make a figure."""

from __future__ import annotations

from pathlib import Path

import click

from hdattn.commands.output import emit
from hdattn.commands.parsing import Command, argument, as_json, option
from hdattn.commands.workflow import directory_option


@click.command(cls=Command)
@argument("figure")
@option("--scale", help="At this scale, by default the configured one.")
@directory_option
@as_json
def where(as_json: bool, figure: str, scale: str | None, directory: Path) -> None:
    """Say what makes a figure.

    Its section, module, caption and test, its files, and the results it is drawn from.
    """
    from hdattn import whereabouts

    found = whereabouts.where(directory, figure, scale)
    if as_json:
        emit(found, as_json)
    else:
        click.echo(whereabouts.text(found))
