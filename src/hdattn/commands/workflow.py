"""``hdattn figures``, ``show`` and ``check``: what the workflow made, and whether it is sound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hdattn.commands.output import aligned, emit, text, warn
from hdattn.commands.parsing import Command, argument, as_json, option
from hdattn.errors import UserError

if TYPE_CHECKING:
    from hdattn.cache_check import CheckReport

SHOWN = (
    "kind",
    "parameters",
    "converged",
    "residual",
    "seeds",
    "attributes",
    "messages",
    "provenance",
)
"""What ``show --json`` prints besides the datasets."""

directory_option = option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Folder of the project, with config/ and results/.",
)


@click.command(cls=Command)
@option("--scale", help="Only this scale: where its figures are.")
@option("--times", is_flag=True, help="With how long the jobs behind each figure took.")
@option("--figures", "names", default="all", help="Only these.")
@directory_option
@as_json
def figures(as_json: bool, scale: str | None, times: bool, names: str, directory: Path) -> None:
    """List the figures and where they are made.

    Which are made at which scale; with --scale, their files and, with --times, what they took:
    the jobs that are in the cache, whichever run made them.
    """
    from hdattn import project

    _require_project(directory)
    for line in project.broken_figures():
        warn(line)
    if scale is None and not times:
        values = {"figures": project.list_figures(directory, names)}
        return emit(values, as_json) if as_json else _print_rows(_overview(values["figures"]))
    values = project.list_scale(directory, scale, names, times=times)
    return emit(values, as_json) if as_json else _print_scale(values)


@click.command(cls=Command)
@argument("files", type=click.Path(path_type=Path), metavar="FILE.h5", nargs=-1, required=True)
@as_json
def show(as_json: bool, files: tuple[Path, ...]) -> None:
    """Describe files of the cache.

    Verifies each, and says what it holds and where that came from.
    """
    from hdattn import store

    for file in files:
        if not file.is_file():
            raise UserError(f"{file}: there is no such file; results lie under results/cache")
    if not as_json:
        click.echo("\n\n".join(store.describe(file) for file in files))
        return
    if len(files) > 1:
        raise UserError(f"--json describes one file at a time, not {len(files)}; name one")
    record = store.read(files[0])
    labels = {
        name: {
            "shape": detail.values.shape,
            "dtype": str(detail.values.dtype),
            "long_name": detail.long_name,
            "symbol": detail.symbol,
            "axes": detail.axes,
        }
        for name, detail in record.details.items()
    }
    emit({**{name: getattr(record, name) for name in SHOWN}, "datasets": labels}, as_json)


@click.command(cls=Command)
@option("--remove-bad", is_flag=True, help="Delete bad files, so that the next run remakes them.")
@option("--full", is_flag=True, help="Read every file again, also those unchanged since a check.")
@directory_option
@as_json
def check(as_json: bool, remove_bad: bool, full: bool, directory: Path) -> int:
    """Verify the whole cache, and the files of figures.

    A line for each bad, stale or orphaned file; exit status 1 where a bad one is left. Stale is
    what other physics code than today's made, orphaned what no configured figure asks for. What
    lies outside the folders of results (misplaced, links) is named and left alone.
    """
    from hdattn import cache_check, project
    from hdattn.catalogue import CACHE

    _require_project(directory)
    report = cache_check.check(
        directory / CACHE, expected=_expected(directory), incremental=not full
    )
    removed = cache_check.remove_bad(report) if remove_bad else []
    figures = project.damaged_figures(directory)
    if as_json:
        shown = [{"path": str(stem), "problem": problem} for stem, problem in figures]
        emit(_check_values(report, removed) | {"figures": shown}, as_json)
    else:
        gone = {True: "set aside", False: "removed"}
        done = [f"{gone[path in report.misnamed]}: {path}" for path in removed]
        drawn = [f"figure: {stem}: {why}; the next run makes it anew" for stem, why in figures]
        click.echo("\n".join([*drawn, *report.lines(), *done]))
    return 0 if (report.ok and not figures) or remove_bad else 1


COMMANDS = [
    figures,
    show,
    check,
]


def _require_project(directory: Path) -> None:
    from hdattn import project

    if not (directory / "results").is_dir() and not project.is_configured(directory):
        raise UserError(
            f"{directory}: holds neither results nor config; run from the project's folder or "
            "name it with --directory"
        )


def _expected(directory: Path) -> set[str] | None:
    """Files that some figure asks for; None, with a warning, where that cannot be known."""
    from hdattn import project

    if not project.is_configured(directory):
        return None
    try:
        return project.expected_files(directory)
    except UserError as error:
        for line in str(error).splitlines():
            warn(f"orphaned files are not looked for, since {line}")
        return None


def _check_values(report: CheckReport, removed: list[Path]) -> dict[str, Any]:
    return {
        "files": report.files,
        "bad": [{"path": str(path), "problem": problem} for path, problem in report.bad],
        "misplaced": [{"path": str(path), "problem": p} for path, p in report.misplaced],
        "links": list(map(str, report.links)),
        "stale": list(map(str, report.stale)),
        "orphaned": list(map(str, report.orphaned)),
        "leftovers": list(map(str, report.leftovers)),
        "removed": list(map(str, removed)),
    }


def _overview(rows: list[dict[str, Any]]) -> list[list[str]]:
    scales = list(rows[0]["made"]) if rows else []
    head = ["figure", "model", *scales, "shows"]
    body = [
        [row["name"], row["model"], *(text(row["made"][s]) for s in scales), row["title"]]
        for row in rows
    ]
    return [head, *body]


def _print_scale(values: dict[str, Any]) -> None:
    timed = "seconds" in values
    head = ["figure", "made", *(["seconds"] if timed else []), "files"]
    rows = [head]
    for row in values["figures"]:
        seconds = [_seconds(row["seconds"])] if timed else []
        files = " ".join(row["files"])
        files += f" ({', '.join(row['problems'])})" if row["problems"] else ""
        rows.append([row["name"], text(row["made"]), *seconds, files])
    _print_rows(rows)
    if timed:
        click.echo(f"scale {values['scale']}: {_seconds(values['seconds'])} s of jobs in all")


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _print_rows(rows: list[list[str]]) -> None:
    click.echo("\n".join(aligned(rows)))
