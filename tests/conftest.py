"""Fixtures of several test modules."""

from pathlib import Path

import pytest

from hdattn import steps, store
from hdattn.catalogue import CACHE, with_inputs
from hdattn.cli import run


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


@pytest.fixture(scope="session")
def figure_project(tmp_path_factory):
    """One :class:`Project` for all figures, since figures share experiments."""
    return Project(tmp_path_factory.mktemp("project"))
