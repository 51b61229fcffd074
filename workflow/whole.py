"""Results that were written whole before their run was killed: they need not be made again.

Snakemake marks the outputs of every job that it starts and takes the marks off when the job has
ended; what is marked is made anew. A result appears whole or not at all and is verified at the
start of a run, so that for results the marks say nothing.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Container
from pathlib import Path

_MARKS = Path(".snakemake/incomplete")


def unmark(results: Container[str], marks: Path = _MARKS) -> None:
    """Take the marks off these results (paths as Snakemake knows them)."""
    for mark in [path for path in marks.rglob("*") if path.is_file()]:
        if _marked(mark.relative_to(marks)) in results:
            with contextlib.suppress(OSError):  # a mark that stays costs a job, no more
                mark.unlink()


def _marked(mark: Path) -> str | None:
    """The output that a mark is of; None for a file that is no mark.

    Its name is the path in base64, a long one cut into folders that begin with @.
    """
    text = "".join(part.removeprefix("@") for part in mark.parts)
    try:
        return base64.urlsafe_b64decode(text).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
