"""What clusters do to a run: each scenario returns an empty string or what went wrong."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Callable

import cluster
from accounting import Job, jobs_of
from workspace import ROOT, Workspace, differences

# As a user calls it, but looking at its jobs more often: these last seconds.
PROFILE = (
    *("--profile", str(ROOT / "profiles/slurm")),
    *("--slurm-init-seconds-before-status-checks", "5"),
)
_PATIENCE = 300  # seconds


def same_as_local(space: Workspace, reference: dict[str, str]) -> tuple[str, list[Job]]:
    """A run on the cluster makes what a local run makes, in few jobs; then all is done."""
    run = space.run(*PROFILE)
    jobs = jobs_of(run.stdout)
    again = space.run(*PROFILE)
    problem = _problem(run, space, reference) or (
        "" if "Nothing to be done" in again.stdout else f"something was left:\n{again.stdout}"
    )
    states = [job.state for job in jobs]
    if not problem and (set(states) != {"COMPLETED"} or len(jobs) >= len(space.files())):
        problem = f"{len(space.files())} results, states {states}"
    return problem, jobs


def memory_kill_is_retried(space: Workspace, reference: dict[str, str]) -> str:
    """Jobs killed for their memory are submitted anew, with more."""
    memory = "mem_mb=60 if attempt == 1 else 1000 * attempt"
    flags = [f"{rule}:{memory}" for rule in ("generate", "solve", "train")]
    run = space.run(*PROFILE, "--set-resources", *flags)
    jobs = jobs_of(run.stdout)
    found = sorted((job.memory_mb, job.state == "COMPLETED") for job in jobs)
    if not jobs or found != [*[(60, False)] * (len(jobs) // 2), *[(2000, True)] * (len(jobs) // 2)]:
        return f"{jobs}\n{run.stdout}"
    return _problem(run, space, reference)


def cancelled_job_is_retried(space: Workspace, reference: dict[str, str]) -> str:
    """A job cancelled by hand is submitted anew, with twice the memory and time."""
    run = space.start(*PROFILE)
    _call("scancel", *_wait_for(_running))
    output, _ = run.communicate()
    first, second, *others = jobs_of(output)
    more = abs(second.memory_mb - 2 * first.memory_mb) < 2  # whole MB of a fraction
    longer = second.limit_minutes == 2 * first.limit_minutes
    cancelled = first.state == "CANCELLED"
    done = others and all(job.state == "COMPLETED" for job in (second, *others))
    if not (more and longer and cancelled and done):
        return f"first {first}, then {second}, {others}"
    return _problem(run, space, reference, output)


def whole_run_is_resumed(space: Workspace, reference: dict[str, str]) -> str:
    """Everything cancelled and the run killed in the middle: the same command makes the rest."""
    _kill_after(2, space)
    return _resume(space, reference)


def cancelled_twice(space: Workspace) -> tuple[str, str]:
    """Many jobs, all cancelled in the middle and the run killed; then one of the rest cancelled.

    What went wrong, and what the last run printed.
    """
    _kill_after(20, space)
    before = space.written()
    run = space.start(*PROFILE)
    _call("scancel", *_wait_for(_running)[:1])
    output, _ = run.communicate()
    if changed := before.items() - space.written().items():
        return f"remade although finished: {sorted(changed)}", output
    return f"ended with {run.returncode}:\n{output}" if run.returncode else "", output


def jobs_outlive_their_run(space: Workspace, reference: dict[str, str]) -> str:
    """The session ends and the jobs go on: no second run beside them, and what they make counts."""
    run = space.start(*PROFILE)
    _wait_for(lambda: len(space.files()) >= 1 and _running())
    run.kill()
    run.communicate()
    beside = space.run(*PROFILE)
    last = beside.stdout.strip().splitlines()[-1]
    if beside.returncode != 1 or "jobs of an earlier run" not in last:
        return f"a run beside the jobs of the last one was not refused:\n{beside.stdout}"
    if f"scancel --me --name {run_name(beside.stdout)}" not in last:
        return f"no command that cancels them: {last}"
    _wait_for(lambda: not _queued())
    return _resume(space, reference)


def run_name(output: str) -> str:
    """Name of the jobs that a refusal names."""
    return re.findall(r"--name (\S+)", output)[-1]


def controller_restarts(space: Workspace, reference: dict[str, str]) -> str:
    """The controller goes away for a while, in the middle of a run."""
    run = space.start(*PROFILE)
    _wait_for(_running)
    cluster.stop("slurmctld")
    time.sleep(15)
    cluster.start_controller()
    output, _ = run.communicate()
    return _problem(run, space, reference, output)


def inside_a_job(space: Workspace, reference: dict[str, str]) -> str:
    """The run itself is a job of the cluster."""
    log = space.folder / "outer.log"
    command = shlex.join(space.command(*PROFILE))
    submission = subprocess.run(
        [
            *("sbatch", "--wait", "--account", cluster.ACCOUNT, "--chdir", str(space.folder)),
            *("--mem=1000", "--time=10", "--output", str(log), "--wrap", command),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return _problem(submission, space, reference, log.read_text())


def refusals(space: Workspace) -> list[tuple[str, str]]:
    """Requests that SLURM refuses, or would leave waiting: one line, and nothing submitted."""
    cases = (
        ("unknown partition", "--default-resources", "slurm_partition=gpu", "partition 'gpu'"),
        ("unknown account", "--default-resources", "slurm_account=nobody", "account 'nobody'"),
        ("too much time", "--set-resources", "generate:runtime=300", "limit of partition short"),
        ("too much memory", "--set-resources", "generate:mem_mb=999000", "999000 MB"),
    )
    results = []
    for name, flag, value, line in cases:
        run = space.run(*PROFILE, flag, value)
        last = run.stdout.strip().splitlines()[-1]
        good = run.returncode == 1 and line in last and "Traceback" not in run.stdout
        results.append((f"{name}: refused", "" if good else run.stdout))
    submitted = list((space.folder / ".snakemake").glob("slurm_logs/*/*"))
    return [*results, ("nothing was submitted", ", ".join(map(str, submitted)))]


def _kill_after(results: int, space: Workspace) -> None:
    """Start a run; once so many results are there, kill it and cancel its jobs."""
    run = space.start(*PROFILE)
    _wait_for(lambda: len(space.files()) >= results)
    run.kill()
    _call("scancel", "--me")
    run.communicate()
    _wait_for(lambda: not _queued())


def _resume(space: Workspace, reference: dict[str, str]) -> str:
    before = space.written()
    run = space.run(*PROFILE)
    changed = [path.name for path, _ in before.items() - space.written().items()]
    jobs = jobs_of(run.stdout)
    missing = len(space.files()) - len(before)
    if changed or missing < 1:
        return f"remade although finished: {changed}; missing before: {missing}"
    if len(jobs) > missing:
        return f"{len(jobs)} jobs for {missing} missing results"
    return _problem(run, space, reference)


def _problem(run, space: Workspace, reference: dict[str, str], output: str | None = None) -> str:
    if run.returncode:
        return f"ended with {run.returncode}:\n{run.stdout if output is None else output}"
    if other := differences(space.digests(), reference):
        return f"not what a local run makes: {other}"
    return ""


def _queued(*flags: str) -> list[str]:
    return subprocess.run(
        ["squeue", "--me", "--noheader", "--format=%i", *flags],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()


def _running() -> list[str]:
    return _queued("--states=RUNNING")


def _call(*command: str) -> None:
    subprocess.run(command, check=True)


def _wait_for(condition: Callable[[], object]):
    end = time.monotonic() + _PATIENCE
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {_PATIENCE} s: {condition}")
        time.sleep(0.1)
    return found
