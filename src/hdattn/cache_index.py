"""The index of verified files in a cache: what need not be read again unless it changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import astuple
from pathlib import Path
from typing import NamedTuple

from hdattn.atomic import write_atomically
from hdattn.errors import UserError
from hdattn.seal import FORMAT_VERSION, Seal

INDEX_NAME = ".verified.json"


class Verified(NamedTuple):
    """A verified file: how to tell that it has not changed since, and its seal."""

    fingerprint: list[int]
    seal: Seal


def load_index(folder: Path) -> dict[str, Verified]:
    """Verified files by path within ``folder``; none when the index is missing or damaged."""
    try:
        checksum, _, text = (folder / INDEX_NAME).read_text(encoding="ascii").partition("\n")
    except (OSError, UnicodeDecodeError):
        return {}
    if checksum != _checksum(text):
        return {}
    entries = json.loads(text).items()
    return {name: Verified(fingerprint, Seal(*seal)) for name, (fingerprint, seal) in entries}


def save_index(folder: Path, verified: dict[str, Verified]) -> None:
    """Write the index; in a cache that cannot be written the next check only takes longer."""
    text = json.dumps({name: (v.fingerprint, astuple(v.seal)) for name, v in verified.items()})
    with contextlib.suppress(UserError):
        write_atomically(folder / INDEX_NAME, f"{_checksum(text)}\n{text}".encode("ascii"))


def _checksum(text: str) -> str:
    # Files verified as one format version are not verified as another.
    return hashlib.sha256(f"{FORMAT_VERSION}\n{text}".encode()).hexdigest()
