"""Tensors made of numbers: fills, ranges, diagonals, and memory that nobody wrote."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, isinf
from typing import cast

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Number, PerRank, Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem, exact
from tantamount.ops.definitions.in_place import any_number, overwriting
from tantamount.ops.table import Integers, Layout, Operand, operator
from tantamount.sizes.symbolic import is_integer

_CREATION = "creation"


def _checked(size: Sequence[int]) -> tuple[int, ...]:
    if any(length < 0 for length in size):
        raise ShapeProblem(f"the size {tuple(size)}")
    return tuple(size)


def _fill(b: Builder, size: Sequence[int], value: Scalar, dtype: DType | None) -> Tensor:
    return b.full(_checked(size), value, dtype or b.default)


# ---------------------------------------------------------------------------------------------- constants
@operator("aten.zeros.default", category=_CREATION)
def zeros(
    b: Builder,
    size: Integers,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """0"""
    return _fill(b, size, 0, dtype)


@operator("aten.ones.default", category=_CREATION)
def ones(
    b: Builder,
    size: Integers,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """1"""
    return _fill(b, size, 1, dtype)


@operator("aten.zeros_like.default", category=_CREATION)
def zeros_like(
    b: Builder,
    self: Tensor,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    memory_format: Layout = None,
) -> Tensor:
    """0, in the shape of self"""
    return _fill(b, self.shape, 0, dtype or self.dtype)


@operator("aten.ones_like.default", category=_CREATION)
def ones_like(
    b: Builder,
    self: Tensor,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    memory_format: Layout = None,
) -> Tensor:
    """1, in the shape of self"""
    return _fill(b, self.shape, 1, dtype or self.dtype)


@operator("aten.new_zeros.default", category=_CREATION)
def new_zeros(
    b: Builder,
    self: Tensor,
    size: Integers,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """0, in the type of self"""
    return _fill(b, size, 0, dtype or self.dtype)


@operator("aten.new_ones.default", category=_CREATION)
def new_ones(
    b: Builder,
    self: Tensor,
    size: Integers,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """1, in the type of self"""
    return _fill(b, size, 1, dtype or self.dtype)


@operator("aten.new_full.default", category=_CREATION)
def new_full(
    b: Builder,
    self: Tensor,
    size: Integers,
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """fill_value, in the type of self"""
    return _fill(b, size, fill_value, dtype or self.dtype)


@operator("aten.full.default", category=_CREATION)
def full(
    b: Builder,
    size: Integers,
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """fill_value"""
    return _fill(b, size, fill_value, dtype or b.number(fill_value).dtype)


@operator("aten.full_like.default", category=_CREATION)
def full_like(
    b: Builder,
    self: Tensor,
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    memory_format: Layout = None,
) -> Tensor:
    """fill_value, in the shape of self"""
    return _fill(b, self.shape, fill_value, dtype or self.dtype)


@operator("aten.scalar_tensor.default", category=_CREATION)
def scalar_tensor(
    b: Builder,
    s: Scalar,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """s, without dimensions"""
    return _fill(b, (), s, dtype)


@overwriting("aten.fill_.Scalar", "aten.fill_.Tensor", category=_CREATION)
@operator("aten.fill.Scalar", "aten.fill.Tensor", category=_CREATION)
def fill(b: Builder, self: Tensor, value: Operand) -> Tensor:
    """value, in the shape and type of self"""
    if not isinstance(value, Tensor):
        return b.full(self.shape, value, self.dtype)
    if value.rank:
        raise ShapeProblem(f"a fill value {value.type}, which is not a single number")
    return b.expand(b.cast(value, self.dtype), self.shape)


@overwriting("aten.zero_.default", category=_CREATION)
@operator("aten.zero.default", category=_CREATION)
def zero(b: Builder, self: Tensor) -> Tensor:
    """0, in the shape and type of self"""
    return b.full(self.shape, 0, self.dtype)


# ---------------------------------------------------------------------------------------------- unwritten memory
@operator("aten.empty.memory_format", category=_CREATION)
def empty(
    b: Builder,
    size: Integers,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    memory_format: Layout = None,
) -> Tensor:
    """unknown values, fresh on every rank"""
    return b.uninitialised(_checked(size), dtype or b.default)


@operator("aten._make_dep_token.default", category=_CREATION)
def make_dep_token(
    b: Builder,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    memory_format: Layout = None,
) -> Tensor:
    """an unwritten number, which only orders the assertions that take and return it"""
    return b.uninitialised((), dtype or b.default)


@operator("aten.empty_like.default", category=_CREATION)
def empty_like(
    b: Builder,
    self: Tensor,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    memory_format: Layout = None,
) -> Tensor:
    """unknown values in the shape of self, fresh on every rank"""
    return b.uninitialised(self.shape, dtype or self.dtype, self)


@operator("aten.new_empty.default", category=_CREATION)
def new_empty(
    b: Builder,
    self: Tensor,
    size: Integers,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """unknown values in the type of self, fresh on every rank"""
    return b.uninitialised(_checked(size), dtype or self.dtype)


def _strided(size: Integers, stride: Integers) -> tuple[int, ...]:
    if len(stride) != len(size):
        raise ShapeProblem(f"{len(stride)} strides for {len(size)} dimensions")
    return _checked(size)


@operator("aten.empty_strided.default", category=_CREATION)
def empty_strided(
    b: Builder,
    size: Integers,
    stride: Integers,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """unknown values, fresh on every rank"""
    return b.uninitialised(_strided(size, stride), dtype or b.default)


@operator("aten.new_empty_strided.default", category=_CREATION)
def new_empty_strided(
    b: Builder,
    self: Tensor,
    size: Integers,
    stride: Integers,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """unknown values in the type of self, fresh on every rank"""
    return b.uninitialised(_strided(size, stride), dtype or self.dtype)


# ---------------------------------------------------------------------------------------------- ranges
def _each(function_of: Sequence[Scalar]) -> list[tuple[Number, ...]]:
    """The numbers of every rank: one row per rank, or a single row if no number differs."""
    ranks = {len(value.values) for value in function_of if isinstance(value, PerRank)}
    if len(ranks) > 1:
        raise ShapeProblem("numbers that differ by rank, of different meshes")
    count = ranks.pop() if ranks else 1
    return [
        tuple(value.values[rank] if isinstance(value, PerRank) else value for value in function_of)
        for rank in range(count)
    ]


def _arange(b: Builder, start: Scalar, end: Scalar, step: Scalar, dtype: DType | None) -> Tensor:
    lengths: set[int] = set()
    for first, last, stride in _each((start, end, step)):
        if any(isinstance(item, float) and isinf(item) for item in (first, last, stride)):
            raise ShapeProblem(f"a range from {first} to {last} in steps of {stride}")
        if stride == 0 or (last < first if stride > 0 else last > first):
            raise ShapeProblem(f"a range from {first} to {last} in steps of {stride}")
        if all(is_integer(item) for item in (first, last, stride)):
            lengths.add(cast(int, -((first - last) // stride)))  # no int(): sizes may be subclasses that remember more
        else:
            lengths.add(ceil((float(last) - float(first)) / float(stride)))  # in double precision, as PyTorch does it
    if len(lengths) > 1:
        raise ShapeProblem(f"a range whose length differs by rank: {sorted(lengths)}")
    whole = all(not isinstance(any_number(item), float) for item in (start, end, step))
    dtype = dtype or (DType.INT64 if whole else b.default)
    if dtype.is_integral and not whole:
        raise ShapeProblem(f"a range of {dtype} with bounds that are not integers")
    if dtype.kind is Kind.BOOL:
        raise ShapeProblem("a range of booleans")
    places = b.iota(lengths.pop(), dtype)
    return b.add(b.mul(places, b.number(step, dtype)), b.number(start, dtype))


@operator("aten.arange.default", category=_CREATION)
def arange(
    b: Builder,
    end: Scalar,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """0, 1, ... below end"""
    return _arange(b, 0, end, 1, dtype)


@operator("aten.arange.start", category=_CREATION)
def arange_start(
    b: Builder,
    start: Scalar,
    end: Scalar,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """start, start + 1, ... below end"""
    return _arange(b, start, end, 1, dtype)


@operator("aten.arange.start_step", category=_CREATION)
def arange_step(
    b: Builder,
    start: Scalar,
    end: Scalar,
    step: Scalar = 1,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """start + step * i, before end is reached"""
    return _arange(b, start, end, step, dtype)


@operator("aten.linspace.default", category=_CREATION)
def linspace(
    b: Builder,
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """start + i * (end - start) / (steps - 1)"""
    if steps < 0:
        raise ShapeProblem(f"{steps} steps")
    dtype = dtype or b.default
    if not dtype.is_float:
        raise ShapeProblem(f"evenly spaced numbers of type {dtype}")
    first, last = Fraction(exact(start)), Fraction(exact(end))
    step = (last - first) / (steps - 1) if steps > 1 else Fraction(0)
    return b.add(b.mul(b.iota(steps, dtype), step), first)


# ---------------------------------------------------------------------------------------------- diagonals and triangles
def _rows_and_columns(b: Builder, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    return b.unsqueeze(b.iota(rows), 1), b.unsqueeze(b.iota(columns), 0)


@operator("aten.eye.default", category=_CREATION)
def eye(
    b: Builder,
    n: int,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """1 where i = j, else 0"""
    i, j = _rows_and_columns(b, *_checked((n, n)))
    return b.cast(b.equal(i, j), dtype or b.default)


@operator("aten.eye.m", category=_CREATION)
def eye_m(
    b: Builder,
    n: int,
    m: int,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """1 where i = j, else 0"""
    i, j = _rows_and_columns(b, *_checked((n, m)))
    return b.cast(b.equal(i, j), dtype or b.default)


def _matrix(x: Tensor) -> tuple[int, int]:
    if x.rank < 2:
        raise ShapeProblem(f"a triangle of {x.type}, which is no matrix")
    return x.shape[-2], x.shape[-1]


@operator("aten.tril.default", category=_CREATION)
def tril(b: Builder, self: Tensor, diagonal: Scalar = 0) -> Tensor:
    """self[i, j] where j <= i + diagonal, else 0"""
    i, j = _rows_and_columns(b, *_matrix(self))
    return b.where(b.not_(b.less(b.add(i, diagonal), j)), self, b.number(0, self.dtype))


@operator("aten.triu.default", category=_CREATION)
def triu(b: Builder, self: Tensor, diagonal: Scalar = 0) -> Tensor:
    """self[i, j] where j >= i + diagonal, else 0"""
    i, j = _rows_and_columns(b, *_matrix(self))
    return b.where(b.not_(b.less(j, b.add(i, diagonal))), self, b.number(0, self.dtype))
