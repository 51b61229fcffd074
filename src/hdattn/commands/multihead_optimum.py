"""``hdattn multihead optimum``: the best loss that a number of heads can reach."""

from __future__ import annotations

from typing import Any

import click

from hdattn.commands.multihead_options import (
    activation_option,
    make_prior,
    prior_options,
    say_if_sampled,
)
from hdattn.commands.output import emit, solved, warn
from hdattn.commands.parsing import Command, as_json, option
from hdattn.commands.values import COUNT, HEADS, WHOLE


@click.command(cls=Command)
@activation_option
@prior_options
@option("--heads", type=HEADS, default=2, help="Number of heads H.")
@option("--starts", type=COUNT, default=8, help="Random starts of the descent.")
@option("--seed", type=WHOLE, default=0, help="Seed of starts and points.")
@as_json
def optimum(as_json: bool, **values: Any) -> int:
    """Best loss over m, b and c.

    By descent from several starts on Sobol points; the loss is evaluated by quadrature, with an
    estimate of its error.
    """
    from hdattn.multihead.optima import find_optimum

    prior = make_prior(values, enumerated=True)
    best = find_optimum(
        values["activation"],
        values["tokens"],
        prior,
        values["heads"],
        starts=values["starts"],
        seed=values["seed"],
    )
    for message in best.messages():
        warn(message)
    say_if_sampled(values["activation"])
    emit({name: getattr(best, name) for name in ("loss", "loss_error", "m", "b", "c")}, as_json)
    return solved(best.converged, best.loss)
