"""Calls of Snakemake from the repository root: what is planned, and what is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from hdattn import configuration, configuration_files
from hdattn.catalogue import Catalogue

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

import startup  # noqa: E402


def snakemake(*arguments, cwd=ROOT):
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def catalogue(scale):
    merged, sources = configuration_files.read_files(
        ROOT / name for name in configuration_files.FILES
    )
    return Catalogue(configuration.load({**merged, "scale": scale}, sources))


@pytest.mark.parametrize(("scale", "limit"), [("smoke", 145), ("default", 395), ("paper", 5000)])
def test_number_of_jobs_of_a_scale(scale, limit):
    made = catalogue(scale)
    assert len(made.experiments) + len(made.figures) + 2 <= limit


def test_paper_scale_dry_runs_from_another_folder_and_writes_nothing(tmp_path):
    run = snakemake("-n", "--config", "scale=paper", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "rule staging:" in run.stdout and "rule learning_curves:" in run.stdout
    assert not (tmp_path / "results").exists()


def test_one_paper_leaves_the_other_alone(tmp_path):
    plan = snakemake("-n", "multihead", "--config", "scale=smoke", cwd=tmp_path).stdout
    assert "rule staging:" in plan and "rule learning_curves:" not in plan


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--config", "figures=spektra"], "did you mean 'spectra'?"),
        (["--config", "scale=huge", "noice=1"], "there is no scale 'huge'"),
        (["multihead", "--config", "figures=spectra"], "none of spectra belongs to multihead"),
    ],
)
def test_a_mistake_is_one_line_before_any_job(tmp_path, arguments, line):
    run = snakemake("--cores", "1", *arguments, cwd=tmp_path)
    assert run.returncode == 1
    assert line in run.stderr and "Traceback" not in run.stderr
    assert "rule " not in run.stderr
    assert not list(tmp_path.glob("results/cache/**/*.h5"))


def test_malformed_configuration_names_file_and_line(tmp_path):
    (tmp_path / "config").mkdir()
    for name in ("config", "multihead"):
        (tmp_path / f"config/{name}.yaml").write_text("{}\n")
    (tmp_path / "config/singlehead.yaml").write_text("rank:\n  dim: [1\n  kappa: 2\n")
    run = snakemake("-n", cwd=tmp_path)
    assert run.returncode == 1
    assert "config/singlehead.yaml, line 3" in run.stderr and "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--cores 8", False),
        ("--cores 8 --config scale=smoke", False),
        ("-n", True),
        ("-np", True),
        ("--dry-run", True),
        ("--dryrun", True),
        ("--lint", True),
        ("--unlock", True),
        ("--report report.html", True),
        ("--nolock", False),
        ("-n --cores 2", True),
        ("spectra -j2", False),
    ],
)
def test_calls_that_only_look(arguments, expected):
    assert startup.reads_only(["snakemake", *arguments.split()]) is expected


def test_only_the_default_rate_limit_is_dropped(tmp_path):
    (tmp_path / "Snakefile").write_text(
        f"""
import sys
sys.path.insert(0, {str(ROOT / "workflow")!r})
import startup
onstart:
    startup.drop_default_rate_limit(workflow)
    print("limited:", workflow.scheduler.job_rate_limiter is not None)
rule all:
    shell: "true"
"""
    )
    for limit, limited in (([], False), (["--max-jobs-per-timespan", "100/3s"], True)):
        command = [sys.executable, "-m", "snakemake", "--cores", "1", *limit]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert f"limited: {limited}" in run.stdout
