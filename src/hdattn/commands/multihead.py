"""``hdattn multihead``: several heads on single-location regression (paper A)."""

from __future__ import annotations

from typing import Any

import click

from hdattn.commands.multihead_optimum import optimum
from hdattn.commands.multihead_options import (
    activation_option,
    biases,
    check_activation,
    head_count,
    make_prior,
    matrix,
    point_options,
    prior_options,
    start_options,
)
from hdattn.commands.multihead_pruning import pruning
from hdattn.commands.multihead_stability import stability
from hdattn.commands.output import emit, solved, warn
from hdattn.commands.parsing import Command, as_json, option, refuse, unwanted
from hdattn.commands.values import COUNT, INSTANCES, MATRIX
from hdattn.errors import UserError
from hdattn.memory import require_memory

_PATIENT = 2e4  # time of a flow that takes well under a minute


@click.group(no_args_is_help=False)
def multihead() -> None:
    """Several heads (paper A): loss, flow, SGD, stability, optima."""


@multihead.command(cls=Command)
@activation_option
@prior_options
@point_options
@option("--r", type=MATRIX, help="Products r_hh' = k_h . k_h'; without it r = m m^T.")
@as_json
def loss(as_json: bool, **values: Any) -> int:
    """Population loss at given order parameters.

    By quadrature, with an estimate of its error; on Sobol points where there is no quadrature.
    """
    from hdattn.multihead.quadrature import population_loss

    check_activation(values)
    prior = make_prior(values, enumerated=True)
    heads = len(values["m"])
    m = matrix("m", values["m"], (heads, prior.dim_features))
    r = matrix("r", values["r"], (heads, heads))
    b = biases(values["b"], heads)
    c = 1.0 if values["c"] is None else values["c"]
    result = population_loss(values["activation"], values["tokens"], prior, m, r, b, c)
    if result.method != "quadrature":
        warn("no quadrature for these heads: the loss is a mean over independent Sobol points")
    values = {"loss": result.value, "loss_error": result.error, "error": result.error}
    emit(values, as_json, only_json=("error",))
    return solved(True, result.value)


@multihead.command(cls=Command)
@prior_options
@as_json
def bayes(as_json: bool, **values: Any) -> None:
    """Bayes risk, the least loss of any predictor.

    By quadrature, with an estimate of its error.
    """
    from hdattn.multihead.bayes import bayes_risk

    result = bayes_risk(values["tokens"], make_prior(values, enumerated=True))
    emit({"bayes_risk": result.value, "error": result.error}, as_json)


@multihead.command(cls=Command)
@activation_option
@prior_options
@start_options(dim=10_000, gamma=0.0)
@as_json
def flow(as_json: bool, **values: Any) -> int:
    """Flow of the order parameters.

    In the limit of large D: of gradient flow, or of online SGD at gamma > 0.
    """
    from hdattn.multihead.flow import FlowProblem, solve_flow

    prior = make_prior(values, enumerated=True)
    if values["init_m"] is not None:
        refuse(unwanted(["seed", "sigma"], "--init-m says where to start"))
    heads = head_count(values)
    _require_sobol(values["tokens"] * (prior.dim_features + heads))
    if values["tau"] > _PATIENT:
        warn(f"a flow to tau = {values['tau']:g} may take many minutes; --tau 1e4 takes less")
    m, r = _flow_start(values, heads, prior.dim_features)
    problem = FlowProblem(
        values["activation"], values["tokens"], prior, m, r, gamma=values["gamma"]
    )
    found = solve_flow(problem, _times(values))
    trajectory = {name: getattr(found, name) for name in ("tau", "m", "r", "b", "c", "loss")}
    emit(trajectory, as_json, columns=("tau", "loss", "m"), only_json=("r", "b", "c"))
    if not found.converged:
        warn(f"not converged: the integration stopped at tau = {found.tau[-1]:g}")
    return solved(found.converged, found.loss)


@multihead.command(cls=Command)
@activation_option
@prior_options
@start_options(dim=1000, gamma=0.25)
@option(
    "--instances", type=INSTANCES, default=8, help="Independent draws of spikes, start and data."
)
@option("--batch", type=COUNT, help="Batch size B; without it max(1, D // 50).")
@as_json
def sgd(as_json: bool, **values: Any) -> int:
    """Online SGD at dimension D.

    As flow, with the instance in front: m, r, b, c and loss of each.
    """
    import numpy as np

    from hdattn.multihead.sgd import run_sgd

    prior = make_prior(values, enumerated=False)
    heads = head_count(values)
    start = _sgd_start(values, heads, prior.dim_features)
    _require_sgd_memory(values, heads)
    result = run_sgd(
        {"dim": values["dim"], "tokens": values["tokens"], "prior": prior.to_dict()},
        activation=values["activation"],
        heads=heads,
        gamma=values["gamma"],
        taus=_times(values),
        root_seed=values["seed"],
        instances=range(values["instances"]),
        start=start,
        batch=values["batch"],
    )
    for message in result.messages:
        warn(message)
    trajectories = {name: getattr(result, name) for name in ("tau", "m", "r", "b", "c", "loss")}
    if as_json:
        emit(trajectories, as_json)
    else:
        means = {
            "tau": result.tau,
            "mean_loss": result.loss.mean(axis=0),
            "mean_abs_m": np.abs(result.m).mean(axis=0),
        }
        emit(means, as_json, columns=tuple(means))
    diverged = int(np.sum(~result.converged))
    if diverged:
        warn(f"not converged: {diverged} of {values['instances']} instances diverged")
    return 1 if diverged else 0


multihead.add_command(stability)
multihead.add_command(optimum)
multihead.add_command(pruning)


def _times(values: dict[str, Any]) -> Any:
    import numpy as np

    return np.linspace(0.0, values["tau"], values["points"])


def _flow_start(values: dict[str, Any], heads: int, features: int) -> tuple[Any, Any]:
    """m [H, F] and r [H, H] at tau = 0: given, or drawn."""
    from hdattn.multihead.order_parameters import initial_order_parameters
    from hdattn.multihead.start import GaussianStart

    if values["init_m"] is None:
        for message in GaussianStart(sigma=values["sigma"]).messages():
            warn(message)
        return initial_order_parameters(
            values["seed"], heads, features, sigma=values["sigma"], dim=values["dim"]
        )
    m = matrix("init_m", values["init_m"], (heads, features))
    return m, matrix("init_r", values["init_r"], (heads, heads))


def _require_sobol(dim: int) -> None:
    """Refuse more dimensions, tokens times (spikes + heads), than Sobol points have."""
    from scipy.stats.qmc import Sobol

    if dim > Sobol.MAXDIM:
        raise UserError(
            f"tokens x (spikes + heads) is {dim}, the flow can average over {Sobol.MAXDIM} "
            "dimensions; lower --heads or --tokens"
        )


def _sgd_start(values: dict[str, Any], heads: int, features: int) -> dict[str, Any]:
    """Description of the start, for the library."""
    if values["init_m"] is None:
        return {"kind": "gaussian", "sigma": values["sigma"]}
    refuse(unwanted(["sigma"], "--init-m says where to start"))
    m, r = values["init_m"], values["init_r"]
    matrix("init_m", m, (heads, features))
    matrix("init_r", r, (heads, heads))
    return {"kind": "order_parameters", "m": m, "r": r}


def _require_sgd_memory(values: dict[str, Any], heads: int) -> None:
    """Weights and gradient of the heads, and a batch of tokens with two arrays of its size."""
    dim, tokens = values["dim"], values["tokens"]
    batch = values["batch"] or max(1, dim // 50)
    require_memory(
        4.0 * dim * (2 * heads + 3 * batch * tokens),
        f"{heads} heads and batches of {batch} sequences at D = {dim}",
        "--dim, --batch or --heads",
    )
