"""What jobs ask a scheduler for, and whether a site gives that."""

from __future__ import annotations

import math

from hdattn.cost.model import Estimate

OVERHEAD_MB = 350  # two processes of Snakemake stand beside a job on a cluster
MEMORY_MARGIN, TIME_MARGIN = 1.3, 2.5  # asked for, in multiples of what is expected
LEAST_MB = 500
STARTING_MINUTES = 2  # two processes of Snakemake and one of Python, on a file system that is busy
MEMBER_MINUTES = 1  # one of each, for a member of a bundle; SLURM counts in whole minutes


def memory_mb(estimate: Estimate, attempt: int = 1) -> int:
    """Memory to ask for (MB), more at each attempt."""
    return int(max(LEAST_MB, OVERHEAD_MB + MEMORY_MARGIN * estimate.memory_mb) * attempt)


def minutes(estimate: Estimate, attempt: int = 1, *, bundled: bool = False) -> int:
    """Run time to ask for (min), more at each attempt; members of a bundle add up theirs."""
    starting = MEMBER_MINUTES if bundled else STARTING_MINUTES
    return int(starting + TIME_MARGIN * estimate.seconds / 60) * attempt


def beyond(kind: str, estimate: Estimate, memory_gb: float, hours: float) -> str | None:
    """What a job needs beyond the limits, and how to mend that; None if nothing."""
    if not math.isfinite(estimate.memory_mb + estimate.seconds):
        return f"a job needs more than numbers can tell ({kind})"
    asked, long = memory_mb(estimate) / 1000, minutes(estimate) / 60
    needs = f"a job needs {asked:.3g} GB and {long:.3g} hours ({kind})"
    if asked > memory_gb:
        return f"{needs}, above job_memory_gb = {memory_gb:g}"
    if long > hours:
        return f"{needs}, above job_hours = {hours:g}"
    return None
