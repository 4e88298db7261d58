"""Values inside ``fx-nodes/1`` files: arguments of nodes, shapes, types, recorded constants, source positions."""

from __future__ import annotations

import re
from math import isfinite, prod
from typing import cast

from tantamount.capture.fields import Fields, Place, is_integer, is_plain, shown
from tantamount.ir.graph import Argument, Constant, Device, Ref, Setting, Source
from tantamount.ir.types import DType, Kind, Shape, TensorType
from tantamount.sizes.domain import SizeProblem, parse_size

__all__ = ["decode_argument", "decode_constant", "decode_dtype", "decode_source", "decode_type"]

# Layouts and memory formats: they never change a value.
_SETTING_NAMES = """
    strided sparse_coo sparse_csr sparse_csc sparse_bsr sparse_bsc contiguous_format preserve_format channels_last
    channels_last_3d
"""
_SETTINGS = frozenset(_SETTING_NAMES.split())
_INFINITIES = {
    "inf": float("inf"),
    "+inf": float("inf"),
    "-inf": float("-inf"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_LARGEST = 1 << 64
_STACK = re.compile(
    r'\s*File "(?P<file>[^"\n]*)", line (?P<line>[0-9]{1,9})(?:, in (?P<function>[^|\n]*?))?\s*(?:\|[ ]?(?P<text>.*))?',
    re.DOTALL,
)


def decode_dtype(value: object, place: Place) -> DType:
    """An element type by its PyTorch name (``float32``)."""
    label = place.string(value, "an element type")
    dtype = DType.named(label)
    if dtype is None:
        raise place.wrong(shown(label), f"one of {', '.join(item.label for item in DType)}", code="dtype")
    return dtype


def decode_shape(value: object, place: Place) -> Shape:
    """Sizes of a tensor: numbers, or expressions over size symbols that the file declares."""
    sizes = place.list(value, "a list of sizes")
    if len(sizes) > place.limits.dimensions:
        place.limits.check("dimensions", len(sizes), place.text, "dimensions")
    shape: list[int] = []
    largest = place.limits.dimension_size
    for size in sizes:
        if size.__class__ is int and 0 <= size <= largest:  # type: ignore[operator]
            shape.append(size)  # type: ignore[arg-type]
            continue
        if isinstance(size, str) and place.domain.symbols:
            shape.append(decode_size(size, place))
            continue
        if isinstance(size, str):
            raise place.wrong(
                f"the symbolic size {shown(size)}", "sizes that are numbers", code="symbolic-size",
                hint="only sizes that data decide inside the graph may be symbols, unless the file declares `sizes`",
            )  # fmt: skip
        if not is_integer(size) or size < 0:
            raise place.wrong(f"size {shown(size)}", "sizes that are integers from 0 on")
        if size > place.limits.dimension_size:
            raise place.limits.exceeded("dimension_size", f"size {shown(size)}", place.text)
        shape.append(size)
    return tuple(shape)


def decode_size(text: str, place: Place) -> int:
    """A size as an expression over the symbols."""
    try:
        return parse_size(place.string(text), place.domain)
    except SizeProblem as problem:
        raise place.wrong(str(problem), "an expression over the size symbols, such as 2*B*S", code="size") from None


def decode_type(shape: object, dtype: object, place: Place, symbols: bool = False) -> TensorType | None:
    """Both or none of the two. With ``symbols``, a shape with symbolic sizes is as good as none: it is found again when
    the graph is executed."""
    if shape is None and dtype is None:
        return None
    texts = [size for size in cast("list[object]", shape) if isinstance(size, str)] if isinstance(shape, list) else []
    if symbols and texts and not _declared(texts, place):
        decode_dtype(dtype, place.at("dtype"))
        return None
    if shape is None or dtype is None:
        found = f"shape {shown(cast('object', shape))} with dtype {shown(dtype)}"
        raise place.wrong(found, "both shape and dtype, or null for both")
    return TensorType(decode_shape(cast("object", shape), place.at("shape")), decode_dtype(dtype, place.at("dtype")))


def _declared(texts: list[str], place: Place) -> bool:
    """True if sizes are expressions over the symbols that the file declares."""
    try:
        return bool(place.domain.symbols) and all(parse_size(text, place.domain) is not None for text in texts)
    except SizeProblem:
        return False


def decode_source(value: object, place: Place) -> Source | None:
    """``File "F", line N, in f | code``; other text is kept as the code."""
    if value is None:
        return None
    text = place.string(value, "a source position")
    if not text.replace("\n", "").replace("\t", "").isprintable():
        text = "".join(
            character if character.isprintable() or character in "\n\t" else "\N{REPLACEMENT CHARACTER}"
            for character in text
        )
    match = _STACK.fullmatch(text)
    if match is None:
        return Source("", 0, "", text.strip()) if text.strip() else None
    return Source(match["file"], int(match["line"]), (match["function"] or "").strip(), (match["text"] or "").strip())


def decode_argument(value: object, place: Place) -> Argument:
    """One entry of ``args`` or one value of ``kwargs``."""
    return _argument(value, place, 0)


def _argument(value: object, place: Place, depth: int) -> Argument:
    if isinstance(value, list):
        if depth + 1 > place.limits.nesting:
            place.limits.check("nesting", depth + 1, place.text, "lists inside one another")
        return tuple([_argument(item, place, depth + 1) for item in place.list(cast("object", value))])
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = place.string(value)
        bare = text.removeprefix("torch.")
        return Setting(bare) if bare != text and bare in _SETTINGS else text
    if isinstance(value, (int, float)):
        return _number(value, place)
    return _encoded(place.table(value), place)


def _number(value: int | float, place: Place) -> int | float:
    if isinstance(value, float):
        if not isfinite(value):
            raise place.wrong(f"the number {value}", 'finite numbers (infinity is {"float": "inf"})', code="number")
    elif not -_LARGEST < value < _LARGEST:
        raise place.wrong("an integer of more than 64 bits", "integers of 64 bits", code="number")
    return value


def _float(value: object, place: Place) -> float:
    """A finite number, or an infinity by name."""
    if isinstance(value, str) and value in _INFINITIES:
        return _INFINITIES[value]
    if isinstance(value, str) and value.lower() in ("nan", "+nan", "-nan"):
        raise place.wrong("not-a-number", "a number: nothing can be proved of NaN", code="nan")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(_number(value, place))
    raise place.wrong(shown(value), 'a number, "inf" or "-inf"', code="number")


def _encoded(table: dict[str, object], place: Place) -> Argument:
    if len(table) != 1:
        raise place.wrong(
            shown(table),
            'one of {"node"}, {"dtype"}, {"device"}, {"torch"}, {"float"}, {"complex"}, {"size"}',
            code="argument",
        )
    ((key, value),) = table.items()
    if key == "node" and is_plain(value, place.limits):  # most arguments: no place is needed
        return Ref(value)
    inner = place.at(shown(key))
    if key == "node":
        return Ref(inner.name(value, "the name of a node"))
    if key == "dtype":
        return decode_dtype(value, inner)
    if key == "device":
        return Device(inner.name(value, "a device"))
    if key == "float":
        return _float(value, inner)
    if key == "complex":
        return _complex(value, inner)
    if key == "size":
        return decode_size(inner.string(value, "an expression over size symbols"), inner)
    if key == "torch":
        name = inner.string(value).removeprefix("torch.")
        if name not in _SETTINGS:
            raise inner.wrong(shown(value), f"one of {', '.join(sorted(_SETTINGS))}", code="argument")
        return Setting(name)
    raise place.wrong(
        f"key {shown(key)}", 'one of "node", "dtype", "device", "torch", "float", "complex", "size"', code="argument"
    )


def _complex(value: object, place: Place) -> complex:
    parts = place.list(value, "[re, im]")
    if len(parts) != 2:
        raise place.wrong(shown(value), "[re, im]")
    real, imaginary = (_constant_float(part, place) for part in parts)
    return complex(real, imaginary)


def _constant_float(value: object, place: Place) -> float:
    if isinstance(value, dict):
        return _float(Fields.of(cast("object", value), place, ["float"], ["float"]).get("float"), place)
    return _float(value, place)


def decode_constant(value: object, place: Place) -> Constant:
    """``{"dtype", "shape", "data"}``. Complex data: ``[re, im]`` pairs, or all numbers in one list."""
    fields = Fields.of(value, place, ("dtype", "shape", "data"), ("dtype", "shape", "data"))
    dtype = decode_dtype(fields.get("dtype"), fields.at("dtype"))
    shape = decode_shape(fields.get("shape"), fields.at("shape"))
    inner = fields.at("data")
    data = inner.list(fields.get("data"), "a flat list of values")
    count = prod(shape)
    place.limits.check("constant_elements", max(count, len(data)), place.text, "elements of a constant")
    if dtype.kind is Kind.COMPLEX and len(data) == 2 * count and not any(isinstance(item, list) for item in data):
        data = [[data[2 * k], data[2 * k + 1]] for k in range(count)]
    if len(data) != count:
        raise inner.wrong(f"{len(data)} values", f"{count} values for shape {list(shape)}", code="constant-size")
    return Constant(TensorType(shape, dtype), tuple(_element(item, dtype, inner) for item in data))


def _element(value: object, dtype: DType, place: Place) -> bool | int | float | complex:
    if dtype.kind is Kind.COMPLEX:
        return _complex(value, place)
    if dtype.kind is Kind.FLOAT:
        return _constant_float(value, place)
    if dtype.kind is Kind.BOOL:
        if isinstance(value, bool):
            return value
        raise place.wrong(shown(value), "true or false", code="constant-value")
    signed = not dtype.label.startswith("u")
    low, high = (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if signed else (0, (1 << dtype.bits) - 1)
    if not is_integer(value) or not low <= value <= high:
        raise place.wrong(shown(value), f"an integer that {dtype} can hold", code="constant-value")
    return value
