"""Digests of the code a result depends on, from the sources alone: nothing is imported.

The digest of an experiment covers its step, ``hdattn.steps.<model>.<step>``, and every module
of this package that the step imports, directly or not, at the top of a module or inside a
function. Comments, docstrings, formatting and the folder of the checkout do not enter; syntax
trees are hashed in a form of our own since ``ast.dump`` changes with Python versions.

A package's ``__init__`` enters only when something imports the package itself or a name that is
not one of its modules; importing a module past it does not count, so that an ``__init__`` that
offers a convenient API does not tie every result to all the code it offers.

Extensions (:mod:`hdattn.extensions`) are imported by name, and count for the experiments whose
parameters name them: adding one leaves all other results alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hdattn import source_code
from hdattn.errors import UserError
from hdattn.source_code import Import

# How results are stored, named and planned, and what users are told: an edit there leaves the
# numbers alone, and the format version guards the rest.
_STORAGE = ("errors", "store", "hdf5", "seal", "atomic", "process", "summary", "provenance")
_CHECKING = ("cache_check", "cache_index", "physics_code", "source_code")
_PLANNING = (
    *("experiment", "fields", "catalogue", "extensions"),
    *("configuration", "configuration_files", "configuration_problems", "configuration_docs"),
)
# What shows the results: it reads them and makes none.
_SHOWING = ("figures", "cli", "commands")

INFRASTRUCTURE = frozenset(f"hdattn.{name}" for name in _STORAGE + _CHECKING + _PLANNING + _SHOWING)
"""Modules, with all below them, that no digest covers. ``canonical`` and ``seeds`` are not among
them, since the random streams depend on both."""


class _Module(NamedTuple):
    checksum: str
    imports: frozenset[str]


@dataclass
class SourceTree:
    """The sources of one package.

    Attributes
    ----------
    package: its import name.
    root: the folder of the package.
    skip: modules that are neither hashed nor followed, with all below them.
    """

    package: str
    root: Path
    skip: frozenset[str] = frozenset()
    _modules: dict[str, _Module] = field(default_factory=dict, repr=False)

    def digest(self, module: str) -> str:
        """16 hexadecimal digits for ``module`` and all it depends on."""
        text = "\n".join(f"{name} {self._modules[name].checksum}" for name in self.closure(module))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def checksum(self, module: str) -> str:
        """16 hexadecimal digits for ``module`` alone, comments and formatting aside."""
        return self._module(module).checksum[:16]

    def closure(self, module: str) -> list[str]:
        """``module`` and all modules of the package it depends on, sorted.

        Raises ``UserError`` for a module that cannot be parsed or imports by computed names.
        """
        found: set[str] = set()
        waiting = [module]
        while waiting:
            name = waiting.pop()
            if name not in found and not self._skipped(name):
                found.add(name)
                waiting.extend(self._module(name).imports)
        return sorted(found)

    def file(self, module: str) -> Path | None:
        """Source file of ``module``, or None."""
        base = self.root.joinpath(*module.split(".")[1:])
        candidates = [base / "__init__.py"]
        if base != self.root:
            candidates.append(base.with_name(f"{base.name}.py"))
        return next((path for path in candidates if path.is_file()), None)

    def _skipped(self, module: str) -> bool:
        parts = module.split(".")
        return any(".".join(parts[:i]) in self.skip for i in range(2, len(parts) + 1))

    def _module(self, name: str) -> _Module:
        if name not in self._modules:
            path = self.file(name)
            if path is None:
                raise UserError(f"{name}: imported by the package, but it has no such module")
            self._modules[name] = self._read(name, path)
        return self._modules[name]

    def _read(self, name: str, path: Path) -> _Module:
        source = source_code.read(path)
        here = name if path.name == "__init__.py" else name.rpartition(".")[0]
        targets = {t for one in source.imports for t in self._targets(one, here, path)}
        return _Module(source.checksum, frozenset(targets - {name}))

    def _targets(self, found: Import, here: str, path: Path) -> Iterator[str]:
        if found.module is None:
            if "importlib" in found.names:
                raise _computed_import(path, found.line)
            yield from (name for name in found.names if self._is_ours(name))
            return
        base = _absolute(found, here)
        if base == "importlib" and "import_module" in found.names:
            raise _computed_import(path, found.line)
        if self._is_ours(base):
            for name in found.names:
                module = f"{base}.{name}"
                yield module if self._skipped(module) or self.file(module) else base

    def _is_ours(self, module: str) -> bool:
        return module.partition(".")[0] == self.package


def _computed_import(path: Path, line: int) -> UserError:
    return UserError(
        f"{path}, line {line}: results may not depend on a module that imports by computed"
        " names (importlib), as its dependencies cannot be read off; import the modules directly"
    )


def _absolute(found: Import, here: str) -> str:
    if not found.level:
        return found.module
    parts = here.split(".")
    parts = parts[: len(parts) - found.level + 1]
    return ".".join([*parts, found.module] if found.module else parts)


@cache
def _sources() -> SourceTree:
    return SourceTree("hdattn", Path(__file__).resolve().parent, INFRASTRUCTURE)


def is_kind(kind: str) -> bool:
    """Whether there is a step ``hdattn.steps.<model>.<step>`` for ``kind`` = ``model/step``."""
    return bool(re.fullmatch(r"\w+/\w+", kind)) and _sources().file(_step(kind)) is not None


def is_model(name: str) -> bool:
    """Whether there are steps of a model of this name."""
    return bool(re.fullmatch(r"\w+", name)) and _sources().file(f"hdattn.steps.{name}") is not None


def _step(kind: str) -> str:
    return f"hdattn.steps.{kind.replace('/', '.')}"


def physics_of(kind: str, parameters: Mapping[str, Any]) -> str:
    """:func:`physics_digest` of the experiment with these parameters."""
    return physics_digest(kind, *_extensions(kind, parameters))


@cache
def physics_digest(kind: str, *extensions: str) -> str:
    """Digest (16 hexadecimal digits) of the code that results of ``kind`` depend on.

    ``kind`` is ``model/step``; the names of ``extensions`` that the results depend on besides
    follow the digits, as ``+name`` each. Sources are read once per process. Raises ``UserError``
    for an unknown kind or extension, and for code that does not parse.
    """
    if not is_kind(kind):
        raise UserError(f"{kind!r}: there is no such kind of experiment (no module {_step(kind)})")
    code = _sources().digest(_step(kind))
    if not extensions:
        return code
    added = [_sources().digest(_extension(kind, name)) for name in extensions]
    digest = hashlib.sha256(" ".join([code, *added]).encode()).hexdigest()[:16]
    return "+".join([digest, *extensions])


def current_physics(kind: str, stored: str) -> str | None:
    """What :func:`physics_digest` says today for a result with digest ``stored``.

    None for a kind or an extension that there is no longer.
    """
    _, *extensions = stored.split("+")
    missing = [x for x in extensions if not _sources().file(_extension(kind, x))]
    return physics_digest(kind, *extensions) if is_kind(kind) and not missing else None


def _extension(kind: str, name: str) -> str:
    return f"hdattn.{kind.partition('/')[0]}.extensions.{name}"


def _extensions(kind: str, parameters: Mapping[str, Any]) -> list[str]:
    """Extensions of the kind's model that the parameters name, anywhere in them."""
    named = {text for text in _texts(parameters.values()) if text.isidentifier()}
    return sorted(text for text in named if _sources().file(_extension(kind, text)))


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _texts(value.values())
        elif isinstance(value, (list, tuple)):
            yield from _texts(value)
