"""ONNX models as bytes, written field by field: what the reader is tested with, without the ``onnx`` package.

``model([node("Add", ["x", "x"], ["y"])], [("x", [2, 3])], ["y"])``
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11,
}  # fmt: skip


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def blob(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name: str, values: object, *, listed: bool = False, external: dict[str, str] | None = None) -> bytes:
    """A tensor; ``listed``: its numbers in the field of their type, else as bytes; ``external``: where they are."""
    array = np.asarray(values)
    out = b"".join(number(1, size) for size in array.shape) + number(2, TYPES[array.dtype.name]) + blob(8, name)
    if external is not None:
        entries = b"".join(blob(13, blob(1, key) + blob(2, value)) for key, value in external.items())
        return out + entries + number(14, 1)
    if not listed:
        return out + blob(9, array.tobytes())
    if array.dtype.name == "float32":
        return out + blob(4, b"".join(struct.pack("<f", x) for x in array.reshape(-1)))
    field = 7 if array.dtype.name == "int64" else 5
    return out + blob(field, b"".join(varint(int(x)) for x in array.reshape(-1)))


def attribute(name: str, value: object) -> bytes:
    out = blob(1, name)
    if isinstance(value, bytes):
        return out + blob(5, value) + number(20, 4)
    if isinstance(value, str):
        return out + blob(4, value) + number(20, 3)
    if isinstance(value, float):
        return out + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1)
    if isinstance(value, int):
        return out + number(3, value) + number(20, 2)
    return out + b"".join(number(8, item) for item in value) + number(20, 7)  # type: ignore[attr-defined]


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], domain: str = "", **attributes: object) -> bytes:
    out = b"".join(blob(1, name) for name in inputs) + b"".join(blob(2, name) for name in outputs) + blob(4, op)
    out += b"".join(blob(5, attribute(name, value)) for name, value in attributes.items())
    return out + (blob(7, domain) if domain else b"")


def value(name: str, shape: Sequence[int | str], dtype: str = "float32") -> bytes:
    sizes = b"".join(blob(1, number(1, s) if isinstance(s, int) else blob(2, s)) for s in shape)
    return blob(1, name) + blob(2, blob(1, number(1, TYPES[dtype]) + blob(2, sizes)))


def model(
    nodes: Sequence[bytes],
    inputs: Sequence[tuple[str, Sequence[int | str]] | tuple[str, Sequence[int | str], str]],
    outputs: Sequence[str],
    tensors: Sequence[bytes] = (),
    opset: int = 18,
) -> bytes:
    graph = b"".join(blob(1, one) for one in nodes) + blob(2, "main") + b"".join(blob(5, one) for one in tensors)
    graph += b"".join(blob(11, value(*one)) for one in inputs) + b"".join(blob(12, blob(1, name)) for name in outputs)
    return number(1, 8) + blob(2, "test") + blob(7, graph) + blob(8, number(2, opset))
