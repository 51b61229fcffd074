"""Several experiments of one kind in one job and one file.

Starting Python costs more than computing a small experiment, so that a figure may have its own
computed together: ``per_job`` of its section. The joint experiment has the parameters
``{"several": [...]}``, the inputs of all under ``<position>.<role>``, and their datasets under
``<position>.<name>``; each comes back as the record it would have been by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from hdattn.experiment import Experiment

if TYPE_CHECKING:
    from hdattn.store import Record, Result

KEY = "several"
_PARTICULARS = ("converged", "residual", "seeds", "attributes", "messages")


@dataclass(frozen=True)
class Part:
    """One of the experiments that share a file: ``whole`` is that file's, ``index`` from 0."""

    whole: Experiment
    index: int


def file_of(entry: Experiment | Part) -> Experiment:
    """The experiment whose file holds ``entry``."""
    return entry.whole if isinstance(entry, Part) else entry


def join(
    roles: Mapping[str, Sequence[Experiment]], per_job: int, shared: Iterable[str] = ()
) -> dict[str, list[Experiment | Part]]:
    """Up to ``per_job`` experiments of one kind become one.

    They are sorted by name, since the order of roles may follow that of keys in a mapping. Those
    that others read, and those of roles that match a pattern in ``shared``, since another figure
    has them too, keep files of their own.
    """
    apart = {e for role, group in roles.items() if _matches(role, shared) for e in group}
    apart |= {i for group in roles.values() for e in group for i in _behind(e)}
    kinds: dict[str, list[Experiment]] = {}
    for experiment in dict.fromkeys(e for group in roles.values() for e in group):
        if experiment not in apart:
            kinds.setdefault(experiment.kind, []).append(experiment)
    parts: dict[Experiment, Part] = {}
    for found in kinds.values():
        group = sorted(found, key=lambda experiment: experiment.name)
        jobs = math.ceil(len(group) / per_job)
        for job in range(jobs):
            members = group[job * len(group) // jobs : (job + 1) * len(group) // jobs]
            if len(members) > 1:
                whole = _together(members)
                parts |= {e: Part(whole, index) for index, e in enumerate(members)}
    return {role: [parts.get(e, e) for e in group] for role, group in roles.items()}


def _matches(role: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(role, pattern) for pattern in patterns)


def _behind(experiment: Experiment) -> set[Experiment]:
    direct = set(experiment.inputs.values())
    return direct.union(*map(_behind, direct))


def _together(members: Sequence[Experiment]) -> Experiment:
    return Experiment(
        members[0].kind,
        {KEY: [member.parameters for member in members]},
        {f"{i}.{role}": e for i, m in enumerate(members) for role, e in m.inputs.items()},
        slug=f"{members[0].slug}-and-{len(members) - 1}-more",
    )


def is_joint(parameters: Mapping[str, Any]) -> bool:
    """Whether parameters are those of several experiments in one."""
    return set(parameters) == {KEY}


def run(
    step: Callable[[dict[str, Any], dict[str, Record]], Result],
    parameters: Mapping[str, Any],
    records: Mapping[str, Record],
) -> Result:
    """Run ``step`` for each experiment of a joint one; everything they made, in one result."""
    from hdattn.store import Result  # here, so that planning loads no HDF5

    results = []
    for index, own in enumerate(parameters[KEY]):
        prefix = f"{index}."
        inputs = {r.removeprefix(prefix): x for r, x in records.items() if r.startswith(prefix)}
        results.append(step(dict(own), inputs))
    return Result(
        {f"{i}.{name}": x for i, r in enumerate(results) for name, x in r.datasets.items()},
        converged=all(result.converged for result in results),
        residual=float(np.max([result.residual for result in results])),
        attributes={KEY: [{name: getattr(r, name) for name in _PARTICULARS} for r in results]},
        messages=list(dict.fromkeys(line for r in results for line in r.messages)),
    )


def record_of(record: Record, entry: Experiment | Part) -> Record:
    """The record of ``entry`` from that of its file."""
    if not isinstance(entry, Part):
        return record
    prefix = f"{entry.index}."
    details = {n.removeprefix(prefix): x for n, x in record.details.items() if n.startswith(prefix)}
    particulars = record.attributes[KEY][entry.index]
    parameters = record.parameters[KEY][entry.index]
    return replace(record, parameters=parameters, details=details, **particulars)
