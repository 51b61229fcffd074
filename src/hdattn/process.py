"""Who wrote a file: a process on a host, and whether it still runs."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def host() -> str:
    """Host name; in a container also its process numbering, as numbers differ between them."""
    try:
        namespace = re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    except OSError:
        namespace = ""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", platform.node())[:64]
    return f"{name}.{namespace}" if namespace else name


def is_running(pid: int, start: int) -> bool:
    """Whether process ``pid`` of this host, started at tick ``start`` (0: unknown), still runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it runs, as another user
    now = start_time(pid)
    return now is None or start in (0, now)


def start_time(pid: int) -> int | None:
    """Start of process ``pid`` in clock ticks since boot; None where the system hides it."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command name, in parentheses, may hold spaces: count fields after it.
    return int(status.rpartition(b")")[2].split()[19])
