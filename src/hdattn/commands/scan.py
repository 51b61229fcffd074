"""``hdattn scan``: a grid of parameters through the cache, in parallel, to one table."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hdattn.commands.output import emit
from hdattn.commands.parsing import Command, Option, as_json, flag, option, refuse
from hdattn.commands.values import COUNT, WHOLE
from hdattn.commands.workflow import directory_option
from hdattn.memory import require_memory

if TYPE_CHECKING:
    from hdattn.experiment import Experiment

_MODELS = ("multihead", "singlehead")
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Models(click.Group):
    """Group whose commands are made when asked for, since their options are typed models."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The models, in alphabetical order."""
        return list(_MODELS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a model."""
        return _command(cmd_name) if cmd_name in _MODELS else None


@click.group(cls=_Models)
def scan() -> None:
    """Compute a grid of parameters, through the cache of the project.

    An axis is a number, numbers with commas between, or start:stop:points, even in the logarithm
    (start:stop:points:linear). Interrupted or extended, a scan computes only what is missing.
    """


def _command(model: str) -> click.Command:
    """Command whose options are the keys of the model's scans."""
    from hdattn.scan.sections import SCANS

    @click.command(model, cls=Command, help=f"Scan the {model} model.\n\n{_HELP[model]}")
    @option("--out", type=click.Path(), required=True, help=_OUT)
    @option("--cores", type=COUNT, default=_CORES, show_default="all", help="Jobs side by side.")
    @option("--seed", type=WHOLE, default=0, help="Root seed of what is random.")
    @directory_option
    @as_json
    def command(
        as_json: bool, out: str, cores: int, seed: int, directory: Path, **values: Any
    ) -> int:
        return _run(model, values, out, cores, seed, directory, as_json)

    command.params[:0] = [
        _option(name, info) for name, info in SCANS[model].model_fields.items() if name != "model"
    ]
    return command


_OUT = (
    "Files FILE.csv, FILE.h5 (the same table) and FILE.png (a quick look), over those of an "
    "earlier scan alone."
)
_HELP = {
    "singlehead": "State evolution at each point; with --train, trained heads beside it, a row "
    "per instance.",
    "multihead": "The best loss of the heads at each point, and the Bayes risk.",
}


def _option(name: str, info: Any) -> click.Option:
    if info.annotation is bool:
        return Option([flag(name)], is_flag=True, help=info.description)
    shown = "" if info.is_required() else f"  [default: {_plain(info.default)}]"
    text = f"{info.description}{shown}"
    return Option([flag(name)], required=info.is_required(), metavar="VALUES", help=text)


def _plain(value: Any) -> str:
    return ",".join(map(_plain, value)) if isinstance(value, tuple) else f"{value}"


def _run(
    model: str,
    values: dict[str, Any],
    out: str,
    cores: int,
    seed: int,
    directory: Path,
    as_json: bool,
) -> int:
    from hdattn.configuration import scan_from
    from hdattn.scan import asked
    from hdattn.scan.place import ENDINGS, stem_of
    from hdattn.scan.run import compute_all
    from hdattn.scan.table import make_scan

    given = {name: value for name, value in values.items() if value is not None}
    chosen = scan_from(model, given, "command line")
    stem = stem_of(out, directory)
    experiments = [e for group in chosen.experiments(seed).values() for e in group]
    _refuse_hopeless(experiments)
    asked.note(chosen, seed, directory)
    computed = compute_all(experiments, directory, cores, _progress)
    rows = make_scan(chosen, seed, stem, directory)
    doubtful = sum(not row["converged"] for row in rows)
    values = {
        "rows": len(rows),
        "not_converged": doubtful,
        "flagged": sum(bool(row.get("flags") or row.get("theory_flags")) for row in rows),
        "results_computed": computed,
        "files": [f"{stem}.{ending}" for ending in ENDINGS],
    }
    emit(values, as_json)
    return int(doubtful > 0)


def _refuse_hopeless(experiments: list[Experiment]) -> None:
    """Refuse what the solvers would, and a job that does not fit in memory."""
    from hdattn import solvable
    from hdattn.catalogue import with_inputs
    from hdattn.cost import estimate

    needed = list(dict.fromkeys(with_inputs(experiments)))
    refuse(f"command line: {problem.line}" for problem in solvable.refused(needed))
    for experiment in needed:
        needs = 1e6 * estimate(experiment).memory_mb
        require_memory(needs, f"jobs of {experiment.kind}", "the scan's sizes")


def _progress(done: int, total: int, seconds: float) -> None:
    """A line that is written over on a terminal; nothing in files and pipes."""
    if sys.stderr.isatty():
        left = f", {seconds * (total - done) / done:.0f} s left" if 0 < done < total else ""
        end = "\n" if done == total else ""
        click.echo(f"\r\033[K{done} of {total} results{left}{end}", err=True, nl=False)
