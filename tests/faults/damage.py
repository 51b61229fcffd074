"""Damage finished files; the next run must name each, remake it, and touch nothing else."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
from workspace import Workspace, differences

from hdattn import cache_check


def truncate(path: Path, rng: random.Random, sound: Sequence[Path]) -> None:
    """Cut the end off."""
    with path.open("r+b") as stream:
        stream.truncate(rng.randrange(1, path.stat().st_size))


def flip_a_bit(path: Path, rng: random.Random, sound: Sequence[Path]) -> None:
    """Flip one bit anywhere."""
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def empty(path: Path, rng: random.Random, sound: Sequence[Path]) -> None:
    """Leave nothing in it."""
    path.write_bytes(b"")


def wrong_parameters(path: Path, rng: random.Random, sound: Sequence[Path]) -> None:
    """Put a sound result of other parameters under its name, of the same step if there is one."""
    siblings = [other for other in sound if other.parent == path.parent]
    shutil.copyfile(rng.choice(siblings or sound), path)


def foreign(path: Path, rng: random.Random, sound: Sequence[Path]) -> None:
    """Put a file of another program under its name."""
    path.unlink()
    if rng.random() < 0.5:
        path.write_text("not a result\n")
    else:
        with h5py.File(path, "w") as file:
            file["x"] = [1.0, 2.0]


FAULTS: tuple[Callable[[Path, random.Random, Sequence[Path]], None], ...] = (
    truncate,
    flip_a_bit,
    empty,
    wrong_parameters,
    foreign,
)


def detect_and_repair(
    space: Workspace, reference: dict[str, str], count: int, seed: int
) -> tuple[dict[str, list[int]], list[str]]:
    """Counts ``{fault: [made, detected, repaired]}`` and what went wrong otherwise.

    Each run finds up to half of the files damaged, each kind of fault equally often.
    """
    rng = random.Random(seed)
    counts = {fault.__name__: [0, 0, 0] for fault in FAULTS}
    failures: list[str] = []
    while (left := count - counts["truncate"][0]) > 0:
        each = min(left, max(1, len(space.files()) // (2 * len(FAULTS))))
        _one_round(space, reference, each, rng, counts, failures)
    return counts, failures


def _one_round(
    space: Workspace,
    reference: dict[str, str],
    each: int,
    rng: random.Random,
    counts: dict[str, list[int]],
    failures: list[str],
) -> None:
    whole = {path: path.stat().st_mtime_ns for path in space.files()}
    hit = dict(zip(rng.sample(sorted(whole), each * len(FAULTS)), FAULTS * each, strict=True))
    sound = [path for path in whole if path not in hit]
    for path, fault in hit.items():
        fault(path, rng, sound)
    run = space.run()
    bad = {path for path, _ in cache_check.check(space.cache, incremental=False).bad}
    found = space.digests()
    for path, fault in hit.items():
        name = str(path.relative_to(space.folder))
        count_of = counts[fault.__name__]
        count_of[0] += 1
        count_of[1] += f"{name}: " in run.stdout
        count_of[2] += path not in bad and found.get(name) == reference[name]
    touched = [p for p in sound if p.stat().st_mtime_ns != whole[p]]
    failures += [f"{path}: sound, but made anew" for path in touched]
    if other := differences(found, reference):
        failures.append(f"results differ after a repair: {other}")
    if run.returncode:
        failures.append(f"the run after the damage ended with {run.returncode}:\n{run.stdout}")
