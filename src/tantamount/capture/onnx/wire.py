"""Protobuf messages as they are on the wire: numbered fields, each a number or bytes. What they mean is ``model``'s."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tantamount.capture.fields import Place
from tantamount.errors import UserError

__all__ = ["Message", "message"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST = 10  # bytes of a number
_WORD = 1 << 64


@dataclass(frozen=True)
class Message:
    """The fields of one message: by number, the values in order. A value is an integer (of 64 bits, unsigned), or the
    bytes of a string, a message, packed numbers, or of a float."""

    values: dict[int, list[int | bytes]]
    place: Place

    def check(self, known: frozenset[int]) -> None:
        """Raise :class:`UserError` for a field that the reader does not know: it may change what the model computes."""
        for number in self.values:
            if number not in known:
                raise self.place.wrong(
                    f"the field {number} of a message", f"fields {', '.join(map(str, sorted(known)))}",
                    code="onnx-data", hint="newer than this reader, or no ONNX model",
                )  # fmt: skip

    def integers(self, number: int) -> list[int]:
        """The signed numbers of a field, packed or one by one."""
        out: list[int] = []
        for value in self.values.get(number, ()):
            if isinstance(value, int):
                out.append(_signed(value))
                continue
            at = 0
            while at < len(value):
                one, at = _varint(value, at, self.place)
                out.append(_signed(one))
        return out

    def integer(self, number: int, default: int = 0) -> int:
        """The last number of a field."""
        found = self.integers(number)
        return found[-1] if found else default

    def floats(self, number: int, size: int = 4) -> list[float]:
        """The numbers of a field of floats (4 bytes each) or doubles (8)."""
        data = b"".join(self._bytes(number))
        if len(data) % size:
            raise self.place.wrong(f"{len(data)} bytes", f"numbers of {size} bytes", code="onnx-data")
        return list(struct.unpack(f"<{len(data) // size}{'f' if size == 4 else 'd'}", data))

    def blobs(self, number: int) -> list[bytes]:
        """The bytes of a repeated field."""
        return list(self._bytes(number))

    def blob(self, number: int) -> bytes:
        """The bytes of the last value of a field; empty if there is none."""
        found = list(self._bytes(number))
        return found[-1] if found else b""

    def text(self, number: int) -> str:
        """The text of a field."""
        return _decoded(self.blob(number), self.place)

    def texts(self, number: int) -> list[str]:
        """The texts of a repeated field."""
        return [_decoded(value, self.place) for value in self._bytes(number)]

    def messages(self, number: int, name: str) -> list[Message]:
        """The messages of a repeated field."""
        return [message(data, self.place.at(f"{name} {k}")) for k, data in enumerate(self._bytes(number))]

    def one(self, number: int, name: str) -> Message | None:
        """The message of a field, if there is one."""
        found = self.messages(number, name)
        return found[-1] if found else None

    def _bytes(self, number: int) -> Iterator[bytes]:
        for value in self.values.get(number, ()):
            if isinstance(value, int):
                raise self.place.wrong(f"a number as field {number}", "bytes", code="onnx-data")
            yield value


def message(data: bytes, place: Place) -> Message:
    """The fields of a message. Raises :class:`UserError` for bytes that are none."""
    values: dict[int, list[int | bytes]] = {}
    at = count = 0
    while at < len(data):
        key, at = _varint(data, at, place)
        number, kind = key >> 3, key & 7
        value: int | bytes
        if kind == _VARINT:
            value, at = _varint(data, at, place)
        elif kind == _BYTES:
            length, at = _varint(data, at, place)
            value, at = _taken(data, at, length, place)
        elif kind in (_FIXED32, _FIXED64):
            value, at = _taken(data, at, 4 if kind == _FIXED32 else 8, place)
        else:
            raise _broken(f"a field of kind {kind} at byte {at}", place)
        values.setdefault(number, []).append(value)
        count += 1
        if count > place.limits.values:
            place.limits.check("values", count, place.text, "fields of a message")
    return Message(values, place)


def _varint(data: bytes, at: int, place: Place) -> tuple[int, int]:
    value = shift = 0
    for k in range(at, min(at + _LONGEST, len(data))):
        value |= (data[k] & 0x7F) << shift
        if data[k] < 0x80:
            return value % _WORD, k + 1
        shift += 7
    raise _broken(f"a number that does not end at byte {at}", place)


def _taken(data: bytes, at: int, length: int, place: Place) -> tuple[bytes, int]:
    if length > len(data) - at:
        raise _broken(f"{len(data) - at} bytes where {length} are announced, at byte {at}", place)
    return data[at : at + length], at + length


def _signed(value: int) -> int:
    return value - _WORD if value >= _WORD // 2 else value


def _decoded(data: bytes, place: Place) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _broken("a text that is not UTF-8", place) from None


def _broken(found: str, place: Place) -> UserError:
    return place.wrong(found, "a model that ONNX wrote", code="onnx-data", hint="cut off or changed? export it again")
