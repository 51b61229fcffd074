"""``hdattn singlehead scaling``: excess error of power-law targets against n, and its exponent."""

from __future__ import annotations

import click

from hdattn.commands.output import emit, warn
from hdattn.commands.parsing import Command, as_json, option
from hdattn.commands.singlehead_options import noise_option
from hdattn.commands.values import POSITIVE, VECTOR, Number

REGIMES = ("optimal", "fixed", "vanishing")


@click.command(cls=Command)
@option(
    "--gamma",
    type=Number(above=0.5, high=20),
    required=True,
    help="Spectral exponent of the target (eigenvalues as i^-gamma).",
)
@option("--dim", type=Number(low=1, high=1_000_000, whole=True), required=True, help="Dimension d.")
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
@option(
    "--points",
    type=Number(low=1, high=1000, whole=True),
    default=40,
    help="Number of sample sizes n.",
)
@option("--sizes", type=VECTOR, help="Sample sizes n, 1e3,1e4,..., in place of --points of them.")
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
    sizes: list[float] | None,
) -> int:
    """Scaling law of a power-law target.

    Excess test error (linear: Q0 - 2 M + Q) at sample sizes n, local exponents, and the exponent
    fitted in a window of n with its error: the middle third, in log n, of the way from the first
    learnt mode to the last (vanishing penalty: 10 to 1000 d^2).
    """
    from hdattn.errors import UserError
    from hdattn.singlehead.exponents import predicted_exponent
    from hdattn.singlehead.problem import Problem
    from hdattn.singlehead.scaling import measure_exponent
    from hdattn.singlehead.targets import power_law

    if lam is not None and regime == "optimal":
        raise UserError("--lam: the optimal regime chooses its own; drop it or give another regime")
    problem = Problem(1.0, 1.0, target=power_law(gamma, dim), noise=noise)
    options = {"lam_eff": lam, "channel": channel, "sizes": sizes}
    curve, fit = measure_exponent(problem, regime, points, **options)
    if curve.missing.size:
        warn(f"no solution but S = 0 for n up to {curve.missing.max():.4g}: too few samples")
    result = {
        "n": curve.sizes,
        "excess": curve.excess,
        "local_exponent": curve.local_exponent,
        "exponent": fit.exponent,
        "exponent_error": fit.error,
        "window": list(fit.window),
        "predicted_exponent": predicted_exponent(regime, gamma),
        "lam": [s.problem.lam for s in curve.solutions],
        "converged": curve.converged,
    }
    emit(result, as_json, columns=("n", "excess", "local_exponent", "lam"))
    return 0 if curve.converged else 1
