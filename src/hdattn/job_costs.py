"""What jobs took, from the benchmark files that Snakemake leaves."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from hdattn.steps import RULES

BENCHMARKS = Path("results/benchmarks")
_RULE_OF = {kind: rule for rule, kinds in RULES.items() for kind in kinds}


class Cost(NamedTuple):
    """Wall and CPU time in seconds, and the number of jobs."""

    seconds: float
    cpu_seconds: float
    jobs: int


def total(costs: Iterable[Cost]) -> Cost:
    """Sum of costs."""
    costs = list(costs)
    return Cost(*(sum(column) for column in zip(*costs, strict=True))) if costs else Cost(0, 0, 0)


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
    """What a job's benchmark file says; empty where the job left none."""
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    return [Cost(_number(row, "s"), _number(row, "cpu_time"), 1) for row in rows]


def _number(row: Mapping[str, str], key: str) -> float:
    """A number of a benchmark row; short jobs leave ``NA``, which counts nothing."""
    value = row.get(key)
    return 0.0 if value in (None, "", "-", "NA") else float(value)
