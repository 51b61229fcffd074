"""``hdattn figures``, ``show`` and ``check`` on a project folder of their own."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from hdattn import project
from hdattn.configuration_files import FILES
from hdattn.experiment import Experiment
from hdattn.physics_code import physics_digest
from hdattn.store import Dataset, Result, write

ROOT = Path(__file__).parents[1]
KIND = "singlehead/erm"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project with the real configuration and no results, as working directory."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wanted(scale="smoke"):
    """An experiment that a figure asks for at this scale."""
    experiments = project.catalogue_of(Path(), scale).experiments
    return next(e for e in experiments if e.kind == KIND)


def add(experiment, physics=None):
    """Write a small result in the place of ``experiment``."""
    path = Path("results/cache") / experiment.path
    result = Result({"Q": Dataset(np.arange(3.0), "overlap", "Q", ("instance",))})
    digest = physics_digest(KIND) if physics is None else physics
    parameters = experiment.parameters
    write(path, experiment.kind, parameters, result, physics_digest=digest, wall_time=1.0)
    return path


def damage(path):
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


def make(entry, endings=("pdf", "png", "csv")):
    for ending in endings:
        file = Path(f"{entry.stem}.{ending}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


# --- figures --------------------------------------------------------------------------------


def test_figures_tells_which_are_made_at_which_scale(folder, command):
    entry = project.catalogue_of(Path(), "smoke").figures["staging"]
    make(entry)
    other = project.catalogue_of(Path(), "default").figures["staging"]
    make(other, ("pdf",))  # half made is not made
    status, out, _ = command("figures --json")
    rows = {row["name"]: row for row in json.loads(out)["figures"]}
    assert status == 0
    assert {"staging", "learning_curves"} <= set(rows)
    assert rows["staging"]["model"] == "multihead"
    assert rows["staging"]["title"] == entry.title
    assert rows["staging"]["made"] == {"smoke": True, "default": False, "paper": False}
    assert not any(rows["learning_curves"]["made"].values())
    lines = [line.split() for line in command("figures")[1].splitlines()]
    assert [line[1:5] for line in lines if line[0] == "staging"] == [
        ["multihead", "yes", "no", "no"]
    ]


def test_figures_adds_up_the_times_of_its_jobs(folder, command):
    entry = project.catalogue_of(Path(), "smoke").figures["staging"]
    make(entry)
    names = {f"{e.kind}/{e.name}" for e in entry.direct()}
    names |= {f"{i.kind}/{i.name}" for e in entry.direct() for i in e.inputs.values()}
    for name in [*names, "plot/smoke/staging"]:
        file = Path("results/benchmarks") / f"{name}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("s\th:m:s\tmax_rss\tcpu_time\n1.5\t0:00:01\t100\t1.2\n")
    status, out, _ = command("figures --scale smoke --times --json")
    values = json.loads(out)
    rows = {row["name"]: row for row in values["figures"]}
    assert status == 0
    assert values["scale"] == "smoke"
    assert rows["staging"]["seconds"] == pytest.approx(1.5 * (len(names) + 1))
    assert rows["staging"]["files"][0] == f"{entry.stem}.pdf"
    # Nothing of the other family is shared, so that the total is the same.
    assert values["seconds"] == rows["staging"]["seconds"]
    assert rows["learning_curves"]["seconds"] is None
    text = command("figures --scale smoke --times")[1]
    assert f"{1.5 * (len(names) + 1):.1f}" in text
    assert f"{entry.stem}.png" in text


def test_figures_lists_those_asked_for_at_all_scales(folder, command):
    rows = json.loads(command("figures --figures rank,staging --json")[1])["figures"]
    assert [row["name"] for row in rows] == ["rank", "staging"]
    assert [line.split()[0] for line in command("figures --figures rank")[1].splitlines()] == [
        "figure",
        "rank",
    ]
    for names, line in (("renk", "did you mean 'rank'?"), (",", "figures is empty")):
        status, out, err = command(f"figures --figures {names}")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert line in err


def test_figures_takes_the_configured_scale(folder, command):
    Path("config/config.yaml").write_text("scale: paper\n")
    assert json.loads(command("figures --times --json")[1])["scale"] == "paper"


def test_figures_knows_the_scales_of_the_user_and_of_the_results(folder, command):
    Path(FILES[2]).write_text("rank: {scales: {mine: {dim: 20}}}\n")
    Path("results/figures/yours").mkdir(parents=True)
    rows = json.loads(command("figures --json")[1])["figures"]
    assert list(rows[0]["made"]) == ["smoke", "default", "paper", "mine", "yours"]


def test_broken_configuration_is_one_line_a_problem(folder, command):
    Path(FILES[1]).write_text("staging: [1, 2\n")
    Path(FILES[2]).unlink()
    status, out, err = command("figures --scale smoke")
    assert (status, out) == (2, "")
    first, second = err.splitlines()
    assert first.startswith("hdattn: error: config/multihead.yaml, line 2, column 1:")
    assert second.startswith("hdattn: error: config/singlehead.yaml: no such file")


# --- show -----------------------------------------------------------------------------------


def test_show(folder, command):
    experiment = wanted()
    path = add(experiment)
    status, out, err = command(f"show {path}")
    assert (status, err) == (0, "")
    assert KIND in out
    assert "overlap" in out
    values = json.loads(command(f"show {path} --json")[1])
    assert values["kind"] == KIND
    assert values["parameters"] == experiment.parameters
    assert values["datasets"]["Q"] == {
        "shape": [3], "dtype": "float64", "long_name": "overlap", "symbol": "Q",
        "axes": ["instance"],
    }  # fmt: skip


def test_show_of_a_damaged_file_names_the_cure(folder, command):
    path = add(wanted())
    damage(path)
    status, out, err = command(f"show {path}")
    assert (status, out) == (2, "")
    assert err.startswith(f"hdattn: error: {path}: ")
    assert "hdattn check --remove-bad" in err
    assert err.count("\n") == 1


# --- check ----------------------------------------------------------------------------------


def test_check_of_a_sound_cache(folder, command):
    add(wanted("smoke"))
    add(wanted("paper"))  # files of every scale are wanted
    status, out, err = command("check")
    assert (status, err) == (0, "")
    assert "2 files in results/cache: 0 bad, 0 stale, 0 orphaned" in out


def test_check_finds_bad_stale_and_orphaned_files(folder, command):
    bad, stale = add(wanted("smoke")), add(wanted("default"), physics="yesterday")
    orphan = add(Experiment(KIND, {"alpha": 1}, slug="nobody"))
    damage(bad)
    status, out, _ = command("check --json")
    values = json.loads(out)
    assert status == 1
    assert [item["path"] for item in values["bad"]] == [str(bad)]
    assert values["stale"] == [str(stale)]
    assert values["orphaned"] == [str(orphan)]
    assert values["files"] == 3
    lines = command("check")[1].splitlines()
    assert lines[0].startswith(f"bad: {bad}: ")
    assert "1 bad, 1 stale, 1 orphaned" in lines[-1]


def test_check_removes_what_is_bad_and_nothing_else(folder, command):
    bad, good = add(wanted("smoke")), add(wanted("default"))
    damage(bad)
    status, out, _ = command("check --remove-bad")
    assert status == 0
    assert f"removed: {bad}" in out
    assert (bad.exists(), good.exists()) == (False, True)
    assert command("check")[0] == 0


def test_files_of_a_run_with_changed_parameters_are_not_orphaned(folder, command):
    from hdattn import configuration
    from hdattn.catalogue import Catalogue

    merged, _ = project.read_files(FILES)
    changed = configuration.load({**merged, "scale": "smoke", "figures": "all", "seed": 7})
    path = add(next(e for e in Catalogue(changed).experiments if e.kind == KIND))
    assert json.loads(command("check --json")[1])["orphaned"] == [str(path)]
    record = Path("results/figures/smoke/run_config.yaml")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps(changed.merged()))  # JSON is YAML
    assert json.loads(command("check --json")[1])["orphaned"] == []


def test_check_goes_on_where_the_configuration_is_broken(folder, command):
    add(Experiment(KIND, {"alpha": 1}, slug="nobody"))
    Path("config/config.yaml").write_text("scael: smoke\n")
    status, out, err = command("check")
    assert status == 0
    assert "1 files in results/cache: 0 bad, 0 stale, 0 orphaned" in out
    assert err.startswith("hdattn: warning: orphaned files are not looked for, since config/")
    assert "scael" in err


def test_check_elsewhere_says_so(tmp_path, command):
    status, out, err = command(f"check --directory {tmp_path}")
    assert (status, out) == (2, "")
    assert "run from the project's folder" in err
