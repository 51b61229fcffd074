"""Progress of a run in words: figures and jobs done, jobs under way, time left."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from hdattn.catalogue import CACHE, Catalogue, with_inputs

PLOT_SECONDS = 5.0
EVERY = 10.0  # seconds between lines
_SHOWN = 3  # jobs under way that are named
_NEVER_SURE = 0.9  # share of a job's expected time that counts as done while it runs


def wanted(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether somebody watches: lines are for terminals, not for files, pipes and CI."""
    return stream.isatty() and not environment.get("CI")


def follow(catalogue: Catalogue, workflow: object) -> None:
    """Have progress written to a terminal as Snakemake's logger tells of its jobs."""
    if wanted(sys.stderr):
        from snakemake.logging import logger

        logger.addHandler(Follower(Progress(expected_seconds(catalogue)), sys.stderr, workflow))


def expected_seconds(catalogue: Catalogue) -> dict[str, dict[str, float]]:
    """By figure (and scan): what each of its files takes, inputs among them."""
    expected = {}
    for entry in (*catalogue.figures.values(), *catalogue.scans.values()):
        needed = with_inputs(entry.direct())
        files = {str(CACHE / e.path): catalogue.estimate(e).seconds for e in needed}
        expected[entry.name] = files | {f"{entry.stem}.csv": PLOT_SECONDS}
    return expected


@dataclass
class Job:
    """A job under way: the file it makes, its name for a reader, and when it started."""

    file: str
    name: str
    start: float


class Progress:
    """What is done and what is left of a run.

    ``expected`` is what :func:`expected_seconds` says; what jobs of this run have taken corrects
    it. ``clock`` gives seconds.
    """

    def __init__(
        self,
        expected: Mapping[str, Mapping[str, float]],
        clock: Callable[[], float] = time.monotonic,
    ):
        self.expected = expected
        self.clock = clock
        self.pending: dict[str, float] = {}
        self.running: dict[int, Job] = {}
        self.figures, self.figures_done = 0, 0
        self.begin, self.busy, self.done = clock(), 0.0, 0.0

    def start(self, rules: Iterable[str]) -> None:
        """The run begins; ``rules`` are those that have jobs."""
        names = [name for name in map(_bare, rules) if name in self.expected]
        self.figures, self.begin = len(names), self.clock()
        for name in names:
            for file, seconds in self.expected[name].items():
                if not Path(file).exists() or file.endswith(".csv"):
                    self.pending[file] = seconds

    def job_starts(self, number: int, rule: str, files: Iterable[str]) -> None:
        """Job ``number`` of ``rule`` starts to make ``files``."""
        files = list(files)
        file = next((f for f in files if f in self.pending), files[0] if files else rule)
        name = Path(file).stem.rpartition("-")[0] if file.endswith(".h5") else ""
        self.running[number] = Job(file, f"{rule} {name}".strip(), self.clock())

    def job_ends(self, number: int, *, well: bool = True) -> None:
        """Job ``number`` is over."""
        job = self.running.pop(number, None)
        if job is None:
            return
        seconds = self.pending.pop(job.file, 0.0)
        if well:
            self.busy += self.clock() - job.start if seconds else 0.0
            self.done += seconds
            self.figures_done += _bare(job.name) in self.expected

    def seconds_left(self) -> float | None:
        """Estimate; None before anything can be said."""
        now = self.clock()
        if not self.done or not self.busy or now <= self.begin:
            return None
        speed = self.done / self.busy  # expected seconds in one of a job
        under_way = sum(
            min(_NEVER_SURE * self.pending.get(job.file, 0.0), speed * (now - job.start))
            for job in self.running.values()
        )
        rate = (self.done + under_way) / (now - self.begin)
        return max(0.0, sum(self.pending.values()) - under_way) / rate

    def line(self, done: int, total: int) -> str:
        """Jobs and figures done, jobs under way, time left."""
        parts = [f"{done} of {total} jobs"]
        if self.figures:
            parts[0] += f", {self.figures_done} of {self.figures} figures done"
        names = [job.name for job in self.running.values()]
        if len(names) > _SHOWN:
            names[_SHOWN:] = [f"{len(names) - _SHOWN} more"]
        if names:
            parts.append(f"now {', '.join(names)}")
        left = self.seconds_left()
        parts += [] if left is None or done == total else [f"about {spoken(left)} left"]
        return f"hdattn: {'; '.join(parts)}"


def spoken(seconds: float) -> str:
    """A time as one says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _bare(rule: str) -> str:
    return rule.removeprefix("scan_")


class Follower(logging.Handler):
    """Hears of Snakemake's jobs and writes a line at times, where a run is not on a cluster.

    It keeps still under ``--quiet`` and beside another logger.
    """

    def __init__(self, progress: Progress, stream: TextIO, workflow: object):
        super().__init__()
        self.progress, self.stream, self.workflow = progress, stream, workflow
        self.last = progress.clock()

    def emit(self, record: logging.LogRecord) -> None:
        """Note what the record says of jobs."""
        event = str(getattr(record, "event", None) or "")
        if event == "run_info":
            self.progress.start(set(record.stats) - {"total"})
        elif event == "job_info":
            self.progress.job_starts(record.jobid, record.rule_name, record.output)
        elif event == "job_finished":
            self.progress.job_ends(record.job_id)
        elif event == "job_error":
            self.progress.job_ends(record.jobid, well=False)
        elif event == "progress" and self._due(record.done == record.total):
            print(self.progress.line(record.done, record.total), file=self.stream, flush=True)

    def _due(self, last: bool) -> bool:
        settings = self.workflow.output_settings
        if not self.workflow.local_exec or settings.quiet or settings.log_handler_settings:
            return False
        now = self.progress.clock()
        if now - self.last < EVERY and not last:
            return False
        self.last = now
        return True
