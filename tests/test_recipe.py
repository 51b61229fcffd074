"""The recipe "add a figure" works as written, in a copy of the project."""

import csv
import json
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


def followed(page, copy):
    """A copy of the project in ``copy`` in which the recipe on ``page`` was followed."""
    copy.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("Snakefile", "workflow", "scripts", "config", "profiles", "src"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=ignored)
        else:
            shutil.copy(source, copy / name)
    shutil.copy(ROOT / "environment.yml", copy)
    for action, name, content in BLOCK.findall((ROOT / "docs" / page).read_text()):
        with (copy / name).open("w" if action == "file" else "a", encoding="utf-8") as file:
            file.write(content)
    return copy


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The recipe for figures followed and its figure made; the path has a space and an umlaut."""
    copy = tmp_path_factory.mktemp("recipe") / "mein Projekt für Köpfe"
    followed("add-a-figure.md", copy)
    run = snakemake(copy, "--config", "scale=smoke", "figures=noise_levels")
    assert run.returncode == 0, run.stderr
    return copy


@pytest.fixture(scope="module")
def with_sigmoid(tmp_path_factory):
    """The recipe for activations followed."""
    return followed("add-an-activation.md", tmp_path_factory.mktemp("recipe") / "project")


def snakemake(project, *arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "DISPLAY")}
    environment |= variables
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )


def test_the_new_figure_is_made_and_then_nothing_is_to_be_done(project):
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


def test_a_report_has_caption_and_category_and_needs_no_network(project):
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    asked = ("--config", "scale=smoke", "figures=noise_levels")
    run = snakemake(project, "--report", "report.html", *asked, **nowhere)
    assert run.returncode == 0, run.stderr
    text = " ".join((project / "report.html").read_text(encoding="utf-8").split())
    caption = (project / "workflow/report/noise_levels.rst").read_text(encoding="utf-8")
    assert " ".join(caption.split())[:40] in text
    assert "noise_levels.png;base64,iVBORw0KGgo" in text  # the figure itself
    for category in ("singlehead", "validation"):
        assert f'"{category}"' in text
    assert "Figures of two papers on high-dimensional attention" in text


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


def inside(project, *arguments):
    """Output of this Python on the project's own library."""
    environment = os.environ | {"PYTHONPATH": str(project / "src")}
    command = [sys.executable, *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_new_activation_has_a_figure_against_bayes(with_sigmoid):
    run = snakemake(with_sigmoid, "--config", "scale=smoke", "figures=sigmoid_heads")
    assert run.returncode == 0, run.stderr
    stem = with_sigmoid / "results/figures/smoke/multihead/sigmoid_heads"
    with stem.with_suffix(".csv").open() as file:
        rows = list(csv.DictReader(file))
    (risk,) = (float(r["loss"]) for r in rows if r["activation"] == "bayes risk")
    sigmoid = [float(r["loss"]) for r in rows if r["activation"] == "sigmoid"]
    errors = [float(r["error"]) for r in rows if r["activation"] == "sigmoid"]
    assert risk == pytest.approx(0.372127, abs=1e-6)  # by quadrature
    assert all(0 < error < 1e-3 for error in errors)  # 2^17 Sobol points
    # Two signs take two heads: the second gains much, and none beats the posterior.
    assert min(sigmoid) > risk + 0.02 and sigmoid[0] > sigmoid[1] + 0.05 and max(sigmoid) < 1


def test_the_command_line_knows_the_new_activation(with_sigmoid):
    prior = ["--mean", "0.8,0", "--std", "0,2", "--json"]
    heads = ["--m", "[[0.8,2],[0.8,-2]]", "--b=-3,-3", "--c", "2"]
    command = ["-m", "hdattn", "multihead"]
    loss = inside(with_sigmoid, *command, "loss", "--activation", "sigmoid", *heads, *prior)
    assert 0.372 < json.loads(loss)["loss"] < 1
    flow = ["flow", "--activation", "sigmoid", "--init-m", "[[0.1,0.1],[0.1,-0.1]]", "--tau", "2"]
    flow = inside(with_sigmoid, *command, *flow, *prior)
    values = json.loads(flow)["loss"]
    assert values[-1] < values[0]


def test_its_derivatives_are_those_of_its_forward_map(with_sigmoid):
    code = """
import numpy as np
from hdattn.multihead.activation_base import Activation
from hdattn.multihead.activations import get_activation

rule, rng = get_activation("sigmoid"), np.random.default_rng(0)
assert type(rule).forward is not Activation.forward, "the recipe's methods are not in the class"
assert type(rule).pullback is not Activation.pullback
chi, b, c, e = (rng.standard_normal(s) for s in ((3, 4, 9), (3, 9), 9, (4, 9)))
attention, saved = Activation.forward(rule, chi, b, c)
pairs = zip(rule.backward(chi, b, c, e), Activation.pullback(rule, saved, attention, c, e))
print(max(np.abs(ours - numeric).max() for ours, numeric in pairs))
"""
    assert float(inside(with_sigmoid, "-c", code)) < 1e-9  # central differences: about 1e-11


def test_an_edit_of_an_activation_recomputes_what_names_it_and_nothing_else(with_sigmoid):
    module = with_sigmoid / "src/hdattn/multihead/extensions/sigmoid.py"
    module.write_text(module.read_text() + "\n_UNUSED = 1\n")
    again = ["-n", "--config", "scale=smoke", "figures=sigmoid_heads"]
    plan = snakemake(with_sigmoid, *again)
    assert plan.stdout.count("rule solve:") == 2, plan.stderr
    assert "optimum/softmax" not in plan.stderr
