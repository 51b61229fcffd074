"""Outputs that stay as they are where the job that makes them anew fails."""

from __future__ import annotations

from pathlib import Path

from snakemake.ioflags import update


def kept(path: str) -> str:
    """The output ``path``, which Snakemake deletes neither before its job nor after a failure.

    Not for all outputs of a rule: by the one that is gone the next run sees that it must be made.
    """
    return update(path) if Path(path).exists() else path
