"""What SLURM would refuse is one line before anything is submitted (with a SLURM of scripts)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hdattn.errors import UserError

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

import cluster  # noqa: E402
import slurm_site  # noqa: E402
from cluster import Request  # noqa: E402

PROFILE = ROOT / "profiles/slurm"
PAGE = ROOT / "docs/cluster.md"
PROGRAMS = {
    "sinfo": "printf 'short*|2:00:00\\nlong|7-00:00:00\\nopen|infinite\\n'",
    "sacctmgr": "printf 'physics\\nmaths\\nphysics\\n'",
    "squeue": ":",
    # A site that wants an account: what its plugin says comes before SLURM's own line.
    "sbatch": """case "$*" in
        *--account=physics*) exit 0 ;;
        *--account=*) echo "allocation failure: Invalid account" >&2; exit 1 ;;
        *) echo "sbatch: error: please name a project" >&2
           echo "allocation failure: Unspecified error" >&2; exit 1 ;;
    esac""",
}


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Commands of SLURM on PATH, which say what a site would; returns a way to change one."""
    folder = tmp_path / "slurm"
    folder.mkdir()

    def say(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    for name, script in PROGRAMS.items():
        say(name, script)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    for name in ("SBATCH_ACCOUNT", "SBATCH_PARTITION"):
        monkeypatch.delenv(name, raising=False)
    return say


def request(**changes):
    return Request(**{"name": "train", "account": "physics", "partition": "short", **changes})


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"partition": "gpu"}, ["no partition 'gpu'", "short (up to 120 minutes)", "open"]),
        ({"account": "chemistry"}, ["'chemistry'", "Invalid account", "maths, physics"]),
        ({"account": None}, ["no account", ": please name a project", "SBATCH_ACCOUNT"]),
        (
            {"minutes": 121},
            ["job train", "121 minutes", "partition short", "long (up to 10080"],
        ),
        ({"minutes": 121, "partition": None}, ["121 minutes", "partition short"]),
    ],
)
def test_a_refused_job_is_one_line_with_the_remedy(slurm, changes, parts):
    with pytest.raises(UserError) as error:
        cluster.check([request(), request(**changes)])
    line = str(error.value)
    assert "\n" not in line and all(part in line for part in parts), line


def test_jobs_within_the_limits_pass(slurm):
    cluster.check([])
    cluster.check([request(minutes=120), request(minutes=9999, partition="long")])
    cluster.check([request(minutes=10**6, partition="open")])


def test_the_job_with_the_most_memory_is_the_one_asked_about(slurm):
    slurm("sbatch", 'case "$*" in *--mem=9000*) echo too much >&2; exit 1 ;; esac')
    cluster.check([request(memory_mb=500), request(memory_mb=8999)])
    with pytest.raises(UserError, match=r"9000 MB\): too much"):
        cluster.check([request(memory_mb=500), request(memory_mb=9000), request(memory_mb=8)])


def test_a_file_of_partitions_leaves_the_choice_to_the_executor(slurm, tmp_path):
    file = tmp_path / "partitions.yaml"
    file.write_text(yaml.safe_dump({"partitions": {"short": {}, "long": {}}}))
    cluster.check([request(partition=None, minutes=10080)], named_in=file)
    with pytest.raises(UserError, match="10081 minutes, beyond the limit of partition long or s"):
        cluster.check([request(partition=None, minutes=10081)], named_in=file)
    file.write_text(yaml.safe_dump({"partitions": {"short": {}, "fat": {}}}))
    with pytest.raises(UserError, match="no partition 'fat'"):
        cluster.check([request(partition=None)], named_in=file)
    file.write_text("short, long")
    with pytest.raises(UserError, match=r"partitions\.yaml: not a file of partitions"):
        cluster.check([request(partition=None)], named_in=file)


def test_no_slurm_on_this_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="there is no SLURM on this machine"):
        cluster.check([request()])


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("30:00", 30), ("2:00:00", 120), ("1-12:00:00", 2160), ("infinite", None), ("n/a", None)],
)
def test_time_limits_as_sinfo_prints_them(limit, minutes):
    assert slurm_site.minutes_of(limit) == minutes


def test_jobs_that_outlived_their_run(slurm, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    rows = [f"ab-12 {state} {here}/.snakemake/slurm_logs/rule_train/%j.log" for state in
            ("RUNNING", "PENDING", "PENDING")]  # fmt: skip
    slurm("squeue", "cat <<END\n" + "\n".join(rows) + "\nEND")
    cluster.refuse_beside_earlier_jobs(there)
    with pytest.raises(UserError, match=r"1 running and 2 waiting.*scancel --me --name ab-12$"):
        cluster.refuse_beside_earlier_jobs(here)
    slurm("squeue", "exit 1")  # the controller does not answer
    cluster.refuse_beside_earlier_jobs(here)


def snakemake(*arguments, cwd):
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


SMOKE = ("--config", "scale=smoke", "figures=staging")


def test_an_unknown_partition_stops_the_run_before_submission(slurm, tmp_path, monkeypatch):
    monkeypatch.setenv("SBATCH_PARTITION", "gpu")
    run = snakemake("--profile", str(PROFILE), *SMOKE, cwd=tmp_path)
    assert run.returncode == 1
    assert "SLURM has no partition 'gpu'" in run.stderr
    assert "Traceback" not in run.stderr and "sbatch" not in run.stderr
    assert "submitted" not in run.stdout + run.stderr


@pytest.mark.parametrize("flag", ["--profile", "--workflow-profile"])
def test_the_profile_takes_account_and_partition_from_the_environment(
    slurm, tmp_path, monkeypatch, flag
):
    # Names, though they could be read as a number and as a function of Python.
    monkeypatch.setenv("SBATCH_ACCOUNT", "123")
    monkeypatch.setenv("SBATCH_PARTITION", "all")
    run = snakemake(flag, str(PROFILE), "-n", *SMOKE, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "slurm_account=123" in run.stdout and "slurm_partition=all" in run.stdout


def test_a_profile_of_ones_own_has_the_last_word(slurm, tmp_path, monkeypatch):
    """With the examples of docs/cluster.md."""
    monkeypatch.setenv("SBATCH_PARTITION", "long")
    (tmp_path / "mine").mkdir()
    examples = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    profile, partitions, gpu = (yaml.safe_load(text) for text in examples[:3])
    profile["default-resources"]["slurm_partition"] = "short"
    (tmp_path / "mine/config.yaml").write_text(yaml.safe_dump(profile | gpu))
    (tmp_path / "mine/partitions.yaml").write_text(yaml.safe_dump(partitions))
    figures = ("--config", "scale=smoke", "figures=spectra")
    run = snakemake("--profile", str(PROFILE), "--profile", "mine", "-n", *figures, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "slurm_partition=short" in run.stdout and "slurm_partition=long" not in run.stdout
    assert "slurm_account=myproject" in run.stdout and "gpu=1" in run.stdout
