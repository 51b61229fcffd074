"""``hdattn multihead pruning``: what it costs to remove heads."""

from __future__ import annotations

from typing import Any

import click

from hdattn.commands.multihead_options import (
    activation_option,
    biases,
    check_activation,
    make_prior,
    matrix,
    point_options,
    prior_options,
    say_if_sampled,
)
from hdattn.commands.output import emit
from hdattn.commands.parsing import Command, as_json, option
from hdattn.commands.values import COUNT


@click.command(cls=Command)
@activation_option
@prior_options
@point_options
@option("--removed", type=COUNT, help="Heads to remove at most; without it all but one.")
@option(
    "--protocol",
    type=click.Choice(["kept", "renormalised", "refitted", "joint"]),
    help="What becomes of the output scale c; without it c stays (renormalised, or joint).",
)
@as_json
def pruning(as_json: bool, **values: Any) -> None:
    """Loss of the best subset of heads at every size.

    All subsets up to 10 heads, one head at a time beyond; losses as in loss, with r = m m^T.
    """
    from hdattn.multihead.pruning import protocols, prune
    from hdattn.multihead.trained_heads import Heads

    check_activation(values)
    prior = make_prior(values, enumerated=True)
    count = len(values["m"])
    m, b = matrix("m", values["m"], (count, prior.dim_features)), biases(values["b"], count)
    c = 1.0 if values["c"] is None else values["c"]
    heads = Heads(values["activation"], values["tokens"], prior, m, b, c)
    gentle = {"joint", "renormalised"}
    protocol = values["protocol"] or next(x for x in protocols(heads.activation) if x in gentle)
    curve = prune(heads, protocol, most=values["removed"])
    say_if_sampled(heads.activation)
    kept = [list(k) if as_json else " ".join(map(str, k)) for k in curve.kept]
    columns = {"removed": list(range(len(curve.loss))), "kept": kept}
    columns |= {name: getattr(curve, name) for name in ("loss", "loss_error", "increase")}
    columns["c"] = curve.scale
    settings = {"protocol": protocol, "method": curve.method}
    emit(columns | settings, as_json, columns=tuple(columns))
