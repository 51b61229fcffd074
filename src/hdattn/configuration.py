"""The configuration: read, merged with a scale, validated before any job runs.

The merged configuration holds the keys of :class:`Run` and one section per figure. A section is
``{key: value, ..., scales: {smoke: {...}, default: {...}, paper: {...}, mine: {...}}}``; a scale
overrides keys of its section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from hdattn import figures as figure_modules
from hdattn.configuration_problems import Sources, suggest, validate
from hdattn.errors import UserError
from hdattn.fields import Strict, is_size
from hdattn.ranges import shown
from hdattn.run_section import Run
from hdattn.scan.sections import SCANS, Scan

BUILT_IN_SCALES = ("smoke", "default", "paper")
LIKE = "like"  # key of a scale of one's own: the built-in scale that it changes
SCAN_NAME = r"[A-Za-z][A-Za-z0-9_]{0,39}"
SCALE_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,39}"


@dataclass(frozen=True)
class Configuration:
    """A validated configuration: the run, and the sections of its figures at its scale."""

    run: Run
    sections: dict[str, Strict]
    scans: dict[str, Scan] = field(default_factory=dict)

    def merged(self) -> dict[str, Any]:
        """Everything that was used, for ``run_config.yaml``."""
        sections = {name: s.model_dump(mode="json") for name, s in self.sections.items()}
        scans = {name: scan.model_dump(mode="json") for name, scan in self.scans.items()}
        own = {"scans": scans} if scans else {}
        return {**self.run.model_dump(mode="json"), **own, **sections}


def load(merged: Mapping[str, Any], sources: Sources | None = None) -> Configuration:
    """Validate the merged configuration.

    Raises ``UserError`` with one line per problem, all of them at once.
    """
    sources = sources or Sources()
    problems: list[str] = []
    run = validate(Run, _run_part(merged), (), merged, sources, problems)
    # A mistake in another key must not hide one in the scale or the figures.
    chosen = run or validate(Run, _run_part(merged, ("scale", "figures")), (), merged, sources, [])
    problems += _unknown_top_level(merged, sources)
    sections = {}
    for name in figure_modules.names():
        sections[name] = _section(name, merged, chosen, sources, problems)
    scans = _scans(merged, sources, problems)
    if chosen is not None:
        problems += _check_choice(chosen, merged, sources)
    if problems:
        raise UserError("\n".join(problems))
    return Configuration(run, {name: sections[name] for name in run.figures}, scans)


def scales(merged: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the scales that the configuration knows: the built-in ones, then the user's."""
    found = dict.fromkeys(BUILT_IN_SCALES)
    for name in figure_modules.names():
        section = merged.get(name)
        own = section.get("scales") if isinstance(section, Mapping) else None
        found.update(dict.fromkeys(map(str, own)) if isinstance(own, Mapping) else {})
    return tuple(found)


def _run_part(
    merged: Mapping[str, Any], keys: Iterable[str] = tuple(Run.model_fields)
) -> dict[str, Any]:
    return {key: merged[key] for key in keys if key in merged}


def _unknown_top_level(merged: Mapping[str, Any], sources: Sources) -> list[str]:
    figures = (*figure_modules.names(), *figure_modules.broken())
    known = [*Run.model_fields, "scans", *figures]
    return [
        f"{sources.name(merged, [key])}: {key}: unknown key; {suggest(str(key), known)}"
        for key in merged
        if key not in known
    ]


def _check_choice(run: Run, merged: Mapping[str, Any], sources: Sources) -> list[str]:
    problems = []
    if run.scale not in scales(merged):
        problems.append(
            f"{sources.name(merged, ['scale'])}: scale: there is no scale {run.scale!r}; "
            f"choose from {', '.join(scales(merged))}, or add it under 'scales' of a section"
        )
    for name in run.figures:
        if name in figure_modules.broken():
            problems.append(figure_modules.broken()[name])
        elif name not in figure_modules.names():
            line = figure_modules.unknown(name, figure_modules.names())
            problems.append(f"{sources.name(merged, ['figures'])}: {line}")
    return problems


def _section(
    name: str,
    merged: Mapping[str, Any],
    run: Run | None,
    sources: Sources,
    problems: list[str],
) -> Strict | None:
    """Section ``name`` at the scale of the run; problems of all its scales are collected."""
    model = figure_modules.module(name).Section
    raw = merged.get(name, {})
    if not isinstance(raw, Mapping):
        where = sources.name(merged, [name])
        problems.append(f"{where}: {name}: a section is a mapping of keys to values")
        return None
    overrides = raw.get("scales", {})
    bad = _bad_scales(name, overrides, merged, sources)
    if bad:
        problems += bad
        return None
    base = {key: value for key, value in raw.items() if key != "scales"}
    result = None
    for scale in dict.fromkeys([*overrides, run.scale if run else "default"]):
        layers = [((name,), base), *_layers(name, scale, overrides)]
        section = _validate_layers(model, layers, merged, sources, problems)
        problems += _physics_overrides(model, name, scale, overrides, merged, sources)
        if run is not None and scale == run.scale:
            result = section
    return result


def _bad_scales(
    name: str, overrides: Any, merged: Mapping[str, Any], sources: Sources
) -> list[str]:
    where = f"{sources.name(merged, [name, 'scales'])}: {name}.scales"
    if not isinstance(overrides, Mapping):
        return [f"{where}: give a mapping of scale to its keys"]
    lines = []
    for scale, keys in overrides.items():
        where = f"{sources.name(merged, [name, 'scales', scale])}: {name}.scales.{scale}"
        if not re.fullmatch(SCALE_NAME, str(scale)):
            # It names folders; nothing may be written outside the results.
            lines.append(f"{where}: a scale has letters, digits, - and _, a letter first; rename")
        elif not isinstance(keys, Mapping):
            lines.append(f"{where}: give a mapping of keys to values")
        elif scale not in BUILT_IN_SCALES and keys.get(LIKE, "default") not in BUILT_IN_SCALES:
            choices = ", ".join(BUILT_IN_SCALES)
            lines.append(f"{where}.{LIKE}: {keys[LIKE]!r} will not do; choose from {choices}")
    return lines


def _scans(merged: Mapping[str, Any], sources: Sources, problems: list[str]) -> dict[str, Scan]:
    """The sections under ``scans``; those with problems are left out."""
    raw = merged.get("scans")
    if raw is None:
        return {}
    where = sources.name(merged, ["scans"])
    if not isinstance(raw, Mapping):
        problems.append(f"{where}: scans: give a mapping of names to scans")
        return {}
    found = {}
    for name, values in raw.items():
        key = f"{sources.name(merged, ['scans', name])}: scans.{name}"
        model = values.get("model") if isinstance(values, Mapping) else None
        if not re.fullmatch(SCAN_NAME, str(name)):
            problems.append(f"{key}: a name has letters, digits and _, a letter first; rename it")
        elif not isinstance(model, str) or model not in SCANS:
            problems.append(
                f"{key}.model: {shown(model)} will not do; choose from {', '.join(SCANS)}"
            )
        else:
            prefix = ("scans", name)
            found[name] = validate(SCANS[model], values, prefix, merged, sources, problems)
    return found


def scan_from(model: str, values: Mapping[str, Any], source: str) -> Scan:
    """A scan from values that ``source`` gave; ``UserError`` with a line for each problem."""
    problems: list[str] = []
    scan = validate(SCANS[model], values, (), values, Sources([(source, values)]), problems)
    if problems:
        raise UserError("\n".join(problems))
    return scan


def _layers(
    name: str, scale: str, overrides: Mapping[str, Any]
) -> list[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Overrides that make up a scale; a user's own lies on top of what it is like (``default``)."""
    wanted, own = [scale], dict(overrides.get(scale, {}))
    if scale not in BUILT_IN_SCALES:
        wanted = [own.pop(LIKE, "default"), scale]
    found = {**overrides, scale: own}
    return [((name, "scales", s), found[s]) for s in wanted if s in overrides]


def _physics_overrides(
    model: type[BaseModel],
    name: str,
    scale: str,
    overrides: Mapping[str, Any],
    merged: Mapping[str, Any],
    sources: Sources,
) -> list[str]:
    if scale not in BUILT_IN_SCALES:
        return []
    return [
        f"{sources.name(merged, [name, 'scales', scale, key])}: {name}.scales.{scale}.{key}: a "
        "built-in scale changes sizes, never physics; set it in the section, or in a scale of "
        "your own"
        for key in overrides.get(scale, {})
        if key in model.model_fields and not is_size(model, key)
    ]


def _validate_layers(
    model: type[Strict],
    layers: list[tuple[tuple[str, ...], Mapping[str, Any]]],
    merged: Mapping[str, Any],
    sources: Sources,
    problems: list[str],
) -> Strict | None:
    values: dict[str, Any] = {}
    origin: dict[str, tuple[str, ...]] = {}
    for prefix, layer in layers:
        values.update(layer)
        origin.update(dict.fromkeys(layer, prefix))
    return validate(model, values, layers[-1][0], merged, sources, problems, origin)
