"""The figures that there are: every module of :mod:`hdattn.figures` but its helpers."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

from hdattn.errors import UserError

MODELS = ("multihead", "singlehead")
_FOLDER = Path(__file__).parent
_HELPERS = {"code", "colours", "details", "drawing", "drawn", "legends", "look", "make", "marks"}
_HELPERS |= {"overlaps", "registry", "style", "validation"}
_ABOUT_ALL = {
    "overview": "it is drawn from the numbers of others: make figures FIGURES=overview",
    "costs": "it is drawn at the end of every run, and by 'hdattn gallery'",
}


@cache
def _found() -> frozenset[str]:
    modules = {m.name for m in pkgutil.iter_modules([str(_FOLDER)])}
    return frozenset(m for m in modules - _HELPERS if not m.startswith("_"))


@cache
def names() -> tuple[str, ...]:
    """Names of all figures, multihead first, each family in alphabetical order."""
    return tuple(sorted(_found(), key=lambda name: (module(name).MODEL, name)))


@cache
def module(name: str) -> ModuleType:
    """Module of the figure ``name``; ``UserError`` where there is none."""
    if name not in _found():
        raise UserError(unknown(name, names()))
    return importlib.import_module(f"hdattn.figures.{name}")


def unknown(name: str, known: Sequence[str]) -> str:
    """One line about a figure that is not among the ``known`` ones, with the nearest name."""
    if name in _ABOUT_ALL:
        return f"figures: {name!r} has no section of its own; {_ABOUT_ALL[name]}"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"figures: there is no figure {name!r}; {hint}choose from {', '.join(known)}"
