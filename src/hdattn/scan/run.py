"""Computing experiments without Snakemake: through the same cache, in parallel, resumable."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from hdattn import physics_code, steps
from hdattn.catalogue import CACHE, with_inputs
from hdattn.errors import CacheError, UserError
from hdattn.experiment import Experiment
from hdattn.seal import verify_file

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
Progress = Callable[[int, int, float], None]


def compute_all(
    experiments: Iterable[Experiment], directory: Path, cores: int, progress: Progress
) -> int:
    """Compute those of ``experiments``, and of what they read, that the cache lacks.

    A result that is damaged or that other physics code made is made anew. ``progress`` is told
    the jobs done, their number and the seconds since the start. Returns how many were computed;
    raises ``UserError`` with a line for each that failed, after all others are done.
    """
    todo: dict[Experiment, None] = {}
    for experiment in dict.fromkeys(with_inputs(experiments)):  # inputs come first
        remade = any(source in todo for source in experiment.inputs.values())
        if remade or not _is_sound(experiment, directory):
            todo[experiment] = None
    if todo:
        os.environ.update(dict.fromkeys(_THREADS, "1"))  # of the workers: one core each
        _Pool(list(todo), directory, progress).run(min(cores, len(todo)))
    return len(todo)


def _is_sound(experiment: Experiment, directory: Path) -> bool:
    try:
        seal = verify_file(directory / CACHE / experiment.path)
    except CacheError:
        return False
    today = physics_code.physics_of(experiment.kind, experiment.parameters)
    return seal.digest == experiment.digest and seal.physics_digest == today


class _Pool:
    """Jobs, each started when what it reads is there."""

    def __init__(self, todo: Sequence[Experiment], directory: Path, progress: Progress):
        self.waiting = list(todo)
        self.total = len(todo)
        self.directory = directory
        self.progress = progress
        self.running: dict[Future[str], Experiment] = {}
        self.absent = set(todo)  # not there: to be computed, or failed
        self.problems: list[str] = []

    def run(self, workers: int) -> None:
        """Run all jobs; a failed one keeps those that read it from starting."""
        start = time.monotonic()
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            while self._start(pool):
                done, _ = wait(self.running, return_when=FIRST_COMPLETED)
                for future in done:
                    self._finish(future)
                left = len(self.waiting) + len(self.running)
                self.progress(self.total - left, self.total, time.monotonic() - start)
        if self.problems:
            raise UserError("\n".join(self.problems))

    def _start(self, pool: ProcessPoolExecutor) -> bool:
        ready = [e for e in self.waiting if not self.absent & set(e.inputs.values())]
        for experiment in ready:
            paths = {role: str(CACHE / e.path) for role, e in experiment.inputs.items()}
            job = (experiment.kind, experiment.parameters, paths, str(CACHE / experiment.path))
            self.running[pool.submit(_compute, str(self.directory), *job)] = experiment
            self.waiting.remove(experiment)
        return bool(self.running)

    def _finish(self, future: Future[str]) -> None:
        experiment = self.running.pop(future)
        try:
            problem = future.result()
        except BrokenProcessPool:
            raise UserError(
                "a worker was killed, perhaps for want of memory; the same command continues, "
                "with --cores 1 if need be"
            ) from None
        if problem:
            self.problems.append(f"{experiment.path}: {problem}")
        else:
            self.absent.discard(experiment)


def _compute(
    directory: str, kind: str, parameters: dict, inputs: dict[str, str], output: str
) -> str:
    """One job in a worker; what is wrong, empty where nothing is."""
    target = Path(directory, output)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        sources = {role: Path(directory, path) for role, path in inputs.items()}
        steps.compute(kind, parameters, sources, target)
    except UserError as error:
        return str(error)
    except MemoryError:
        return "out of memory: it does not fit; lower the scan's sizes"
    return ""
