"""``hdattn singlehead train``: training on drawn instances, as the workflow draws them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from hdattn.commands.output import emit, progress, warn
from hdattn.commands.parsing import Command, as_json, given, option, refuse, unwanted
from hdattn.commands.singlehead_options import data_target, problem_options
from hdattn.commands.values import COUNT, INSTANCES, WHOLE
from hdattn.errors import UserError
from hdattn.memory import require_memory

if TYPE_CHECKING:
    from hdattn.singlehead.samples import SampleStream

THEORY = ("Q", "M", "test_error", "train_loss", "penalty_value", "rank_fraction")
"""What ``train --theory`` adds, as ``theory_Q`` and so on."""
PHYSICS = ("lam", "kappa", "noise", "tokens", "beta", "beta0", "penalty")
UNTIED = ("asymmetry", "negativity")
"""What ``train --untied`` adds: how far S is from symmetric and from positive semi-definite."""


@click.command(cls=Command)
@problem_options
@option("--dim", type=COUNT, default=60, help="Dimension d; n = alpha d^2 samples.")
@option("--instances", type=INSTANCES, default=4, help="Independent draws of target and data.")
@option("--seed", type=WHOLE, default=0, help="Root seed; instance i is the workflow's.")
@option(
    "--optimizer",
    type=click.Choice(["lbfgs", "adam"]),
    default="lbfgs",
    help="lbfgs, to the minimum, or adam at rate 0.1.",
)
@option("--direct", is_flag=True, help="Train a symmetric S, not factors; penalty frobenius.")
@option("--untied", is_flag=True, help="Factors of queries and keys, half the decay on each.")
@option(
    "--task",
    type=click.Choice(["seq2lab", "seq2seq"]),
    default="seq2lab",
    help="Labels are attention matrices, or the sequences these make of the tokens.",
)
@option("--theory", is_flag=True, help="Also the state evolution of each instance's own target.")
@as_json
def train(as_json: bool, **values: Any) -> int:
    """Train heads on drawn data.

    Each name it prints is a list with an entry per instance.
    """
    values["head"] = _head(values)
    _solvable(values)
    samples = sample_count(values)
    instances = progress(range(values["instances"]), "instances trained")
    rows = [_train_one(values, samples, instance) for instance in instances]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    shown = [name for name in columns if name != "eigenvalues"]
    emit(columns, as_json, columns=shown, only_json=["eigenvalues"])
    return _status(columns, values)


def _head(values: dict[str, Any]) -> str:
    """Name of the head; makes the penalty its own and refuses what does not fit it."""
    untied, frobenius = values["untied"], values["penalty"] == "frobenius"
    refuse(unwanted(["direct"] if untied else [], "--untied trains two factors"))
    refuse(unwanted(["penalty"] if untied and frobenius else [], "--untied has weight decay"))
    refuse(unwanted(["theory"] if untied else [], "there is none of untied factors"))
    if not values["lam"]:
        raise UserError("--lam: training needs a value above 0; for the limit take, say, 1e-6")
    if not (values["direct"] or frobenius):
        return "untied" if untied else "tied"
    if values["direct"] and "penalty" in given("penalty") and not frobenius:
        raise UserError("--penalty: --direct has the penalty frobenius; leave nuclear out")
    values["penalty"] = "frobenius"
    return "direct"


def _solvable(values: dict[str, Any]) -> None:
    """Refuse what ``solve`` refuses."""
    from hdattn.singlehead.problem import Problem
    from hdattn.singlehead.targets import MarchenkoPastur, Spectrum

    target = data_target(values)
    # A power law is scaled to Q0 = 1, whatever its exponent.
    law = MarchenkoPastur(target["kappa0"]) if target["kind"] == "mp" else Spectrum([1.0])
    Problem(target=law, **{name: values[name] for name in ("alpha", *PHYSICS)})


def sample_count(values: dict[str, Any]) -> int:
    """Number of samples n; refuses none, and a training set that does not fit in memory."""
    from hdattn.singlehead.sample_size import sample_count as alpha_samples

    dim, tokens = values["dim"], values["tokens"]
    samples = alpha_samples(values["alpha"], dim)
    require_memory(
        8.0 * samples * tokens * (dim + tokens), f"{samples:.4g} samples", "--alpha or --dim"
    )
    return samples


def _train_one(values: dict[str, Any], samples: int, instance: int) -> dict[str, Any]:
    """Train and measure one instance."""
    from hdattn.singlehead.erm import draw_start, fit
    from hdattn.singlehead.heads import head_named
    from hdattn.singlehead.measure import measure
    from hdattn.singlehead.objective import attention_loss
    from hdattn.singlehead.samples import SampleStream, draw_teacher

    began = time.perf_counter()
    seed, kappa, beta = values["seed"], values["kappa"], values["beta"]
    data = {name: values[name] for name in ("dim", "noise", "tokens", "beta0")}
    data["target"] = data_target(values)
    teacher = draw_teacher(data, seed, instance)
    head, task = values["head"], values["task"]
    loss = attention_loss(
        sample_batches(SampleStream(data, seed, instance, teacher), samples),
        beta,
        task=task,
        symmetric=head_named(head).symmetric,
    )
    fitted = fit(
        loss,
        lam=values["lam"],
        kappa=kappa,
        optimizer=values["optimizer"],
        start=draw_start(data, seed, instance, kappa, head=head),
        head=head,
    )
    test = SampleStream(data, seed, instance, teacher, "test")
    measured = measure(fitted.W, teacher, test, beta=beta, head=head, task=task)
    return {
        "Q": measured.Q,
        "M": measured.M,
        "Q0": measured.Q0,
        "test_error": measured.test_error,
        "train_loss": fitted.train_loss,
        "penalty_value": fitted.penalty_value,
        "rank_fraction": measured.rank_fraction,
        "eigenvalues": measured.eigenvalues,
        "seconds": time.perf_counter() - began,
        "converged": fitted.converged,
        **({name: getattr(measured, name) for name in UNTIED} if head == "untied" else {}),
        **(_theory(values, samples, teacher.eigenvalues) if values["theory"] else {}),
    }


def _theory(values: dict[str, Any], samples: int, eigenvalues: Any) -> dict[str, float]:
    """Theory for a target of these eigenvalues, under the names of what is measured."""
    from hdattn.singlehead.problem import Problem
    from hdattn.singlehead.state_evolution import solve
    from hdattn.singlehead.targets import Spectrum

    physics = {name: values[name] for name in PHYSICS}
    solution = solve(Problem(samples / values["dim"] ** 2, target=Spectrum(eigenvalues), **physics))
    return {f"theory_{name}": getattr(solution, name) for name in THEORY}


def sample_batches(stream: SampleStream, samples: int) -> Iterator[tuple[Any, Any]]:
    """The first samples of a stream, chunk by chunk."""
    from hdattn.singlehead.samples import CHUNK

    for start in range(0, samples, CHUNK):
        yield stream.rows(start, min(start + CHUNK, samples))


def _status(columns: dict[str, list], values: dict[str, Any]) -> int:
    """Exit status; warnings about the trained heads go to stderr."""
    dim = values["dim"]
    width = max(1, round(values["kappa"] * dim))
    tied = values["head"] == "tied"
    if tied and width < dim and max(columns["rank_fraction"]) * dim > width - 0.5:
        warn(
            f"S has the largest rank that kappa = {values['kappa']:g} allows: the theory is that "
            "of a wider W, whose objective is lower"
        )
    late = columns["converged"].count(False)
    if late:
        warn(f"not converged: {late} of {len(columns['converged'])} instances")
    return 1 if late else 0
