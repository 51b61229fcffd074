"""Canonical JSON: the same parameters always give the same text, hence the same file name."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def canonical(value: Any) -> Any:
    """Plain JSON value in canonical form: 1, 1.0 and 1e0 are the same; arrays become lists.

    Raises ``ValueError`` for NaN and infinities and ``TypeError`` for what JSON cannot hold.
    """
    if isinstance(value, Mapping):
        return {str(key): canonical(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, np.ndarray):
        return canonical(value.tolist())
    if isinstance(value, (list, tuple)):
        return [canonical(item) for item in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        return _canonical_float(float(value))
    raise TypeError(f"{type(value).__name__} has no canonical JSON form")


def _canonical_float(value: float) -> int | float:
    if not math.isfinite(value):
        raise ValueError(f"{value} has no canonical JSON form")
    return int(value) if value.is_integer() else value


def canonical_json(value: Any) -> str:
    """Canonical JSON text of ``value``: sorted keys, no white space, shortest float form."""
    return json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any, length: int = 12) -> str:
    """First ``length`` hexadecimal digits of the SHA-256 of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]
