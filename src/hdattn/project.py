"""A project folder: which figures there are, which are made, what they cost, what they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hdattn import configuration, configuration_files, published, run_section
from hdattn import figures as figure_modules
from hdattn.catalogue import FIGURES, Catalogue, FigureEntry, with_inputs
from hdattn.configuration_files import FILES, read_files
from hdattn.configuration_problems import Sources
from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.job_costs import BENCHMARKS, recorded
from hdattn.scan import asked as asked_scans

ENDINGS = ("pdf", "png", "csv")


def is_configured(directory: Path) -> bool:
    """Whether the folder holds a configuration."""
    return (directory / FILES[0]).parent.is_dir()


def catalogue_of(directory: Path, scale: str | None = None, names: str = "all") -> Catalogue:
    """Figures, by default all, at one scale, by default the configured one."""
    merged, sources = read_files(directory / file for file in FILES)
    sources.elsewhere = "command line"
    asked = {"figures": names} if scale is None else {"figures": names, "scale": scale}
    return Catalogue(configuration.load({**merged, **asked}, sources))


def list_figures(directory: Path, names: str = "all") -> list[dict[str, Any]]:
    """``{"name", "model", "title", "made": {scale: bool}}`` of every figure, or of some.

    Raises ``UserError`` for a name that no figure has.
    """
    rows = []
    for name in _chosen(names):
        module = figure_modules.module(name)
        made = {
            scale: _is_made(directory, f"{FIGURES}/{scale}/{module.MODEL}/{name}")
            for scale in _scales(directory)
        }
        rows.append({"name": name, "model": module.MODEL, "title": module.TITLE, "made": made})
    return rows


def _chosen(names: str) -> list[str]:
    try:
        chosen = run_section.chosen_figures(names)
    except ValueError as error:
        raise UserError(f"--figures: {error}") from None
    known = figure_modules.names()
    if names == "all":
        return list(known)  # what is wrong with the others is said beside the list
    problems = [
        figure_modules.broken().get(name) or figure_modules.unknown(name, known)
        for name in chosen
        if name not in known
    ]
    if problems:
        raise UserError("\n".join(problems))
    return chosen


def broken_figures() -> list[str]:
    """A line for each figure module that cannot be used."""
    return list(figure_modules.broken().values())


def list_scale(
    directory: Path, scale: str | None, names: str = "all", *, times: bool
) -> dict[str, Any]:
    """Figures of one scale: ``name, model, title, made, files, problems``, with times ``seconds``.

    ``problems`` are files that are not as they were drawn (:mod:`hdattn.published`).
    The seconds of a figure add up the wall time of its jobs; jobs that figures share count for
    each of them, and once in the total. None for a figure that is not made, or left no time.
    """
    catalogue = catalogue_of(directory, scale, names)
    rows = [_scale_row(directory, entry, times) for entry in catalogue.figures.values()]
    result = {"scale": catalogue.run.scale, "figures": rows}
    if times:
        result["seconds"] = _total_seconds(directory, catalogue.figures.values())
    return result


def damaged_figures(directory: Path) -> list[tuple[Path, str]]:
    """Figures at any scale whose files are not as they were drawn, with what is wrong."""
    shown = sorted((directory / FIGURES).glob("*/*head/*.png"))
    shown += sorted((directory / FIGURES).glob("*/*head/*.json"))
    stems = dict.fromkeys(path.with_suffix("") for path in shown)
    found = ((stem, published.problems(stem)) for stem in stems)
    return [(stem, ", ".join(problems)) for stem, problems in found if problems]


def expected_files(directory: Path) -> set[str]:
    """Paths within the cache that something asks for.

    A figure at any scale or in any scale's last run, or a scan, configured or noted.
    """
    merged, sources = read_files(directory / file for file in FILES)
    asked = [{**merged, "figures": "all", "scale": s} for s in configuration.scales(merged)]
    paths = _paths(asked, sources) | {str(e.path) for e in asked_scans.experiments(directory)}
    for file in sorted((directory / FIGURES).glob("*/run_config.yaml")):
        content = configuration_files.read_file(file)
        try:
            # The sections in it are those of its scale already, whatever that scale is called.
            paths |= _paths([{**content, "scale": "default", "style_sheet": None}], None)
        except UserError:
            continue  # from a version with other keys: nothing asks for its files any more
    return paths


def _paths(merged: Iterable[Mapping[str, Any]], sources: Sources | None) -> set[str]:
    catalogues = (Catalogue(configuration.load(content, sources)) for content in merged)
    return {str(e.path) for catalogue in catalogues for e in catalogue.experiments}


def _scales(directory: Path) -> list[str]:
    """Scales of the configuration, and those whose figures lie in the results."""
    merged = read_files(directory / file for file in FILES)[0] if is_configured(directory) else {}
    folders = sorted(path.name for path in (directory / FIGURES).glob("*") if path.is_dir())
    return list(dict.fromkeys([*configuration.scales(merged), *folders]))


def _is_made(directory: Path, stem: str) -> bool:
    return all((directory / f"{stem}.{ending}").is_file() for ending in ENDINGS)


def _scale_row(directory: Path, entry: FigureEntry, times: bool) -> dict[str, Any]:
    made = _is_made(directory, entry.stem)
    row = {
        "name": entry.name,
        "model": entry.model,
        "title": entry.title,
        "made": made,
        "files": [str(directory / f"{entry.stem}.{e}") for e in ENDINGS] if made else [],
        "problems": published.problems(directory / entry.stem),
    }
    return row | (
        {"seconds": _total_seconds(directory, [entry]) if made else None} if times else {}
    )


def _total_seconds(directory: Path, entries: Iterable[FigureEntry]) -> float | None:
    """Wall time of the jobs behind figures, each job once; None where none left its time."""
    entries = list(entries)
    experiments = dict.fromkeys(e for entry in entries for e in with_inputs(entry.direct()))
    files = [_benchmark_of(experiment) for experiment in experiments]
    files += [BENCHMARKS / "plot" / entry.scale / f"{entry.name}.tsv" for entry in entries]
    times = [cost.seconds for file in files for cost in recorded(directory / file)]
    return sum(times) if times else None


def _benchmark_of(experiment: Experiment) -> Path:
    return BENCHMARKS / experiment.kind / f"{experiment.name}.tsv"
