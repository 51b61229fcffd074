"""The seal of a cache file: 512 readable bytes in front of the HDF5 data.

HDF5 reserves such a "user block" for applications, and every HDF5 reader skips it. Ours names
the experiment and the code that made the file, and holds a SHA-256 over itself and all that
follows, so one pass of hashing finds any truncation or flipped bit without HDF5.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hdattn.errors import CacheError, MisnamedError

FORMAT_VERSION = 1
SEAL_SIZE = 512
_TITLE = "hdattn cache file, format {}; HDF5 from byte 512 on"
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_FIELDS = re.compile(
    r"(?P<signed>.*\nkind: (?P<kind>\S+)\ndigest: (?P<digest>\S+)\nphysics: (?P<physics>\S*)\n"
    r"size: (?P<size>\d+)\n)sha256: (?P<sha256>[0-9a-f]{64})\n+"
)
_DIGEST_IN_NAME = re.compile(r"-([0-9a-f]{12})\.h5\Z")


@dataclass(frozen=True)
class Seal:
    """What the seal of a file says.

    Attributes
    ----------
    kind: ``model/step``.
    digest: digest of kind and parameters, the one in the file's name.
    physics_digest: digest of the physics code that made the file.
    """

    kind: str
    digest: str
    physics_digest: str

    def stamp(self, payload: bytes) -> bytes:
        """The 512 bytes to put in front of ``payload`` (an HDF5 image)."""
        signed = (
            f"{_TITLE.format(FORMAT_VERSION)}\nkind: {self.kind}\ndigest: {self.digest}\n"
            f"physics: {self.physics_digest}\nsize: {len(payload)}\n"
        ).encode()
        checksum = hashlib.sha256(signed)
        checksum.update(payload)
        stamp = (signed + f"sha256: {checksum.hexdigest()}\n".encode()).ljust(SEAL_SIZE, b"\n")
        fits = len(stamp) == SEAL_SIZE and stamp.isascii()
        if not fits or not _FIELDS.fullmatch(stamp.decode("ascii")):
            raise ValueError(f"{self} does not fit the seal of a cache file")
        return stamp


def verify_file(path: Path | str) -> Seal:
    """Verify every byte of the file and the digest in its name; ``CacheError`` if any is wrong."""
    try:
        with open(path, "rb") as stream:
            return _verify(Path(path), stream, os.fstat(stream.fileno()).st_size)
    except OSError as error:
        raise _unreadable(path, error) from None


def read_verified(path: Path | str) -> tuple[Seal, bytes]:
    """As :func:`verify_file`, with the bytes of the whole file: those that were verified."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None
    return _verify(Path(path), io.BytesIO(data), len(data)), data


def _unreadable(path: Path | str, error: OSError) -> CacheError:
    if isinstance(error, FileNotFoundError):
        return CacheError(path, "there is no such file")
    return CacheError(path, f"cannot be read ({error.strerror or error})")


def _verify(path: Path, stream: BinaryIO, size: int) -> Seal:
    header = stream.read(SEAL_SIZE)
    fields = _parse(path, header)
    if size - SEAL_SIZE != int(fields["size"]):
        wanted = SEAL_SIZE + int(fields["size"])
        word = "truncated" if size < wanted else "too long"
        raise CacheError(path, f"{word}: {size} bytes where {wanted} were written")
    checksum = hashlib.sha256(fields["signed"].encode())
    while chunk := stream.read(1 << 20):
        checksum.update(chunk)
    if checksum.hexdigest() != fields["sha256"]:
        raise CacheError(path, "damaged: its checksum does not match its contents")
    _verify_name(path, fields["digest"])
    return Seal(fields["kind"], fields["digest"], fields["physics"])


def _parse(path: Path, header: bytes) -> re.Match[str]:
    if not header:
        raise CacheError(path, "empty")
    text = header.decode("ascii", errors="replace")
    title = re.match(_TITLE.format(r"(\d+)") + "\n", text)
    if title is None:
        raise CacheError(path, _what_else(header))
    if int(title[1]) != FORMAT_VERSION:
        raise CacheError(
            path, f"format version {title[1]}, where this program reads version {FORMAT_VERSION}"
        )
    fields = _FIELDS.fullmatch(text) if len(header) == SEAL_SIZE else None
    if fields is None:
        raise CacheError(path, "truncated or damaged within its first 512 bytes")
    return fields


def _what_else(header: bytes) -> str:
    if header.startswith(_HDF5_SIGNATURE):
        return "an HDF5 file that this program did not write (no format version)"
    return "not an HDF5 file of this program, or damaged at its beginning"


def digest_in_name(path: Path | str) -> str | None:
    """Digest that the file name ``slug-<digest>.h5`` carries; None for another form of name."""
    found = _DIGEST_IN_NAME.search(os.fspath(path))
    return found[1] if found else None


def _verify_name(path: Path, digest: str) -> None:
    named = digest_in_name(path)
    if named is not None and named != digest:
        raise MisnamedError(
            path, f"holds the result {digest}, made with other parameters than its name says"
        )
