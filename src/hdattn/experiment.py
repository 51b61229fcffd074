"""An experiment: one computation, fully described by its kind and parameters; one HDF5 file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from hdattn.canonical import canonical, canonical_json, digest

# They make a path: nothing in a configuration may lead out of the results.
_KIND = re.compile(r"\w+/\w+")
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")


@dataclass(frozen=True, eq=False)
class Experiment:
    """One computation. Raises ``ValueError`` for a kind or a slug that cannot name a file.

    Attributes
    ----------
    kind: ``model/step``, for example ``singlehead/state_evolution``.
    parameters: everything the result depends on; put into canonical form.
    inputs: experiments whose files this one reads, by role (``{"data": ...}``).
    slug: short human part of the file name; carries no information.
    """

    kind: str
    parameters: dict[str, Any]
    inputs: dict[str, Experiment] = field(default_factory=dict)
    slug: str = "run"

    def __post_init__(self) -> None:
        """Check what names the file, and put the parameters into canonical form."""
        if not (_KIND.fullmatch(self.kind) and _SLUG.fullmatch(self.slug)):
            raise ValueError(f"{self.kind!r} and {self.slug!r} cannot name a file of the cache")
        object.__setattr__(self, "parameters", canonical(self.parameters))

    @cached_property
    def parameters_json(self) -> str:
        """Canonical JSON of the parameters."""
        return canonical_json(self.parameters)

    @cached_property
    def digest(self) -> str:
        """Digest of kind and parameters; the identity of the experiment."""
        return digest({"kind": self.kind, "parameters": self.parameters})

    @property
    def name(self) -> str:
        """File name without ending: ``slug-digest``."""
        return f"{self.slug}-{self.digest}"

    @property
    def path(self) -> PurePosixPath:
        """Path of the result inside the cache folder: ``model/step/slug-digest.h5``."""
        return PurePosixPath(self.kind) / f"{self.name}.h5"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)
