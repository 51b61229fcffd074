"""``hdattn singlehead``: one tied attention head trained by regularised ERM (paper B)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hdattn.commands.output import emit, warn
from hdattn.commands.parsing import Command, NotYetCommand, as_json, option
from hdattn.commands.singlehead_options import (
    kappa0_option,
    make_problem,
    noise_option,
    problem_options,
    target_dim,
    tokens_option,
)
from hdattn.commands.singlehead_train import NARROW, train
from hdattn.commands.values import POINTS

if TYPE_CHECKING:
    from hdattn.singlehead.problem import Problem
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
    """Single tied attention head: state evolution, spectra, training (paper B)."""


@singlehead.command(cls=Command)
@problem_options
@target_dim
@as_json
def solve(as_json: bool, **values: Any) -> int:
    """Solve the state evolution at one point: overlaps, errors, rank."""
    solution = _solution(values)
    emit({name: getattr(solution, name) for name in SOLUTION}, as_json)
    return _status(solution)


@singlehead.command(cls=Command)
@problem_options
@target_dim
@option("--points", type=POINTS, default=400, help="Number of points x.")
@as_json
def density(as_json: bool, points: int, **values: Any) -> int:
    """Spectral density of the trained S: its continuous part, and the atom at zero."""
    solution = _solution(values)
    x = _grid(solution.spectrum["edges"], points)
    result = {"x": x, "density": solution.density(x), "atom_at_zero": solution.atom_at_zero}
    emit(result, as_json, columns=("x", "density"))
    return _status(solution)


@singlehead.command(cls=Command)
@kappa0_option
@noise_option
@tokens_option
@as_json
def thresholds(as_json: bool, kappa0: float, noise: float, tokens: int) -> None:
    """Sample ratios alpha of interpolation (at this noise) and of perfect recovery (at none)."""
    from hdattn.singlehead.thresholds import alpha_interpolation, alpha_recovery

    result = {
        "alpha_interpolation": alpha_interpolation(kappa0, noise, tokens),
        "alpha_recovery": alpha_recovery(kappa0, tokens),
    }
    emit(result, as_json)


singlehead.add_command(train)
for name, what in {
    "bayes": "Bayes-optimal error",
    "amp": "approximate message passing on one instance",
    "scaling": "scaling laws of power-law targets",
}.items():
    singlehead.add_command(NotYetCommand(name, what))


def _solution(values: dict[str, Any]) -> Solution:
    """Solve what the options describe; doubts about the solution go to stderr."""
    problem = make_problem(values)
    solution = _solve(problem)
    for doubt in _doubts(problem, solution):
        warn(doubt)
    return solution


def _solve(problem: Problem) -> Solution:
    if problem.lam == 0:
        from hdattn.singlehead.thresholds import solve_ridgeless

        return solve_ridgeless(problem)
    from hdattn.singlehead.state_evolution import solve

    return solve(problem)


def _doubts(problem: Problem, solution: Solution) -> list[str]:
    """Warnings about a solution, one line each."""
    doubts = []
    if problem.penalty == "nuclear" and problem.kappa < solution.rank_fraction:
        doubts.append(
            f"kappa = {problem.kappa:g} is below the rank fraction {solution.rank_fraction:.4g} of "
            f"the solution: {NARROW}"
        )
    return doubts


def _status(solution: Solution) -> int:
    """Exit status; what did not converge is said on stderr."""
    if solution.converged:
        return 0
    warn(f"not converged after {solution.iterations} iterations: residual {solution.residual:.2g}")
    return 1


def _grid(edges: list[list[float]], points: int) -> Any:
    """``points`` points over the intervals, in proportion to width, denser at the edges."""
    import numpy as np

    intervals = np.asarray(edges, dtype=float).reshape(-1, 2)
    if not len(intervals):
        return np.empty(0)
    widths = np.diff(intervals, axis=1)[:, 0].cumsum()
    counts = np.diff(np.rint(points * widths / widths[-1]).astype(int), prepend=0)
    angles = (np.pi * (np.arange(count) + 0.5) / count for count in counts)
    pairs = zip(intervals, angles, strict=True)
    return np.concatenate([low + (high - low) * np.sin(a / 2) ** 2 for (low, high), a in pairs])
