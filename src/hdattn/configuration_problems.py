"""What is wrong with a configuration: one line that names the file, the key and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from hdattn import ranges
from hdattn.fields import Strict


class Sources:
    """Where a key was set: the last file that holds its present value, else ``elsewhere``."""

    def __init__(self, files: Sequence[tuple[str, Mapping[str, Any]]] = ()):
        self.files = list(files)
        self.elsewhere = "--config"  # of Snakemake; another caller says where its keys come from

    def name(self, merged: Mapping[str, Any], keys: Sequence[Any]) -> str:
        """Name of the file that set ``keys``, or ``elsewhere``."""
        for depth in range(len(keys), 0, -1):
            value = _lookup(merged, keys[:depth])
            for name, content in reversed(self.files):
                if value is not _ABSENT and _same(_lookup(content, keys[:depth]), value):
                    return name
            if value is not _ABSENT:
                return self.elsewhere
        return self.files[0][0] if self.files else self.elsewhere


_ABSENT = object()


def _same(own: Any, merged: Any) -> bool:
    """Whether a file's value is the merged one, or a mapping merged from several files."""
    both = isinstance(own, Mapping) and isinstance(merged, Mapping)
    return both or own == merged or (own != own and merged != merged)  # NaN is not itself


def _lookup(tree: Any, keys: Iterable[Any]) -> Any:
    for key in keys:
        try:
            tree = tree[key]
        except (KeyError, IndexError, TypeError):
            return _ABSENT
    return tree


def validate(
    model: type[Strict],
    values: Mapping[str, Any],
    prefix: tuple[str, ...],
    merged: Mapping[str, Any],
    sources: Sources,
    problems: list[str],
    origin: Mapping[str, tuple[str, ...]] | None = None,
) -> Any:
    """``values`` as a ``model``, or None with a line in ``problems`` for each that will not do.

    ``prefix`` are the keys that lead to ``values`` in ``merged``, ``origin`` those of single keys
    that came from elsewhere (a layer of a scale).
    """

    def path(location: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*((origin or {}).get(location[0], prefix) if location else prefix), *location)

    try:
        found = model.model_validate(dict(values))
    except ValidationError as error:
        items = error.errors(include_url=False)
        places = [tuple(item["loc"]) for item in items]
        for item, location in zip(items, places, strict=True):
            if item["type"] == "too_short" and any(location == p[:-1] for p in places):
                continue  # entries that will not do are not counted, and have lines of their own
            line = _line(model, item, path(location), merged, sources)
            if line not in problems:
                problems.append(line)
        return None
    for line in found.beyond_limits():
        key, _, problem = line.partition(": ")
        keys = path(tuple(key.split(".")))
        line = f"{sources.name(merged, keys)}: {dotted(keys)}: {problem}"
        if line not in problems:
            problems.append(line)
    return found


_REMEDIES = {
    "greater_than": "give a number above {gt}",
    "greater_than_equal": "give a number of at least {ge}",
    "less_than": "give a number below {lt}",
    "less_than_equal": "give a number of at most {le}",
    "too_short": "give at least {min_length}",
    "too_long": "give at most {max_length}",
    "int_from_float": "give a whole number",
    "int_type": "give a whole number",
    "float_type": "give a number",
    "finite_number": "give a finite number",
    "string_type": "give a text",
    "bool_type": "give true or false",
    "literal_error": "choose from {expected}",
    "tuple_type": "give a list",
    "model_type": "give a mapping of keys to values",
    "missing": "add this key",
}


def _line(
    model: type[BaseModel],
    item: Mapping[str, Any],
    keys: tuple[Any, ...],
    merged: Mapping[str, Any],
    sources: Sources,
) -> str:
    where = ": ".join(filter(None, (sources.name(merged, keys), dotted(keys))))
    if item["type"] == "extra_forbidden":
        return f"{where}: unknown key; {suggest(str(keys[-1]), model.model_fields)}"
    if item["type"] == "value_error":
        return f"{where}: {item['ctx']['error']}"
    remedy = _REMEDIES.get(item["type"], item["msg"][0].lower() + item["msg"][1:])
    got = "" if item["type"] == "missing" else f"{ranges.shown(item['input'])} will not do; "
    return f"{where}: {got}{remedy.format(**item.get('ctx', {}))}"


def dotted(keys: Sequence[Any]) -> str:
    """``learning_curves.alphas[2]`` of a path of keys."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}"
    return text.lstrip(".")


def suggest(key: str, known: Iterable[str]) -> str:
    """The nearest of the known keys, if one is near, and all of them."""
    known = list(known)
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}known keys: {', '.join(known)}"
