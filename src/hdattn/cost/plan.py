"""Jobs, CPU hours, memory and wall time of the figures of a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hdattn.catalogue import Catalogue, with_inputs
from hdattn.cost.bundles import LEAST, STARTING, Job, jobs_of
from hdattn.cost.limits import memory_mb
from hdattn.cost.schedule import JOB_SECONDS, wall_seconds
from hdattn.experiment import Experiment
from hdattn.steps import RULES

HOUR = 3600.0
_RULE_OF = {kind: rule for rule, kinds in RULES.items() for kind in kinds}


def plan(catalogue: Catalogue, slots: int) -> dict[str, Any]:
    """Costs of each figure and rule, and in all: ``scale, slots, figures, total``.

    What several figures share counts for each of them, and once in the total. Drawing is left out:
    seconds a figure, where the workflow was started.
    """
    figures = []
    for entry in catalogue.figures.values():
        needed = list(dict.fromkeys(with_inputs(entry.direct())))
        rules = {rule: [e for e in needed if _RULE_OF[e.kind] == rule] for rule in RULES}
        figures.append(
            {
                "name": entry.name,
                "model": entry.model,
                "rules": {r: _costs(catalogue, some) for r, some in rules.items() if some},
                **_costs(catalogue, needed),
                "wall_hours": _wall(catalogue, needed, slots),
            }
        )
    every = catalogue.experiments
    total = _costs(catalogue, every) | {
        "wall_hours": _wall(catalogue, every, slots),
        "critical_path_hours": _wall(catalogue, every, len(every) + 1),
        "short_jobs": sum(_seconds(catalogue, job) < LEAST for job in catalogue.jobs),
    }
    return {
        "scale": catalogue.run.scale,
        "slots": slots,
        "machine_speed": catalogue.run.machine_speed,
        "figures": figures,
        "total": total,
    }


def _costs(catalogue: Catalogue, experiments: Sequence[Experiment]) -> dict[str, Any]:
    """Sums over experiments; ``jobs`` are those submitted once short ones are bundled."""
    estimates = [catalogue.estimate(e) for e in experiments]
    jobs = {catalogue.job_of(e).name: catalogue.job_of(e) for e in experiments}
    return {
        "experiments": len(experiments),
        "jobs": len(jobs),
        "cpu_hours": sum(x.seconds for x in estimates) / HOUR,
        "memory_gb": max((memory_mb(x) for x in estimates), default=0) / 1000,
        "longest_hours": max((x.seconds for x in estimates), default=0.0) / HOUR,
        "flops": sum(x.flops for x in estimates),
        "bytes": sum(x.bytes for x in estimates),
    }


def _wall(catalogue: Catalogue, experiments: Iterable[Experiment], slots: int) -> float:
    jobs = jobs_of(experiments, lambda e: catalogue.estimate(e).seconds)
    seconds = {job.name: JOB_SECONDS + _seconds(catalogue, job) for job in jobs}
    return wall_seconds(jobs, seconds, slots) / HOUR


def _seconds(catalogue: Catalogue, job: Job) -> float:
    """Time expected (s), with the starting of the members of a bundle."""
    starting = STARTING * len(job.members) if len(job.members) > 1 else 0.0
    return starting + sum(catalogue.estimate(e).seconds for e in job.members)
