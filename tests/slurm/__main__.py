"""The workflow on a real SLURM: ``python tests/slurm`` (as root, on Debian or Ubuntu).

Starts a SLURM of one node and does to runs of a small figure what clusters do: jobs killed and
cancelled, sessions lost, the controller restarted; then makes every figure at the smoke scale, with
all cancelled in the middle, a job cancelled after that, and the same command again. Prints one line
for each, the table of jobs from the accounting, and ends with status 1 when anything failed.
``--short``, for every commit, leaves out the smoke scale and half of the small runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "faults"))

import accounting
import cluster
import scenarios
from workspace import FIGURES, ROOT, SmokeScale, Workspace

Scenario = Callable[[Workspace, dict[str, str]], str]
FIGURE = FIGURES[:1]  # few results: each takes seconds on a cluster
OFTEN = (scenarios.memory_kill_is_retried, scenarios.whole_run_is_resumed)
SCENARIOS = (
    *OFTEN,
    scenarios.cancelled_job_is_retried,
    scenarios.jobs_outlive_their_run,
    scenarios.controller_restarts,
    scenarios.inside_a_job,
)


class Checks:
    """Checks made and passed, printed as they come."""

    def __init__(self) -> None:
        self.made = self.passed = 0
        self._start = time.monotonic()

    def add(self, name: str, problem: str) -> None:
        """Print one check; ``problem`` is empty when it passed."""
        self.made += 1
        self.passed += not problem
        seconds = time.monotonic() - self._start
        print(f"{seconds:6.0f} s  {'ok' if not problem else 'FAILED'}  {name}", flush=True)
        if problem:
            print(f"    {problem}", flush=True)


def main() -> int:
    """Run the suite; 0 when every check passed, or where there can be no SLURM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="some of the small runs only")
    options = parser.parse_args()
    if reason := cluster.why_not():
        print(f"skipped: {reason}")
        return 0
    os.environ |= {"SBATCH_ACCOUNT": cluster.ACCOUNT, "SBATCH_PARTITION": cluster.PARTITION}
    checks = Checks()
    try:
        try:
            cluster.start()
        except (OSError, subprocess.SubprocessError, TimeoutError) as error:
            print(f"skipped: no SLURM can be started: {error}")
            return int(not options.short)  # asked for by name, it is a failure
        checks.add("SLURM with accounting started", "")
        with tempfile.TemporaryDirectory(prefix="hdattn-slurm-") as name:
            _survive(Path(name), OFTEN if options.short else SCENARIOS, checks)
            if not options.short:
                _every_figure(Path(name) / "smoke", checks)
    finally:
        cluster.stop()
    print(f"{checks.passed}/{checks.made} checks passed")
    return int(checks.passed != checks.made)


def _survive(folder: Path, chosen: Iterable[Scenario], checks: Checks) -> None:
    local = Workspace(folder / "local", FIGURE)
    run = local.run()
    checks.add("a run without a cluster, to compare with", run.stdout if run.returncode else "")
    reference = local.digests()
    space = Workspace(folder / "cluster", FIGURE)
    problem, jobs = scenarios.same_as_local(space, reference)
    checks.add("the same on the cluster, to the bit; then nothing to be done", problem)
    print(accounting.table(jobs, accounting.compute_seconds(space.folder)), flush=True)
    for scenario in chosen:
        space = Workspace(folder / scenario.__name__, FIGURE)
        checks.add(scenario.__doc__.partition("\n")[0], scenario(space, reference))
    for name, problem in scenarios.refusals(Workspace(folder / "refused", FIGURE)):
        checks.add(name, problem)


def _every_figure(folder: Path, checks: Checks) -> None:
    space = SmokeScale(folder)
    start = time.monotonic()
    problem, output = scenarios.cancelled_twice(space)
    problem = problem or _not_drawn(folder)
    seconds = time.monotonic() - start
    checks.add(f"every figure at the smoke scale in {seconds:.0f} s", problem)
    again = space.run(*scenarios.PROFILE)
    idle = "Nothing to be done" in again.stdout
    checks.add("then nothing to be done", "" if idle else again.stdout)
    jobs = accounting.jobs_of(output)
    left = [job for job in jobs if job.state not in ("COMPLETED", "CANCELLED")]
    cancelled = sum(job.state == "CANCELLED" for job in jobs)
    counted = f"{len(jobs)} jobs accounted for, {cancelled} cancelled, all others completed"
    checks.add(counted, "" if jobs and not left else "\n    ".join(map(str, left or ["none"])))
    print(accounting.table(jobs, accounting.compute_seconds(folder)), flush=True)


def _not_drawn(folder: Path) -> str:
    captions = {path.stem for path in (ROOT / "workflow/report").glob("*.rst")}
    expected = captions - {"workflow", "validation", "overview"}
    drawn = {path.stem for path in folder.glob("results/figures/smoke/*/*.pdf")}
    return f"not drawn: {sorted(expected - drawn)}" if expected - drawn else ""


if __name__ == "__main__":
    sys.exit(main())
