"""What the workflow does once, when Snakemake reads the Snakefile."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cluster
import restore
import run_lock
import whole

from hdattn import cache_check, configuration, overview, published
from hdattn import configuration_files as reader
from hdattn.catalogue import CACHE, FIGURES, Catalogue
from hdattn.experiment import Experiment
from hdattn.notices import warn

_READ_ONLY = re.compile(
    r"--(dry-?run|lint|unlock|report|list(-.*)?|summary|detailed-summary|dag|rulegraph|filegraph|"
    r"d3dag|cleanup-metadata|containerize|archive|help|version|touch|delete-.*|print-.*)(=.*)?"
)
_DRY_SHORT = re.compile(r"-[FRfkpqr]*n[FRfkpqr]*")


def set_job_environment(base: Path, run: configuration.Run) -> None:
    """Environment of the jobs: this interpreter, this checkout, and one thread each.

    Set here rather than in the rules, so that a moved checkout or another device reruns nothing.
    """
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    os.environ.update(dict.fromkeys(threads, "1"))
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    os.environ["PYTHONPATH"] = str(base / "src")
    os.environ["HDATTN_SCRIPTS"] = str(base / "scripts")
    os.environ["HDATTN_DEVICE"] = run.device
    os.environ["HDATTN_TRAINING_SET_LIMIT_MB"] = str(run.training_set_limit_mb)


def drop_default_rate_limit(workflow: Any) -> None:
    """Take Snakemake's default limit of 100 new jobs a second away; another limit stays.

    Under a limit each pass of the scheduler sets a timer for one more pass, so that every job that
    has ended adds a pass a second for good: a fifth of a core after 250 jobs. To be called when
    the run starts: while the Snakefile is read there are neither these settings nor a scheduler.
    """
    limit = workflow.scheduling_settings.max_jobs_per_timespan
    if limit and (limit.max_jobs, limit.timespan) == (100, 1):
        workflow.scheduler.job_rate_limiter = None


def reads_only(arguments: Sequence[str]) -> bool:
    """Whether this call of Snakemake only looks (dry run, lint, report, ...)."""
    return any(_READ_ONLY.fullmatch(a) or _DRY_SHORT.fullmatch(a) for a in arguments[1:])


def configuration_files(base: str | Path) -> list[str]:
    """The configuration files: those of the working directory, else those beside the Snakefile.

    Raises ``UserError`` with a line for each that cannot be parsed.
    """
    own = Path(reader.FILES[0]).exists()
    files = [name if own else str(Path(base) / name) for name in reader.FILES]
    reader.read_files(files)
    return files


def load_configuration(
    merged: Mapping[str, Any], files: Iterable[str | Path]
) -> configuration.Configuration:
    """Validated configuration; a problem names the file that set the key."""
    _, sources = reader.read_files([_short(path) for path in files])
    return configuration.load(merged, sources)


def _short(path: str | Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def prepare(
    catalogue: Catalogue, configured: configuration.Configuration, *, read_only: bool
) -> None:
    """Check the cache and the figures that are made.

    A read-only call only warns. Otherwise files that cannot be trusted, or that other physics
    code made, are set aside by renaming, so that this run makes them anew.
    """
    for name, section in configured.sections.items():
        for doubt in section.doubts():
            warn(f"{name}.{doubt}")
    if not read_only:
        if run_lock.take():
            warn("the last run here was killed: its lock is removed, and this run goes on")
        cluster.refuse_beside_earlier_jobs(Path())
    cache = Path(CACHE)
    report = cache_check.check(cache)
    bad = dict(report.bad)
    doubtful = _doubtful(catalogue.experiments, bad, set(report.stale))
    _warn_of(bad, doubtful, "would be made anew" if read_only else "set aside and made anew")
    _check_figures(catalogue, read_only)
    if not read_only:
        cache_check.set_aside(doubtful)
        for experiment, before in restore.lost_inputs(catalogue.experiments, cache, set(bad)):
            restore.remake(experiment, cache, before)
        whole.unmark({str(path) for path in _sound(catalogue.experiments, bad, doubtful)})


def _warn_of(bad: Mapping[Path, str], doubtful: Mapping[Path, str], action: str) -> None:
    for path, why in doubtful.items():
        warn(f"{path}: {why}; {action}")
    for path, why in bad.items():
        if path not in doubtful:
            warn(f"{path}: {why}; no selected figure reads it: hdattn check --remove-bad")


def _check_figures(catalogue: Catalogue, read_only: bool) -> None:
    """A line for each figure whose files are not as they were drawn; it is drawn anew."""
    folder = FIGURES / catalogue.run.scale
    stems = [entry.stem for entry in catalogue.figures.values()]
    if overview.is_among(catalogue.figures):
        stems.append(str(folder / overview.NAME))
    for stem in map(Path, [*stems, folder / "validation"]):
        if found := published.problems(stem):
            action = "would be made anew" if read_only else "made anew from the results"
            warn(f"{stem}: {', '.join(found)}; {action}")
            if not read_only:
                published.forget(stem)


def _doubtful(
    experiments: Iterable[Experiment], bad: Mapping[Path, str], stale: set[Path]
) -> dict[Path, str]:
    """Files of ``experiments`` to make anew, with the reason; what reads a stale one is stale."""
    reasons = {}
    for experiment in experiments:  # inputs come before what reads them
        path = Path(CACHE) / experiment.path
        inputs = {Path(CACHE) / e.path for e in experiment.inputs.values()}
        if path in bad:
            reasons[path] = bad[path]
        elif path in stale:
            reasons[path] = "made by other physics code than today's"
        elif path.exists() and inputs & stale:
            stale.add(path)
            reasons[path] = "what it was computed from is stale"
    return reasons


def _sound(
    experiments: Iterable[Experiment], bad: Mapping[Path, str], doubtful: Mapping[Path, str]
) -> Iterator[Path]:
    for experiment in experiments:
        path = Path(CACHE) / experiment.path
        if path not in bad and path not in doubtful and path.exists():
            yield path
