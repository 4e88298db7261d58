"""The values inside HLO text: attributes, literals, sets of ranks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from math import nan, prod

from tantamount.capture.fields import Place, shown
from tantamount.ir.types import DType, Kind

__all__ = ["boolean", "groups_of", "integer", "integers", "literal", "padding", "pairs", "slices", "string"]

_INTEGERS = re.compile(r"\{\s*((?:-?\d{1,18}\s*(?:,\s*-?\d{1,18}\s*)*)?)\}")
_SLICE = re.compile(r"\[(\d{1,18}):(\d{1,18})(?::(\d{1,18}))?\]")
_PADDING = re.compile(r"(-?\d{1,18})_(-?\d{1,18})(?:_(\d{1,18}))?")
_ROW = re.compile(r"\{([\d,\s]*)\}")
_IOTA = re.compile(r"\[([\d,]{1,200})\]<=\[([\d,]{1,200})\](?:T\(([\d,]{1,200})\))?")
_MESH = re.compile(r"mesh\[([^\]\n]*)\](?:,\s*device_ids=\(([^\s]*)\))?\s*\{([^{}]*)\}")
_AXIS = re.compile(r"'([^'\n]*)'=(\d{1,9})")
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


# ---------------------------------------------------------------------------------------------- groups of ranks
def groups_of(text: str, place: Place) -> tuple[tuple[int, ...], ...]:
    """Replica groups in any of XLA's three notations; ``()`` is all ranks.

    ``{{0,1},{2,3}}``; ``[2,4]<=[4,2]T(1,0)``: the numbers from 0 on in the second shape, transposed, cut into rows of
    the first shape; ``mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}``: the lines of a mesh of such numbers along
    some of its axes."""
    if text.startswith("{"):
        rows = pairs(text, place)
        return () if rows == ((),) else rows
    if text.startswith("mesh["):
        return _mesh_groups(text, place)
    found = _IOTA.fullmatch(text)
    if found is None:
        raise place.wrong(
            shown(text), "replica groups: {{0,1},{2,3}}, [2,4]<=[8] or mesh['a'=2] {'a'}", code="hlo-groups"
        )
    dims = _sizes(found[1])
    order = _iota(found[2], found[3], place)
    if len(dims) != 2 or prod(dims) != len(order):
        raise place.wrong(shown(text), "a number of groups times their size that fits the list", code="hlo-groups")
    return tuple(tuple(order[k * dims[1] : (k + 1) * dims[1]]) for k in range(dims[0]))


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(item[:18]) for item in text.split(",") if item)


def _iota(shape_text: str, order_text: str | None, place: Place) -> list[int]:
    """The numbers of a row-major array of that shape, its dimensions permuted, row by row."""
    shape = _sizes(shape_text)
    total = prod(shape)
    place.limits.check("ranks", total, place.text, "ranks in replica groups")
    order = tuple(range(len(shape))) if order_text is None else _sizes(order_text)
    if sorted(order) != list(range(len(shape))):
        raise place.wrong(shown(order_text), f"a permutation of {len(shape)} dimensions", code="hlo-groups")
    strides = [prod(shape[k + 1 :]) for k in range(len(shape))]
    return [
        sum(digit * strides[k] for digit, k in zip(digits, order, strict=True))
        for digits in product(*(range(shape[k]) for k in order))
    ]


def _mesh_groups(text: str, place: Place) -> tuple[tuple[int, ...], ...]:
    found = _MESH.fullmatch(text)
    axes = [] if found is None else [(name, int(size)) for name, size in _AXIS.findall(found[1])]
    chosen = [] if found is None else [item.strip().strip("'") for item in found[3].split(",") if item.strip()]
    names = [name for name, _ in axes]
    if (
        found is None
        or len(axes) != len([item for item in found[1].split(",") if item])
        or len({*names}) != len(names)
        or any(name not in names for name in chosen)
        or len({*chosen}) != len(chosen)
    ):
        raise place.wrong(
            shown(text), "replica groups along whole axes of a mesh, mesh['a'=2,'b'=4] {'b'}", code="hlo-groups"
        )
    sizes = [size for _, size in axes]
    total = prod(sizes)
    place.limits.check("ranks", total, place.text, "ranks in replica groups")
    devices: Sequence[int] = range(total)
    if found[2] is not None:
        written = re.fullmatch(r"\[([\d,]{1,200})\](?:T\(([\d,]{1,200})\))?", found[2])
        if written is None:
            raise place.wrong(shown(found[2]), "device numbers such as [4,2]T(1,0)", code="hlo-groups")
        devices = _iota(written[1], written[2], place)
        if len(devices) != total:
            raise place.wrong(f"{len(devices)} devices", f"{total}, as many as the mesh has", code="hlo-groups")
    strides = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
    along = [names.index(name) for name in chosen]
    outside = [k for k in range(len(sizes)) if k not in along]

    def offsets(dims: Sequence[int]) -> list[int]:
        return [
            sum(digit * strides[k] for digit, k in zip(digits, dims, strict=True))
            for digits in product(*(range(sizes[k]) for k in dims))
        ]

    return tuple(tuple(devices[base + step] for step in offsets(along)) for base in offsets(outside))


# ---------------------------------------------------------------------------------------------- literals
def literal(
    text: str, shape: Sequence[int], dtype: DType, place: Place
) -> tuple[bool | int | float | complex, ...] | None:
    """The elements of ``{{1, 2}, {3, 4}}`` row by row, or of a bare number; ``None`` for ``{...}``, an elided one. May have NaN."""
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
