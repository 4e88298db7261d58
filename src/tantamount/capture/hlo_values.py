"""The values inside HLO text: attributes and literals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import nan, prod

from tantamount.capture.fields import Place, shown
from tantamount.ir.types import DType, Kind

__all__ = ["boolean", "integer", "integers", "literal", "padding", "pairs", "slices", "string"]

_INTEGERS = re.compile(r"\{\s*((?:\d{1,18}\s*(?:,\s*\d{1,18}\s*)*)?)\}")
_SLICE = re.compile(r"\[(\d{1,18}):(\d{1,18})(?::(\d{1,18}))?\]")
_PADDING = re.compile(r"(-?\d{1,18})_(-?\d{1,18})(?:_(\d{1,18}))?")
_ROW = re.compile(r"\{([\d,\s]*)\}")
_TOKEN = re.compile(r"[{},]|[^\s{},]+")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d{1,4})?|\.\d+(?:[eE][-+]?\d{1,4})?|inf)")
_ELIDED = re.compile(r"\{\s*\.\.\.\s*\}")


def integers(text: str, place: Place) -> tuple[int, ...]:
    """``{0,1}``"""
    found = _INTEGERS.fullmatch(text)
    if found is None:
        raise place.wrong(shown(text), "integers such as {0,1}", code="hlo-attribute")
    return tuple(int(item) for item in found[1].split(",") if item.strip())


def integer(text: str, place: Place) -> int:
    """``-3``"""
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise place.wrong(shown(text), "an integer", code="hlo-attribute")
    return int(text)


def boolean(text: str, place: Place) -> bool:
    """``true`` or ``false``"""
    if text not in ("true", "false"):
        raise place.wrong(shown(text), "true or false", code="hlo-attribute")
    return text == "true"


def string(text: str, place: Place) -> str:
    """A quoted text, or a bare word."""
    place.limits.check("string_length", len(text), place.text, "characters in one string")
    return text[1:-1] if text[:1] == '"' else text


def slices(text: str, place: Place) -> tuple[tuple[int, int, int], ...]:
    """``{[0:4], [1:9:2]}`` as (start, limit, stride)."""
    rows = tuple((int(a), int(b), int(c or 1)) for a, b, c in _SLICE.findall(text))
    if not re.fullmatch(r"\{\s*(?:\[[\d:]+\]\s*(?:,\s*\[[\d:]+\]\s*)*)?\}", text) or len(rows) != text.count("["):
        raise place.wrong(shown(text), "slices such as {[0:4], [1:9:2]}", code="hlo-attribute")
    return rows


def padding(text: str, place: Place) -> tuple[tuple[int, int, int], ...]:
    """``1_2x0_0_1`` as (low, high, interior)."""
    rows = [_PADDING.fullmatch(part) for part in text.split("x")] if text else []
    if any(row is None for row in rows):
        raise place.wrong(shown(text), "padding such as 0_0x1_2_0", code="hlo-attribute")
    return tuple((int(row[1]), int(row[2]), int(row[3] or 0)) for row in rows if row is not None)


def pairs(text: str, place: Place) -> tuple[tuple[int, ...], ...]:
    """``{{0,1},{1,0}}``"""
    inner = text.replace(" ", "")
    if not re.fullmatch(r"\{(?:\{[\d,]*\}(?:,\{[\d,]*\})*)?\}", inner):
        raise place.wrong(shown(text), "lists of ranks such as {{0,1},{2,3}}", code="hlo-attribute")
    place.limits.check("ranks", inner.count(","), place.text, "rank numbers in one attribute")
    return tuple(tuple(int(item[:18]) for item in row.split(",") if item) for row in _ROW.findall(inner[1:-1]))


# ---------------------------------------------------------------------------------------------- literals
def literal(
    text: str, shape: Sequence[int], dtype: DType, place: Place
) -> tuple[bool | int | float | complex, ...] | None:
    """The elements of ``{{1, 2}, {3, 4}}`` row by row, or of a bare number; NaN among them. ``None`` for ``{...}``, an
    elided literal."""
    if _ELIDED.fullmatch(text):
        return None
    place.limits.check("constant_elements", prod(shape), place.text, "elements of a constant")
    tokens = _TOKEN.findall(text)
    place.limits.check("constant_elements", len(tokens) // 4, place.text, "elements of a constant")
    values: list[bool | int | float] = []

    def wrong(found: str) -> Exception:
        return place.wrong(found, f"a literal of shape {list(shape)}", code="hlo-literal")

    def take(at: int, depth: int) -> int:
        """One element, or a braced list of them, from token ``at`` on; the position after it."""
        if at >= len(tokens):
            raise wrong("a literal that ends too early")
        if depth == len(shape):
            values.append(_number(tokens[at], dtype, place))
            return at + 1
        if tokens[at] != "{":
            raise wrong(f"{shown(tokens[at])} where a list begins")
        at += 1
        for k in range(shape[depth]):
            if k:
                if at >= len(tokens) or tokens[at] != ",":
                    raise wrong(f"a list of {k}, where {shape[depth]} are needed")
                at += 1
            at = take(at, depth + 1)
        if at >= len(tokens) or tokens[at] != "}":
            raise wrong(f"a list longer than {shape[depth]}")
        return at + 1

    if take(0, 0) != len(tokens):
        raise wrong(f"{shown(text)}")
    return tuple(values)


def _number(token: str, dtype: DType, place: Place) -> bool | int | float:
    if dtype.kind is Kind.BOOL and token in ("true", "false", "1", "0"):
        return token in ("true", "1")
    if dtype.kind is Kind.INT and re.fullmatch(r"-?\d{1,20}", token):
        value = int(token)
        signed = not dtype.label.startswith("u")
        low, high = (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if signed else (0, (1 << dtype.bits) - 1)
        if low <= value <= high:
            return value
    if dtype.kind is Kind.FLOAT:
        if _NUMBER.fullmatch(token):
            return float(token)
        if re.fullmatch(r"-?nan(\(0x[0-9a-f]{1,16}\))?", token):
            return nan
    raise place.wrong(shown(token), f"a value of type {dtype}", code="hlo-literal")
