"""What a source file says, comments and formatting aside: a checksum and what it imports.

Parsing all modules takes a second, so that what was parsed is remembered beside the compiled
modules (``__pycache__``), under the SHA-256 of the source: an edited file is another file.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import hashlib
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hdattn.atomic import write_atomically
from hdattn.errors import UserError

_MOST = 2000  # files remembered; beyond, those of this process alone


class Import(NamedTuple):
    """An import statement: ``from module import names`` at a level, or (module None) of names."""

    module: str | None
    level: int
    names: tuple[str, ...]
    line: int


class Source(NamedTuple):
    """Checksum (64 hexadecimal digits) of a file's syntax tree, and its import statements."""

    checksum: str
    imports: tuple[Import, ...]


def read(path: Path) -> Source:
    """What ``path`` says; ``UserError`` with file and line where it does not parse."""
    text = path.read_bytes()
    return _memory().source(hashlib.sha256(text).hexdigest(), text, path)


class _Memory:
    """Sources by the SHA-256 of their bytes, kept in ``file`` from one process to the next."""

    def __init__(self, file: Path):
        self._file = file
        self._known: dict[str, Source] = _load(file)
        self._used: dict[str, Source] = {}
        self._new = False

    def source(self, key: str, text: bytes, path: Path) -> Source:
        if key not in self._known:
            self._known[key] = _parse(text, path)
            self._new = True
        self._used[key] = self._known[key]
        return self._used[key]

    def save(self) -> None:
        """Write what is new; where that cannot be written, it is parsed again next time."""
        if self._new:
            kept = self._known if len(self._known) < _MOST else self._used
            body = json.dumps(kept, sort_keys=True)
            with contextlib.suppress(UserError):
                write_atomically(self._file, f"{_digest(body)}\n{body}".encode())


@cache
def _memory() -> _Memory:
    # What follows from a source depends on this module and on Python's grammar, too.
    version = _digest(Path(__file__).read_text(encoding="utf-8") + sys.version)[:12]
    memory = _Memory(Path(__file__).parent / "__pycache__" / f"parsed-{version}.json")
    atexit.register(memory.save)
    return memory


def _load(file: Path) -> dict[str, Source]:
    """What ``file`` remembers; nothing where it is missing or not as it was written."""
    try:
        digest, _, body = file.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return {}
    return {} if _digest(body) != digest else {k: _source(v) for k, v in json.loads(body).items()}


def _source(value: list[Any]) -> Source:
    checksum, imports = value
    return Source(checksum, tuple(Import(m, level, tuple(n), ln) for m, level, n, ln in imports))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _parse(text: bytes, path: Path) -> Source:
    try:
        tree = ast.parse(text, filename=str(path))
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: {error.msg}; mend the code") from None
    pieces: list[str] = []
    imports: list[Import] = []
    _flatten(tree, pieces, imports)
    checksum = hashlib.sha256("\n".join(pieces).encode("utf-8", "surrogatepass")).hexdigest()
    return Source(checksum, tuple(imports))


def _flatten(node: ast.AST, pieces: list[str], imports: list[Import]) -> None:
    """Write the tree below ``node`` as text, without strings that stand alone (docstrings)."""
    kind = type(node)  # exact types, here and below: much faster than isinstance on every node
    if kind is ast.Constant:
        pieces.append(f"{type(node.value).__name__} {node.value!r}")
        return
    if kind is ast.Import or kind is ast.ImportFrom:
        imports.append(_import(node))
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


def _import(node: ast.Import | ast.ImportFrom) -> Import:
    names = tuple(alias.name for alias in node.names)
    if isinstance(node, ast.Import):
        return Import(None, 0, names, node.lineno)
    return Import(node.module or "", node.level, names, node.lineno)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
