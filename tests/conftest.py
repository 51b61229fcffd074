"""Fixtures of several test modules."""

import pytest

from hdattn.cli import run


@pytest.fixture
def command(capsys):
    """Run a command line of ``hdattn`` in this process: (exit status, stdout, stderr)."""

    def call(line: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(line.split())
        return (status, *capsys.readouterr())

    return call
