"""The recipe "add a figure" works as written, in a copy of the project."""

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hdattn.singlehead.problem import Problem
from hdattn.singlehead.state_evolution import solve
from hdattn.singlehead.targets import MarchenkoPastur

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"<!-- (file|append): (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project with the recipe followed; its path has a space and an umlaut."""
    copy = tmp_path_factory.mktemp("recipe") / "mein Projekt für Köpfe"
    copy.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("Snakefile", "workflow", "scripts", "config", "profiles", "src"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=ignored)
        else:
            shutil.copy(source, copy / name)
    shutil.copy(ROOT / "environment.yml", copy)
    for action, name, content in BLOCK.findall((ROOT / "docs/add-a-figure.md").read_text()):
        with (copy / name).open("w" if action == "file" else "a", encoding="utf-8") as file:
            file.write(content)
    return copy


def snakemake(project, *arguments):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "DISPLAY")}
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )


def test_the_new_figure_is_made_and_then_nothing_is_to_be_done(project):
    run = snakemake(project, "--config", "scale=smoke", "figures=noise_levels")
    assert run.returncode == 0, run.stderr
    stem = project / "results/figures/smoke/singlehead/noise_levels"
    assert all(stem.with_suffix(f".{ending}").stat().st_size for ending in ("pdf", "png"))
    with stem.with_suffix(".csv").open() as file:
        table = list(csv.DictReader(file))
    rows = {(float(r["noise"]), float(r["alpha"])): r["test_error"] for r in table}
    problem = Problem(alpha=1, lam=0.01, kappa=1, noise=0.5, target=MarchenkoPastur(0.5))
    # Continuation along the curve and a cold start meet within the solver's tolerance.
    assert float(rows[0.5, 1.0]) == pytest.approx(solve(problem).test_error, rel=1e-6)
    again = snakemake(project, "--config", "scale=smoke", "figures=noise_levels")
    assert "Nothing to be done" in again.stderr


def test_a_damaged_file_is_set_aside_and_only_it_is_made_anew(project):
    cache = project / "results/cache/singlehead/state_evolution"
    good, bad, *_ = sorted(cache.glob("noise*.h5"))
    before = good.stat().st_mtime_ns, bad.read_bytes()
    bad.write_bytes(before[1][:-100])
    look = snakemake(project, "-n", "--config", "scale=smoke", "figures=noise_levels")
    assert f"{bad.name}" in look.stderr and "would be made anew" in look.stderr
    assert bad.exists()
    run = snakemake(project, "--config", "scale=smoke", "figures=noise_levels")
    assert run.returncode == 0, run.stderr
    assert "set aside and made anew" in run.stderr
    assert run.stderr.count("rule solve:") == 1
    assert good.stat().st_mtime_ns == before[0]
    assert len(list(cache.glob(f"{bad.name}.bad-*"))) == 1


def test_a_change_of_style_redraws_and_recomputes_nothing(project):
    sheet = project / "src/hdattn/figures/hdattn.mplstyle"
    sheet.write_text(sheet.read_text() + "\naxes.grid: True\n")
    plan = snakemake(project, "-n", "--config", "scale=smoke", "figures=noise_levels").stdout
    assert "rule noise_levels:" in plan and "rule solve:" not in plan


def test_a_change_of_physics_recomputes_and_a_comment_does_not(project):
    module = project / "src/hdattn/singlehead/denoisers.py"
    text = module.read_text()
    module.write_text(text + "\n# a comment\n")
    plan = snakemake(project, "-n", "--config", "scale=smoke", "figures=noise_levels").stdout
    assert "rule solve:" not in plan
    module.write_text(text + "\n_UNUSED = 1\n")
    plan = snakemake(project, "-n", "--config", "scale=smoke", "figures=noise_levels").stdout
    assert plan.count("rule solve:") == 3
