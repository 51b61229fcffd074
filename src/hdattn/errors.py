"""Errors that a user can mend: each is one clear line, printed without a traceback."""

from __future__ import annotations

from pathlib import Path


class UserError(Exception):
    """A mistake in what was asked: says what is wrong, where, and how to mend it."""


class CacheError(UserError):
    """A file of the cache that cannot be trusted.

    Attributes
    ----------
    path: the file.
    problem: what is wrong with it, without the path.
    """

    def __init__(self, path: Path | str, problem: str):
        self.path = Path(path)
        self.problem = problem
        super().__init__(
            f"{path}: {problem}; to repair it: hdattn check --remove-bad, then run again"
        )


class MisnamedError(CacheError):
    """A whole file of the cache that holds another result than its name says."""
