"""Labelled arrays to and from the bytes of an HDF5 file, in memory.

In memory because HDF5's own file access locks files (which fails on some network file systems)
and can crash when the disk is full; plain writes of finished bytes do neither.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from hdattn.seal import SEAL_SIZE

_COMPRESS_FROM = 4096  # bytes; below this gzip saves less than its filter costs
_ONE_CHUNK_UP_TO = 1 << 20  # bytes


@dataclass(frozen=True, eq=False)
class Dataset:
    """One labelled array of a result.

    Attributes
    ----------
    values: real, complex, integer, boolean or string array of any shape (or what numpy makes
        one of).
    long_name: what it is, in words, with units if any.
    symbol: its symbol in the theory pages.
    axes: one label per dimension; may be empty.
    allow_nan: whether values that are not finite are legitimate here.
    timing: whether it measures the machine, so that it may differ between identical runs.
    """

    values: np.ndarray
    long_name: str
    symbol: str = ""
    axes: tuple[str, ...] = ()
    allow_nan: bool = False
    timing: bool = False

    def __post_init__(self) -> None:
        """Check the values and the labels."""
        values = _plain_array(self.values)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "axes", tuple(self.axes))
        if self.axes and len(self.axes) != values.ndim:
            raise ValueError(
                f"{self.long_name}: {len(self.axes)} axis labels for {values.ndim} dimensions"
            )

    @property
    def non_finite(self) -> int:
        """How many values are NaN or infinite."""
        if self.values.dtype.kind not in "fc":
            return 0
        return self.values.size - int(np.count_nonzero(np.isfinite(self.values)))


def _plain_array(values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(item, str) for item in array.flat):
        array = array.astype(str)
    if array.dtype.kind in "biufc":
        return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
    if array.dtype.kind == "U":
        return array
    raise TypeError(f"an array of {array.dtype} cannot be stored; only numbers and strings can")


def content_digest(datasets: Mapping[str, Dataset]) -> str:
    """SHA-256 over names, types, shapes and bytes of all datasets that are not timings."""
    checksum = hashlib.sha256()
    for name, dataset in sorted(datasets.items()):
        if dataset.timing:
            continue
        values = dataset.values
        is_text = values.dtype.kind == "U"
        label = [name, "str" if is_text else values.dtype.str, list(values.shape)]
        checksum.update(json.dumps(label).encode())
        checksum.update(json.dumps(values.tolist()).encode() if is_text else values.tobytes())
    return checksum.hexdigest()


def encode(datasets: Mapping[str, Dataset], attributes: Mapping[str, Any]) -> bytes:
    """HDF5 image, to follow a seal, with ``datasets`` and root ``attributes``."""
    options = {"driver": "core", "backing_store": False, "userblock_size": SEAL_SIZE}
    with h5py.File("image", "w", **options) as file:
        for name, value in attributes.items():
            file.attrs[name] = value
        for name, dataset in datasets.items():
            _add(file, name, dataset)
        file.flush()
        return file.id.get_file_image()


def _add(file: h5py.File, name: str, dataset: Dataset) -> None:
    values = dataset.values
    if values.dtype.kind == "U":
        # Fixed length, since checksums and compression do not reach variable-length strings.
        encoded = np.char.encode(values, "utf-8")
        values = encoded.astype(h5py.string_dtype("utf-8", max(1, encoded.dtype.itemsize)))
    stored = file.create_dataset(name, data=values, **_filters(values))
    stored.attrs["long_name"] = dataset.long_name
    stored.attrs["symbol"] = dataset.symbol
    stored.attrs["allow_nan"] = dataset.allow_nan
    stored.attrs["timing"] = dataset.timing
    stored.attrs["axes"] = json.dumps(dataset.axes)
    for dimension, label in zip(stored.dims, dataset.axes, strict=False):
        dimension.label = label


def _filters(values: np.ndarray) -> dict[str, Any]:
    if values.ndim == 0 or values.size == 0:
        return {}  # HDF5 filters work on chunks, which scalars and empty arrays do not have
    filters: dict[str, Any] = {"fletcher32": True}
    filters["chunks"] = values.shape if values.nbytes <= _ONE_CHUNK_UP_TO else True
    if values.nbytes >= _COMPRESS_FROM and _compresses(values):
        filters.update(compression="gzip", compression_opts=4, shuffle=True)
    return filters


def _compresses(values: np.ndarray) -> bool:
    """Whether a sample shrinks by a tenth or more (random doubles do not)."""
    width = values.dtype.itemsize
    sample = values.tobytes()[: max(1, (1 << 16) // width) * width]
    shuffled = np.frombuffer(sample, np.uint8).reshape(-1, width).T.tobytes()
    return len(zlib.compress(shuffled, 1)) < 0.9 * len(sample)


def decode(data: bytes) -> tuple[dict[str, Dataset], dict[str, Any]]:
    """Datasets and root attributes of a file's bytes; h5py's exceptions pass through."""
    with h5py.File(h5py.h5f.open_file_image(data)) as file:
        datasets = {name: _take(stored) for name, stored in file.items()}
        return datasets, dict(file.attrs)


def _take(stored: h5py.Dataset) -> Dataset:
    is_text = h5py.check_string_dtype(stored.dtype) is not None
    values = np.asarray(stored.asstr()[()], dtype=str) if is_text else np.asarray(stored[()])
    return Dataset(
        values,
        long_name=stored.attrs["long_name"],
        symbol=stored.attrs["symbol"],
        axes=tuple(json.loads(stored.attrs["axes"])),
        allow_nan=bool(stored.attrs["allow_nan"]),
        timing=bool(stored.attrs["timing"]),
    )
