"""Warnings of the library: a line each on standard error."""

from __future__ import annotations

import sys
from functools import cache


def warn(line: str) -> None:
    """``hdattn: warning: <line>``."""
    print(f"hdattn: warning: {line}", file=sys.stderr)


@cache
def warn_once(line: str) -> None:
    """The same, where several readers of one file would say it again."""
    warn(line)
