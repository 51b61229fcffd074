"""Configuration -> experiments -> file names.

Every figure names its experiments; the same experiment asked by two figures is one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from hdattn import figures as figure_modules
from hdattn import solvable
from hdattn.canonical import canonical_json
from hdattn.configuration import Configuration
from hdattn.cost import Estimate, Job, estimate, jobs_of
from hdattn.cost.limits import beyond
from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.fields import Strict, is_size
from hdattn.figures import contract
from hdattn.several import Part, file_of, join

CACHE = PurePosixPath("results/cache")
FIGURES = PurePosixPath("results/figures")
SCANS = PurePosixPath("results/scans")


def experiments_of(name: str, section: Strict, seed: int) -> dict[str, list[Experiment | Part]]:
    """Experiments of figure ``name`` by role, joined as its section says.

    A conflict in the section is a ``UserError``.
    """
    module = figure_modules.module(name)
    roles = contract.experiments(name, module, section, seed)
    return join(roles, section.per_job, getattr(module, "SHARED", ()))


def with_inputs(experiments: Iterable[Experiment]) -> Iterator[Experiment]:
    """The experiments and everything they read, inputs first."""
    for experiment in experiments:
        yield from with_inputs(experiment.inputs.values())
        yield experiment


@dataclass(frozen=True)
class FigureEntry:
    """A figure at one scale, and what it needs."""

    name: str
    scale: str
    section: Strict
    experiments: dict[str, list[Experiment | Part]]

    @property
    def model(self) -> str:
        """Family of the figure: ``multihead`` or ``singlehead``."""
        return figure_modules.module(self.name).MODEL

    @property
    def title(self) -> str:
        """One line that says what the figure shows."""
        return figure_modules.module(self.name).TITLE

    @property
    def key(self) -> str:
        """Key of its section in the configuration."""
        return self.name

    @property
    def stem(self) -> str:
        """Path of the figure's files without their ending, relative to the project."""
        return str(FIGURES / self.scale / self.model / self.name)

    @property
    def section_json(self) -> str:
        """The section at this scale, as canonical JSON."""
        return canonical_json(self.section.model_dump(mode="json"))

    def direct(self) -> list[Experiment]:
        """Experiments that the figure reads, without repeats."""
        return _distinct(self.experiments)


@dataclass(frozen=True)
class ScanEntry:
    """A scan, and what it needs."""

    name: str
    section: Strict
    experiments: dict[str, list[Experiment]]

    @property
    def key(self) -> str:
        """Key of its section in the configuration."""
        return f"scans.{self.name}"

    @property
    def stem(self) -> str:
        """Path of the scan's files without their ending, relative to the project."""
        return str(SCANS / self.name)

    @property
    def section_json(self) -> str:
        """The scan as canonical JSON."""
        return canonical_json(self.section.model_dump(mode="json"))

    def direct(self) -> list[Experiment]:
        """Experiments that the scan reads, without repeats."""
        return _distinct(self.experiments)


def _distinct(experiments: Mapping[str, Sequence[Experiment | Part]]) -> list[Experiment]:
    return list(dict.fromkeys(file_of(e) for group in experiments.values() for e in group))


def _refuse(lines: Iterable[str]) -> None:
    text = "\n".join(lines)
    if text:
        raise UserError(text)


def _needs(entry: FigureEntry | ScanEntry) -> list[Experiment]:
    return list(dict.fromkeys(with_inputs(entry.direct())))


def _unsolvable(entry: FigureEntry | ScanEntry) -> Iterator[str]:
    """Lines about values of the figure or scan that the solvers would refuse."""
    held = entry.section.model_dump().items()
    for one in solvable.refused(_needs(entry)):
        keys = [key for key, values in held if one.value in solvable.numbers(values)]
        yield f"{'.'.join([entry.key, *keys[:1]])}: {one.line}"


def _sizes_behind(entry: FigureEntry | ScanEntry, experiment: Experiment) -> list[str]:
    """Keys of the section that are sizes, whose largest value the experiment has, too."""
    section = entry.section
    numbers = set(solvable.numbers(experiment.parameters))
    return [
        key
        for key, held in section.model_dump(exclude={"per_job"}).items()
        if is_size(type(section), key) and max(solvable.numbers(held), default=None) in numbers
    ]


class Catalogue:
    """All figures of a configuration and all the files behind them."""

    def __init__(self, configuration: Configuration):
        run = configuration.run
        self.run = run
        self.figures = {
            name: FigureEntry(name, run.scale, section, experiments_of(name, section, run.seed))
            for name, section in configuration.sections.items()
        }
        self.scans = {
            name: ScanEntry(name, scan, scan.experiments(run.seed))
            for name, scan in configuration.scans.items()
        }
        entries = (*self.figures.values(), *self.scans.values())
        needed = with_inputs(e for entry in entries for e in entry.direct())
        self._by_path = {str(e.path): e for e in needed}
        _refuse(line for entry in entries for line in _unsolvable(entry))
        self._estimates = {e: self._planned(e) for e in self.experiments}
        _refuse(line for entry in entries for line in self._too_large(entry))

    @property
    def experiments(self) -> list[Experiment]:
        """Every experiment once, inputs before what reads them."""
        return list(self._by_path.values())

    def experiment(self, kind: str, name: str) -> Experiment:
        """Experiment whose file is ``kind/name.h5``; ``KeyError`` where no figure asks for it."""
        return self._by_path[f"{kind}/{name}.h5"]

    def estimate(self, experiment: Experiment) -> Estimate:
        """What an experiment costs on this machine."""
        return self._estimates[experiment]

    @cached_property
    def jobs(self) -> list[Job]:
        """What a cluster is asked for: experiments, short ones in bundles."""
        return jobs_of(self.experiments, lambda e: self.estimate(e).seconds)

    @cached_property
    def _job_of(self) -> dict[Experiment, Job]:
        return {member: job for job in self.jobs for member in job.members}

    def bundle_names(self, kind: str) -> dict[str, str]:
        """``kind`` by the name of every job that holds several experiments."""
        return {job.name: kind for job in self.jobs if len(job.members) > 1}

    def job_of(self, experiment: Experiment) -> Job:
        """The job that makes an experiment on a cluster."""
        return self._job_of[experiment]

    def _planned(self, experiment: Experiment) -> Estimate:
        """What an experiment costs; ``UserError`` where its parameters do not say."""
        try:
            return estimate(experiment, self.run.machine_speed)
        except UserError:
            raise
        except Exception as error:
            asking = (f.name for f in self.figures.values() if experiment in _needs(f))
            where = next((contract.file_of(name) for name in asking), str(experiment.path))
            raise UserError(
                f"{where}: the parameters of {experiment.slug} are not those of {experiment.kind} "
                f"({contract.last_line(error)}); compare with src/hdattn/steps/{experiment.kind}.py"
            ) from error

    def _too_large(self, entry: FigureEntry | ScanEntry) -> list[str]:
        """A line where a job of the figure or scan needs more than its site gives."""
        for experiment in with_inputs(entry.direct()):
            limits = self.run.job_memory_gb, self.run.job_hours
            problem = beyond(experiment.kind, self.estimate(experiment), *limits)
            if problem:
                sizes = ", ".join(_sizes_behind(entry, experiment))
                return [f"{entry.key}: {problem}; lower its sizes ({sizes}), or raise the limit"]
        return []

    def family(self, model: str) -> list[FigureEntry]:
        """Selected figures of one family; none is a ``UserError``."""
        entries = [entry for entry in self.figures.values() if entry.model == model]
        if not entries:
            raise UserError(
                f"figures: none of {', '.join(self.figures)} belongs to {model}; "
                f"name a {model} figure, or leave 'figures' out"
            )
        return entries
