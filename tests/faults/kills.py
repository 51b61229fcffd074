"""Kill runs at random moments; the same command must continue, and nothing corrupt may stay."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time

from workspace import Workspace, differences, jobs_of, kill_all

from hdattn import cache_check


def survive_kills(space: Workspace, reference: dict[str, str], count: int, seed: int) -> list[str]:
    """Failures of ``count`` kills; one in three hits a job alone, one the scheduler alone."""
    rng = random.Random(seed)
    failures = []
    for number in range(count):
        what = ("everything", "a job", "the scheduler")[number % 3]
        before = space.written()
        run = space.start()
        time.sleep(rng.uniform(0.2, 9.0))
        if run.poll() is not None:  # it had finished: take something away and kill the next try
            run.communicate()
            _forget_half(space, rng)
            before = space.written()
            run = space.start()
            time.sleep(rng.uniform(1.5, 4.0))
        _kill(run, what, rng)
        bad = cache_check.check(space.cache, incremental=False).bad
        failures += [f"kill {number} ({what}): {path}: {why}" for path, why in bad]
        again = before.items() - space.written().items()
        failures += [f"kill {number} ({what}): {path} was whole, and lost" for path, _ in again]
    last = space.run()
    if last.returncode:
        failures.append(f"the run after the kills ended with {last.returncode}:\n{last.stdout}")
    if other := differences(space.digests(), reference):
        failures.append(f"results differ from those of an uninterrupted run: {other}")
    if left := list(space.cache.rglob(".writing-*")):
        failures.append(f"temporary files are left: {', '.join(map(str, left))}")
    return failures


def _kill(run: subprocess.Popen[str], what: str, rng: random.Random) -> None:
    jobs = jobs_of(run)
    if what == "a job" and jobs:
        os.kill(rng.choice(jobs), signal.SIGKILL)
        run.communicate()  # the others go on to their end
    elif what == "the scheduler":
        run.kill()
        run.communicate()  # its jobs, alone now, go on to their end and close the pipe
    else:
        kill_all(run)


def _forget_half(space: Workspace, rng: random.Random) -> None:
    for path in rng.sample(space.files(), len(space.files()) // 2):
        path.unlink()
    shutil.rmtree(space.folder / "results/figures")


def refuse_second_run(space: Workspace) -> list[str]:
    """Failures of two runs in one folder: the second must say in one line what to do."""
    first = space.start("--forceall")
    lock = space.folder / ".snakemake/hdattn-run.lock"
    while not lock.exists() or not lock.read_text():
        time.sleep(0.05)
    second = space.run()
    kill_all(first)
    # Snakemake says before which profile and configuration it reads.
    last = second.stdout.strip().splitlines()[-1]
    if second.returncode == 1 and "another run" in last and "Traceback" not in second.stdout:
        return []
    return [f"a second run in the folder was not refused in one line:\n{second.stdout}"]
