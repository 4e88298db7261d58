"""The numbers of an ONNX tensor: in the message, or in a file beside the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath

import numpy as np

from tantamount.capture.fields import Place, shown
from tantamount.capture.onnx.wire import Message
from tantamount.capture.raw_numbers import numbers_of, whole_numbers
from tantamount.errors import environment_fault
from tantamount.ir.types import DType, TensorType
from tantamount.semantics.reference import Array

__all__ = ["DTYPES", "TensorData", "tensor_data"]

DTYPES: Mapping[int, DType] = {
    1: DType.FLOAT32, 2: DType.UINT8, 3: DType.INT8, 4: DType.UINT16, 5: DType.INT16, 6: DType.INT32, 7: DType.INT64,
    9: DType.BOOL, 10: DType.FLOAT16, 11: DType.FLOAT64, 12: DType.UINT32, 13: DType.UINT64, 16: DType.BFLOAT16,
}  # fmt: skip
_FIELDS = frozenset({1, 2, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 16})
_EXTERNAL = 1


@dataclass(frozen=True)
class TensorData:
    """A tensor of known numbers."""

    name: str
    type: TensorType
    values: Array


def tensor_data(one: Message) -> TensorData:
    """The tensor of a message. Raises :class:`UserError` for numbers that are missing, too many, or of a type that is
    not supported."""
    name = one.text(8)
    place = one.place.at(shown(name)) if name else one.place
    one.check(_FIELDS)
    dtype = DTYPES.get(one.integer(2))
    if dtype is None:
        known = ", ".join(str(known) for known in DTYPES.values())
        raise place.wrong(f"the element type {one.integer(2)}", f"one of {known}", code="onnx-type")
    shape = tuple(one.integers(1))
    if any(size < 0 for size in shape):
        raise place.wrong(f"the shape {list(shape)}", "sizes from 0 on", code="onnx-type")
    place.limits.check("dimensions", len(shape), place.text, "dimensions")
    place.limits.check("constant_elements", prod(shape), place.text, "elements of one constant")
    if one.integer(14) == _EXTERNAL:
        values = numbers_of(_beside(one, place), dtype, place, "onnx-data")
    elif 9 in one.values:
        values = numbers_of(one.blob(9), dtype, place, "onnx-data")
    else:
        values = _listed(one, dtype, place)
    if values.size != prod(shape):
        raise place.wrong(f"{values.size} numbers", f"{prod(shape)} for the shape {list(shape)}", code="onnx-data")
    return TensorData(name, TensorType(shape, dtype), values.reshape(shape))


def _listed(one: Message, dtype: DType, place: Place) -> Array:
    """Numbers that are listed in the field of their type."""
    if dtype is DType.FLOAT32:
        return np.array(one.floats(4), dtype=np.float64)
    if dtype is DType.FLOAT64:
        return np.array(one.floats(10, 8), dtype=np.float64)
    if dtype in (DType.FLOAT16, DType.BFLOAT16):  # the bits of each
        bits = one.integers(5)
        if any(not 0 <= value < 1 << 16 for value in bits):
            raise place.wrong("numbers of more than 16 bits", f"the bits of {dtype}", code="onnx-data")
        return numbers_of(np.array(bits, dtype="<u2").tobytes(), dtype, place, "onnx-data")
    field = 7 if dtype is DType.INT64 else 11 if dtype in (DType.UINT32, DType.UINT64) else 5
    numbers = one.integers(field)
    if dtype is DType.UINT64:
        numbers = [value % (1 << 64) for value in numbers]
    return whole_numbers(np.array(numbers, dtype=object), dtype, place, "onnx-data")


def _beside(one: Message, place: Place) -> bytes:
    """The bytes that a tensor has in a file beside the model: of that folder only, and within the limits."""
    entries = {entry.text(1): entry.text(2) for entry in one.messages(13, "external_data")}
    unknown = sorted(entries.keys() - {"location", "offset", "length", "checksum"})
    if unknown or "location" not in entries:
        raise place.wrong(shown(unknown[0]) if unknown else "no location", "location, offset, length",
                          code="onnx-external")  # fmt: skip
    location = entries["location"]
    file = _root(place)
    folder = file.parent.resolve()
    parts = PurePosixPath(location).parts
    target = folder.joinpath(*parts) if parts else folder
    inside = bool(parts) and ".." not in parts and not PurePosixPath(location).is_absolute() and "\\" not in location
    try:
        inside = inside and target.resolve().is_relative_to(folder) and not target.is_symlink() and target.is_file()
    except (OSError, ValueError):
        inside = False
    if not inside:
        raise place.wrong(shown(location), f"a file in the folder of {file.name}", code="onnx-external",
                          hint="numbers are read from beside the model only")  # fmt: skip
    numbers = [entries.get(key, "0") for key in ("offset", "length")]
    if any(not (text.isascii() and text.isdigit() and len(text) < 19) for text in numbers):
        raise place.wrong(shown(numbers), "an offset and a length", code="onnx-external")
    offset, length = map(int, numbers)
    try:
        size = target.stat().st_size
        length = length if "length" in entries else max(0, size - offset)
        place.limits.check("file_bytes", length, place.text, "bytes of external data")
        with target.open("rb") as opened:
            opened.seek(offset)
            data = opened.read(length)
    except OSError as problem:
        fault = environment_fault(problem, str(target))
        if fault is not None:
            raise fault from None
        raise place.wrong(problem.strerror or "an error", "a readable file", code="onnx-external") from None
    if len(data) != length:
        raise place.wrong(f"{len(data)} bytes from {offset} on", f"{length}", code="onnx-external")
    return data


def _root(place: Place) -> Path:
    while place.above is not None:
        place = place.above
    return Path(place.key)
