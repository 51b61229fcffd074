"""Short jobs bundled, so that a cluster is not asked for jobs of seconds.

Members of a bundle run one after another on one core, and none needs another: all lie at the same
depth of the graph. A bundle takes `LEAST` seconds or more where there is that much to do, the
starting of its members included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hdattn.experiment import Experiment

LEAST = 120.0
"""Jobs expected to take less (s) are bundled."""

STARTING = 5.0
"""What a member costs beside its computing (s), as measured: Snakemake and Python start for it."""

FULL = 270.0
"""Time (s), with the starting of its members, at which a bundle is full. Each asks for a minute at
least, and partitions for short jobs have limits of an hour or two."""


@dataclass(frozen=True)
class Job:
    """What is submitted at once: experiments at one depth of the graph."""

    name: str
    depth: int
    members: list[Experiment]


def depths(experiments: Iterable[Experiment]) -> dict[Experiment, int]:
    """Longest chain of inputs behind each experiment; inputs come before what reads them."""
    found: dict[Experiment, int] = {}
    for experiment in experiments:
        below = [found[source] for source in experiment.inputs.values()]
        found[experiment] = 1 + max(below, default=-1)
    return found


def jobs_of(experiments: Iterable[Experiment], seconds: Callable[[Experiment], float]) -> list[Job]:
    """Every experiment in one job: long ones alone, short ones in bundles of their depth."""
    alone, short = [], {}
    for experiment, depth in depths(experiments).items():
        if seconds(experiment) < LEAST:
            short.setdefault(depth, []).append(experiment)
        else:
            alone.append(Job(experiment.name, depth, [experiment]))
    bundled = [
        Job(f"bundle-{depth}-{number}", depth, members)
        for depth, group in sorted(short.items())
        for number, members in enumerate(_cut(group, seconds))
    ]
    return alone + bundled


def _cut(group: list[Experiment], seconds: Callable[[Experiment], float]) -> list[list[Experiment]]:
    """Neighbours together, in as many bundles of like times as full ones would be."""
    times = [seconds(experiment) + STARTING for experiment in group]
    count = max(1, int(sum(times) // FULL))
    bundles: list[list[Experiment]] = [[] for _ in range(count)]
    before = 0.0
    for experiment, time in zip(group, times, strict=True):
        middle = before + time / 2
        bundles[min(count - 1, int(count * middle / sum(times)))].append(experiment)
        before += time
    return [bundle for bundle in bundles if bundle]
