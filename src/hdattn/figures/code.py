"""Digest of the code that draws a figure: a change redraws it and recomputes nothing."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from hdattn.physics_code import INFRASTRUCTURE, SourceTree

_FOLDER = Path(__file__).parent
# The registry loads modules by name, and `make` only reads and writes files.
_SKIP = INFRASTRUCTURE - {"hdattn.figures"} | {"hdattn.figures.registry", "hdattn.figures.make"}


@cache
def _sources() -> SourceTree:
    return SourceTree("hdattn", _FOLDER.parent, frozenset(_SKIP))


def scan_digest() -> str:
    """The same for the modules that make the files of a scan."""
    return _sources().digest("hdattn.scan.table")


def plot_digest(figure: str) -> str:
    """Digest (16 hexadecimal digits) of the modules and the style sheet that draw ``figure``."""
    return _with_style(f"hdattn.figures.{figure}", "hdattn.figures.drawn")


def overview_digest() -> str:
    """The same for the overview."""
    return _with_style("hdattn.overview.draw")


def _with_style(*modules: str) -> str:
    code = "".join(map(_sources().digest, modules))
    sheet = (_FOLDER / "hdattn.mplstyle").read_bytes()
    return hashlib.sha256(code.encode() + sheet).hexdigest()[:16]


def own_digest(module: str) -> str:
    """The same for one module alone, whatever it imports."""
    return _sources().checksum(module)


def helpers(figure: str) -> list[Path]:
    """Modules that only draw, ``figures/_*.py``, among those that ``figure`` imports."""
    modules = _sources().closure(f"hdattn.figures.{figure}")
    names = [name.rpartition(".")[2] for name in modules if name.startswith("hdattn.figures._")]
    return [_FOLDER / f"{name}.py" for name in names]
