"""Verify a whole cache: which files are bad, stale, orphaned or left over.

Fast enough for the start of every run: no HDF5 is needed (see :mod:`hdattn.seal`), and an index
in the cache folder remembers the verified files, so that only changed ones are read again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath

from hdattn.atomic import is_leftover, is_temporary_name
from hdattn.cache_index import Verified, load_index, save_index
from hdattn.errors import CacheError, MisnamedError, UserError
from hdattn.physics_code import current_physics, is_kind, is_model
from hdattn.seal import digest_in_name, verify_file

# A file changed twice within one tick of the clock looks unchanged; ticks are coarse on some
# file systems, so files as young as this are read again next time.
_YOUNG = 2_000_000_000  # ns
_NOT_ENTERED = "a link to a folder of no results, or to one that is looked at already; not entered"


@dataclass
class CheckReport:
    """What a check found; each file is in one list at most.

    Attributes
    ----------
    folder: the cache.
    bad: files in the folders of results that cannot be trusted, with the problem.
    misnamed: those of them that are whole, but hold another result than their names say.
    misplaced: files elsewhere in the cache, with what is wrong; nobody reads or removes them.
    links: folders that are links and were not entered: no part of a cache, or seen already.
    stale: whole files that other physics code than today's made.
    orphaned: whole files that nothing expected asks for.
    leftovers: temporary files of dead writers.
    files: number of result files in the cache.
    files_read: how many of them had to be read.
    """

    folder: Path
    bad: list[tuple[Path, str]] = field(default_factory=list)
    misnamed: set[Path] = field(default_factory=set)
    misplaced: list[tuple[Path, str]] = field(default_factory=list)
    links: list[Path] = field(default_factory=list)
    stale: list[Path] = field(default_factory=list)
    orphaned: list[Path] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)
    files: int = 0
    files_read: int = 0

    @property
    def ok(self) -> bool:
        """Whether every file in the folders of results is whole and has its name."""
        return not self.bad

    def lines(self) -> list[str]:
        """One line per finding, then the counts."""
        found = [f"bad: {path}: {problem}" for path, problem in self.bad]
        found += [f"misplaced: {path}: {problem}" for path, problem in self.misplaced]
        found += [f"link: {path}: {_NOT_ENTERED}" for path in self.links]
        found += [f"stale: {path}: made by other physics code than today's" for path in self.stale]
        found += [f"orphaned: {path}: no configured figure asks for it" for path in self.orphaned]
        found += [f"left over: {path}: temporary file of a dead run" for path in self.leftovers]
        return [
            *found,
            f"{self.files} files in {self.folder}: {len(self.bad)} bad, {len(self.stale)} stale,"
            f" {len(self.orphaned)} orphaned, {len(self.leftovers)} left over"
            + (f", {len(self.misplaced)} misplaced" if self.misplaced else ""),
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
    for path in _files(folder, report):
        report.files += 1
        name = path.relative_to(folder).as_posix()
        try:
            entry = _verify(path, known.get(name), report)
        except CacheError as error:
            _note_problem(path, name, error, report)
            continue
        if digest_in_name(path) is not None and _kind_of(name) != entry.seal.kind:
            problem = f"holds {entry.seal.kind}, which does not belong in this folder"
            report.misplaced.append((path, problem))
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


def _files(folder: Path, report: CheckReport) -> Iterator[Path]:
    """Result files below ``folder`` in a fixed order; the report gets temporary ones and links.

    A part of the cache may lie on another disk: a folder of results that is a link is entered,
    after all that lies here. Other links lead to what is no part of the cache, or in circles.
    """
    if not folder.exists():
        return  # nothing computed yet
    seen: set[tuple[int, int]] = set()
    waiting = [folder]
    while waiting:
        top = waiting.pop(0)
        if _identity(top) in seen or not (top == folder or _is_part(top.relative_to(folder))):
            report.links.append(top)
            continue
        for parent, folders, names in os.walk(top, onerror=_refuse):
            seen.add(_identity(Path(parent)))
            waiting += [Path(parent, f) for f in sorted(folders) if Path(parent, f).is_symlink()]
            for path in (Path(parent, name) for name in sorted(names + folders)):
                if is_temporary_name(path.name) and is_leftover(path):
                    report.leftovers.append(path)
                elif path.name.endswith(".h5"):
                    yield path
            folders[:] = sorted(f for f in folders if _identity(Path(parent, f)) not in seen)


def _identity(folder: Path) -> tuple[int, int]:
    """What tells a folder from all others, whatever path leads to it."""
    try:
        status = folder.stat()
    except OSError as error:
        raise _refusal(error) from None
    return status.st_dev, status.st_ino


def _is_part(folder: PurePath) -> bool:
    """Whether this folder of a cache is one of a family or of a kind of results."""
    return is_model(folder.name) if len(folder.parts) == 1 else is_kind(folder.as_posix())


def _kind_of(name: str) -> str:
    return name.rpartition("/")[0]


def _note_problem(path: Path, name: str, error: CacheError, report: CheckReport) -> None:
    if not is_kind(_kind_of(name)):
        report.misplaced.append((path, f"{error.problem}; it lies in no folder of results"))
        return
    report.bad.append((path, error.problem))
    if isinstance(error, MisnamedError):
        report.misnamed.add(path)


def _refuse(error: OSError) -> None:
    raise _refusal(error)


def _refusal(error: OSError) -> UserError:
    return UserError(
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


def remove_bad(report: CheckReport) -> list[Path]:
    """Delete the bad files and leftovers of ``report``, so that the next run remakes them.

    What is whole is renamed, not deleted (:func:`set_aside`), and what is misplaced stays. Returns
    the paths that are gone. Raises ``UserError``, a line for each that the file system keeps,
    once all others are deleted.
    """
    removed, kept = [], []
    for path in [*(path for path, _ in report.bad), *report.leftovers]:
        try:
            if path in report.misnamed:
                set_aside([path])
            else:
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
    """Rename each file (or folder) to ``<name>.bad-<time>``; deletes and overwrites nothing.

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
    if path.is_dir() and not path.is_symlink():
        make, remove = Path.mkdir, Path.rmdir
    else:
        make, remove = partial(Path.touch, exist_ok=False), Path.unlink
    number = 0
    while True:
        new = path.with_name(f"{name}-{number}" if number else name)
        try:
            # Taking the name first makes sure that the renaming overwrites nobody's file.
            make(new)
        except FileExistsError:
            number += 1
            continue
        try:
            os.replace(path, new)
        except BaseException:
            remove(new)
            raise
        return new
