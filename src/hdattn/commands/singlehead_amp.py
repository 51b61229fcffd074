"""``hdattn singlehead amp``: message passing on one drawn instance, beside its theory."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from hdattn.commands.output import emit, warn
from hdattn.commands.parsing import Command, as_json, option, refuse, unwanted
from hdattn.commands.singlehead_options import data_target, problem_options
from hdattn.commands.singlehead_train import sample_batches, sample_count
from hdattn.commands.values import COUNT, POSITIVE, WHOLE, Number
from hdattn.errors import UserError

if TYPE_CHECKING:
    from hdattn.singlehead.amp import MessagePassing
    from hdattn.singlehead.amp_run import AmpRun
    from hdattn.singlehead.problem import Problem
    from hdattn.singlehead.samples import Teacher

SHOWN = ("Q", "M", "V", "objective", "prox_objective", "residual")
THEORY = ("Q", "M", "V", "prox_objective")


@click.command(cls=Command)
@problem_options
@option("--dim", type=COUNT, default=80, help="Dimension d; n = alpha d^2 samples.")
@option("--seed", type=WHOLE, default=0, help="Root seed; the instance is the workflow's first.")
@option(
    "--denoiser",
    type=click.Choice(["soft", "bayes"]),
    default="soft",
    help="soft: towards the trained head; bayes: towards the posterior mean.",
)
@option("--damping", type=Number(low=0, high=0.99), default=0.0, help="Share of the old messages.")
@option(
    "--v-hat",
    type=click.Choice(["derivative", "stein"]),
    default="derivative",
    help="Response of the output: its mean derivative, or Stein's identity with the theory's M, "
    "which stays right where minima compete.",
)
@option(
    "--start",
    type=click.Choice(["cold", "trained"]),
    default="cold",
    help="cold: S = 0 or the prior mean; trained: the head that L-BFGS finds.",
)
@option("--compare", is_flag=True, help="Train with L-BFGS too: objective, distance, seconds.")
@option("--iterations", type=COUNT, default=300, help="Largest number of iterations.")
@option("--tol", type=POSITIVE, default=1e-6, help="Relative change of S at which to stop.")
@as_json
def amp(as_json: bool, **values: Any) -> int:
    """Message passing on one drawn instance.

    Iterates of S beside the state evolution for the instance's own target.
    """
    _refuse(values)
    began = time.perf_counter()
    problem, teacher, passing = _prepare(values)
    trained = _train(passing, values) if values["compare"] or values["start"] == "trained" else {}
    run = passing.run(
        start=passing.warm_state(trained["S"]) if values["start"] == "trained" else None,
        tol=values["tol"],
        max_iterations=values["iterations"],
        S0=teacher.S0,
    )
    result = {
        "iteration": list(range(run.iterations + 1)),
        **{name: run.history[name] for name in SHOWN},
        **_theory(problem, run, values),
        "status": run.status,
        "converged": run.converged,
        "iterations": run.iterations,
        "eigenvalues": run.eigenvalues,
        "seconds": time.perf_counter() - began,
        **_comparison(run, trained),
    }
    columns = [name for name in result if name == "iteration" or name in SHOWN or "theory" in name]
    emit(result, as_json, columns=columns, only_json=["eigenvalues"])
    if not run.converged:
        warn(f"{run.status} after {run.iterations} iterations; {run.advice}")
    return 0 if run.converged else 1


def _refuse(values: dict[str, Any]) -> None:
    soft_only = ["lam", "kappa", "beta", "penalty", "compare", "v_hat"]
    if values["denoiser"] == "bayes":
        refuse(unwanted(soft_only, "--denoiser bayes has nothing to train"))
        if values["start"] == "trained":
            raise UserError("--start: trained is for --denoiser soft, whose fixed point it is")
    elif not values["lam"]:
        raise UserError("--lam: message passing needs a value above 0; for the limit, say, 1e-4")


def _prepare(values: dict[str, Any]) -> tuple[Problem, Teacher, MessagePassing]:
    """The instance's own problem, its teacher, and message passing on its samples."""
    from hdattn.singlehead.amp import MessagePassing, observe
    from hdattn.singlehead.problem import Problem
    from hdattn.singlehead.samples import SampleStream, draw_teacher
    from hdattn.singlehead.targets import Spectrum, limit_target
    from hdattn.singlehead.trajectory import state_evolution_trajectory

    dim, denoiser = values["dim"], values["denoiser"]
    samples = sample_count(values)
    data = {name: values[name] for name in ("dim", "noise", "tokens", "beta0")}
    data["target"] = data_target(values)
    teacher = draw_teacher(data, values["seed"], 0)
    names = ("lam", "kappa", "noise", "tokens", "beta", "beta0", "penalty")
    limit = Problem(
        samples / dim**2,
        target=limit_target(data["target"], dim),
        **{name: values[name] for name in names},
    )
    own = replace(limit, target=Spectrum(teacher.eigenvalues))
    stream = SampleStream(data, values["seed"], 0, teacher)
    observations = observe(sample_batches(stream, samples), limit, denoiser)
    overlaps = None
    if values["v_hat"] == "stein":
        damping = values["damping"]
        overlaps = state_evolution_trajectory(own, values["iterations"], damping=damping).M
    # what the denoiser knows: the limit law of the target (bayes), Q0 of the instance (soft)
    known = limit if denoiser == "bayes" else own
    return own, teacher, MessagePassing(observations, known, denoiser, values["damping"], overlaps)


def _train(passing: MessagePassing, values: dict[str, Any]) -> dict[str, Any]:
    """Head trained by L-BFGS on the same samples."""
    from hdattn.singlehead.erm import fit

    began = time.perf_counter()
    head = "direct" if values["penalty"] == "frobenius" else "tied"
    fitted = fit(passing.observations, lam=values["lam"], kappa=values["kappa"], head=head)
    seconds = time.perf_counter() - began
    return {"S": fitted.S, "objective": fitted.objective, "seconds": seconds}


def _theory(problem: Problem, run: AmpRun, values: dict[str, Any]) -> dict[str, Any]:
    """The iterates by theory; they start cold, so that there are none for a warm start."""
    from hdattn.singlehead.trajectory import bayes_optimal_trajectory, state_evolution_trajectory

    if values["start"] == "trained":
        return {}
    if values["denoiser"] == "bayes":
        followed = bayes_optimal_trajectory(problem, run.iterations)
    else:
        damping = values["damping"]
        followed = state_evolution_trajectory(problem, run.iterations, damping=damping)
    return {f"theory_{name}": getattr(followed, name) for name in THEORY}


def _comparison(run: AmpRun, trained: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    if not trained:
        return {}
    distance = np.linalg.norm(run.S - trained["S"]) / np.linalg.norm(trained["S"])
    return {
        "lbfgs_objective": trained["objective"],
        "lbfgs_distance": distance,
        "lbfgs_seconds": trained["seconds"],
    }
