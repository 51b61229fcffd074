"""Circumstances a run must not notice, and others it must explain in one line."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from workspace import FIGURES, ROOT, Workspace, differences

ONE = FIGURES[:1]  # enough: the circumstances act on every job alike
_NOWHERE = "/proc/nowhere"  # cannot be made or written, not even by root
_NOBODY = 65534
# Another user, who may read the code wherever it lies, but writes only what is theirs.
_AS_NOBODY = (
    *("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)

# What changes -> (environment, None for a variable that is not set; folder name).
HARMLESS: dict[str, tuple[dict[str, str | None], str]] = {
    "no display": ({"DISPLAY": None, "MPLBACKEND": None}, "no display"),
    "HOME read-only, MPLCONFIGDIR not set": (
        {"HOME": _NOWHERE, "MPLCONFIGDIR": None, "XDG_CACHE_HOME": None},
        "home",
    ),
    "HOME and MPLCONFIGDIR read-only": (
        {"HOME": _NOWHERE, "MPLCONFIGDIR": _NOWHERE, "XDG_CACHE_HOME": None},
        "home and matplotlib",
    ),
    "HDF5 file locking on": ({"HDF5_USE_FILE_LOCKING": "TRUE"}, "locking"),
    "HDF5 file locking off": ({"HDF5_USE_FILE_LOCKING": "FALSE"}, "no locking"),
    "spaces and letters of a path": ({}, "Größe α β"),
    "locale C": ({"LC_ALL": "C", "LANG": "C"}, "locale"),
}


def unnoticed(
    folder: Path, reference: dict[str, str], *, together: bool
) -> Iterator[tuple[str, str]]:
    """Each circumstance with its failure, empty when the results are the reference's.

    ``together``: in one run, of those that exclude each other the last.
    """
    if together:
        env = {name: value for changed, _ in HARMLESS.values() for name, value in changed.items()}
        names = [n for n, (changed, _) in HARMLESS.items() if changed.items() <= env.items()]
        with _umask(0o077):
            failure = _from_elsewhere(folder / "Größe α β", reference, env)
        yield f"{', '.join(names)}, umask 077, --directory", failure
        return
    for name, (env, place) in HARMLESS.items():
        space = Workspace(folder / place, ONE)
        yield name, _failure(space, space.run(env=env), reference)
    yield "--directory from elsewhere", _from_elsewhere(folder / "directory", reference, {})
    with _umask(0o077):
        space = Workspace(folder / "umask", ONE)
        yield "umask 077", _failure(space, space.run(), reference)


@contextlib.contextmanager
def _umask(mask: int) -> Iterator[None]:
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


def _from_elsewhere(folder: Path, reference: dict[str, str], env: dict[str, str | None]) -> str:
    space = Workspace(folder, ONE)
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir()
    run = space.run("--directory", str(folder), cwd=elsewhere, env=env)
    return _failure(space, run, reference)


def moved(folder: Path, made: Workspace) -> str:
    """Finished results in another folder: nothing is to be done."""
    return _redone(_copied(folder / "moved", made).run())


def another_user(folder: Path, made: Workspace) -> str:
    """Finished results that another user takes over: nothing is to be done."""
    space = _copied(folder / "another user", made)
    for path in (space.folder, *space.folder.rglob("*")):
        os.chown(path, _NOBODY, _NOBODY)
    return _redone(space.run(through=_AS_NOBODY))


def _copied(folder: Path, made: Workspace) -> Workspace:
    space = Workspace(folder, made.figures)
    shutil.rmtree(folder)
    shutil.copytree(made.folder, folder)
    return space


def can_be_nobody() -> bool:
    """Whether a run as another user can be tried: by root."""
    return (
        os.geteuid() == 0
        and shutil.which("setpriv") is not None
        and not subprocess.run([*_AS_NOBODY, sys.executable, "-c", ""], check=False).returncode
    )


def _failure(
    space: Workspace, run: subprocess.CompletedProcess[str], reference: dict[str, str]
) -> str:
    other = differences(space.digests(), reference)
    if run.returncode or other:
        return f"exit status {run.returncode}; different: {other or 'nothing'}\n{run.stdout}"
    return ""


def _redone(run: subprocess.CompletedProcess[str]) -> str:
    return "" if "Nothing to be done" in run.stdout else run.stdout


def full_disk(folder: Path, reference: dict[str, str], kilobytes: int) -> str:
    """One line says that the disk is full, no broken file stays, and room lets the run go on."""
    space = Workspace(folder / f"full at {kilobytes} kB", ONE)
    (space.folder / "results").mkdir()
    run, room = shlex.join(space.command()), "now there is room"
    output = _in_namespace(
        space,
        f"mount -t tmpfs -o size={kilobytes}k none results; {run}; echo {room}; "
        f"mount -o remount,size=200m results; {run} && cp -a results kept",
    )
    before = output.partition(room)[0]
    if not (space.folder / "kept").is_dir():
        return f"it did not go on:\n{output}"
    (space.folder / "results").rmdir()
    (space.folder / "kept").rename(space.folder / "results")
    if other := differences(space.digests(), reference):
        return f"different: {other}\n{output}"
    return _explanation(before, "No space left on device")


def read_only(folder: Path) -> str:
    """A cache that cannot be written: one line names a file and the reason."""
    space = Workspace(folder / "read-only", ONE)
    space.cache.mkdir(parents=True)
    mount = "mount -t tmpfs -o ro none results/cache"
    output = _in_namespace(space, f"{mount}; {shlex.join(space.command())}")
    return _explanation(output, "Read-only file system")


def finished_read_only(folder: Path, made: Workspace) -> str:
    """Finished results that cannot be written: nothing is to be done."""
    space = _copied(folder / "finished", made)
    mount = "mount --bind results results && mount -o remount,bind,ro results"
    output = _in_namespace(space, f"{mount} && {shlex.join(space.command())}")
    return "" if "Nothing to be done" in output and "Traceback" not in output else output


def can_mount() -> bool:
    """Whether this machine lets a user mount in a namespace of their own."""
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(ROOT / "tests")]
    return (
        shutil.which("unshare") is not None
        and not subprocess.run(probe, capture_output=True, check=False).returncode
    )


def _in_namespace(space: Workspace, script: str) -> str:
    """What a shell prints in the folder of ``space``, in a namespace of its own for mounts."""
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        cwd=space.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    ).stdout


def _explanation(output: str, expected: str) -> str:
    if any(expected in line for line in output.splitlines()) and "Traceback" not in output:
        return ""
    return f"no line with {expected!r}, or a traceback:\n{output}"
