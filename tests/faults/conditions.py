"""Circumstances a run must not notice, and others it must explain in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from workspace import ROOT, Workspace

_FIGURES = ("staging",)  # enough: the circumstances act on every job alike
_NOWHERE = "/proc/nowhere"  # cannot be made or written, not even by root

# Snakemake itself stops without a cache folder that it can write, so that one stays.
# What changes -> (environment, flags, folder name).
HARMLESS: dict[str, tuple[dict[str, str], list[str], str]] = {
    "no display": ({"DISPLAY": "", "MPLBACKEND": ""}, [], "plain"),
    "HOME and MPLCONFIGDIR read-only": (
        {"HOME": _NOWHERE, "MPLCONFIGDIR": _NOWHERE, "XDG_CACHE_HOME": tempfile.gettempdir()},
        [],
        "home",
    ),
    "HDF5 file locking on": ({"HDF5_USE_FILE_LOCKING": "TRUE"}, [], "locking"),
    "HDF5 file locking off": ({"HDF5_USE_FILE_LOCKING": "FALSE"}, [], "no-locking"),
    "spaces and letters of a path": ({}, [], "Größe α β"),
    "locale C": ({"LC_ALL": "C", "LANG": "C"}, [], "locale"),
    "one core": ({}, [], "one-core"),
}


def unnoticed(folder: Path, reference: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each circumstance with its failure, empty when the results are the reference's."""
    for name, (env, flags, place) in HARMLESS.items():
        space = Workspace(folder / place, _FIGURES)
        cores = 1 if name == "one core" else 2
        yield name, _differs(space, reference, lambda s, e=env, f=flags, c=cores: s.run(
            *f, env=e, cores=c))  # fmt: skip
    space = Workspace(folder / "directory", _FIGURES)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    yield "--directory from elsewhere", _differs(space, reference, lambda s: s.run(
        "--directory", str(s.folder), cwd=elsewhere))  # fmt: skip
    old = os.umask(0o077)
    try:
        space = Workspace(folder / "umask", _FIGURES)
        yield "umask 077", _differs(space, reference, lambda s: s.run())
    finally:
        os.umask(old)
    yield "moved checkout", _moved(folder)


def _differs(space: Workspace, reference: dict[str, str], run: Callable) -> str:
    done = run(space)
    found = space.digests()
    shared = {name: digest for name, digest in reference.items() if name in found}
    if done.returncode or found != shared or not any(n.endswith("staging.pdf") for n in found):
        return done.stdout
    return ""


def _moved(folder: Path) -> str:
    """Results moved to another folder: nothing is to be done there."""
    space = Workspace(folder / "plain, moved", _FIGURES)
    shutil.rmtree(space.folder)
    shutil.move(folder / "plain", space.folder)
    output = space.run().stdout
    return "" if "Nothing to be done" in output else output


def full_disk(folder: Path) -> str:
    """A disk of 1 MB: one line says so, no broken file stays, and room lets the run go on."""
    space = Workspace(folder / "full", _FIGURES)
    script = (
        f"mount -t tmpfs -o size=160k none {space.folder}/results && cd {space.folder} && {{ "
        f"{' '.join(map(_quoted, space.command()))}; "
        "mount -o remount,size=200m results; "
        f"{' '.join(map(_quoted, space.command()))}; }}"
    )
    (space.folder / "results").mkdir()
    return _in_namespace(script, "No space left on device")


def read_only(folder: Path) -> str:
    """A cache that cannot be written: one line names a file and the reason."""
    space = Workspace(folder / "read-only", _FIGURES)
    (space.folder / "results/cache").mkdir(parents=True)
    script = (
        f"mount -t tmpfs -o ro none {space.folder}/results/cache && cd {space.folder} && "
        f"{' '.join(map(_quoted, space.command()))}"
    )
    return _in_namespace(script, "Read-only file system")


def can_mount() -> bool:
    """Whether this machine lets a user mount in a namespace of their own."""
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(ROOT / "tests")]
    return (
        shutil.which("unshare") is not None
        and not subprocess.run(probe, capture_output=True, check=False).returncode
    )


def _in_namespace(script: str, expected: str) -> str:
    run = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    output = run.stdout + run.stderr
    lines = [line for line in output.splitlines() if expected in line]
    if lines and "Traceback" not in output:
        return ""
    return f"no line with {expected!r}, or a traceback:\n{output}"


def _quoted(word: str) -> str:
    return f"'{word}'"
