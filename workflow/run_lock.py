"""One run per folder, and no lock left by a dead one.

Snakemake's own lock outlives a killed run and then refuses the next one. Ours is held by the
operating system and goes with its owner: whoever gets it knows that Snakemake's is left over.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from hdattn.errors import UserError
from hdattn.process import host

_FILE = Path(".snakemake/hdattn-run.lock")
_SNAKEMAKE_LOCKS = Path(".snakemake/locks")
_held: list[IO[str]] = []  # open for as long as this process runs


def take() -> bool:
    """Take the folder for this run; True when a lock of a dead run was removed.

    Raises ``UserError`` when another run is at work here. Where the file system has no locks,
    or a run on another host was last here, Snakemake's own lock is left to decide.
    """
    _FILE.parent.mkdir(parents=True, exist_ok=True)
    stream = open(_FILE, "a+")  # noqa: SIM115 (closed by the end of the process)
    stream.seek(0)
    owner = stream.read().split()
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        stream.close()
        if not isinstance(error, BlockingIOError):
            return False
        raise UserError(
            f"another run{_describe(owner)} is at work in this folder; wait for it, or give this"
            " one a folder of its own with --directory"
        ) from None
    _held.append(stream)
    stream.truncate(0)
    stream.write(f"{host()} {os.getpid()}")
    stream.flush()
    return owner[:1] == [host()] and _remove_locks()


def _describe(owner: list[str]) -> str:
    return f" (process {owner[1]} on {owner[0].partition('.')[0]})" if len(owner) == 2 else ""


def _remove_locks() -> bool:
    locks = list(_SNAKEMAKE_LOCKS.glob("*.lock"))
    for lock in locks:
        lock.unlink(missing_ok=True)
    return bool(locks)
