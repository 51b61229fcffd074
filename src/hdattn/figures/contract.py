"""What a figure module has to be: a mistake in one is a line that names its file."""

from __future__ import annotations

import importlib
import inspect
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.fields import FigureSection, Strict

MODELS = ("multihead", "singlehead")
_PACKAGE = "hdattn.figures"
_ARGUMENTS = {"experiments": ("section", "seed"), "draw": ("figure", "records", "section")}
_LONGEST = 160  # characters of an exception in a line


def load(name: str) -> ModuleType:
    """The figure module ``name``; ``UserError``, naming its file, where it is none."""
    try:
        module = importlib.import_module(f"{_PACKAGE}.{name}")
    except UserError:
        raise
    except SyntaxError as error:
        place = f"{_short(error.filename or '')}, line {error.lineno}"
        raise UserError(f"{place}: {error.msg}; mend it, or take the file away") from error
    except (Exception, SystemExit) as error:
        problem = f"cannot be imported ({last_line(error)}); mend it, or take it away"
        raise UserError(f"{_place(name, error)}: {problem}") from error
    problems = list(_lacking(module))
    if problems:
        raise UserError(
            f"{file_of(name)}: {'; '.join(problems)}; docs/add-a-figure.md says what it needs"
        )
    return module


def experiments(
    name: str, module: ModuleType, section: Strict, seed: int
) -> dict[str, list[Experiment]]:
    """What the figure asks for; ``UserError``, naming its file, where that is not experiments."""
    try:
        roles = module.experiments(section, seed)
    except UserError as error:
        raise UserError(f"{name}: {error}") from error
    except Exception as error:
        problem = f"experiments failed ({last_line(error)}); mend it"
        raise UserError(f"{_place(name, error)}: {problem}") from error
    if not (isinstance(roles, Mapping) and all(map(_is_group, roles.values()))):
        raise UserError(
            f"{file_of(name)}: experiments returned {_described(roles)}; return "
            "{role: [Experiment, ...]}"
        )
    return roles


def file_of(name: str) -> str:
    """The module's file as messages name it."""
    return f"{_PACKAGE.replace('.', '/')}/{name}.py"


def last_line(error: BaseException) -> str:
    """``KeyError: 'lam'``, however long the exception is."""
    line = " ".join(f"{type(error).__name__}: {error}".split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _lacking(module: ModuleType) -> Iterator[str]:
    found = {name: getattr(module, name, None) for name in ("MODEL", "TITLE", "Section")}
    if found["MODEL"] not in MODELS:
        yield f"MODEL is {found['MODEL']!r}, not {' or '.join(MODELS)}"
    if not (isinstance(found["TITLE"], str) and found["TITLE"].strip()):
        yield "TITLE is no text"
    if not (isinstance(found["Section"], type) and issubclass(found["Section"], FigureSection)):
        yield "Section is no subclass of FigureSection"
    for name, arguments in _ARGUMENTS.items():
        if not _takes(getattr(module, name, None), len(arguments)):
            yield f"there is no function {name}({', '.join(arguments)})"


def _takes(function: Any, count: int) -> bool:
    """Whether ``function`` can be called with ``count`` arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return True


def _is_group(group: Any) -> bool:
    return isinstance(group, (list, tuple)) and all(isinstance(e, Experiment) for e in group)


def _described(roles: Any) -> str:
    if not isinstance(roles, Mapping):
        return f"{'None' if roles is None else f'a {type(roles).__name__}'}"
    role = next(role for role, group in roles.items() if not _is_group(group))
    return f"no list of Experiment for the role {role!r}"


def _place(name: str, error: BaseException) -> str:
    """The module's file, with the line that led to ``error`` where one did."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == f"{name}.py"]
    return f"{file_of(name)}, line {lines[-1]}" if lines else file_of(name)


def _short(file: str) -> str:
    """A file of the package from its name on."""
    root = Path(__file__).parents[2]
    return Path(file).relative_to(root).as_posix() if Path(file).is_relative_to(root) else file
