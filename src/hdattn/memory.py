"""Refusing sizes that cannot fit, before anything is drawn."""

from __future__ import annotations

import os

from hdattn.errors import UserError

_SHARE = 0.8  # of the machine's memory that one command may ask for


def require_memory(needed: float, what: str, lower: str) -> None:
    """``UserError`` if ``what`` needs more bytes than this machine can give.

    ``lower`` names the options that make it smaller.
    """
    available = _SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        raise UserError(
            f"{what} need about {_size(needed)} of memory, this machine can give "
            f"{_size(available)}; lower {lower}"
        )


def _size(size: float) -> str:
    return f"{size / 1e12:.3g} TB" if size >= 1e12 else f"{size / 1e9:.3g} GB"
