"""Fault suite: kills, damaged files and unusual circumstances against the real workflow.

``python tests/faults`` prints one line of counts for each kind of fault and ends with status 1
when any was not detected or not repaired. ``--short`` is the version for every commit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import conditions
import damage
import kills
import reruns
from workspace import FIGURES, Workspace


class Tally:
    """Counts and failures, printed as they come."""

    def __init__(self) -> None:
        self.failed = False
        self._start = time.monotonic()

    def line(self, what: str, good: int, total: int, failures: list[str]) -> None:
        """Print one line of counts, and each failure in full."""
        seconds = time.monotonic() - self._start
        print(f"{seconds:6.0f} s  {good}/{total}  {what}", flush=True)
        for failure in failures:
            print(f"    {failure}", flush=True)
        self.failed |= bool(failures) or good != total


def main() -> int:
    """Run the suite; 0 when every fault was survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="few faults of each kind")
    parser.add_argument("--kills", type=int, help="kills (60, or 6 with --short)")
    parser.add_argument("--damage", type=int, help="faults of each kind (20, or 2 with --short)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    n_kills = options.kills or (6 if options.short else 60)
    n_damage = options.damage or (2 if options.short else 20)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="hdattn-faults-") as name:
        folder = Path(name)
        figures = FIGURES[:1] if options.short else FIGURES
        reference = _reference(Workspace(folder / "reference", figures), tally)
        space = Workspace(folder / "kills", figures)
        failures = kills.survive_kills(space, reference, n_kills, options.seed)
        tally.line("kills survived", n_kills - len(failures), n_kills, failures)
        failures = kills.refuse_second_run(Workspace(folder / "twice", figures))
        tally.line("second run in one folder refused", 1 - len(failures), 1, failures)
        _damage(space, reference, n_damage, options.seed, tally)
        _all(tally, reruns.exact_reruns(folder / "reruns", space))
        _conditions(folder / "conditions", reference, tally)
    return int(tally.failed)


def _reference(space: Workspace, tally: Tally) -> dict[str, str]:
    run = space.run(cores=1)
    again = space.run()
    idle = "Nothing to be done" in again.stdout
    failures = [] if run.returncode == 0 and idle else [run.stdout, again.stdout]
    tally.line("uninterrupted run, one core; then nothing to be done", int(idle), 1, failures)
    return space.digests()


def _damage(
    space: Workspace, reference: dict[str, str], count: int, seed: int, tally: Tally
) -> None:
    counts, failures = damage.detect_and_repair(space, reference, count, seed)
    for fault, (made, detected, repaired) in counts.items():
        tally.line(f"{fault}: detected", detected, made, [])
        tally.line(f"{fault}: repaired", repaired, made, [])
    tally.line("sound neighbours kept", int(not failures), 1, failures)


def _conditions(folder: Path, reference: dict[str, str], tally: Tally) -> None:
    folder.mkdir()
    _all(tally, conditions.unnoticed(folder, reference))
    if not conditions.can_mount():
        print("not tried: full disk, read-only cache (no mounts in a user namespace here)")
        return
    _all(tally, [("full disk", conditions.full_disk(folder))])
    _all(tally, [("read-only cache", conditions.read_only(folder))])


def _all(tally: Tally, tests: Iterable[tuple[str, str]]) -> None:
    for name, failure in tests:
        tally.line(name, int(not failure), 1, [failure] if failure else [])


if __name__ == "__main__":
    sys.exit(main())
