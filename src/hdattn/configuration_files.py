"""Reading the configuration: YAML files, merged in order, later files over earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from hdattn.configuration_problems import Sources
from hdattn.errors import UserError

FILES = ("config/config.yaml", "config/multihead.yaml", "config/singlehead.yaml")
"""The configuration of a project, relative to its folder."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # the C one is ten times faster
    """Safe loader that refuses a key given twice, where YAML would drop the first."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # what is merged may be overridden
            key = repr(self.construct_object(key_node, deep=True))
            if key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key} is given twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_files(paths: Iterable[str | Path]) -> tuple[dict[str, Any], Sources]:
    """Contents of YAML files merged deeply, and where each key was set.

    Raises ``UserError``, a line for each file that is missing, unreadable or no YAML mapping.
    """
    contents: list[tuple[str, Mapping[str, Any]]] = []
    problems = []
    for path in paths:
        try:
            contents.append((str(path), read_file(path)))
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    merged: dict[str, Any] = {}
    for _, content in contents:
        merged = merge(merged, content)
    return merged, Sources(contents)


def read_file(path: str | Path) -> dict[str, Any]:
    """Mapping in one YAML file, empty where the file is; ``UserError`` if it cannot be read."""
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run from the project's folder") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UserError(f"{path}: cannot be read: {reason}; mend or restore the file") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}, {_where(error)}; mend the YAML there") from None
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise UserError(f"{path}: cannot be read: {reason}; mend the YAML") from None
    if not isinstance(content, (dict, type(None))):
        raise UserError(f"{path}: holds no mapping; write it as lines of 'key: value'")
    return content or {}


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``below`` with the keys of ``above`` laid over it, mappings merged in turn."""
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(merged.get(key), Mapping) and isinstance(value, Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def _where(error: yaml.YAMLError) -> str:
    """``line 3, column 5: what is wrong``, as far as the parser knows."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
    return f"{place}: {problem}"
