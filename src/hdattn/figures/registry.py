"""The figures that there are: every module of :mod:`hdattn.figures` but its helpers."""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Sequence
from functools import cache
from types import ModuleType

from hdattn.errors import UserError
from hdattn.figures import contract

_HELPERS = {
    "code",
    "colours",
    "contract",
    "details",
    "drawing",
    "drawn",
    "legends",
    "look",
    "make",
    "marks",
}
_HELPERS |= {"marks", "overlaps", "registry", "style", "validation"}
_ABOUT_ALL = {
    "overview": "it is drawn from the numbers of others: make figures FIGURES=overview",
    "costs": "it is drawn at the end of every run, and by 'hdattn gallery'",
}


@cache
def _found() -> frozenset[str]:
    from hdattn import figures  # which imports this module

    modules = {m.name for m in pkgutil.iter_modules(figures.__path__)}
    return frozenset(m for m in modules - _HELPERS if not m.startswith("_"))


@cache
def _sorted() -> tuple[tuple[str, ...], dict[str, str]]:
    """Names of the figures, and a line for each module that is none."""
    models, broken = {}, {}
    for name in sorted(_found()):
        try:
            models[name] = module(name).MODEL
        except UserError as error:
            broken[name] = str(error)
    return tuple(sorted(models, key=lambda name: (models[name], name))), broken


def names() -> tuple[str, ...]:
    """Names of all figures, multihead first, each family in alphabetical order."""
    return _sorted()[0]


def broken() -> dict[str, str]:
    """What is wrong with modules that should be figures, by their names: a line each."""
    return _sorted()[1]


@cache
def module(name: str) -> ModuleType:
    """Module of the figure ``name``; ``UserError`` where there is none, or it is not sound."""
    if name not in _found():
        raise UserError(unknown(name, names()))
    return contract.load(name)


def unknown(name: str, known: Sequence[str]) -> str:
    """One line about a figure that is not among the ``known`` ones, with the nearest name."""
    if name in _ABOUT_ALL:
        return f"figures: {name!r} has no section of its own; {_ABOUT_ALL[name]}"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"figures: there is no figure {name!r}; {hint}choose from {', '.join(known)}"
