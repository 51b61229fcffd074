"""The entries of the table, by letter: modules with a TITLE and ``measure(settings) -> rows``."""

from __future__ import annotations

import importlib
from types import ModuleType

ENTRIES = {
    "a": "state_evolution",
    "b": "population_loss",
    "c": "training",
    "d": "sgd",
    "e": "default_scale",
    "f": "flops",
    "g": "workflow",
    "h": "growth",
    "i": "memory",
    "j": "idle_runs",
}


def entry(letter: str) -> ModuleType:
    """The module of an entry."""
    return importlib.import_module(f"benchmarks.{ENTRIES[letter]}")
