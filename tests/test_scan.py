"""Scans: the grid asked for, values of the library, nothing computed twice."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdattn import configuration, store
from hdattn.catalogue import CACHE, Catalogue
from hdattn.cli import run as run_command
from hdattn.configuration_files import FILES, read_files
from hdattn.errors import UserError
from hdattn.multihead.bayes import bayes_risk
from hdattn.multihead.priors import make_prior
from hdattn.scan import place, run
from hdattn.scan.grids import expand
from hdattn.singlehead.problem import Problem
from hdattn.singlehead.state_evolution import solve
from hdattn.singlehead.targets import MarchenkoPastur

ROOT = Path(__file__).parents[1]
THEORY = "scan singlehead --alpha 0.5:2:3 --lam 0.1 --nodes 8 --out table/theory"
FLIP = {"kind": "flip", "mean": [0.8, 0.0], "std": [0.0, 2.0]}


class InProcess:
    """In place of a pool of processes: the same jobs, at once and here."""

    def __init__(self, *_, **__):
        self.jobs = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def submit(self, function, *arguments):
        future = run.Future()
        future.set_result(function(*arguments))
        return future


@pytest.fixture
def scan(command, tmp_path, monkeypatch):
    """Run a scan in a folder of its own; what it says, and the rows of its table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "ProcessPoolExecutor", InProcess)

    def call(line):
        status, out, err = command(f"{line} --json")
        assert (status, err) == (0, "")
        said = json.loads(out)
        with open(said["files"][0], newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == said["rows"]
        return said, rows

    return call


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (3, [3]),
        ("0.01,0.1", [0.01, 0.1]),
        ("0.1:10:3", [0.1, 1, 10]),
        ("0:1:5:linear", [0, 0.25, 0.5, 0.75, 1]),
        ([1, 2], [1, 2]),
    ],
)
def test_axes(text, values):
    assert expand(text) == pytest.approx(values, rel=1e-6)  # grids are rounded to six digits


@pytest.mark.parametrize("text", ["1:2", "2:1:5", "0:1:5", "1:2:1", "1:2:5:cubic", "a", "1,,2"])
def test_what_is_no_axis(text):
    with pytest.raises(ValueError, match=r"grid|axis"):
        expand(text)


def test_theory_is_that_of_the_library_and_computed_once(scan):
    said, rows = scan(THEORY)
    assert said["results_computed"] == 1
    assert [float(row["alpha"]) for row in rows] == [0.5, 1, 2]
    problem = Problem(alpha=1.0, lam=0.1, kappa=1.0, target=MarchenkoPastur(0.5), noise=0.5)
    # The scan stops at a relative change of 1e-5 and takes 8 nodes, which is right to about 1e-3.
    assert float(rows[1]["test_error"]) == pytest.approx(solve(problem).test_error, rel=2e-3)
    with h5py.File("table/theory.h5") as file:
        assert np.array_equal(file["alpha"], [0.5, 1, 2])
        assert json.loads(file.attrs["scan"])["lam"] == [0.1]
    assert Path("table/theory.png").stat().st_size > 5000
    assert scan(THEORY)[0]["results_computed"] == 0
    more, rows = scan(THEORY.replace("--lam 0.1", "--lam 0.1,0.2"))
    assert (more["results_computed"], len(rows)) == (1, 6)


@pytest.mark.parametrize(
    ("out", "complaint"),
    [
        ("results/figures/smoke/singlehead/rank", "lies in results/figures, with its figures"),
        ("results/cache/singlehead/data/x", "lies in results/cache, with the results"),
        ("linked/x.csv", "lies in results/cache, with the results"),
        ("a/../results/cache/x", "lies in results/cache, with the results"),
        ("mine", "mine.csv is there, and no scan wrote it; give another name, or move it away"),
        ("mine.csv", "mine.csv is there, and no scan wrote it"),
        ("picture", "picture.png is there, and no scan wrote it"),
        ("other", "other.h5 is there, and no scan wrote it"),
        ("broken", "broken.h5 is there, and no scan wrote it"),
        ("tables", "'tables' is a folder; name a file in it, as in tables/decay"),
        ("new/", "'new/' is a folder; name a file in it"),
        (".", "'.' names no file"),
        ("", "'' names no file"),
        ("tables/.csv", "'tables/.csv' names no file"),
    ],
)
def test_a_scan_overwrites_nothing_but_a_scan(tmp_path, monkeypatch, out, complaint):
    monkeypatch.chdir(tmp_path)
    for folder in ("results/cache/singlehead", "results/figures/smoke/singlehead", "tables", "a"):
        Path(folder).mkdir(parents=True)
    Path("linked").symlink_to("results/cache/singlehead")
    for name in ("mine.csv", "picture.png", "broken.h5", "broken.csv"):
        Path(name).write_text("mine")
    h5py.File("other.h5", "w").close()
    before = sorted(tmp_path.rglob("*"))
    status = run_command(["scan", "singlehead", "--alpha", "1", "--out", out])
    assert status == 2
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(UserError, match=re.escape(complaint)) as caught:
        place.stem_of(out, Path())
    assert "\n" not in str(caught.value)


def test_a_scan_that_was_killed_between_its_files_may_write_them_again(scan):
    scan(THEORY)
    Path("table/theory.csv").unlink()
    Path("table/theory.png").write_text("half")
    assert len(scan(THEORY)[1]) == 3


def test_its_results_are_not_orphaned(scan, command):
    scan(THEORY)
    shutil.copytree(ROOT / "config", "config")
    assert json.loads(command("check --json")[1])["orphaned"] == []
    (note,) = Path("results/scans/asked").glob("*.json")
    note.write_text("{")
    assert len(json.loads(command("check --json")[1])["orphaned"]) == 1


def test_a_damaged_result_is_made_anew(scan):
    before, rows = scan(THEORY)
    (file,) = (Path(CACHE) / "singlehead/state_evolution").glob("*.h5")
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)
    after, again = scan(THEORY)
    assert after["results_computed"] == before["results_computed"] == 1
    assert again == rows


def test_training_stands_beside_its_theory(scan):
    said, rows = scan(
        "scan singlehead --alpha 0.5,2 --lam 0.1 --train --dim 12 --instances 2 --nodes 8 "
        "--test-samples 512 --out trained"
    )
    assert said["results_computed"] == 4  # a curve, the data, two trainings
    assert [(row["alpha"], row["instance"]) for row in rows] == [
        ("0.5", "0"),
        ("0.5", "1"),
        ("2.0", "0"),
        ("2.0", "1"),
    ]
    record = store.read(next((Path(CACHE) / "singlehead/erm").glob("*alpha2-*.h5")))
    stored = record.datasets["Q"][:, 0]
    assert [float(row["Q"]) for row in rows[2:]] == pytest.approx(stored, rel=1e-15)
    theory = {row["theory_Q"] for row in rows}
    assert len(theory) == 2  # one a point, shared by its instances


def test_multihead_stays_above_the_bayes_risk(scan):
    _, rows = scan(
        "scan multihead --activation bayes --heads 1,2 --base-points 64 --starts 1 --out heads"
    )
    risk = bayes_risk(5, make_prior(FLIP)).value
    for row in rows:
        assert float(row["bayes_risk"]) == pytest.approx(risk, rel=1e-12)
        assert float(row["loss"]) > risk - 3 * float(row["loss_error"])
    assert float(rows[1]["loss"]) < float(rows[0]["loss"])  # two heads part, one cannot


def test_workers_share_the_jobs_and_a_killed_scan_goes_on(tmp_path):
    """Real processes: two workers, all killed once a result is there."""
    axes = ["--alpha", "0.5", "--lam", "0.05:0.4:8", "--nodes", "8"]
    line = [sys.executable, "-m", "hdattn", "scan", "singlehead", *axes, "--out", "table", "--json"]
    look = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    cache = tmp_path / CACHE
    first = subprocess.Popen([*line, "--cores", "2"], start_new_session=True, **look)
    while not list(cache.rglob("*.h5")) and first.poll() is None:
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    made = {path: path.stat().st_mtime_ns for path in cache.rglob("*.h5")}
    assert 1 <= len(made) < 8
    again = subprocess.run([*line, "--cores", "2"], check=True, **look)
    said = json.loads(again.stdout)
    assert (said["rows"], said["results_computed"]) == (8, 8 - len(made))
    assert all(path.stat().st_mtime_ns == time for path, time in made.items())
    assert len(list(cache.rglob("*.h5"))) == 8


def test_a_failure_is_told_after_all_others_are_done(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "ProcessPoolExecutor", InProcess)
    chosen = configuration.scan_from("singlehead", {"alpha": 1, "lam": "0.1,0.2"}, "test")
    done = []

    def compute(kind, parameters, inputs, output):
        if parameters["lam"] == 0.1:
            raise UserError("cannot")
        done.append(parameters["lam"])

    monkeypatch.setattr(run.steps, "compute", compute)
    with pytest.raises(UserError, match=r"state_evolution/lam0.1-kappa1-\w+.h5: cannot"):
        run.compute_all(chosen.experiments(0)["theory"], tmp_path, 1, lambda *_: None)
    assert done == [0.2]


def test_every_mistake_has_its_line(command):
    line = "scan singlehead --alpha 1:2:x --lam -0.1 --tokens 1 --nodes 9 --dim 1.5 --out a"
    status, out, err = command(line)
    assert (status, out) == (2, "")
    for part in (
        "command line: alpha: '1:2:x' is no axis of a scan; give a number",
        "command line: lam[0]: -0.1 will not do; give a number above 0",
        "command line: tokens: a sequence has at least 2 tokens",
        "command line: nodes: ",
        "command line: dim: ",
    ):
        assert part in err
    assert err.count("\n") == 5


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("multihead --heads 2 --mean 0.8 --out a", "mean has 1 numbers, std has 2"),
        (
            "multihead --heads 2 --activation relu --out a",
            "activation[0]: activation 'relu' is unknown",
        ),
        ("multihead --heads 2 --base-points 100 --out a", "100 is not a power of two"),
        ("singlehead --out a", "--alpha: missing"),
        ("tripleheads", "No such command"),
    ],
)
def test_mistakes(command, line, complaint):
    status, _, err = command(f"scan {line}")
    assert (status, err.count("\n")) == (2, 1)
    assert complaint in err


def load(scans):
    merged, sources = read_files(ROOT / file for file in FILES)
    return configuration.load({**merged, "scale": "smoke", "scans": scans}, sources)


def test_scans_of_the_configuration_are_those_of_the_command():
    loaded = load({"decay": {"model": "singlehead", "alpha": "0.1:10:30", "lam": [0.01, 0.1]}})
    values = {"alpha": "0.1:10:30", "lam": "0.01,0.1"}
    assert loaded.scans["decay"] == configuration.scan_from("singlehead", values, "test")
    catalogue = Catalogue(loaded)
    entry = catalogue.scans["decay"]
    assert entry.stem == "results/scans/decay"
    assert set(entry.direct()) <= set(catalogue.experiments)
    assert len(entry.direct()) == 2
    again = configuration.load(loaded.merged() | {"scale": "default"})
    assert again.scans == loaded.scans


@pytest.mark.parametrize(
    ("scans", "line"),
    [
        ([1], "--config: scans: give a mapping of names to scans"),
        ({"a b": {}}, "scans.a b: a name has letters, digits and _, a letter first; rename it"),
        ({"a": 3}, "scans.a.model: None will not do; choose from singlehead, multihead"),
        ({"a": {"model": "mlp"}}, "scans.a.model: 'mlp' will not do; choose from"),
        ({"a": {"model": "singlehead"}}, "scans.a.alpha: add this key"),
        ({"a": {"model": "singlehead", "alpha": 1, "lm": 1}}, "scans.a.lm: unknown key; did you"),
    ],
)
def test_a_mistake_in_the_configuration_is_one_line(scans, line):
    with pytest.raises(UserError) as caught:
        load(scans)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("singlehead --alpha 1 --nodes 100000", "nodes: 100000 is above 500; lower it"),
        ("singlehead --alpha 1 --tokens 1e300", "1e+300 will not do; give a number of at most"),
        ("multihead --heads 1e300", "1e+300 will not do; give a number of at most"),
        ("singlehead --alpha 0.1:10:1000000", "'0.1:10:1000000': give at most 10000 points"),
        ("singlehead --alpha 1:1.0001:300", "some agree in six digits; take less"),
        ("singlehead --alpha 1 --beta 1e10", "beta = 1e+10: give 0.001 to 1000"),
        ("singlehead --alpha 1 --train --instances 1e14", "instances: 1e+14 will not do"),
        ("singlehead --alpha 1:2:9999 --lam 1:2:9999", "its axes make 99980001 points"),
        ("multihead --heads 2 --strength 1e9", "std = 2e+09: give at most 1000 in size"),
        ("multihead --heads 2 --mean 1 --std 1,2", "command line: mean has 1 numbers, std has 2"),
        ("singlehead --alpha 1e9 --train --dim 20000", "jobs of singlehead/data need about"),
    ],
)
def test_what_cannot_be_scanned_is_one_line_before_any_job(line, problem, command, tmp_path):
    status, out, err = command(f"scan {line} --directory {tmp_path} --out {tmp_path}/x")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert problem in err
    assert not list(tmp_path.iterdir())


def test_a_worker_without_memory_says_so(scan, command, monkeypatch):
    def compute(*_):
        raise MemoryError

    monkeypatch.setattr(run.steps, "compute", compute)
    status, _, err = command(f"{THEORY} --json")
    assert status == 2 and "out of memory" in err
