"""Expected against measured: the benchmark files that Snakemake left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hdattn.catalogue import Catalogue
from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.job_costs import BENCHMARKS, recorded

WORST = 5


class Comparison(NamedTuple):
    """One job: seconds and resident memory (MB), expected and measured; None where not known."""

    kind: str
    name: str
    expected: float
    measured: float
    expected_mb: float
    measured_mb: float | None


def compare(catalogue: Catalogue, directory: Path) -> dict[str, Any]:
    """How far the model is from the benchmark files, by kind and in all.

    ``seconds`` and ``memory`` hold factors (1 is right): ``median`` and ``high``, the 90 %
    quantile, of max(expected/measured, measured/expected), and ``bias``, the median of expected
    over measured. Raises ``UserError`` where no job of the catalogue has left a file.
    """
    found = [c for e in catalogue.experiments for c in _compared(catalogue, directory, e)]
    if not found:
        raise UserError(
            f"{directory / BENCHMARKS}: no job of scale {catalogue.run.scale!r} has left its times "
            "there; run 'snakemake' first, or name another --scale"
        )
    kinds = sorted({comparison.kind for comparison in found})
    every = summary(found)
    worst = sorted(found, key=lambda c: -abs(np.log(c.expected / c.measured)))[:WORST]
    return {
        "scale": catalogue.run.scale,
        "all": every,
        "kinds": {kind: summary([c for c in found if c.kind == kind]) for kind in kinds},
        "worst": [c._asdict() for c in worst],
        "machine_speed": catalogue.run.machine_speed * every["seconds"]["bias"],
    }


def summary(found: Sequence[Comparison]) -> dict[str, Any]:
    """Number of jobs, and factors of time and memory."""
    known = [c for c in found if c.measured_mb]
    return {
        "jobs": len(found),
        "seconds": factors([c.expected / c.measured for c in found]),
        "memory": factors([c.expected_mb / c.measured_mb for c in known]) if known else None,
    }


def factors(ratios: Sequence[float]) -> dict[str, float]:
    """Median and 90 % quantile of how far ratios are from one, either way, and their median."""
    apart = np.exp(np.abs(np.log(ratios)))
    return {
        "median": float(np.median(apart)),
        "high": float(np.quantile(apart, 0.9)),
        "bias": float(np.median(ratios)),
    }


def _compared(catalogue: Catalogue, directory: Path, experiment: Experiment) -> list[Comparison]:
    """The first row of a benchmark file, if there is one."""
    file = directory / BENCHMARKS / experiment.path.with_suffix(".tsv")
    expected = catalogue.estimate(experiment)
    return [
        Comparison(
            *(experiment.kind, experiment.name, expected.seconds, cost.seconds),
            *(expected.memory_mb, cost.memory_mb or None),
        )
        for cost in recorded(file)[:1]
        if cost.seconds > 0
    ]
