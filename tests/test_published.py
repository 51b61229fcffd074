"""What lies beside a figure tells whether its files are as they were drawn."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hdattn import configuration, configuration_files, project, published
from hdattn.errors import UserError
from hdattn.figures import details, validation
from hdattn.job_costs import recorded
from hdattn.notices import warn_once

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

import finish  # noqa: E402
import startup  # noqa: E402

FOLDER = Path("results/figures/smoke")
RANK = FOLDER / "singlehead/rank"
ENDINGS = (".pdf", ".png", ".csv", ".validation.csv")
DAMAGE = [b"[1", b"[]", b"\xff\xfe", b"", b'{"flagged": 3}']


@pytest.fixture
def configured():
    merged, sources = configuration_files.read_files(ROOT / f for f in configuration_files.FILES)
    asked = {"scale": "smoke", "figures": "rank,staging"}
    return configuration.load({**merged, **asked}, sources)


@pytest.fixture
def folder(tmp_path, monkeypatch, configured):
    """A project in which ``rank`` is made, with its own section, and ``staging`` is not."""
    monkeypatch.chdir(tmp_path)
    warn_once.cache_clear()
    RANK.parent.mkdir(parents=True)
    for ending in ENDINGS:
        Path(f"{RANK}{ending}").write_bytes(f"contents{ending}".encode())
    section = configured.sections["rank"].model_dump(mode="json")
    published.write(RANK, {"parameters": section, "seed": 0}, ENDINGS)
    return tmp_path


def check(read_only=False):
    entries = {"rank": SimpleNamespace(stem=str(RANK)), "x": SimpleNamespace(stem="results/x")}
    run = SimpleNamespace(scale="smoke")
    startup._check_figures(SimpleNamespace(figures=entries, run=run), read_only)


def test_nothing_is_said_of_sound_figures_and_of_those_never_made(folder, capsys):
    check()
    assert capsys.readouterr().err == ""
    assert published.problems(RANK) == []


@pytest.mark.parametrize(
    ("ending", "content", "problem"),
    [
        (".csv", b"contents", "rank.csv is not what was written"),
        (".png", b"", "rank.png is not what was written"),
        (".validation.csv", None, "rank.validation.csv is missing"),
        (".json", None, "rank.json is missing"),
        (".json", b"{}", "rank.json is of an earlier version and holds no digests"),
        *((".json", content, "rank.json damaged") for content in DAMAGE[:4]),
    ],
)
def test_a_damaged_or_missing_file_is_one_line_and_made_anew(
    folder, capsys, ending, content, problem
):
    path = Path(f"{RANK}{ending}")
    path.unlink() if content is None else path.write_bytes(content)
    line = f"hdattn: warning: {RANK}: {problem}"
    check(read_only=True)
    assert capsys.readouterr().err == f"{line}; would be made anew\n"
    check()
    assert capsys.readouterr().err == f"{line}; made anew from the results\n"
    # Snakemake is asked for the JSON file, so that the figure is drawn; nothing else is touched.
    assert not Path(f"{RANK}.json").exists()
    assert path.exists() == (content is not None and ending != ".json")


def test_a_json_file_that_cannot_be_removed_is_one_line(folder):
    Path(f"{RANK}.json").unlink()
    Path(f"{RANK}.json").mkdir()
    assert published.problems(RANK) == ["rank.json cannot be read (Is a directory)"]
    with pytest.raises(UserError, match=r"rank.json: cannot be removed .*; remove it"):
        check()


@pytest.mark.parametrize("content", DAMAGE)
def test_readers_take_damaged_details_for_missing_and_say_so_once(folder, capsys, content):
    Path(f"{RANK}.json").write_bytes(content)
    assert [details.read(RANK), details.read(RANK)] == [None, None]
    err = capsys.readouterr().err
    assert err.startswith(f"hdattn: warning: {RANK}.json: damaged") and err.count("\n") == 1


@pytest.mark.parametrize("content", [b"\xff,\n1\n", b"a,b\n1,2\n", b"", None])
def test_a_damaged_part_of_the_validation_is_left_out(folder, capsys, content):
    row = validation.row("a=1", 1.0, 1.0, 0.1, 8, 0.0, 60, figure="heads", quantity="Q")
    validation.write(FOLDER / "heads.validation.csv", [row])
    part = Path(f"{RANK}.validation.csv")
    if content is None:  # cut off within its last line
        validation.write(part, [row])
        content = part.read_bytes()[:-30]
    part.write_bytes(content)
    assert [found["figure"] for found in validation.collect(FOLDER)] == ["heads"]
    assert capsys.readouterr().err.startswith(f"hdattn: warning: {part}: damaged")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"s\tcpu_time\nfast\t1\n"])
def test_a_damaged_benchmark_file_is_one_warning(folder, capsys, content):
    Path("a.tsv").write_bytes(content)
    assert [recorded(Path("a.tsv")), recorded(Path("a.tsv"))] == [[], []]
    assert capsys.readouterr().err.count("hdattn: warning: a.tsv: damaged") == 1


def test_the_commands_say_so_too(folder, command):
    path = Path(f"{RANK}.csv")
    path.write_text("edited")
    for name in configuration_files.FILES:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes((ROOT / name).read_bytes())
    problem = "rank.csv is not what was written"
    rows = project.list_scale(Path(), "smoke", "rank,staging", times=False)["figures"]
    assert [row["problems"] for row in rows] == [[problem], []]
    assert command("figures --scale smoke --figures rank")[1].count(problem) == 1
    status, out, _ = command("check")
    assert status == 1
    assert f"figure: {RANK}: {problem}; the next run makes it anew" in out.splitlines()
    assert json.loads(command("check --json")[1])["figures"] == [
        {"path": str(RANK), "problem": problem}
    ]
    path.write_text("contents.csv")
    assert command("check")[0] == 0


# --- a figure that cannot be drawn anew -----------------------------------------------------

# The rule of a figure as it stands, on names that it takes from other rules.
SNAKEFILE = """
import sys
from types import SimpleNamespace
sys.path.insert(0, {workflow!r})
from kept import kept
entry = SimpleNamespace(
    name="rank", stem="figures/rank", model="singlehead", title="", section_json="{{}}", direct=list
)
catalogue = SimpleNamespace(figures={{"rank": entry}}, run=SimpleNamespace(seed=0))
plot_digest = lambda name: config["code"]
stem_of = "figures/rank"
SCALE, LOOK, SHEET, OVERVIEW, MORE_FORMATS = "smoke", "", "", "", ["svg"]
include: {rules!r}
rule all:
    default_target: True
    input: rules.rank.output
"""
SCRIPT = """
import os, sys
for ending in ("pdf", "png", "csv", "drawn.csv", "validation.csv", "svg", "json"):
    with open(f"figures/rank.{ending}", "w") as file:
        file.write(os.environ["WORDS"])
    if os.environ["WORDS"] == "broken" and ending == "csv":
        sys.exit(1)
"""


def draw(folder, words, code):
    """Run the rule: its script writes ``words`` into each file; ``broken`` ends it halfway."""
    environment = {**os.environ, "HDATTN_SCRIPTS": str(folder), "WORDS": words}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--config", f"code={code}"]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)
    found = {path.name: path.read_text() for path in (folder / "figures").iterdir()}
    return run.returncode, found


def test_a_figure_that_cannot_be_drawn_anew_stays_and_is_tried_again(tmp_path):
    workflow = ROOT / "workflow"
    names = {"workflow": str(workflow), "rules": str(workflow / "rules/plot.smk")}
    (tmp_path / "Snakefile").write_text(SNAKEFILE.format(**names))
    (tmp_path / "plot.py").write_text(SCRIPT)
    endings = ("pdf", "png", "csv", "drawn.csv", "validation.csv", "svg", "json")
    first = {f"rank.{ending}": "first" for ending in endings}
    assert draw(tmp_path, "first", "one") == (0, first)
    published = {name: words for name, words in first.items() if name != "rank.json"}
    assert draw(tmp_path, "broken", "two") == (1, published)
    # Snakemake itself takes the files that it restored for those of the code that failed.
    assert draw(tmp_path, "second", "two") == (0, dict.fromkeys(first, "second"))


# --- the end of a run -----------------------------------------------------------------------


def recorded_sections():
    return configuration_files.read_file(FOLDER / "run_config.yaml")


def test_the_record_names_what_is_made_and_nothing_else(folder, configured):
    finish.record(FOLDER, configured)
    found = recorded_sections()
    assert found["figures"] == ["rank"] and "staging" not in found
    assert found["rank"] == configured.sections["rank"].model_dump(mode="json")


def test_of_a_figure_that_failed_the_record_keeps_the_older_section(folder, configured):
    finish.record(FOLDER, configured)
    before = (FOLDER / "run_config.yaml").read_bytes()
    section = configured.sections["rank"]
    changed = section.model_copy(update={"noise": 0.25})
    failed = configuration.Configuration(configured.run, configured.sections | {"rank": changed})
    finish.record(FOLDER, failed)
    assert (FOLDER / "run_config.yaml").read_bytes() == before
    staging = FOLDER / "multihead/staging"
    staging.parent.mkdir()
    made = configured.sections["staging"].model_dump(mode="json")
    published.write(staging, {"parameters": made, "seed": 0}, [])
    finish.record(FOLDER, failed)
    found = recorded_sections()
    assert found["figures"] == ["rank", "staging"]
    assert (found["rank"]["noise"], found["staging"]) == (section.noise, made)


def test_the_summary_has_no_older_numbers_of_a_figure_that_failed(monkeypatch):
    monkeypatch.setattr(finish.gallery, "summary_lines", lambda pages: [p.name for p in pages])
    pages = [SimpleNamespace(name="rank"), SimpleNamespace(name="heads")]
    assert finish.summary(pages, {"rank", "staging"}) == [
        "heads",
        "rank: not made in this run (older figure kept)",
        "staging: not made in this run",
    ]


def test_a_failed_run_does_not_sum_up_older_figures(folder, configured, capsys, monkeypatch):
    pages = {FOLDER / "index.html": [SimpleNamespace(name="rank")]}
    monkeypatch.setattr(finish.gallery, "write_gallery", lambda *_: pages)
    jobs = [SimpleNamespace(rule=SimpleNamespace(name=name)) for name in ("train", "rank", "all")]
    workflow = SimpleNamespace(dag=SimpleNamespace(needrun_jobs=lambda: jobs))
    finish.finish(ROOT, configured, workflow)
    assert capsys.readouterr().err.splitlines() == [
        "rank: not made in this run (older figure kept)",
        f"gallery: {FOLDER}/index.html",
    ]
