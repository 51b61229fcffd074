"""Snakemake when there is nothing to compute: a no-op run and a dry run.

The no-op run is that of a folder with a finished default scale, the dry run that of all figures at
the scale of the papers.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from benchmarks.timing import MissingRun, Settings, row
from benchmarks.workflow import ROOT, Usage, snakemake

TITLE = "Snakemake: no-op and dry runs"
NOOP, DRY_RUN = 5, 20  # s
NOTHING = "Nothing to be done"


def idle_run(settings: Settings) -> dict:
    """A run that finds nothing to do, where the default scale is finished."""
    base, options = settings.project, ("--cores", "2", "--config", "scale=default", "figures=all")
    if not (base / "Snakefile").is_file():
        raise MissingRun(f"{base}: no project's folder, it has no Snakefile; name one by --project")
    if NOTHING not in snakemake(base, base, "-n", *options).output:
        raise MissingRun(
            f"{base}: its default scale is not finished; run 'make figures' there, or name another "
            "folder with --project"
        )
    runs = [snakemake(base, base, *options) for _ in range(settings.rounds)]
    return _times("no-op run, default scale", runs, NOOP)


def dry_run(settings: Settings) -> dict:
    """A dry run of all figures at the scale of the papers."""
    options = ("-n", "-q", "--config", f"scale={settings.size('paper', 'smoke')}", "figures=all")
    with tempfile.TemporaryDirectory() as folder:
        runs = [snakemake(ROOT, Path(folder), *options) for _ in range(settings.rounds)]
    return _times("dry run, paper scale", runs, DRY_RUN)


def _times(what: str, runs: list[Usage], most: float) -> dict:
    """Processor seconds: one thread, so on an idle machine the time that one waits."""
    seconds = [run.own + run.jobs for run in runs]
    detail = f"processor time; {median(run.wall for run in runs):.1f} s of wall time at this load"
    return row(what, seconds, "s", at_most=most, detail=detail)


def measure(settings: Settings) -> list[dict]:
    """Both."""
    return [*([] if settings.quick else [idle_run(settings)]), dry_run(settings)]
