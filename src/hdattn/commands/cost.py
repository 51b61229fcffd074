"""``hdattn cost``: what a scale takes, before anything runs; and how right that was, after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hdattn.commands.output import aligned, emit
from hdattn.commands.parsing import Command, as_json, option
from hdattn.commands.values import COUNT
from hdattn.commands.workflow import directory_option
from hdattn.errors import UserError

_HEAD = ("figure", "rule", "results", "jobs", "CPU hours", "GB", "longest (h)", "wall (h)")


@click.command(cls=Command)
@option("--scale", help="At this scale, by default the configured one.")
@option("--figures", "names", default="all", help="Only these: names with commas or spaces.")
@option("--slots", type=COUNT, default=100, help="Jobs that run at once.")
@option("--check", is_flag=True, help="Compare with the benchmark files of jobs that have run.")
@directory_option
@as_json
def cost(
    as_json: bool, scale: str | None, names: str, slots: int, check: bool, directory: Path
) -> None:
    """Say what a scale takes, before it runs.

    Jobs as a cluster gets them (short ones in bundles), hours of one core, memory asked for and
    time on so many slots, by figure and rule; from a model of flop and bytes. With --check, how
    far the model was from what the benchmark files of results/benchmarks say.
    """
    from hdattn import project

    if not project.is_configured(directory):
        raise UserError(
            f"{directory}: holds no config; run from the project's folder or name it with "
            "--directory"
        )
    catalogue = project.catalogue_of(directory, scale, names)
    if check:
        from hdattn.cost.check import compare

        compared = compare(catalogue, directory)
        return emit(compared, as_json) if as_json else _print_check(compared)
    from hdattn.cost.plan import plan

    planned = plan(catalogue, slots)
    return emit(planned, as_json) if as_json else _print_plan(planned)


def _print_plan(planned: dict[str, Any]) -> None:
    rows = [_HEAD]
    for figure in planned["figures"]:
        for rule, costs in figure["rules"].items():
            rows.append((figure["name"], rule, *_numbers(costs), ""))
        rows.append((figure["name"], "all", *_numbers(figure), f"{figure['wall_hours']:.2f}"))
    total = planned["total"]
    rows.append(("total", "", *_numbers(total), f"{total['wall_hours']:.2f}"))
    click.echo("\n".join(aligned(rows)))
    click.echo(
        f"scale {planned['scale']}: {total['jobs']} jobs on {planned['slots']} slots, "
        f"{total['short_jobs']} of them below two minutes; {total['critical_path_hours']:.2f} h "
        "on any number of slots; drawing not counted"
    )


def _numbers(costs: dict[str, Any]) -> tuple[str, ...]:
    hours = (f"{costs[name]:.2f}" for name in ("cpu_hours", "memory_gb", "longest_hours"))
    return (str(costs["experiments"]), str(costs["jobs"]), *hours)


def _print_check(compared: dict[str, Any]) -> None:
    head = ("kind", "jobs", "time: median", "90 %", "bias", "memory: median", "90 %", "bias")
    rows = [head]
    for name, found in [*compared["kinds"].items(), ("all", compared["all"])]:
        numbers = [
            f"{found[what][key]:.2f}" if found[what] else "-"
            for what in ("seconds", "memory")
            for key in ("median", "high", "bias")
        ]
        rows.append((name, str(found["jobs"]), *numbers))
    click.echo("\n".join(aligned(rows)))
    click.echo("(factors between expected and measured, either way; bias: expected over measured)")
    for worst in compared["worst"]:
        click.echo(
            f"worst: {worst['kind']}/{worst['name']}: {worst['expected']:.1f} s expected, "
            f"{worst['measured']:.1f} s measured"
        )
    click.echo(f"machine_speed of this machine: about {compared['machine_speed']:.2g}")
