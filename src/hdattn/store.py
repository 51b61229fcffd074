"""The HDF5 cache: one file per result, written whole, verified whenever it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hdattn.atomic import write_atomically
from hdattn.canonical import canonical_json, digest
from hdattn.errors import CacheError, UserError
from hdattn.hdf5 import Dataset, content_digest, decode, encode
from hdattn.provenance import provenance
from hdattn.seal import FORMAT_VERSION, Seal, digest_in_name, read_verified
from hdattn.summary import summary

__all__ = ["Dataset", "Record", "Result", "describe", "read", "write"]

_JSON_ATTRIBUTES = ("parameters", "seeds", "library_versions", "messages", "attributes")


@dataclass
class Result:
    """What a step computed.

    Attributes
    ----------
    datasets: arrays by name.
    converged: whether every solver involved converged.
    residual: largest final residual; may be NaN or infinite when a solver broke down.
    seeds: what the random streams were keyed with.
    attributes: further scalars, lists and dictionaries.
    messages: warnings about this result, one line each.
    """

    datasets: dict[str, Dataset]
    converged: bool = True
    residual: float = 0.0
    seeds: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)


@dataclass
class Record:
    """A result read back from the cache: verified.

    Attributes
    ----------
    datasets: arrays by name.
    details: the same with their labels, as :class:`Dataset`.
    provenance: physics and content digests, versions, commit, host, threads, wall time (s).
    Others as in :class:`Result`.
    """

    kind: str
    parameters: dict[str, Any]
    details: dict[str, Dataset]
    converged: bool
    residual: float
    seeds: dict[str, Any]
    attributes: dict[str, Any]
    messages: list[str]
    provenance: dict[str, Any]

    @property
    def datasets(self) -> dict[str, np.ndarray]:
        """Arrays by name."""
        return {name: dataset.values for name, dataset in self.details.items()}


def write(
    path: Path | str,
    kind: str,
    parameters: Mapping[str, Any],
    result: Result,
    *,
    physics_digest: str,
    wall_time: float,
) -> None:
    """Write one result, whole or not at all.

    ``wall_time`` is in seconds. Raises ``UserError`` when a value is not finite in a dataset
    that does not allow it, when the name carries the digest of another experiment, or when the
    file system refuses.
    """
    seal = Seal(kind, digest({"kind": kind, "parameters": parameters}), physics_digest)
    _refuse_other_name(path, seal.digest)
    _refuse_non_finite(path, result.datasets)
    attributes = {
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "parameters": canonical_json(parameters),
        "seeds": _json(result.seeds),
        "physics_digest": physics_digest,
        "content_digest": content_digest(result.datasets),
        **provenance(),
        "wall_time": float(wall_time),
        "converged": bool(result.converged),
        "residual": float(result.residual),
        "messages": _json(result.messages),
        "attributes": _json(result.attributes),
    }
    attributes["library_versions"] = _json(attributes["library_versions"])
    payload = encode(result.datasets, attributes)
    write_atomically(path, seal.stamp(payload), payload)


def _refuse_other_name(path: Path | str, wanted: str) -> None:
    if digest_in_name(path) not in (None, wanted):
        raise UserError(
            f"{path}: the result has digest {wanted}, which is not the one in this name; give the"
            " step the parameters the name was made from"
        )


def _refuse_non_finite(path: Path | str, datasets: Mapping[str, Dataset]) -> None:
    for name, dataset in datasets.items():
        if dataset.non_finite and not dataset.allow_nan:
            raise UserError(
                f"{path}: not written, since {dataset.non_finite} of {dataset.values.size} values"
                f" of {name!r} are not finite; the parameters are outside what the step can solve"
            )


def _json(value: Any) -> str:
    return json.dumps(value, default=_plain, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be stored as an attribute")


def read(
    path: Path | str, *, kind: str | None = None, parameters: Mapping[str, Any] | None = None
) -> Record:
    """Read and verify one file of the cache.

    Verified are every byte (SHA-256), the format version, the digests of parameters, contents
    and name, finiteness and, where given, that ``kind`` and ``parameters`` are those asked for.
    Raises ``CacheError`` naming file, problem and remedy.
    """
    seal, data = read_verified(path)
    try:
        details, attributes = decode(data)
        record, stored_digest = _record(details, attributes)
    except (OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise CacheError(path, f"its HDF5 contents cannot be read ({error})") from None
    if stored_digest != content_digest(details):
        raise CacheError(path, "damaged: its arrays do not match their digest")
    if digest({"kind": record.kind, "parameters": record.parameters}) != seal.digest:
        raise CacheError(path, "its parameters do not match its digest")
    for name, dataset in details.items():
        if dataset.non_finite and not dataset.allow_nan:
            raise CacheError(path, f"{name!r} holds values that are not finite")
    _verify_request(path, record, kind, parameters)
    return record


def _record(details: dict[str, Dataset], attributes: dict[str, Any]) -> tuple[Record, str]:
    rest = {
        name: json.loads(value) if name in _JSON_ATTRIBUTES else _python(value)
        for name, value in attributes.items()
    }
    names = ("kind", "parameters", "converged", "residual", "seeds", "attributes", "messages")
    record = Record(details=details, **{name: rest.pop(name) for name in names}, provenance=rest)
    return record, rest["content_digest"]


def _python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _verify_request(
    path: Path | str, record: Record, kind: str | None, parameters: Mapping[str, Any] | None
) -> None:
    if kind is not None and kind != record.kind:
        raise CacheError(path, f"holds {record.kind}, where {kind} is asked for")
    if parameters is not None and canonical_json(parameters) != canonical_json(record.parameters):
        raise CacheError(path, "was made with other parameters than those asked for")


def describe(path: Path | str) -> str:
    """Readable text: what the file holds, from which parameters, made by what."""
    return summary(path, read(path))
