"""``hdattn singlehead``: one tied attention head trained by regularised ERM (paper B)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hdattn.commands.output import emit, warn
from hdattn.commands.parsing import Command, as_json, option
from hdattn.commands.singlehead_amp import amp
from hdattn.commands.singlehead_bayes import bayes
from hdattn.commands.singlehead_options import (
    kappa0_option,
    make_problem,
    noise_option,
    problem_options,
    target_dim,
    tokens_option,
)
from hdattn.commands.singlehead_scaling import scaling
from hdattn.commands.singlehead_train import train
from hdattn.commands.values import POINTS

if TYPE_CHECKING:
    from hdattn.singlehead.solution import Solution

SOLUTION = (
    "Q",
    "M",
    "V",
    "q_hat",
    "m_hat",
    "v_hat",
    "Q0",
    "test_error",
    "test_error_floor",
    "train_loss",
    "penalty_value",
    "rank_fraction",
    "jump_probability",
    "replicon",
    "spectrum",
    "converged",
    "iterations",
    "residual",
    "seconds",
)
"""What ``solve`` prints, in this order."""


@click.group(no_args_is_help=False)
def singlehead() -> None:
    """One tied head (paper B): theory and training."""


@singlehead.command(cls=Command)
@problem_options
@target_dim
@as_json
def solve(as_json: bool, **values: Any) -> int:
    """Overlaps, errors and rank, by state evolution."""
    solution = _solution(values)
    # standard errors by the scrambles of the quasi-Monte Carlo; a lattice has none
    errors = {"quadrature_error": solution.quadrature_error} if solution.quadrature_error else {}
    emit({name: getattr(solution, name) for name in SOLUTION} | errors, as_json)
    return 0 if solution.converged else 1


@singlehead.command(cls=Command)
@problem_options
@target_dim
@option("--points", type=POINTS, default=400, help="Number of points x.")
@as_json
def density(as_json: bool, points: int, **values: Any) -> int:
    """Spectral density of the trained S.

    Its continuous part at points x, and the atom at zero.
    """
    solution = _solution(values)
    spectrum = solution.spectrum
    if not spectrum["edges"] and spectrum["outliers"]:
        count = len(spectrum["outliers"])
        warn(f"S has {count} isolated eigenvalues and no density; 'hdattn singlehead solve --json'")
    x = _grid(spectrum["edges"], points)
    result = {"x": x, "density": solution.density(x), "atom_at_zero": solution.atom_at_zero}
    emit(result, as_json, columns=("x", "density"))
    return 0 if solution.converged else 1


@singlehead.command(cls=Command)
@kappa0_option
@noise_option
@tokens_option
@as_json
def thresholds(as_json: bool, kappa0: float, noise: float, tokens: int) -> None:
    """Alpha of interpolation and of recovery.

    Interpolation of noisy labels at this noise; perfect recovery of the target at none.
    """
    from hdattn.singlehead.thresholds import alpha_interpolation, alpha_recovery

    result = {
        "alpha_interpolation": alpha_interpolation(kappa0, noise, tokens),
        "alpha_recovery": alpha_recovery(kappa0, tokens),
    }
    emit(result, as_json)


for command in (train, amp, bayes, scaling):
    singlehead.add_command(command)


def _solution(values: dict[str, Any]) -> Solution:
    """Solve what the options describe; what tells against trusting it goes to stderr."""
    from hdattn.singlehead.state_evolution import solve

    solution = solve(make_problem(values))
    for flag in solution.flags:
        warn(flag)
    return solution


def _grid(edges: list[list[float]], points: int) -> Any:
    """``points`` points shared out to the intervals, dense at edges: square roots end there."""
    import numpy as np

    parts = np.array_split(np.arange(points), max(1, len(edges)))
    pieces = []
    for (low, high), part in zip(edges, parts, strict=False):
        unit = (1 - np.cos(np.linspace(0, np.pi, len(part)))) / 2
        # A bulk that starts at zero is cut there: its first point is the limit from the right.
        start = max(low, 1e-9 * high)
        pieces.append(start + (high - start) * unit)
    return np.concatenate(pieces) if pieces else np.empty(0)
