"""What jobs took, from the benchmark files that Snakemake leaves."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from hdattn.notices import warn_once
from hdattn.steps import RULES

BENCHMARKS = Path("results/benchmarks")
_RULE_OF = {kind: rule for rule, kinds in RULES.items() for kind in kinds}


class Cost(NamedTuple):
    """Wall and CPU time in seconds, the number of jobs, and the largest resident memory (MB)."""

    seconds: float
    cpu_seconds: float
    jobs: int
    memory_mb: float = 0.0


def total(costs: Iterable[Cost]) -> Cost:
    """Sum of costs, and the largest memory."""
    costs = list(costs)
    sums = (sum(getattr(cost, name) for cost in costs) for name in Cost._fields[:3])
    return Cost(*sums, max((cost.memory_mb for cost in costs), default=0.0))


def job_costs(directory: Path, scale: str, figure: str, cached: Iterable[str]) -> dict[str, Cost]:
    """Costs of a figure by rule; ``cached`` are the results behind it, as paths in the cache.

    A job that several figures share counts for each of them. Rules without a file are left out.
    """
    found: dict[str, list[Cost]] = {rule: [] for rule in (*RULES, "plot")}
    for path in map(Path, cached):
        rule = _RULE_OF.get(str(path.parent))
        if rule:
            found[rule] += recorded(directory / BENCHMARKS / path.with_suffix(".tsv"))
    found["plot"] += recorded(directory / BENCHMARKS / "plot" / scale / f"{figure}.tsv")
    return {rule: total(costs) for rule, costs in found.items() if costs}


def recorded(file: Path) -> list[Cost]:
    """What a job's benchmark file says; empty where there is none or, with a warning, a bad one."""
    if not file.is_file():
        return []
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines, delimiter="\t"))
        columns = ("s", "cpu_time", "max_rss")
        found = [[_number(row, name) for name in columns] for row in rows]
    except (OSError, ValueError, csv.Error):
        warn_once(f"{file}: damaged; what its job took is not known")
        return []
    return [Cost(seconds, cpu, 1, memory) for seconds, cpu, memory in found]


def _number(row: Mapping[str, str], key: str) -> float:
    """A number of a benchmark row; short jobs leave ``NA``, which counts nothing."""
    value = row.get(key)
    return 0.0 if value in (None, "", "-", "NA") else float(value)
