"""The whole default scale against a serial script of the naive pieces, extrapolated.

Each kind of job has the processor time it took in a finished default scale, times the ratio that
its naive piece has in the entries above: a script without the package would take that long, one
thing after another. Kinds without a measured piece count once: for those the script is as fast.
How well the cores were used is seen from when each job began and ended.
"""

from __future__ import annotations

from collections import defaultdict

from benchmarks.finished import cores_at_work, finished_jobs
from benchmarks.timing import MissingRun, Settings, row

BUSY = 90  # %
TITLE = "the whole default scale against a serial script of naive pieces, extrapolated"
PIECES = {
    ("a", "a point, as the figures solve it"): (
        *("singlehead/state_evolution", "singlehead/best_regularisation"),
    ),
    ("b", "flow to tau = 10 on 1024 points"): (
        *("multihead/flow", "multihead/flows", "multihead/escape"),
    ),
    ("c", "lam = 0.01"): ("singlehead/erm", "singlehead/erm_path"),
    ("d", "D = 1000, 64 instances, plain loop in steps"): ("multihead/sgd",),
}
"""Entry and row of a naive piece, and the kinds of job that it stands for."""


def ratio_of(settings: Settings, letter: str, what: str) -> float:
    """Median ratio of the row of an entry that begins so."""
    for line in settings.rows.get(letter, []):
        if line["what"].startswith(what):
            return line["median"]
    raise MissingRun(f"entry e needs entry {letter} ({what}): measure that first")


def measure(settings: Settings) -> list[dict]:
    """Ratio of times, and how much of it was measured."""
    catalogue, jobs = finished_jobs(settings.project)
    seconds = defaultdict(float)
    for path, job in jobs.items():
        seconds[path.rpartition("/")[0]] += job.cpu_seconds or job.seconds
    naive, parts = dict(seconds), []
    for (letter, what), kinds in PIECES.items():
        ratio = ratio_of(settings, letter, what)
        naive |= {kind: ratio * seconds[kind] for kind in kinds if kind in seconds}
        own = sum(seconds.get(kind, 0) for kind in kinds)
        parts.append(f"{own / 60:.1f} min x {ratio:.0f} ({letter})")
    total, slow = sum(seconds.values()), sum(naive.values())
    covered = sum(seconds[kind] for kinds in PIECES.values() for kind in kinds if kind in seconds)
    detail = (
        f"{len(catalogue.figures)} figures, {len(jobs)} jobs, {total / 60:.0f} CPU min (measured) "
        f"against {slow / 3600:.0f} h: {', '.join(parts)}; the other "
        f"{(total - covered) / 60:.1f} min x 1"
    )
    rows = [
        row("CPU time of all figures, extrapolated", [slow / total], "x", detail=detail),
        row("of it covered by a measured piece", [100 * covered / total], "%"),
    ]
    if work := cores_at_work(settings.project, jobs):
        what = f"time of the {work[0]} cores with a job on it, from first to last"
        rows.append(row(what, [100 * work[1]], "%", at_least=BUSY))
    return rows
