"""Where a result comes from: versions, commit, host, threads."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

_LIBRARIES = ("numpy", "scipy", "torch", "h5py")
_CHECKOUT = Path(__file__).resolve().parents[2]


def provenance() -> dict[str, Any]:
    """Package version, git commit (empty outside a checkout), library versions, threads, host."""
    return {
        "package_version": _version("hdattn"),
        "git_commit": _git_commit(),
        "library_versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in _LIBRARIES},
        },
        "threads": thread_count(),
        "host": platform.node(),
    }


def thread_count() -> int:
    """Threads that numerical libraries use: OMP_NUM_THREADS, else the cores of this process."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


@cache
def _git_commit() -> str:
    """Commit of the checkout this package lies in, ``-dirty`` when files differ from it."""
    # Without this test git would answer for whatever repository encloses an installed package.
    if not (_CHECKOUT / ".git").exists():
        return ""
    # --no-optional-locks: many jobs ask at once, and none may block a commit being made.
    command = ["git", "--no-optional-locks", "-C", str(_CHECKOUT), "describe"]
    options = ["--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(
            [*command, *options], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""  # no git here, or a checkout of another user: the commit is optional
    return answer.stdout.strip()
