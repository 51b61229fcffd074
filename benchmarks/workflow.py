"""Snakemake itself: what it adds to the jobs, how two cores do, and runs that compute nothing.

A figure at its default scale is made in fresh folders, by turns on one core and on two. The
no-op run is that of a folder with a finished default scale, the dry run that of all figures at the
scale of the papers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.timing import Settings, row

TITLE = "Snakemake: overhead, parallel efficiency, no-op and dry runs"
ROOT = Path(__file__).parents[1]
OVERHEAD, EFFICIENCY, NOOP, DRY_RUN = 10, 90, 5, 20  # %, %, s, s
FIGURES = "[width]"
NOTHING = "Nothing to be done"


class Usage(NamedTuple):
    """Wall seconds, processor seconds of Snakemake and of its jobs, and what it printed."""

    wall: float
    own: float
    jobs: float
    output: str


def snakemake(base: Path, folder: Path, *arguments: str) -> Usage:
    """Run the workflow of ``base`` in a folder; a failure ends the benchmark."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "usage.json"
        command = [sys.executable, str(ROOT / "benchmarks/measured.py"), str(file)]
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
    """Make the figures from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        selection = (f"scale={settings.size('default', 'smoke')}", f"figures={FIGURES}")
        options = ("--cores", str(cores), "--config", *selection)
        return snakemake(ROOT, Path(folder), *options)


def real_runs(settings: Settings) -> list[dict]:
    """Overhead and parallel efficiency."""
    one, two = [], []
    for _ in range(settings.rounds):
        one.append(make_figures(1, settings))
        two.append(make_figures(2, settings))
    seconds = sum(run.jobs for run in two) / len(two)
    detail = f"figure {FIGURES.strip('[]')} from nothing: {seconds:.0f} CPU s of jobs"
    walls = [sorted(run.wall for run in runs)[len(runs) // 2] for runs in (one, two)]
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


def idle_run(settings: Settings) -> list[dict]:
    """A run that finds nothing to do, where the default scale is finished."""
    base, options = settings.project, ("--cores", "2", "--config", "scale=default", "figures=all")
    if NOTHING not in snakemake(base, base, "-n", *options).output:
        raise SystemExit(
            f"{base}: its default scale is not finished; run 'make figures' there, or name another "
            "folder with --project"
        )
    runs = [snakemake(base, base, *options) for _ in range(settings.rounds)]
    return [_times("no-op run, default scale", runs, NOOP)]


def dry_run(settings: Settings) -> dict:
    """A dry run of all figures at the scale of the papers."""
    options = ("-n", "-q", "--config", f"scale={settings.size('paper', 'smoke')}", "figures=all")
    with tempfile.TemporaryDirectory() as folder:
        runs = [snakemake(ROOT, Path(folder), *options) for _ in range(settings.rounds)]
    return _times("dry run, paper scale", runs, DRY_RUN)


def _times(what: str, runs: list[Usage], most: float) -> dict:
    processor = sorted(run.own + run.jobs for run in runs)[len(runs) // 2]
    detail = f"wall time; {processor:.1f} CPU s"
    return row(what, [run.wall for run in runs], "s", at_most=most, detail=detail)


def measure(settings: Settings) -> list[dict]:
    """All of it."""
    idle = [] if settings.quick else idle_run(settings)
    return [*real_runs(settings), *idle, dry_run(settings)]
