"""Packages whose names are imported when first used, so that importing the package is light."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable, Callable, list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of ``package``.

    ``modules`` maps a module of the package to the names it offers, separated by spaces; a module
    that offers none is offered itself.
    """
    where = {name: module for module, names in modules.items() for name in names.split()}
    offered = sorted([*where, *(module for module, names in modules.items() if not names)])

    def get(name: str) -> Any:
        if name not in offered:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{where.get(name, name)}")
        value = getattr(module, name) if name in where else module
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: offered, offered
