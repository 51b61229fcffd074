"""What the jobs of a finished default scale took, from Snakemake's benchmark files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.timing import MissingRun
from hdattn.catalogue import Catalogue
from hdattn.job_costs import BENCHMARKS, Cost, recorded
from hdattn.project import catalogue_of


def finished_jobs(project: Path) -> tuple[Catalogue, dict[str, Cost]]:
    """The default scale of all figures, and what its jobs cost, by path.

    Paths are those of the cache without their ending, ``model/step/slug-digest``, and
    ``plot/default/figure``.
    """
    catalogue = catalogue_of(project, "default")
    paths = [str(e.path.with_suffix("")) for e in catalogue.experiments]
    paths += [f"plot/default/{name}" for name in catalogue.figures]
    jobs = {path: recorded(project / BENCHMARKS / f"{path}.tsv") for path in paths}
    jobs = {path: costs for path, costs in jobs.items() if costs}
    if len(jobs) < 0.9 * len(paths):
        raise MissingRun(
            f"{project}: {len(jobs)} of {len(paths)} jobs of the default scale left their costs; "
            "run 'make figures' there, or name another folder with --project"
        )
    return catalogue, {path: costs[-1] for path, costs in jobs.items()}


def cores_at_work(project: Path, jobs: Mapping[str, Cost]) -> tuple[int, float] | None:
    """Most jobs side by side, and the share of their cores' time with a job on it.

    From when each job ended and how long it took; None where they were not made in one run, which
    a time as long as the longest job without any shows.
    """
    ends = np.array([(project / BENCHMARKS / f"{path}.tsv").stat().st_mtime for path in jobs])
    seconds = np.array([cost.seconds for cost in jobs.values()])
    begun = ends - seconds
    events = sorted([*zip(begun, itertools.repeat(1)), *zip(ends, itertools.repeat(-1))])
    times, steps = np.array(events).T
    running = np.cumsum(steps)
    idle = np.diff(times)[running[:-1] == 0]
    if idle.size and idle.max() > seconds.max():
        return None
    # a benchmark file is written a moment after its job, so that two in turn seem to overlap
    spans = np.diff(times)
    cores = max(n for n in range(1, int(running.max()) + 1) if spans[running[:-1] >= n].sum() > 60)
    return cores, float(seconds.sum() / (cores * (times[-1] - times[0])))
