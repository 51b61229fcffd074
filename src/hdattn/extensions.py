"""Activations and priors that users add: modules of ``hdattn/<model>/extensions/``.

A module is named as what it registers and is imported when that name is asked for, so that one
unfinished extension disturbs nothing else; an activation is checked then. Only modules in that
folder are ever imported; a name in the configuration or on the command line cannot point anywhere
else.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from hdattn.errors import UserError


def names(model: str) -> list[str]:
    """Names of the modules in ``hdattn/<model>/extensions/``."""
    return sorted(module.name for module in pkgutil.iter_modules(_folders(model)))


def find(model: str, registry: Mapping[str, Any], name: Any) -> Any:
    """Entry ``name`` of ``registry``, after importing the extension of that name; or None."""
    if not isinstance(name, str):
        return None
    if name not in registry and name in names(model):
        _load(model, name)
    _check(model, registry.get(name))
    return registry.get(name)


def known(model: str, registry: Mapping[str, Any]) -> list[str]:
    """Names in ``registry`` once all extensions that can be are imported."""
    for name in names(model):
        with contextlib.suppress(UserError):
            _load(model, name)
    return sorted(registry)


def refuse_taken(what: str, name: str, registry: Mapping[str, Any]) -> None:
    """:class:`UserError` if ``name`` is in ``registry`` already."""
    if name in registry:
        raise UserError(f"{what} {name!r} is registered twice; give yours another name")


def _folders(model: str) -> list[str]:
    return list(importlib.import_module(f"hdattn.{model}.extensions").__path__)


def _load(model: str, name: str) -> None:
    module = f"hdattn.{model}.extensions.{name}"
    try:
        importlib.import_module(module)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        problem = f"cannot be imported ({type(error).__name__}: {error}); mend it, or take it away"
        raise UserError(f"{module.replace('.', '/')}.py: {problem}") from error


_SOUND: dict[int, Any] = {}  # activations of extensions that were checked, by their ids


def _check(model: str, entry: Any) -> None:
    """Refuse an activation of an extension that is none; those of the library are tested."""
    module = type(entry).__module__
    if not module.startswith(f"hdattn.{model}.extensions.") or id(entry) in _SOUND:
        return
    from hdattn.activation_check import check_activation  # which imports numpy

    check_activation(entry, f"{module.replace('.', '/')}.py")
    _SOUND[id(entry)] = entry
