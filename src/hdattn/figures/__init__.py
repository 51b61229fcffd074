"""One module per figure: arrays in, matplotlib figure and numbers out.

A figure module defines

``MODEL``
    ``"multihead"`` or ``"singlehead"``: the family, and the configuration file of its section.
``TITLE``
    One line, for lists and the report.
``Section``
    The typed configuration section (:class:`hdattn.fields.Strict`).
``experiments(section, seed)``
    ``{role: [Experiment, ...]}``: what has to be computed.
``draw(figure, records, section)``
    Draws on an empty matplotlib figure from ``{role: [Record, ...]}`` (same order as the
    experiments) and returns a :class:`Drawing`. Imports no pyplot, computes nothing expensive.

The name of the figure is the name of the module; a module placed here is found by itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

from hdattn.errors import UserError

MODELS = ("multihead", "singlehead")
_HELPERS = {"style", "validation"}


@dataclass
class Drawing:
    """What a figure module returns.

    Attributes
    ----------
    table: rows (dicts with the same keys) of every number drawn; becomes the CSV.
    validation: theory against simulation, see :mod:`hdattn.figures.validation`.
    flagged: one line for each point that is drawn hollow, and why.
    """

    table: list[dict[str, Any]]
    validation: list[dict[str, Any]] = field(default_factory=list)
    flagged: list[str] = field(default_factory=list)


@cache
def names() -> tuple[str, ...]:
    """Names of all figures, multihead first, each family in alphabetical order."""
    found = [m.name for m in pkgutil.iter_modules(__path__) if m.name not in _HELPERS]
    return tuple(sorted(found, key=lambda name: (module(name).MODEL, name)))


@cache
def module(name: str) -> ModuleType:
    """Module of the figure ``name``; ``UserError`` where there is none."""
    if name in _HELPERS or name not in {m.name for m in pkgutil.iter_modules(__path__)}:
        raise UserError(unknown(name))
    return importlib.import_module(f"hdattn.figures.{name}")


def unknown(name: str) -> str:
    """One line about a figure that does not exist, with the nearest names."""
    import difflib

    near = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"figures: there is no figure {name!r}; {hint}choose from {', '.join(names())}"
