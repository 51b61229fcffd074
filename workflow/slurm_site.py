"""What a SLURM says of itself: its partitions, the accounts of a user, and jobs in its queue."""

from __future__ import annotations

import getpass
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hdattn.errors import UserError


@dataclass(frozen=True)
class Partition:
    """A partition: its limit in minutes (None: no limit), and whether jobs go there by default."""

    minutes: int | None
    default: bool


def partitions_of_site() -> dict[str, Partition]:
    """Partitions by name; ``UserError`` where there is no SLURM or it does not answer."""
    try:
        listing = output("sinfo", "--noheader", "--format=%P|%l")
    except FileNotFoundError:
        raise UserError(
            "there is no SLURM on this machine (no sinfo): run this on a login node of the"
            " cluster, or without the SLURM profile"
        ) from None
    except subprocess.SubprocessError as error:
        raise UserError(f"SLURM does not answer: {error}") from None
    rows = (line.split("|") for line in listing.split())
    return {
        name.rstrip("*"): Partition(minutes_of(limit), name.endswith("*")) for name, limit in rows
    }


def minutes_of(limit: str) -> int | None:
    """Minutes of a SLURM time such as ``1-00:00:00``, ``2:00:00`` or ``30:00``."""
    if not re.fullmatch(r"(\d+-)?\d+(:\d+){1,2}", limit):
        return None  # infinite
    days, _, clock = limit.rpartition("-")
    hours, minutes, _ = [0, 0, *map(int, clock.split(":"))][-3:]
    return int(days or 0) * 1440 + hours * 60 + minutes


def accounts() -> str:
    """Accounts of this user, in words; empty on a site that does not say."""
    command = ("sacctmgr", "--noheader", "--parsable2", "list", "associations")
    try:
        listing = output(*command, f"user={getpass.getuser()}", "format=account")
    except (OSError, subprocess.SubprocessError):
        return ""  # a site without accounting
    return ", ".join(sorted(set(listing.split())))


def listing(partitions: dict[str, Partition]) -> str:
    """Partitions and their limits in words."""
    return ", ".join(
        name if p.minutes is None else f"{name} (up to {p.minutes} minutes)"
        for name, p in partitions.items()
    )


def jobs_with_logs_in(folder: Path) -> list[tuple[str, str]]:
    """Name and state of the jobs of this user, queued or running, that print to files there."""
    try:
        listing = output("squeue", "--me", "--noheader", "--Format=Name:100,State:20,STDOUT:4000")
    except (OSError, subprocess.SubprocessError):
        return []  # no SLURM here, or it does not answer
    rows = [line.split(maxsplit=2) for line in listing.splitlines()]
    return [(name, state) for name, state, log in rows if folder in Path(log).parents]


def output(*command: str) -> str:
    """What a command prints; raises what :func:`subprocess.run` does."""
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return run.stdout
