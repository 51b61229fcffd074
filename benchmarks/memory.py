"""Peak memory of the jobs of a finished default scale against what the cost model foresaw."""

from __future__ import annotations

import numpy as np

from benchmarks.finished import finished_jobs
from benchmarks.timing import Settings, row

TITLE = "peak memory of default-scale jobs against the cost model"
LIMIT_MB = 2000


def measure(settings: Settings) -> list[dict]:
    """The largest peak, and how the peaks compare with what was foreseen."""
    catalogue, jobs = finished_jobs(settings.project)
    peaks = {path: job.memory_mb for path, job in jobs.items() if job.memory_mb > 0}
    largest = max(peaks, key=lambda path: peaks[path])
    foreseen = {
        str(e.path.with_suffix("")): catalogue.estimate(e).memory_mb for e in catalogue.experiments
    }
    shares = {path: 100 * peaks[path] / mb for path, mb in foreseen.items() if path in peaks}
    worst = max(shares, key=lambda path: shares[path])
    return [
        row(
            "largest peak of a job",
            [peaks[largest]],
            "MB",
            at_most=LIMIT_MB,
            detail=f"{largest}, of {len(peaks)} jobs that left their peak",
        ),
        row(
            "peak over foreseen, the largest",
            [shares[worst]],
            "%",
            detail=f"{worst}: {peaks[worst]:.0f} of {foreseen[worst]:.0f} MB",
        ),
        row("peak over foreseen, the median job", [np.median(list(shares.values()))], "%"),
    ]
