"""The command ``hdattn``: exit status 0 solved, 1 not converged, 2 bad input."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Sequence
from importlib import metadata

import click

from hdattn.commands.cost import cost
from hdattn.commands.gallery import gallery
from hdattn.commands.multihead import multihead
from hdattn.commands.output import warn
from hdattn.commands.parsing import usage_line
from hdattn.commands.scan import scan
from hdattn.commands.singlehead import singlehead
from hdattn.commands.where import where
from hdattn.commands.workflow import COMMANDS
from hdattn.errors import UserError

INTERRUPTED = 130  # what shells report for Ctrl-C
BAD_INPUT = 2


def _version() -> str:
    try:
        return metadata.version("hdattn")
    except metadata.PackageNotFoundError:
        return "not installed"


@click.group(invoke_without_command=True, context_settings={"max_content_width": 100})
@click.version_option(_version())
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Theory and simulation of high-dimensional attention.

    One-off questions to the library; the figures themselves are made with 'make figures' or
    'snakemake'. Exit status: 0 solved, 1 not converged (prints what it has), 2 bad input.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for command in (singlehead, multihead, gallery, where, scan, cost, *COMMANDS):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status; never a traceback for bad input."""
    warnings.showwarning = _show_warning
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly when `head` has seen enough
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Exit status of the command line ``arguments``, the process's own by default."""
    try:
        status = cli.main(arguments, prog_name="hdattn", standalone_mode=False) or 0
        sys.stdout.flush()
        return status
    except click.UsageError as error:
        lines = [usage_line(error)]
    except (UserError, click.ClickException) as error:
        lines = str(error).splitlines()
    except MemoryError:
        lines = ["out of memory: sizes this large do not fit; lower them"]
    except OSError as error:
        lines = [f"{error.filename or 'output'}: {error.strerror}; mend that, then try again"]
    except click.Abort:
        click.echo("hdattn: interrupted", err=True)
        return INTERRUPTED
    for line in lines:
        click.echo(f"hdattn: error: {line}", err=True)
    return BAD_INPUT


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    warn(f"{message}")
