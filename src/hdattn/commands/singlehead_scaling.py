"""``hdattn singlehead scaling``: excess error of power-law targets against n, and its exponent."""

from __future__ import annotations

import click

from hdattn.commands.output import emit, warn
from hdattn.commands.parsing import Command, as_json, option
from hdattn.commands.singlehead_options import noise_option
from hdattn.commands.values import COUNT, POSITIVE, Number

REGIMES = ("optimal", "fixed", "vanishing")


@click.command(cls=Command)
@option(
    "--gamma",
    type=Number(above=0.5),
    required=True,
    help="Spectral exponent of the target (eigenvalues as i^-gamma).",
)
@option("--dim", type=COUNT, required=True, help="Dimension d.")
@option(
    "--regime",
    type=click.Choice(REGIMES),
    default="optimal",
    help="Penalty: near-optimal, growing with sqrt(n); fixed and strong; vanishing.",
)
@option("--lam", type=POSITIVE, help="Weight decay of the fixed and the vanishing regime.")
@noise_option
@option(
    "--channel",
    type=click.Choice(["softmax", "linear"]),
    default="softmax",
    help="linear: a linear output instead of the softmax.",
)
@option("--points", type=COUNT, default=40, help="Number of sample sizes n.")
@as_json
def scaling(
    as_json: bool,
    gamma: float,
    dim: int,
    regime: str,
    lam: float | None,
    noise: float,
    channel: str,
    points: int,
) -> int:
    """Scaling law of a power-law target.

    Excess test error (linear: Q0 - 2 M + Q) at sample sizes n, local exponents, and the exponent
    fitted in a window of n with its error.
    """
    from hdattn.errors import UserError
    from hdattn.singlehead.problem import Problem
    from hdattn.singlehead.scaling import (
        Penalties,
        fit_exponent,
        predicted_exponent,
        require_points,
        scaling_curve,
    )
    from hdattn.singlehead.targets import power_law

    if lam is not None and regime == "optimal":
        raise UserError("--lam: the optimal regime chooses its own; drop it or give another regime")
    problem = Problem(1.0, 1.0, target=power_law(gamma, dim), noise=noise)
    law = Penalties(problem, channel)
    window = law.window(regime, gamma, lam)
    sizes = law.sizes(regime, gamma, points, lam)
    require_points(sizes, window)
    curve = scaling_curve(problem, sizes, regime, lam_eff=lam, channel=channel)
    if curve.missing.size:
        warn(f"no solution but S = 0 for n up to {curve.missing.max():.4g}: too few samples")
    fit = fit_exponent(curve.sizes, curve.excess, window)
    result = {
        "n": curve.sizes,
        "excess": curve.excess,
        "local_exponent": curve.local_exponent,
        "exponent": fit.exponent,
        "exponent_error": fit.error,
        "window": list(window),
        "predicted_exponent": predicted_exponent(regime, gamma),
        "lam": [s.problem.lam for s in curve.solutions],
        "converged": curve.converged,
    }
    emit(result, as_json, columns=("n", "excess", "local_exponent", "lam"))
    return 0 if curve.converged else 1
