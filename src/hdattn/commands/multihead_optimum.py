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
from hdattn.commands.values import HEADS, STARTS, WHOLE

_POINTS = 8192  # Sobol points of the library's search


@click.command(cls=Command)
@activation_option
@prior_options
@option("--heads", type=HEADS, default=2, help="Number of heads H.")
@option("--starts", type=STARTS, default=8, help="Random starts of the descent.")
@option("--seed", type=WHOLE, default=0, help="Seed of starts and points.")
@as_json
def optimum(as_json: bool, **values: Any) -> int:
    """Best loss over m, b and c.

    By descent from several starts on Sobol points; the loss is evaluated by quadrature, with an
    estimate of its error.
    """
    from hdattn.multihead.optima import find_optimum

    prior = make_prior(values, enumerated=True)
    _say_if_long(values, prior.to_dict())
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


def _say_if_long(values: dict[str, Any], prior: dict[str, Any]) -> None:
    """Warn of a search of many minutes, by the cost model of the workflow."""
    from hdattn.cost import estimate
    from hdattn.experiment import Experiment

    if prior["kind"] not in ("flip", "gauss", "discrete"):
        return  # nothing says what it costs
    names = ("activation", "tokens", "heads", "starts", "seed")
    parameters = {name: values[name] for name in names} | {"prior": prior, "held": []}
    search = Experiment("multihead/optimum", parameters | {"base_points": _POINTS})
    minutes = estimate(search).seconds / 60
    if minutes > 1:
        warn(
            f"this takes about {minutes:.2g} minutes; fewer --heads, --starts or --tokens take less"
        )
