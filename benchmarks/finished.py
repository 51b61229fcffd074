"""What the jobs of a finished default scale took, from Snakemake's benchmark files."""

from __future__ import annotations

from pathlib import Path

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
