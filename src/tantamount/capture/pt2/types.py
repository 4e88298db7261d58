"""Types in the schema of exported programs, whose enumerations are numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tantamount.capture.fields import Fields, Place, is_integer, shown
from tantamount.ir.types import DType, TensorType

__all__ = ["LAYOUTS", "MEMORY_FORMATS", "Layout", "dtype_of", "layout_of", "size_of", "union"]

_DTYPES: Mapping[int, DType] = {
    1: DType.UINT8, 2: DType.INT8, 3: DType.INT16, 4: DType.INT32, 5: DType.INT64, 6: DType.FLOAT16, 7: DType.FLOAT32,
    8: DType.FLOAT64, 10: DType.COMPLEX64, 11: DType.COMPLEX128, 12: DType.BOOL, 13: DType.BFLOAT16, 28: DType.UINT16,
    29: DType.FLOAT8_E4M3FN, 30: DType.FLOAT8_E5M2, 34: DType.UINT32, 35: DType.UINT64,
}  # fmt: skip
MEMORY_FORMATS: Mapping[int, str] = {
    1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format",
}  # fmt: skip
LAYOUTS: Mapping[int, str] = {
    1: "sparse_coo", 2: "sparse_csr", 3: "sparse_csc", 4: "sparse_bsr", 5: "sparse_bsc", 7: "strided",
}  # fmt: skip
_STRIDED = 7
_META = ("dtype", "sizes", "requires_grad", "device", "strides", "storage_offset", "layout")


@dataclass(frozen=True)
class Layout:
    """The type of a tensor, and where its elements lie: the element with all indices 0 at ``offset``."""

    type: TensorType
    strides: tuple[int, ...]
    offset: int

    @property
    def in_order(self) -> bool:
        """True if its memory has the elements in their order, from the first one on."""
        expected = 1
        for size, stride in reversed(list(zip(self.type.shape, self.strides, strict=True))):
            if size != 1 and stride != expected:
                return False
            expected *= max(size, 1)
        return self.offset == 0


def union(value: object, place: Place) -> tuple[str, object]:
    """The kind and the value of a union, which is a table of one entry."""
    table = place.table(value)
    if len(table) != 1:
        raise place.wrong(shown(value), "a table with one key, which says what it is", code="pt2-data")
    return next(iter(table.items()))


def dtype_of(value: object, place: Place) -> DType:
    """An element type by its number in the schema."""
    found = _DTYPES.get(value) if is_integer(value) else None
    if found is None:
        known = ", ".join(f"{number} ({dtype})" for number, dtype in _DTYPES.items())
        raise place.wrong(f"the element type {shown(value)}", f"one of {known}", code="pt2-data")
    return found


def size_of(value: object, place: Place) -> int:
    """A size that is a number. Raises :class:`UserError` for one that is an expression over symbols."""
    kind, given = union(value, place)
    if kind == "as_expr":
        text = place.table(given).get("expr_str")
        raise place.wrong(
            f"the symbolic size {shown(text)}", "sizes that are numbers", code="pt2-symbolic",
            hint="export without `dynamic_shapes`; or capture the module: tt.capture(model, (x,), dynamic=...)",
        )  # fmt: skip
    if kind != "as_int":
        raise place.wrong(shown(kind), "as_int or as_expr", code="pt2-data")
    if not is_integer(given) or given < 0:
        raise place.at(kind).wrong(shown(given), "a whole number from 0 on")
    place.limits.check("dimension_size", given, place.text, "elements along one dimension")
    return given


def layout_of(value: object, place: Place) -> Layout:
    """The type of a tensor, and where its elements lie, as the archive says. Its device, and whether it wants a
    gradient, change no value."""
    meta = Fields.of(value, place, _META, ("dtype", "sizes", "strides", "storage_offset", "layout"))
    sizes, strides = (meta.at(key).list(meta.get(key)) for key in ("sizes", "strides"))
    place.limits.check("dimensions", len(sizes), place.text, "dimensions")
    shape = tuple(size_of(size, meta.at("sizes")) for size in sizes)
    steps = tuple(size_of(step, meta.at("strides")) for step in strides)
    offset = size_of(meta.get("storage_offset"), meta.at("storage_offset"))
    if len(steps) != len(shape):
        raise place.wrong(f"{len(steps)} strides", f"{len(shape)}, one for every dimension", code="pt2-data")
    kind = meta.get("layout")
    if kind != _STRIDED:
        name = LAYOUTS.get(kind) if is_integer(kind) else None
        raise meta.at("layout").wrong(name or shown(kind), "a strided tensor", code="pt2-unsupported")
    return Layout(TensorType(shape, dtype_of(meta.get("dtype"), meta.at("dtype"))), steps, offset)
