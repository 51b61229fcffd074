"""What SLURM accounts for the jobs of a run, beside what the computations in them took."""

from __future__ import annotations

import csv
import re
import statistics
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_COLUMNS = ("JobIDRaw", "State", "Submit", "Start", "ElapsedRaw", "ReqMem", "TimelimitRaw",
            "Comment")  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One submission, as sacct has it."""

    number: int
    state: str
    wait: float  # seconds from submission to start
    elapsed: int  # seconds from start to end
    memory_mb: int
    limit_minutes: int
    comment: str  # of Snakemake: rule and wildcards

    @property
    def rule(self) -> str:
        """Rule or group that the job runs."""
        return re.sub(r"^rule_|_wildcards_.*", "", self.comment)


def run_numbers(output: str) -> list[str]:
    """Names under which a run of Snakemake, with this output, submitted its jobs."""
    return re.findall(r"SLURM run ID: (\S+)", output)


def jobs_of(output: str) -> list[Job]:
    """All jobs of the runs with this output, in the order of their submission."""
    if not (names := run_numbers(output)):
        return []
    listing = subprocess.run(
        [
            *("sacct", "--allocations", "--parsable2", "--noheader", "--starttime=now-1days"),
            *("--name", ",".join(names), "--format", ",".join(_COLUMNS)),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = csv.DictReader(listing.splitlines(), _COLUMNS, delimiter="|")
    return sorted((_job(row) for row in rows), key=lambda job: job.number)


def _job(row: dict[str, str]) -> Job:
    started = row["Start"] not in ("Unknown", "None")
    submit = datetime.fromisoformat(row["Submit"])
    start = datetime.fromisoformat(row["Start"]) if started else submit
    return Job(
        number=int(row["JobIDRaw"]),
        state=row["State"].split()[0],
        wait=(start - submit).total_seconds(),
        elapsed=int(row["ElapsedRaw"]),
        memory_mb=_megabytes(row["ReqMem"]),
        limit_minutes=int(row["TimelimitRaw"] or 0),
        comment=row["Comment"],
    )


def _megabytes(text: str) -> int:
    units = {"K": 1 / 1024, "M": 1, "G": 1024}
    number, unit = re.fullmatch(r"([\d.]+)([KMG]?)\w*", text).groups()
    return round(float(number) * units[unit or "M"])


def compute_seconds(folder: Path) -> dict[str, float]:
    """Seconds of each computation of a working folder, from its benchmark files."""
    base = folder / "results/benchmarks"
    found = {}
    for path in base.rglob("*.tsv"):
        with path.open() as file:
            row = next(csv.DictReader(file, delimiter="\t"))
        found[str(path.relative_to(base).with_suffix("")).replace("/", "_")] = float(row["s"])
    return found


def table(jobs: list[Job], seconds: dict[str, float]) -> str:
    """Jobs, states, time waited and time at work by rule; what a job costs beside its computing."""
    by_rule = defaultdict(list)
    for job in jobs:
        by_rule[re.sub(r"[0-9a-f-]{36}$", "", job.rule)].append(job)
    lines = [f"{'rule':<28} {'jobs':>5} {'waited s':>9} {'at work s':>10}  states"]
    for rule, members in sorted(by_rule.items()):
        states = ", ".join(f"{n} {s}" for s, n in Counter(j.state for j in members).items())
        wait = statistics.median(job.wait for job in members)
        work = statistics.median(job.elapsed for job in members)
        lines.append(f"{rule:<28} {len(members):>5} {wait:>9.1f} {work:>10.1f}  {states}")
    lines.append("(medians; waited: from submission to start)")
    if done := [job for job in jobs if job.state == "COMPLETED"]:
        remote = sum(s for name, s in seconds.items() if not name.startswith("plot_"))
        total = sum(job.elapsed for job in done)
        lines.append(
            f"{len(done)} jobs completed in {total} s, of which computing {remote:.0f} s:"
            f" {(total - remote) / len(done):.1f} s a job beside it"
        )
    return "\n".join(lines)
