"""Damage finished files; the next run must name each, remake it, and touch nothing else."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
from workspace import Workspace, differences

from hdattn import cache_check


def truncate(path: Path, rng: random.Random) -> None:
    """Cut the end off."""
    with path.open("r+b") as stream:
        stream.truncate(rng.randrange(1, path.stat().st_size))


def flip_a_bit(path: Path, rng: random.Random) -> None:
    """Flip one bit anywhere."""
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def empty(path: Path, rng: random.Random) -> None:
    """Leave nothing in it."""
    path.write_bytes(b"")


def swap(path: Path, rng: random.Random) -> None:
    """Put a sound result of other parameters under its name."""
    others = sorted(set(path.parent.glob("*.h5")) - {path}) or sorted(
        set(path.parents[1].rglob("*.h5")) - {path}
    )
    shutil.copyfile(rng.choice(others), path)


def foreign(path: Path, rng: random.Random) -> None:
    """Put a file of another program under its name."""
    path.unlink()
    if rng.random() < 0.5:
        path.write_text("not a result\n")
    else:
        with h5py.File(path, "w") as file:
            file["x"] = [1.0, 2.0]


FAULTS: tuple[Callable[[Path, random.Random], None], ...] = (
    truncate,
    flip_a_bit,
    empty,
    swap,
    foreign,
)


def detect_and_repair(
    space: Workspace, reference: dict[str, str], count: int, seed: int
) -> tuple[dict[str, list[int]], list[str]]:
    """Counts ``{fault: [made, detected, repaired]}`` and what went wrong otherwise."""
    rng = random.Random(seed)
    counts = {fault.__name__: [0, 0, 0] for fault in FAULTS}
    failures = []
    for _ in range(count):
        whole = {path: path.stat().st_mtime_ns for path in space.files()}
        hit = dict(zip(rng.sample(sorted(whole), len(FAULTS)), FAULTS, strict=True))
        for path, fault in hit.items():
            fault(path, rng)
        run = space.run()
        bad = {path for path, _ in cache_check.check(space.cache, incremental=False).bad}
        found = space.digests()
        for path, fault in hit.items():
            name = str(path.relative_to(space.folder))
            count_of = counts[fault.__name__]
            count_of[0] += 1
            count_of[1] += f"{name}: " in run.stdout
            count_of[2] += path not in bad and found.get(name) == reference[name]
        touched = [p for p in whole if p not in hit and p.stat().st_mtime_ns != whole[p]]
        failures += [f"{path}: sound, but made anew" for path in touched]
        if other := differences(found, reference):
            failures.append(f"results differ after a repair: {other}")
        if run.returncode:
            failures.append(f"the run after the damage ended with {run.returncode}:\n{run.stdout}")
    return counts, failures
