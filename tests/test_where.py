"""``hdattn where``: every place it names is there."""

import json
from pathlib import Path

import pytest

from hdattn import figures
from hdattn.configuration_files import FILES

ROOT = Path(__file__).parents[1]


@pytest.fixture
def where(command, monkeypatch):
    monkeypatch.chdir(ROOT)

    def call(line):
        status, out, err = command(f"where {line} --json")
        assert (status, err) == (0, "")
        return json.loads(out)

    return call


@pytest.mark.parametrize("name", figures.names())
def test_places_exist(where, name):
    found = where(f"{name} --scale smoke")
    file, line = found["section"].split(":")
    assert file in FILES
    assert Path(file).read_text().splitlines()[int(line) - 1].startswith(f"{name}:")
    for place in (found["module"], found["caption"], found["test"], *found["helpers"]):
        assert (ROOT / place).is_file()
    assert {e["kind"].split("/")[0] for e in found["experiments"]} <= {found["model"], "singlehead"}
    assert f"results/figures/smoke/{found['model']}/{name}.pdf" in [
        file["path"] for file in found["outputs"]
    ]


def test_helpers_are_those_that_draw(where):
    assert "src/hdattn/figures/_ensemble.py" in where("rank")["helpers"]


def test_text_counts_what_is_made(command, tmp_path, monkeypatch):
    for file in FILES:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text((ROOT / file).read_text())
    monkeypatch.chdir(tmp_path)
    made = Path("results/figures/smoke/singlehead/rank.pdf")
    made.parent.mkdir(parents=True)
    made.touch()
    status, out, _ = command("where rank --scale smoke")
    assert status == 0
    assert f"made      {made}" in out
    assert "not made  results/figures/smoke/singlehead/rank.png" in out
    assert "0 of 1 made: results/cache/singlehead/data/" in out


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("where rnak", "there is no figure 'rnak'; did you mean 'rank'?"),
        ("where rank --scale huge", "there is no scale 'huge'"),
    ],
)
def test_a_mistake_is_one_line(command, monkeypatch, line, complaint):
    monkeypatch.chdir(ROOT)
    status, out, err = command(line)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert complaint in err
