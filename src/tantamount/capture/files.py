"""Reading untrusted files within limits: plain or gzip."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from pathlib import Path
from typing import BinaryIO

from tantamount.errors import UserError, environment_fault
from tantamount.limits import Limits

__all__ = ["BYTES", "opened", "read_text"]

BYTES = "latin-1"  # as an encoding: one character for every byte

_CHUNK = 1 << 20
_MAGIC = b"\x1f\x8b"


def read_text(path: Path, limits: Limits, encoding: str = "utf-8") -> str:
    """The text of a file, of UTF-8 or with one character for every byte (:data:`BYTES`); ``.gz`` is decompressed.
    Raises :class:`UserError`: missing or special file, limits ``file_bytes`` and ``decompressed_bytes``, truncated or
    corrupt gzip, not UTF-8, packed under a plain name."""
    place = str(path)
    data: bytes | bytearray
    with opened(path) as file:
        limits.check("file_bytes", os.fstat(file.fileno()).st_size, place, "bytes")
        try:
            data = file.read(limits.file_bytes + 1)
        except OSError as problem:
            raise _unreadable(problem, place) from None
    limits.check("file_bytes", len(data), place, "bytes")
    if path.suffix == ".gz":
        data = _decompress(data, place, limits)
    if encoding == BYTES and data[:2] == _MAGIC:
        found, hint = f"byte {data[0]:#04x} at offset 0", "it is gzip data: name it .gz"
        raise UserError("file-encoding", place=place, found=found, needed="the bytes of a model", hint=hint)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as problem:
        hint = "it is gzip data: name it .gz" if data[:2] == _MAGIC else ""
        found = f"byte {data[problem.start]:#04x} at offset {problem.start}"
        raise UserError("file-encoding", place=place, found=found, needed="UTF-8 text", hint=hint) from None


def opened(path: Path) -> BinaryIO:
    """A regular file, opened. Raises :class:`UserError` for what is missing, special or not to be read."""
    place = str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError("file-kind", place=place, found="not a regular file", needed="a file")
        return path.open("rb")
    except (OSError, ValueError) as problem:
        raise _unreadable(problem, place) from None


def _unreadable(problem: OSError | ValueError, place: str) -> Exception:
    fault = environment_fault(problem, place)
    if fault is not None:
        return fault
    text = problem.strerror if isinstance(problem, OSError) else str(problem)
    return UserError("file-unreadable", place=place, found=text or "an error", needed="a readable file")


def _decompress(data: bytes, place: str, limits: Limits) -> bytearray:
    """At most ``decompressed_bytes`` and a chunk are ever held."""
    held = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while chunk := file.read(_CHUNK):
                if len(held) + len(chunk) > limits.decompressed_bytes:
                    found = f"more than {limits.decompressed_bytes} bytes out of {len(data)} compressed ones"
                    raise limits.exceeded("decompressed_bytes", found, place)
                held += chunk
    except EOFError:
        raise UserError(
            "file-truncated",
            place=place,
            found="gzip data that ends too early",
            needed="the whole file",
            hint="copy or capture it again",
        ) from None
    except (OSError, zlib.error) as problem:
        raise UserError("file-gzip", place=place, found=f"broken gzip data ({problem})", needed="a gzip file") from None
    return held
