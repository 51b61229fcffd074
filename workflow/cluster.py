"""What SLURM would refuse, or leave waiting for ever, found before anything is submitted."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from slurm_site import Partition, accounts, jobs_with_logs_in, listing, partitions_of_site

from hdattn.errors import UserError

_REMEDY = (
    "set SBATCH_ACCOUNT and SBATCH_PARTITION, or slurm_account and slurm_partition under"
    " default-resources of a profile of your own (docs/cluster.md)"
)


@dataclass(frozen=True)
class Request:
    """What one job asks of the cluster."""

    name: str  # of its rule or bundle
    account: str | None = None
    partition: str | None = None
    minutes: int = 1
    memory_mb: int = 1
    threads: int = 1


def check_run(workflow: Any) -> None:
    """Check the jobs that this run of Snakemake is about to submit to SLURM.

    Raises ``UserError`` for what :func:`check` refuses. Runs on this machine are not looked at.
    """
    settings = workflow.executor_settings
    if not type(settings).__module__.startswith("snakemake_executor_plugin_slurm"):
        return
    dag = workflow.dag
    jobs = {dag.get_job_group(job) or job for job in dag.needrun_jobs() if not job.is_local}
    chosen = settings.partition_config or os.environ.get("SNAKEMAKE_SLURM_PARTITIONS")
    check(map(_request, jobs), named_in=Path(chosen) if chosen else None)


def check(requests: Iterable[Request], *, named_in: Path | None = None) -> None:
    """Refuse jobs with an unknown account or partition, or beyond the limits of their partition.

    ``named_in`` is a file of partitions among which the executor chooses for each job by itself.
    Raises ``UserError`` with one line: what is refused, what there is, and the remedy.
    """
    requests = list(requests)
    if not requests:
        return
    partitions = partitions_of_site()
    choices = _named_in(named_in)
    asked = {request.partition for request in requests if request.partition}
    for name in sorted((asked | choices) - partitions.keys()):
        raise UserError(
            f"SLURM has no partition {name!r}; there is {listing(partitions)}: {_REMEDY}"
        )
    _check_times(requests, partitions, choices)
    for request in _largest(requests):
        free = choices and not request.partition  # the default partition does not matter then
        _ask(replace(request, minutes=1, memory_mb=1) if free else request, partitions)


def refuse_beside_earlier_jobs(folder: Path) -> None:
    """Raise ``UserError`` when jobs that an earlier run submitted from ``folder`` are still there.

    They outlive the run that submitted them, and what they make counts.
    """
    # The executor's logs tell the folder: its jobs start in the folder it was called from.
    left = jobs_with_logs_in(folder.resolve() / ".snakemake/slurm_logs")
    if left:
        running = sum(state == "RUNNING" for _, state in left)
        names = ",".join(sorted({name for name, _ in left}))
        raise UserError(
            f"jobs of an earlier run of this folder are still there, {running} running and"
            f" {len(left) - running} waiting: let them end, then go on with the same command, or"
            f" cancel them with: scancel --me --name {names}"
        )


def _request(job: Any) -> Request:
    get = job.resources.get
    return Request(
        name=job.name,
        account=str(get("slurm_account") or "") or None,
        partition=str(get("slurm_partition") or "") or None,
        minutes=int(get("runtime") or 1),
        memory_mb=int(get("mem_mb") or 1),
        threads=int(job.threads),
    )


def _named_in(path: Path | None) -> set[str]:
    if path is None:
        return set()
    try:
        return set(yaml.safe_load(path.read_text())["partitions"])
    except (OSError, yaml.YAMLError, TypeError, KeyError) as error:
        raise UserError(
            f"{path}: not a file of partitions ({error}): it needs a key 'partitions'"
        ) from None


def _check_times(
    requests: list[Request], partitions: dict[str, Partition], choices: set[str]
) -> None:
    # SLURM takes a job that is too long for its partition, and never starts it.
    default = {name for name, partition in partitions.items() if partition.default}
    for request in sorted(requests, key=lambda r: -r.minutes):
        names = {request.partition} if request.partition else choices or default
        limits = [partitions[name].minutes for name in names]
        if limits and None not in limits and request.minutes > max(limits):
            raise UserError(
                f"job {request.name} needs {request.minutes} minutes, beyond the limit of"
                f" partition {' or '.join(sorted(names))}; there is {listing(partitions)}: take a"
                " longer one, or make its blocks smaller (block_size in the figure's section)"
            )


def _largest(requests: list[Request]) -> list[Request]:
    """For each account and partition, the job with the most memory."""
    groups: dict[tuple[str | None, str | None], Request] = {}
    for request in sorted(requests, key=lambda r: r.memory_mb):
        groups[request.account, request.partition] = request
    return list(groups.values())


def _ask(request: Request, partitions: dict[str, Partition]) -> None:
    """Let SLURM say whether it would take a job, without submitting it."""
    options = {"account": request.account, "partition": request.partition}
    options |= {"time": request.minutes, "mem": request.memory_mb}
    options |= {"cpus-per-task": request.threads, "wrap": "true"}
    given = [f"--{name}={value}" for name, value in options.items() if value]
    answer = subprocess.run(
        ["sbatch", "--test-only", *given], capture_output=True, text=True, check=False
    )
    if answer.returncode == 0:
        return
    reason = "; ".join(
        re.sub(r"^(sbatch: |error: |allocation failure: )*", "", line)
        for line in answer.stderr.strip().splitlines()
    )
    who = f"account {request.account!r}" if request.account else "no account"
    where = f"partition {request.partition!r}" if request.partition else "the default partition"
    raise UserError(
        f"SLURM refuses jobs of {who}, {where} ({request.name}: {request.minutes} minutes,"
        f" {request.memory_mb} MB): {reason}; your accounts: {accounts() or 'not known'};"
        f" partitions: {listing(partitions)}: {_REMEDY}"
    )
