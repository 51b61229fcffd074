"""Files that appear whole or not at all, whatever kills the writer."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from hdattn.errors import UserError
from hdattn.process import host, is_running, start_time

_DAY = 86400.0
_NAME = re.compile(r"\.writing-(?P<host>.+)-(?P<pid>\d+)-(?P<start>\d+)-\d+\.tmp")
_counter = itertools.count()


def write_atomically(path: Path | str, *pieces: bytes) -> None:
    """Make ``path`` from ``pieces``: temporary file in its folder, fsync, rename.

    The permissions are those the umask gives a new file. Missing folders are made, and
    temporary files of dead writers in the folder are removed. On failure ``path`` is what it
    was before. Raises ``UserError`` when the file system refuses (full, read-only, ...).
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        temporary = path.parent / temporary_name()
        try:
            _write_and_sync(temporary, pieces)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cannot_write(path, error) from None
    _sync_folder(path.parent)


def cannot_write(path: Path | str, error: OSError) -> UserError:
    """What a user is told when the file system refuses ``path`` (full, read-only, ...)."""
    return UserError(
        f"{path}: cannot be written ({error.strerror or error}); mend that, then run the same"
        " command again: finished results are kept"
    )


def _write_and_sync(path: Path, pieces: tuple[bytes, ...]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(descriptor, "wb") as stream:
        for piece in pieces:
            stream.write(piece)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    # Some network file systems refuse to sync a folder; the file itself is already safe there.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def temporary_name() -> str:
    """Name of a new temporary file of this process: host, process id and its start time."""
    pid = os.getpid()
    return f".writing-{host()}-{pid}-{start_time(pid) or 0}-{next(_counter)}.tmp"


def temporary_files(folder: Path) -> Iterator[Path]:
    """Temporary files that writers, living or dead, have in ``folder``."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_temporary_name(entry.name):
                yield Path(entry.path)


def is_temporary_name(name: str) -> bool:
    """Whether ``name`` is one that :func:`temporary_name` makes."""
    return _NAME.fullmatch(name) is not None


def is_leftover(path: Path) -> bool:
    """Whether the temporary file ``path`` belongs to no running writer.

    On this host that is known: the process is gone, or another one now has its number. Of
    other hosts only age tells: a write takes seconds, so a day is safe.
    """
    name = _NAME.fullmatch(path.name)
    if name is None:
        return False
    if name["host"] == host():
        return not is_running(int(name["pid"]), int(name["start"]))
    try:
        return time.time() - path.stat().st_mtime > _DAY
    except OSError:
        return False


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of dead writers in ``folder``; never a running writer's."""
    for path in list(temporary_files(folder)):
        if is_leftover(path):
            # Another process may be cleaning too, or the file may be another user's.
            with contextlib.suppress(OSError):
                path.unlink()
