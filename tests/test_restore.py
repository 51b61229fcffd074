"""Lost inputs of finished readers, and locks of dead runs."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hdattn.errors import UserError
from hdattn.experiment import Experiment

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

import restore  # noqa: E402
import run_lock  # noqa: E402

DATA = Experiment(
    "singlehead/data",
    {
        "data": {
            "dim": 8,
            "target": {"kind": "mp", "kappa0": 0.5},
            "noise": 0.5,
            "tokens": 2,
            "beta0": 1,
        },
        "seed": 0,
        "block": 0,
        "block_size": 1,
    },
)
READERS = [Experiment("singlehead/erm", {"lam": lam}, {"data": DATA}) for lam in (1, 2)]
GRAPH = [DATA, *READERS]


def finish(cache, *experiments):
    for experiment in experiments:
        path = cache / experiment.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("finished")
        os.utime(path, (1000, 1000))


def names(lost):
    return [experiment.kind for experiment, _ in lost]


def test_a_bad_input_of_finished_readers_is_lost(tmp_path):
    finish(tmp_path, *READERS)
    bad = {tmp_path / DATA.path}
    assert restore.lost_inputs(GRAPH, tmp_path, bad) == [(DATA, 1000)]


def test_an_input_is_lost_when_just_some_readers_are_finished(tmp_path):
    finish(tmp_path, READERS[0])
    assert names(restore.lost_inputs(GRAPH, tmp_path, set())) == ["singlehead/data"]


@pytest.mark.parametrize("finished", [[], READERS, [DATA, READERS[0]]])
def test_inputs_that_nobody_misses_are_not_lost(tmp_path, finished):
    """None finished: the workflow makes it; all finished: nobody reads it; or it is there."""
    finish(tmp_path, *finished)
    assert restore.lost_inputs(GRAPH, tmp_path, set()) == []


def test_a_remade_input_is_older_than_its_readers(tmp_path, monkeypatch):
    monkeypatch.setenv("HDATTN_SCRIPTS", str(ROOT / "scripts"))
    restore.remake(DATA, tmp_path, before=1000.0)
    assert (tmp_path / DATA.path).stat().st_mtime == 999.0


HOLD = """
import sys, time
sys.path.insert(0, sys.argv[1])
import run_lock
print(run_lock.take(), flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def another_run(folder):
    """A process that takes the folder, and is killed at the end."""
    run = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(ROOT / "workflow")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert run.stdout.readline().strip() == "False"  # no lock of a dead run was there
        yield run
    finally:
        run.kill()
        run.communicate()


def test_a_second_run_is_refused_and_a_dead_one_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_lock, "_held", [])
    locks = tmp_path / ".snakemake/locks"
    locks.mkdir(parents=True)
    with another_run(tmp_path) as first:
        (locks / "0.output.lock").write_text("results/x.h5\n")
        with pytest.raises(UserError, match=f"another run .process {first.pid} on"):
            run_lock.take()
    assert list(locks.iterdir())
    assert run_lock.take() is True
    assert not list(locks.iterdir())
    run_lock._held.pop().close()


def test_the_lock_of_a_run_on_another_host_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_lock, "_held", [])
    lock = tmp_path / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("results/x.h5\n")
    (tmp_path / ".snakemake/hdattn-run.lock").write_text("elsewhere 17")
    assert run_lock.take() is False
    assert lock.exists()
    run_lock._held.pop().close()
