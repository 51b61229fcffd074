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

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hdattn.errors import UserError

# How results are stored, named and planned, and what users are told: an edit there leaves the
# numbers alone, and the format version guards the rest.
_STORAGE = ("errors", "store", "hdf5", "seal", "atomic", "process", "summary", "provenance")
_CHECKING = ("cache_check", "cache_index", "physics_code")
_PLANNING = (
    *("experiment", "fields", "catalogue", "extensions"),
    *("configuration", "configuration_files", "configuration_docs"),
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
            self._modules[name] = self._parse(name, path)
        return self._modules[name]

    def _parse(self, name: str, path: Path) -> _Module:
        try:
            tree = ast.parse(path.read_bytes(), filename=str(path))
        except SyntaxError as error:
            raise UserError(f"{path}, line {error.lineno}: {error.msg}; mend the code") from None
        pieces: list[str] = []
        imports: list[ast.Import | ast.ImportFrom] = []
        _flatten(tree, pieces, imports)
        checksum = hashlib.sha256("\n".join(pieces).encode("utf-8", "surrogatepass")).hexdigest()
        is_package = path.name == "__init__.py"
        here = name if is_package else name.rpartition(".")[0]
        targets = {t for node in imports for t in self._targets(node, here, path)}
        return _Module(checksum, frozenset(targets - {name}))

    def _targets(self, node: ast.Import | ast.ImportFrom, here: str, path: Path) -> Iterator[str]:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            if "importlib" in names:
                raise _computed_import(path, node)
            yield from (name for name in names if self._is_ours(name))
            return
        base = _absolute(node, here)
        if base == "importlib" and any(alias.name == "import_module" for alias in node.names):
            raise _computed_import(path, node)
        if self._is_ours(base):
            for alias in node.names:
                module = f"{base}.{alias.name}"
                yield module if self._skipped(module) or self.file(module) else base

    def _is_ours(self, module: str) -> bool:
        return module.partition(".")[0] == self.package


def _computed_import(path: Path, node: ast.stmt) -> UserError:
    return UserError(
        f"{path}, line {node.lineno}: results may not depend on a module that imports by computed"
        " names (importlib), as its dependencies cannot be read off; import the modules directly"
    )


def _absolute(node: ast.ImportFrom, here: str) -> str:
    if not node.level:
        return node.module or ""
    parts = here.split(".")
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def _flatten(node: ast.AST, pieces: list[str], imports: list[ast.Import | ast.ImportFrom]) -> None:
    """Write the tree below ``node`` as text, without strings that stand alone (docstrings)."""
    kind = type(node)  # exact types, here and below: much faster than isinstance on every node
    if kind is ast.Constant:
        pieces.append(f"{type(node.value).__name__} {node.value!r}")
        return
    if kind is ast.Import or kind is ast.ImportFrom:
        imports.append(node)
    pieces.append(f"({kind.__name__}")
    for name in node._fields:
        value = getattr(node, name, None)
        # Newer Pythons add fields, empty in code that does not use them; whether a name is read
        # or set (ctx) follows from where it stands.
        if value is None or value == [] or name == "ctx":
            continue
        pieces.append(name)
        for item in value if type(value) is list else (value,):
            if not isinstance(item, ast.AST):
                pieces.append(repr(item))
            elif type(item) is not ast.Expr or not _is_text(item.value):
                _flatten(item, pieces, imports)
    pieces.append(")")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@cache
def _sources() -> SourceTree:
    return SourceTree("hdattn", Path(__file__).resolve().parent, INFRASTRUCTURE)


def is_kind(kind: str) -> bool:
    """Whether there is a step ``hdattn.steps.<model>.<step>`` for ``kind`` = ``model/step``."""
    return bool(re.fullmatch(r"\w+/\w+", kind)) and _sources().file(_step(kind)) is not None


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
