"""After a kill, what was written whole loses the mark of an unfinished job, and nothing else."""

import sys
from pathlib import Path

import pytest
from snakemake.persistence.file import FilePersistence

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

import whole

NAMES = ["results/cache/m/s/short-0.h5", f"results/cache/m/s/{'long-ä-' * 40}1.h5"]


@pytest.fixture
def snakemake(tmp_path, monkeypatch):
    """Snakemake's own bookkeeping, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    found = FilePersistence(dag=None)
    for name in [*NAMES, "results/figures/a.pdf"]:
        found._mark_incomplete(name, None)
    return found


def marked(snakemake):
    snakemake._clear_cache()
    return snakemake._filter_incomplete_keys([*NAMES, "results/figures/a.pdf"])


@pytest.mark.parametrize("name", NAMES)
def test_the_mark_of_a_whole_result_is_taken_off(snakemake, name):
    (Path(".snakemake/incomplete") / "migration_underway").write_text("")  # no mark
    whole.unmark({name})
    assert marked(snakemake) == {*NAMES, "results/figures/a.pdf"} - {name}
    assert Path(".snakemake/incomplete/migration_underway").exists()


def test_without_marks_nothing_happens(tmp_path):
    whole.unmark({NAMES[0]}, tmp_path / "nowhere")
