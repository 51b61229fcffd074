"""How long jobs take on so many slots: a list schedule, longest remaining path first."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from hdattn.cost.bundles import Job

JOB_SECONDS = 10.0
"""Start of a submitted job: Snakemake twice, and the configuration of the paper scale."""


def wall_seconds(jobs: Sequence[Job], seconds: Mapping[str, float], slots: int) -> float:
    """Time until all jobs are done; ``seconds`` of each by name, start included."""
    below = _inputs(jobs)
    waiting = {job.name: len(below[job.name]) for job in jobs}
    above: dict[str, list[str]] = {job.name: [] for job in jobs}
    for name, sources in below.items():
        for source in sources:
            above[source].append(name)
    rank = remaining(jobs, seconds, above)
    ready = [(-rank[name], name) for name, count in waiting.items() if not count]
    heapq.heapify(ready)
    running: list[tuple[float, str]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < slots:
            _, name = heapq.heappop(ready)
            heapq.heappush(running, (now + seconds[name], name))
        now, done = heapq.heappop(running)
        for name in above[done]:
            waiting[name] -= 1
            if not waiting[name]:
                heapq.heappush(ready, (-rank[name], name))
    return now


def remaining(
    jobs: Sequence[Job], seconds: Mapping[str, float], above: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Longest path from the start of each job to the end of everything."""
    found: dict[str, float] = {}
    for job in sorted(jobs, key=lambda job: -job.depth):
        after = (found[name] for name in above[job.name])
        found[job.name] = seconds[job.name] + max(after, default=0.0)
    return found


def _inputs(jobs: Sequence[Job]) -> dict[str, set[str]]:
    """Jobs that each job waits for."""
    made_by = {member: job.name for job in jobs for member in job.members}
    return {
        job.name: {
            made_by[source]
            for member in job.members
            for source in member.inputs.values()
            if source in made_by
        }
        for job in jobs
    }
