"""Options that describe a single-head problem, and the problem they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hdattn.commands.parsing import missing, option, refuse, together, unwanted
from hdattn.commands.values import COUNT, NON_NEGATIVE, POSITIVE, TOKENS, Number
from hdattn.memory import require_memory

if TYPE_CHECKING:
    from hdattn.singlehead.problem import Problem
    from hdattn.singlehead.targets import MarchenkoPastur, Spectrum

_EIGENVALUE = 1.6e4  # bytes of the free convolution per eigenvalue, measured at d = 2000

kappa0_option = option("--kappa0", type=POSITIVE, default=0.5, help="Width p0/d of the target.")
noise_option = option(
    "--noise", type=NON_NEGATIVE, default=0.5, help="Label noise Delta, inside the softmax."
)
tokens_option = option(
    "--tokens",
    type=TOKENS,
    default=2,
    help="Tokens T of a sequence; theory is a quadrature for 2, quasi-Monte Carlo above.",
)
alpha_option = option("--alpha", type=POSITIVE, required=True, help="Samples n / d^2.")
beta0_option = option(
    "--beta0", type=POSITIVE, default=1.0, help="Inverse temperature of the labels."
)
target_option = option(
    "--target",
    type=click.Choice(["mp", "powerlaw"]),
    default="mp",
    help="Spectrum of the target: Marchenko-Pastur of width kappa0, or a power law.",
)
gamma_option = option(
    "--gamma",
    type=Number(above=0.5),
    help="Spectral exponent of a power-law target (eigenvalues as i^-gamma).",
)

problem_options = together(
    alpha_option,
    option(
        "--lam",
        type=NON_NEGATIVE,
        default=0.01,
        help="Weight decay lambda of lambda ||W||_F^2; 0 is the limit lambda -> 0.",
    ),
    option("--kappa", type=POSITIVE, default=1.0, help="Width p/d of the trained W."),
    kappa0_option,
    noise_option,
    tokens_option,
    option("--beta", type=POSITIVE, default=1.0, help="Inverse temperature of the head."),
    beta0_option,
    option(
        "--penalty",
        type=click.Choice(["nuclear", "frobenius"]),
        default="nuclear",
        help="nuclear: weight decay on W, S = W W^T; frobenius: lambda_eff d ||S||_F^2 on a "
        "symmetric S; lambda_eff = lambda sqrt(kappa).",
    ),
    target_option,
    gamma_option,
)
target_dim = option("--dim", type=COUNT, help="Dimension d of a power-law target.")


def make_problem(values: dict[str, Any]) -> Problem:
    """The problem that the options describe."""
    from hdattn.singlehead.problem import Problem

    target = make_target(values)
    names = ("alpha", "lam", "kappa", "noise", "tokens", "beta", "beta0", "penalty")
    return Problem(target=target, **{name: values[name] for name in names})


def data_target(values: dict[str, Any]) -> dict[str, Any]:
    """The target of drawn data, whose dimension is that of the data."""
    if values["target"] == "mp":
        refuse(unwanted(["gamma"], "only --target powerlaw has it"))
        return {"kind": "mp", "kappa0": values["kappa0"]}
    refuse(
        unwanted(["kappa0"], "a power-law target has no width")
        + missing(["gamma"], "--target powerlaw needs it")
    )
    return {"kind": "powerlaw", "spectral_exponent": values["gamma"]}


def make_target(values: dict[str, Any]) -> MarchenkoPastur | Spectrum:
    """The target that the options describe."""
    from hdattn.singlehead.targets import MarchenkoPastur, power_law

    if values["target"] == "mp":
        refuse(unwanted(["gamma", "dim"], "only --target powerlaw has it"))
        return MarchenkoPastur(values["kappa0"])
    refuse(
        unwanted(["kappa0"], "a power-law target has no width")
        + missing(["gamma", "dim"], "--target powerlaw needs it")
    )
    dim = values["dim"]
    require_memory(_EIGENVALUE * dim, f"{dim:.4g} eigenvalues", "--dim")
    return power_law(values["gamma"], dim)
