"""Verify a whole cache: which files are bad, stale, orphaned or left over.

Fast enough for the start of every run: no HDF5 is needed (see :mod:`hdattn.seal`), and an index
in the cache folder remembers the verified files, so that only changed ones are read again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from hdattn.atomic import is_leftover, is_temporary_name
from hdattn.cache_index import Verified, load_index, save_index
from hdattn.errors import CacheError, UserError
from hdattn.physics_code import current_physics
from hdattn.seal import Seal, digest_in_name, verify_file

# A file changed twice within one tick of the clock looks unchanged; ticks are coarse on some
# file systems, so files as young as this are read again next time.
_YOUNG = 2_000_000_000  # ns


@dataclass
class CheckReport:
    """What a check found; each file is in one list at most.

    Attributes
    ----------
    folder: the cache.
    bad: files that cannot be trusted, with the problem.
    stale: whole files that other physics code than today's made.
    orphaned: whole files that nothing expected asks for.
    leftovers: temporary files of dead writers.
    files: number of result files in the cache.
    files_read: how many of them had to be read.
    """

    folder: Path
    bad: list[tuple[Path, str]] = field(default_factory=list)
    stale: list[Path] = field(default_factory=list)
    orphaned: list[Path] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)
    files: int = 0
    files_read: int = 0

    @property
    def ok(self) -> bool:
        """Whether every file is whole and where it belongs."""
        return not self.bad

    def lines(self) -> list[str]:
        """One line per finding, then the counts."""
        found = [f"bad: {path}: {problem}" for path, problem in self.bad]
        found += [f"stale: {path}: made by other physics code than today's" for path in self.stale]
        found += [f"orphaned: {path}: no configured figure asks for it" for path in self.orphaned]
        found += [f"left over: {path}: temporary file of a dead run" for path in self.leftovers]
        return [
            *found,
            f"{self.files} files in {self.folder}: {len(self.bad)} bad, {len(self.stale)} stale,"
            f" {len(self.orphaned)} orphaned, {len(self.leftovers)} left over",
        ]


def check(
    cache_folder: Path | str,
    *,
    expected: Iterable[PurePath | str] | None = None,
    incremental: bool = True,
    physics: Callable[[str, str], str | None] = current_physics,
) -> CheckReport:
    """Verify every file of the cache; changes nothing but the index of verified files.

    ``expected`` are the paths, relative to the cache, that current figures ask for; without it
    only files with a name no experiment has are orphaned. ``physics`` gives today's physics digest
    of a kind, told the one that a file was made with. ``incremental=False`` reads all files
    again. A cache that cannot be written is checked all the same, without an index.
    Raises ``UserError`` when the physics code cannot be parsed.
    """
    folder = Path(cache_folder)
    report = CheckReport(folder)
    known = load_index(folder) if incremental else {}
    verified: dict[str, Verified] = {}
    wanted = None if expected is None else {str(folder / path) for path in expected}
    start = time.time_ns()
    for path in _files(folder, report.leftovers):
        report.files += 1
        name = path.relative_to(folder).as_posix()
        try:
            entry = _verify(path, known.get(name), report)
            _verify_place(path, name, entry.seal)
        except CacheError as error:
            report.bad.append((path, error.problem))
            continue
        if start - max(entry.fingerprint[:2]) > _YOUNG:
            verified[name] = entry
        if digest_in_name(path) is None or (wanted is not None and str(path) not in wanted):
            report.orphaned.append(path)
        elif (made_by := entry.seal.physics_digest) != physics(entry.seal.kind, made_by):
            report.stale.append(path)
    if verified != known:
        save_index(folder, verified)
    return report


def _files(folder: Path, leftovers: list[Path]) -> Iterator[Path]:
    """Result files below ``folder`` in a fixed order; temporary ones go to ``leftovers``."""
    # Links are followed: a part of the cache may lie on another disk.
    if not folder.exists():
        return  # nothing computed yet
    for parent, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        folders.sort()
        for name in sorted(names + folders):
            path = Path(parent, name)
            if is_temporary_name(name) and is_leftover(path):
                leftovers.append(path)
            elif name.endswith(".h5"):
                yield path


def _refuse(error: OSError) -> None:
    raise UserError(
        f"{error.filename}: cannot be listed ({error.strerror}); a cache is a readable folder"
    )


def _verify(path: Path, known: Verified | None, report: CheckReport) -> Verified:
    """Entry of a good file: the known one when unchanged, else from reading the file."""
    try:
        status = path.stat()
    except OSError as error:
        raise CacheError(path, f"cannot be read ({error.strerror})") from None
    # Copying tools and users can set the modification time, not the change time.
    fingerprint = [status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino]
    if known is not None and known.fingerprint == fingerprint:
        return known
    report.files_read += 1
    return Verified(fingerprint, verify_file(path))


def _verify_place(path: Path, name: str, seal: Seal) -> None:
    place = name.rpartition("/")[0]
    if digest_in_name(path) is not None and place != seal.kind:
        raise CacheError(path, f"holds {seal.kind}, which does not belong in this folder")


def remove_bad(report: CheckReport) -> list[Path]:
    """Delete the bad files and leftovers of ``report``, so that the next run remakes them.

    Returns the deleted paths. Raises ``UserError``, a line for each that the file system keeps,
    once all others are deleted.
    """
    removed, kept = [], []
    for path in [*(path for path, _ in report.bad), *report.leftovers]:
        try:
            path.unlink()
        except FileNotFoundError:
            continue  # another run was faster
        except OSError as error:
            kept.append(f"{path}: cannot be removed ({error.strerror}); remove it")
        else:
            removed.append(path)
    if kept:
        raise UserError("\n".join(kept))
    return removed


def set_aside(paths: Iterable[Path | str]) -> list[Path]:
    """Rename each file to ``<name>.bad-<time>``; deletes and overwrites nothing.

    Returns the new paths. Raises ``UserError`` when the file system refuses.
    """
    renamed = []
    stamp = time.strftime("%Y%m%dT%H%M%S")
    for path in map(Path, paths):
        try:
            renamed.append(_rename_to_new(path, f"{path.name}.bad-{stamp}"))
        except FileNotFoundError:
            continue  # another run was faster
        except OSError as error:
            raise UserError(
                f"{path}: cannot be renamed ({error.strerror}); remove it or make its folder"
                " writable, then run again"
            ) from None
    return renamed


def _rename_to_new(path: Path, name: str) -> Path:
    number = 0
    while True:
        new = path.with_name(f"{name}-{number}" if number else name)
        try:
            # Taking the name first makes sure that the renaming overwrites nobody's file.
            os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            number += 1
            continue
        try:
            os.replace(path, new)
        except BaseException:
            new.unlink()
            raise
        return new
