"""Theory against simulation: one row per point, a verdict each, one table per scale.

A point agrees when ``|simulation - theory| <= k SE + allowance``. ``k`` is the two-sided
Student-t quantile at :data:`CONFIDENCE` for the number of instances, since a standard error
estimated from few instances is itself uncertain. The allowance ``C |theory| / size`` is the
finite-size correction. ``C`` is measured at a smaller size (:func:`allowance_constants`), so that
a deviation must shrink like 1/size to be excused, and capped; the allowance never exceeds
:data:`ALLOWANCE_CAP` of the theory. A wrong constant stays visible: 5 % on v_hat moves the
overlap error by 40 % at alpha = 1 and by more than 100 % from alpha = 2.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hdattn.figures.style import write_csv
from hdattn.notices import warn_once

COLUMNS = (
    "figure",
    "quantity",
    "point",
    "theory",
    "simulation",
    "standard_error",
    "instances",
    "z",
    "allowance",
    "verdict",
)
AGREE, DISAGREE, UNRELIABLE = "agree", "disagree", "unreliable"
CONFIDENCE = 0.999
MINIMUM_INSTANCES = 3
CONSTANT_CAP = 10.0  # the largest constant measured is 9, of the training loss at alpha = 0.05
ALLOWANCE_CAP = 0.15
PART_ENDING = ".validation.csv"


def row(
    point: str,
    theory: float,
    mean: float,
    standard_error: float,
    n: int,
    allowance_constant: float,
    size: float,
    *,
    figure: str,
    quantity: str,
    reliable: bool = True,
) -> dict[str, Any]:
    """Compare one simulated mean over ``n`` instances with the theory.

    ``point`` says where (``"alpha=1 kappa=0.75"``); ``standard_error`` is that of ``mean`` or,
    better, of the per-instance differences; ``size`` is d (or D) and ``allowance_constant`` the C
    of the finite-size allowance. ``reliable`` is False where theory or simulation is flagged.
    The verdict is ``agree``, ``disagree`` or ``unreliable`` (flagged, a value or the allowance not
    finite, or fewer than :data:`MINIMUM_INSTANCES` instances).
    """
    deviation = mean - theory
    constant = min(allowance_constant, CONSTANT_CAP)
    allowance = min(constant / size, ALLOWANCE_CAP) * abs(theory)
    known = all(map(math.isfinite, (theory, mean, standard_error, allowance)))
    if not (reliable and known) or n < MINIMUM_INSTANCES:
        verdict = UNRELIABLE
    else:
        within = abs(deviation) <= t_quantile(n) * standard_error + allowance
        verdict = AGREE if within else DISAGREE
    z = deviation / standard_error if standard_error > 0 else math.nan
    values = (theory, mean, standard_error, n, z, allowance, verdict)
    return dict(zip(COLUMNS, (figure, quantity, point, *values), strict=True))


def paired_row(
    point: str,
    theory: Sequence[float],
    simulation: Sequence[float],
    allowance_constant: float,
    size: float,
    **where: Any,
) -> dict[str, Any]:
    """Row for instances that each have a theory of their own (the spectrum of their target).

    The standard error is that of the differences, in which the spread of the targets cancels.
    """
    theory, simulation = np.asarray(theory, float), np.asarray(simulation, float)
    mean, error = mean_and_error(simulation - theory)
    center = float(np.mean(theory))
    return row(point, center, center + mean, error, len(theory), allowance_constant, size, **where)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error of the mean; the error of a single value is NaN."""
    values = np.asarray(values, float)
    if len(values) < 2:
        return float(np.mean(values)), math.nan
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def t_quantile(n: int) -> float:
    """Two-sided Student-t quantile at :data:`CONFIDENCE` for a mean over ``n`` >= 2 instances."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.5 * (1 + CONFIDENCE)))


def allowance_constants(
    size: float,
    relative_deviations: Sequence[float],
    standard_errors: Sequence[float],
    trusted: Sequence[bool] | None = None,
) -> np.ndarray:
    """Constants C [points] of the allowance ``C |theory| / size``, from the points of a curve.

    ``relative_deviations`` of simulation from theory and their ``standard_errors`` were measured
    at ``size``, below that of the points to be judged: at twice the size, half the deviation is
    excused and no more. A point takes the larger of its own constant, one standard error up, and
    of the mean over the curve, since single points may cross zero. A point that is not ``trusted``
    has the constant NaN, with which nothing can be judged, and is left out of that mean.
    """
    constants = np.abs(np.asarray(relative_deviations, float)) * size
    own = constants + np.asarray(standard_errors, float) * size
    trusted = np.ones(len(own), bool) if trusted is None else np.asarray(trusted, bool)
    typical = np.mean(constants[trusted]) if trusted.any() else math.nan
    return np.where(trusted, np.minimum(np.maximum(own, typical), CONSTANT_CAP), math.nan)


def collect(folder: Path) -> list[dict[str, Any]]:
    """Rows of all figures below ``folder`` (a scale, or one family), in alphabetical order.

    A damaged file has no rows, and is told of in a warning.
    """
    parts = sorted(folder.rglob(f"*{PART_ENDING}"), key=lambda path: path.name)
    return [parsed for part in parts for parsed in _read(part)]


def _read(part: Path) -> list[dict[str, Any]]:
    try:
        with part.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise ValueError("other columns")
            return [_parsed(line) for line in reader]
    except (OSError, ValueError, TypeError, csv.Error):
        warn_once(f"{part}: damaged, and left out; the next run of its figure makes it anew")
        return []


def _parsed(line: Mapping[str, Any]) -> dict[str, Any]:
    if None in line.values():
        raise ValueError("a row is cut off")
    numbers = {key: float(line[key]) for key in COLUMNS[3:9]}
    return {**line, **numbers, "instances": int(line["instances"])}


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV; a table without rows still has its header."""
    if rows:
        write_csv(path, rows)
    else:
        path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line: how many points agree, and the worst of those that do not."""
    counts = {v: sum(r["verdict"] == v for r in rows) for v in (AGREE, DISAGREE, UNRELIABLE)}
    line = (
        f"validation: {counts[AGREE]} of {len(rows)} points agree, {counts[DISAGREE]} disagree, "
        f"{counts[UNRELIABLE]} unreliable"
    )
    return "\n".join([line, *map(_complaint, disagreements(rows))])


def _complaint(r: Mapping[str, Any]) -> str:
    return (
        f"  {r['figure']} {r['quantity']} at {r['point']}: theory {r['theory']:.6g}, simulation "
        f"{r['simulation']:.6g} +- {r['standard_error']:.2g} over {r['instances']} instances "
        f"(z = {r['z']:.1f}, allowance {r['allowance']:.2g})"
    )


def disagreements(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows on which theory and simulation really disagree."""
    return [r for r in rows if r["verdict"] == DISAGREE]
