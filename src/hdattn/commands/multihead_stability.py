"""``hdattn multihead stability``: what grows at the unspecialised plateau, and how fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hdattn.commands.multihead_options import activation_option, make_prior, prior_options
from hdattn.commands.output import emit, warn
from hdattn.commands.parsing import Command, as_json, option
from hdattn.commands.values import HEADS
from hdattn.errors import UserError

if TYPE_CHECKING:
    from hdattn.multihead.priors import Prior

_POINTS = 2**15  # of the flow on which growth is measured, images included
_FEWEST = 64  # base points, however many images


@click.command(cls=Command)
@activation_option
@prior_options
@option("--heads", type=HEADS, default=2, help="Number of heads H, at least 2.")
@as_json
def stability(as_json: bool, **values: Any) -> None:
    """Hessian and growth rates at the unspecialised plateau.

    Along each spike: the eigenvalue of the modes in which heads part, in closed form, and the rate
    at which a small such disturbance grows under gradient flow, measured.
    """
    from hdattn.multihead.plateau import plateau, plateau_eigenvalues
    from hdattn.multihead.stability import growth_rates, no_specialisation

    prior = make_prior(values, enumerated=True)
    _require_plateau(prior)
    problem = (values["activation"], values["tokens"], prior, values["heads"])
    eigenvalues = plateau_eigenvalues(*problem)
    if reason := no_specialisation(values["activation"], values["tokens"]):
        warn(reason)
    points = max(_FEWEST, _POINTS // len(prior.signs()))
    result = {
        "plateau_loss": plateau(values["tokens"], float(prior.mean.sum())).loss.value,
        "eigenvalues": eigenvalues,
        "growth_rates": growth_rates(*problem, base_points=points),
    }
    emit(result, as_json)


def _require_plateau(prior: Prior) -> None:
    """Refuse priors without a plateau in closed form, and those on which nothing can specialise."""
    import numpy as np

    if prior.kind not in ("flip", "gauss"):
        raise UserError(
            f"--prior {prior.kind}: the plateau is known for flip and gauss; use one of them"
        )
    if not prior.std.any():
        raise UserError(
            "--std: no entry is positive, so that nothing will specialise; make one positive"
        )
    if np.count_nonzero(prior.mean) > 1 or np.any(prior.mean[prior.std > 0]):
        raise UserError(
            "--mean: the plateau is known for a mean along one constant direction; make it 0 in "
            "all entries but one, and --std 0 there"
        )
