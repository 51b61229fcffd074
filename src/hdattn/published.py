"""Files that are made together, and the JSON file beside them that holds the SHA-256 of each.

It is written last: where it is missing, the files are not known to be whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hdattn.errors import UserError

ENDING = ".json"
DIGESTS = "files"  # key of the digests: {name of a file: its SHA-256}
_SHOWN = (".pdf", ".png", ".csv")  # by which one sees that something was made


def write(stem: Path, content: Mapping[str, Any], endings: Iterable[str]) -> None:
    """Write ``stem.json``: ``content``, and the digests of the files ``stem<ending>``."""
    files = [stem.with_name(f"{stem.name}{ending}") for ending in endings]
    text = json.dumps(
        {**content, DIGESTS: {file.name: _sha256(file) for file in files}},
        indent=1,
        ensure_ascii=False,
    )
    _path(stem).write_text(text + "\n", encoding="utf-8")


def read(stem: Path) -> dict[str, Any] | None:
    """Contents of ``stem.json``, None where it is not there; ``UserError`` where it is damaged."""
    path = _path(stem)
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: damaged") from None
    if not isinstance(content, dict):
        raise UserError(f"{path}: damaged")
    return content


def problems(stem: Path) -> list[str]:
    """What is wrong with the files of ``stem``, as ``<name> is missing`` each.

    Nothing is wrong with what was never made.
    """
    name = _path(stem).name
    try:
        content = read(stem)
    except UserError as error:
        return [f"{name} {str(error).partition(': ')[2]}"]
    if content is None:
        made = any(stem.with_name(f"{stem.name}{ending}").exists() for ending in _SHOWN)
        return [f"{name} is missing"] if made else []
    digests = content.get(DIGESTS)
    if not isinstance(digests, dict):
        return [f"{name} is of an earlier version and holds no digests"]
    return [f"{file} {why}" for file, sha in digests.items() if (why := _problem(stem, file, sha))]


def forget(stem: Path) -> None:
    """Remove ``stem.json``, so that the files are made anew; ``UserError`` where it stays."""
    path = _path(stem)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be removed ({error.strerror}); remove it") from None


def _path(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}{ENDING}")


def _problem(stem: Path, name: str, sha: str) -> str | None:
    try:
        return None if _sha256(stem.parent / name) == sha else "is not what was written"
    except FileNotFoundError:
        return "is missing"
    except (OSError, ValueError) as error:
        return f"cannot be read ({getattr(error, 'strerror', None) or error})"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
