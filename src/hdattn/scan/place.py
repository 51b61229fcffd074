"""Where the files of a scan may go: over those of an earlier scan, and over nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from hdattn.catalogue import CACHE, FIGURES
from hdattn.errors import UserError

ENDINGS = ("csv", "h5", "png")
_OURS = {CACHE: "the results of the workflow", FIGURES: "its figures"}


def stem_of(out: str, directory: Path) -> Path:
    """Path of the scan's files without their ending, from what a user wrote.

    Raises ``UserError``, before anything is computed, where ``out`` names no file, lies among the
    results of the project in ``directory``, or would overwrite a file that no scan wrote.
    """
    path = Path(out)
    if not path.name.strip(". ") or path.name in [f".{ending}" for ending in ENDINGS]:
        raise UserError(f"--out: {out!r} names no file; give a name, as in --out tables/decay")
    if out.endswith(os.sep) or path.is_dir():
        raise UserError(f"--out: {out!r} is a folder; name a file in it, as in {path / 'decay'}")
    stem = path.with_suffix("") if path.suffix.lstrip(".") in ENDINGS else path
    for folder, holds in _OURS.items():
        if _is_in(stem, directory / folder):
            raise UserError(f"--out: {out!r} lies in {folder}, with {holds}; give another folder")
    _refuse_foreign(stem)
    return stem


def _is_in(path: Path, folder: Path) -> bool:
    """By its name or, through links, in truth."""
    named = Path(os.path.abspath(path)).is_relative_to(os.path.abspath(folder))
    return named or path.resolve().is_relative_to(folder.resolve())


def _refuse_foreign(stem: Path) -> None:
    """The HDF5 file is written first and says that it is a scan's; so are those beside it."""
    files = [Path(f"{stem}.{ending}") for ending in ENDINGS]
    there = [file for file in files if os.path.lexists(file)]
    table = Path(f"{stem}.h5")
    if not there or _is_scan(table):
        return
    file = table if table in there else there[0]
    raise UserError(
        f"--out: {file} is there, and no scan wrote it; give another name, or move it away"
    )


def _is_scan(table: Path) -> bool:
    import h5py

    try:
        with h5py.File(table, "r", locking=False) as file:
            return "scan" in file.attrs
    except OSError:
        return False  # not there, damaged, or no HDF5
