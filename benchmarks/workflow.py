"""Snakemake itself: what it adds to the jobs, and how two cores do.

Four figures at the smoke scale, whose jobs are the shortest, are made in fresh folders, by turns on
one core and on two. One core means that Snakemake and the job share it: Snakemake beside a job on a
second core would use two.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.timing import Settings, row

TITLE = "Snakemake: overhead and parallel efficiency"
ROOT = Path(__file__).parents[1]
OVERHEAD, EFFICIENCY = 10, 90  # %
FIGURES = "[amp,rank,regularisation,stability]"


class Usage(NamedTuple):
    """Wall seconds, processor seconds of Snakemake and of its jobs, and what it printed."""

    wall: float
    own: float
    jobs: float
    output: str


def snakemake(base: Path, folder: Path, *arguments: str, on: Iterable[int] = ()) -> Usage:
    """Run the workflow of ``base`` in a folder, on the cores ``on`` if given.

    A failure ends the benchmark.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "usage.json"
        cores = ",".join(map(str, on))
        command = [sys.executable, str(ROOT / "benchmarks/measured.py"), str(file), cores]
        command += ["-s", str(base / "Snakefile"), "--directory", str(folder), *arguments]
        begun = time.perf_counter()
        done = subprocess.run(
            command,
            env=os.environ | {"PYTHONPATH": str(base / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        wall = time.perf_counter() - begun
        if done.returncode:
            raise SystemExit(f"Snakemake failed: {(done.stdout + done.stderr)[-2000:]}")
        used = json.loads(file.read_text(encoding="utf-8"))
    return Usage(wall, used["own"], used["jobs"], done.stdout + done.stderr)


def make_figures(cores: int, settings: Settings) -> Usage:
    """Make the figures from nothing, on so many cores and no more where the system can tell."""
    allowed = sorted(os.sched_getaffinity(0))[:cores] if hasattr(os, "sched_getaffinity") else ()
    with tempfile.TemporaryDirectory() as folder:
        selection = ("scale=smoke", f"figures={settings.size(FIGURES, '[bayes]')}")
        options = ("--cores", str(cores), "--config", *selection)
        return snakemake(ROOT, Path(folder), *options, on=allowed)


def measure(settings: Settings) -> list[dict]:
    """Overhead and parallel efficiency."""
    one, two = [], []
    for _ in range(settings.rounds):
        one.append(make_figures(1, settings))
        two.append(make_figures(2, settings))
    seconds = sum(run.jobs for run in two) / len(two)
    detail = f"four small figures from nothing: {seconds:.0f} CPU s of jobs"
    walls = [median(run.wall for run in runs) for runs in (one, two)]
    return [
        row(
            "CPU of Snakemake over all CPU",
            [100 * run.own / (run.own + run.jobs) for run in two],
            "%",
            at_most=OVERHEAD,
            detail=f"{detail}, of which a full run has many times more",
        ),
        row(
            "parallel efficiency, 1 to 2 cores",
            [100 * a.wall / (2 * b.wall) for a, b in zip(one, two, strict=True)],
            "%",
            at_least=EFFICIENCY,
            detail=f"the same: {walls[0]:.1f} s and {walls[1]:.1f} s of wall time",
        ),
    ]
