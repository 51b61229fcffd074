"""``hdattn singlehead bayes``: the error that no training can beat."""

from __future__ import annotations

from typing import Any

import click

from hdattn.commands.output import emit, warn
from hdattn.commands.parsing import Command, as_json
from hdattn.commands.singlehead_options import (
    alpha_option,
    beta0_option,
    gamma_option,
    kappa0_option,
    make_target,
    noise_option,
    target_dim,
    target_option,
    tokens_option,
)

NAMES = (
    *("q", "bayes_test_error", "overlap_error", "sigma", "Q0"),
    *("converged", "iterations", "residual", "seconds"),
)
"""What ``bayes`` prints, in this order."""


@click.command(cls=Command)
@alpha_option
@kappa0_option
@noise_option
@tokens_option
@beta0_option
@target_option
@gamma_option
@target_dim
@as_json
def bayes(as_json: bool, **values: Any) -> int:
    """Bayes-optimal overlap q and test error."""
    from hdattn.singlehead.bayes_optimal import solve_bayes
    from hdattn.singlehead.problem import Problem

    physics = {name: values[name] for name in ("alpha", "noise", "tokens", "beta0")}
    solution = solve_bayes(Problem(lam=0.0, target=make_target(values), **physics))
    for flag in solution.flags:
        warn(flag)
    emit({name: getattr(solution, name) for name in NAMES}, as_json)
    return 0 if solution.converged else 1
