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

PARTS = ("kills", "damage", "edits", "conditions")
FULL = (100, 250)  # kB: before all experiments are written, and while the figure is


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
    options = _options()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="hdattn-faults-") as name:
        folder = Path(name)
        one = Workspace(folder / "one figure", FIGURES[:1])
        reference_of_one = _reference(one, tally)
        space, reference = one, reference_of_one
        if not options.short:
            space = Workspace(folder / "figures", FIGURES)
            reference = _reference(space, tally)
        if "kills" in options.only:
            _kills(folder, space.figures, reference, options, tally)
        if "damage" in options.only:
            _damage(space, reference, options.damage, options.seed, tally)
        if "edits" in options.only:
            _all(tally, reruns.exact_reruns(folder / "edits", space))
        if "conditions" in options.only:
            _conditions(folder / "conditions", one, reference_of_one, options.short, tally)
    return int(tally.failed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="few faults of each kind")
    parser.add_argument("--kills", type=int, help="kills (60, or 6 with --short)")
    parser.add_argument("--damage", type=int, help="faults of each kind (20, or 2 with --short)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="these parts alone")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.kills = options.kills or (6 if options.short else 60)
    options.damage = options.damage or (2 if options.short else 20)
    return options


def _reference(space: Workspace, tally: Tally) -> dict[str, str]:
    run = space.run(cores=1)
    again = space.run()
    idle = "Nothing to be done" in again.stdout
    failures = [] if run.returncode == 0 and idle else [run.stdout, again.stdout]
    what = f"uninterrupted run of {', '.join(space.figures)} on one core; then nothing to be done"
    tally.line(what, int(idle), 1, failures)
    return space.digests()


def _kills(
    folder: Path,
    figures: tuple[str, ...],
    reference: dict[str, str],
    options: argparse.Namespace,
    tally: Tally,
) -> None:
    space = Workspace(folder / "kills", figures)
    failures = kills.survive_kills(space, reference, options.kills, options.seed)
    tally.line("kills survived", options.kills - len(failures), options.kills, failures)
    failures = kills.refuse_second_run(Workspace(folder / "twice", figures))
    tally.line("second run in one folder refused", 1 - len(failures), 1, failures)


def _damage(
    space: Workspace, reference: dict[str, str], count: int, seed: int, tally: Tally
) -> None:
    counts, failures = damage.detect_and_repair(space, reference, count, seed)
    for fault, (made, detected, repaired) in counts.items():
        tally.line(f"{fault}: detected", detected, made, [])
        tally.line(f"{fault}: repaired", repaired, made, [])
    tally.line("sound neighbours kept", int(not failures), 1, failures)


def _conditions(
    folder: Path, made: Workspace, reference: dict[str, str], short: bool, tally: Tally
) -> None:
    folder.mkdir()
    _all(tally, conditions.unnoticed(folder, reference, together=short))
    _all(tally, [("results moved to another folder", conditions.moved(folder, made))])
    if conditions.can_be_nobody():
        _all(tally, [("results of another user", conditions.another_user(folder, made))])
    else:
        print("not tried: another user (needs root and setpriv)")
    if not conditions.can_mount():
        print("not tried: full disk, read-only results (no mounts in a user namespace here)")
        return
    for kilobytes in FULL[:1] if short else FULL:
        failure = conditions.full_disk(folder, reference, kilobytes)
        _all(tally, [(f"disk full at {kilobytes} kB, then room", failure)])
    _all(tally, [("read-only cache", conditions.read_only(folder))])
    _all(tally, [("finished results, read-only", conditions.finished_read_only(folder, made))])


def _all(tally: Tally, tests: Iterable[tuple[str, str]]) -> None:
    for name, failure in tests:
        tally.line(name, int(not failure), 1, [failure] if failure else [])


if __name__ == "__main__":
    sys.exit(main())
