"""The table of benchmarks is what was measured, and says something of every entry."""

import json
import os

import numpy as np
import pytest
from benchmarks import __main__ as runner
from benchmarks import table
from benchmarks.entries import ENTRIES, entry
from benchmarks.finished import cores_at_work
from benchmarks.timing import MissingRun, met, race, row

from hdattn.job_costs import BENCHMARKS, Cost


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Results and page of their own, and entries that measure at once."""
    (tmp_path / "page.md").write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    monkeypatch.setattr(table, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(table, "PAGE", tmp_path / "page.md")
    measured = []

    class Entry:
        TITLE = "an entry"

        def __init__(self, letter):
            self.letter = letter

        def measure(self, settings):
            measured.append(self.letter)
            if self.letter == "d" and len(measured) < 5:
                raise KeyboardInterrupt
            if self.letter == "e" and not settings.rows:
                raise MissingRun("nothing was made")
            values = np.arange(3.0, 3.0 + settings.rounds)
            return [row("ratio", values, "x", at_least=4, detail="known")]

    monkeypatch.setattr(runner, "entry", Entry)
    machine = {"processor": "P", "cores": 2, "memory_gb": 8.0, "system": "S", "python": "3"}
    machine |= {"packages": {}, "blas": "B", "gemm_gflops": {}, "date": "D"}
    monkeypatch.setattr(runner, "describe", lambda: machine)
    return tmp_path, measured


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["benchmarks", *arguments])
    runner.main()


def test_page_shows_the_results():
    shown = table.PAGE.read_text(encoding="utf-8").split(table.BEGIN + "\n")[1].split(table.END)[0]
    assert shown == table.render(table.read_results())


def test_every_entry_is_on_the_page():
    page = table.PAGE.read_text(encoding="utf-8")
    assert list(ENTRIES) == list("abcdefghij")
    for letter in ENTRIES:
        assert f"### ({letter}) {entry(letter).TITLE}\n" in page


def test_what_was_measured_was_measured_often_enough():
    for letter, found in table.read_results()["entries"].items():
        assert letter in ENTRIES and found["rows"]
        for line in found["rows"]:
            # e and i read the costs of a finished run: nothing to repeat
            assert line["rounds"] >= (1 if letter in "ei" else 5), line["what"]
            assert line["low"] <= line["median"] <= line["high"], line["what"]


def test_functions_take_turns():
    calls = []
    seconds = race([lambda: calls.append("A"), lambda: calls.append("B")], 3)
    assert "".join(calls) == "AB" + "ABABAB"  # the first ones are not timed
    assert seconds.shape == (3, 2) and np.all(seconds >= 0)


def test_targets():
    assert met(row("", [1, 2, 9], "x", at_least=2)) is True
    assert met(row("", [1, 1.9, 9], "x", at_least=2)) is False
    assert met(row("", [5], "s", at_most=4)) is False
    assert met(row("", [4], "", at_least=3.7, at_most=4.3)) is True
    assert met(row("", [4], "s")) is None


def test_an_interrupted_run_is_resumed(folder, monkeypatch):
    path, measured = folder
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch)
    assert measured == ["a", "b", "c", "d"]
    run(monkeypatch, "--resume")
    assert measured == [*"abcd", *"defghij"]
    results = json.loads((path / "results.json").read_text())
    assert list(results["entries"]) == list("abcdefghij")
    page = (path / "page.md").read_text()
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
    assert "| ratio | 5 x | 3 x to 7 x | 5 | ≥ 4 x | yes |" in page


def test_some_entries_leave_the_others(folder, monkeypatch):
    path, measured = folder
    run(monkeypatch, "--only", "a,b,c")
    run(monkeypatch, "--only", "b", "--rounds", "7")
    rows = {
        k: e["rows"][0]
        for k, e in json.loads((path / "results.json").read_text())["entries"].items()
    }
    assert measured == [*"abc", "b"]
    assert (rows["a"]["rounds"], rows["b"]["rounds"]) == (5, 7)


def test_an_entry_without_its_runs_is_left_out(folder, monkeypatch, capsys):
    path, measured = folder
    run(monkeypatch, "--only", "e,f")
    assert measured == ["e", "f"] and "left out: nothing was made" in capsys.readouterr().out
    page = (path / "page.md").read_text()
    assert "Not measured yet: `python -m benchmarks --only e`." in page


@pytest.mark.parametrize("arguments", [("--only", "z"), ("--rounds", "2")])
def test_impossible_arguments(folder, monkeypatch, capsys, arguments):
    with pytest.raises(SystemExit):
        run(monkeypatch, *arguments)
    assert "z" in capsys.readouterr().err or arguments[0] == "--rounds"


def test_cores_at_work_follow_from_when_jobs_began_and_ended(tmp_path):
    folder = tmp_path / BENCHMARKS
    folder.mkdir(parents=True)

    def jobs(*times):
        for i, (_, end) in enumerate(times):
            (folder / f"{i}.tsv").touch()
            os.utime(folder / f"{i}.tsv", (end, end))
        return {f"{i}": Cost(end - begun, 0.0, 1) for i, (begun, end) in enumerate(times)}

    # two cores for 400 s, one of them idle for the last 100
    made = jobs((0, 200), (0, 100), (100, 300), (200, 400))
    assert cores_at_work(tmp_path, made) == (2, pytest.approx(700 / 800))
    # a moment of overlap makes no third core
    assert cores_at_work(tmp_path, jobs((0, 201), (0, 100), (99, 300), (200, 400)))[0] == 2
    # a pause longer than any job: two runs
    assert cores_at_work(tmp_path, jobs((0, 100), (0, 100), (250, 350))) is None
