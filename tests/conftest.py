"""Fixtures of several test modules."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.drawn import solid_changes

from hdattn import steps, store
from hdattn.catalogue import CACHE, with_inputs
from hdattn.cli import run
from hdattn.figures import style, validation


@pytest.fixture
def command(capsys):
    """Run a command line of ``hdattn`` in this process: (exit status, stdout, stderr)."""

    def call(line: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(line.split())
        return (status, *capsys.readouterr())

    return call


class Project:
    """A folder whose cache fills with the experiments of tiny figures, each run once."""

    def __init__(self, folder: Path):
        self.folder = folder

    def records(self, module, section, seed=0):
        """Run the experiments of a figure; their records by role."""
        groups = module.experiments(section, seed)
        for experiment in with_inputs(e for group in groups.values() for e in group):
            path = self.path(experiment)
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                inputs = {role: self.path(e) for role, e in experiment.inputs.items()}
                steps.compute(experiment.kind, experiment.parameters, inputs, path)
        return {role: [store.read(self.path(e)) for e in g] for role, g in groups.items()}

    def path(self, experiment) -> Path:
        """File of an experiment."""
        return self.folder / CACHE / experiment.path

    def hides(self, module, section):
        """Roles of which a figure hides that something did not converge; none if it is honest.

        In one record of each role the first point becomes one that did not converge. A line must be
        added to what is flagged, nothing drawn that is not hollow may depend on the values there,
        and no row of the validation that is judged: what is not to be trusted is neither judged
        nor averaged into what is.
        """
        records = self.records(module, section)
        _, before = _drawing(module, section, records)
        roles = [role for role, group in records.items() if _can_fail(group[0])]
        assert roles, "nothing here can fail to converge"
        found = []
        for role in roles:
            (figure, one), (again, other) = (
                _drawing(module, section, records | {role: _unconverged(records[role], factor)})
                for factor in (0.5, 0.7)
            )
            if not set(one.flagged) - set(before.flagged):
                found.append(f"{role}: not listed")
            if changed := _judged(one) ^ _judged(other):
                found.append(f"{role}: judged all the same: {sorted(changed)[0]}")
            if changes := solid_changes(figure, again):
                found.append(f"{role}: not hollow: {changes[0]} and {len(changes) - 1} more")
        return found


# Kinds that converge as a whole or not at all; the others say so point by point, or cannot fail.
_WHOLE = ("multihead/deactivation", "multihead/escape", "multihead/optimum")


_ASKED = ("alpha", "n")  # where a solver was asked for a solution


def _can_fail(record):
    """Whether it could have failed to converge, but did not."""
    return record.converged and ("converged" in record.details or record.kind in _WHOLE)


def _unconverged(records, factor):
    """The records of a role, the first point not converged, its values multiplied by ``factor``."""
    record, *others = records
    details = dict(record.details)
    if "converged" in details:
        axes = details["converged"].axes
        for name, dataset in details.items():
            if dataset.axes[: len(axes)] == axes:
                values = _other(name, dataset, (0,) * len(axes), factor)
                details[name] = replace(dataset, values=values)
    elif record.kind == "multihead/optimum":
        for name, dataset in details.items():
            details[name] = replace(dataset, values=dataset.values * factor)
    return [replace(record, details=details, converged=False, messages=["planted"]), *others]


def _other(name, dataset, point, factor):
    """Values that differ at ``point``: of a trajectory that breaks off, NaN past its middle."""
    values = dataset.values.copy()
    if name in ("converged", "overfit"):
        values[point] = name == "overfit"
    elif "tau" in dataset.axes and dataset.allow_nan:
        values[point][values.shape[len(point)] // 2 :] = np.nan
    elif values.dtype.kind == "f" and name not in _ASKED and "iteration" not in dataset.axes:
        values[point] *= factor  # but not of iterates, which are what they are
    return values


def _drawing(module, section, records):
    with style.context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of planted values; the tests see what is sound
        figure = style.new_figure()
        return figure, module.draw(figure, records, section)


def _judged(drawing):
    names = ("quantity", "point", "theory", "simulation", "allowance")
    rows = [row for row in drawing.validation if row["verdict"] != validation.UNRELIABLE]
    return {tuple(row[name] for name in names) for row in rows}


@pytest.fixture(scope="session")
def figure_project(tmp_path_factory):
    """One :class:`Project` for all figures, since figures share experiments."""
    return Project(tmp_path_factory.mktemp("project"))
