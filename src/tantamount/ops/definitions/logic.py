"""Comparison, logic, and choice by a mask."""

from __future__ import annotations

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.in_place import overwriting
from tantamount.ops.table import Operand, operator

_LOGIC = "logic"


@operator("aten.eq.Tensor", "aten.eq.Scalar", category=_LOGIC)
def eq(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """self = other"""
    return b.equal(self, other)


@operator("aten.ne.Tensor", "aten.ne.Scalar", category=_LOGIC)
def ne(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """not (self = other)"""
    return b.not_(b.equal(self, other))


@operator("aten.lt.Tensor", "aten.lt.Scalar", category=_LOGIC)
def lt(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """self < other"""
    return b.less(self, other)


@operator("aten.gt.Tensor", "aten.gt.Scalar", category=_LOGIC)
def gt(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """other < self"""
    return b.less(other, self)


@operator("aten.le.Tensor", "aten.le.Scalar", category=_LOGIC)
def le(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """not (other < self)"""
    return b.not_(b.less(other, self))


@operator("aten.ge.Tensor", "aten.ge.Scalar", category=_LOGIC)
def ge(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """not (self < other)"""
    return b.not_(b.less(self, other))


def _truths(b: Builder, self: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    x, y = b.broadcast(b.cast(self, DType.BOOL), b.cast(other, DType.BOOL))
    return x, y


@operator("aten.logical_not.default", category=_LOGIC)
def logical_not(b: Builder, self: Tensor) -> Tensor:
    """self = 0"""
    return b.not_(self)


@operator("aten.logical_and.default", category=_LOGIC)
def logical_and(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """self and other are not zero"""
    return b.and_(*_truths(b, self, other))


@operator("aten.logical_or.default", category=_LOGIC)
def logical_or(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """self or other is not zero"""
    return b.or_(*_truths(b, self, other))


@operator("aten.logical_xor.default", category=_LOGIC)
def logical_xor(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """exactly one of self and other is not zero"""
    return b.not_(b.equal(*_truths(b, self, other)))


def _bits(b: Builder, self: Tensor, other: Operand, name: str) -> tuple[Tensor, Tensor]:
    x, y = b.operands(self, other, wrapping=True)
    if not x.dtype.is_integral:
        raise ShapeProblem(f"{name} of {x.dtype}")
    return x, y


@overwriting("aten.bitwise_and_.Tensor", "aten.bitwise_and_.Scalar", category=_LOGIC)
@operator(
    "aten.bitwise_and.Tensor", "aten.bitwise_and.Scalar", "aten.__and__.Tensor", "aten.__and__.Scalar", category=_LOGIC
)
def bitwise_and(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """self and other, bit by bit"""
    x, y = _bits(b, self, other, "bitwise and")
    return b.and_(x, y) if x.dtype is DType.BOOL else b.function("bitwise_and", x, y, floating=False)


@overwriting("aten.bitwise_or_.Tensor", "aten.bitwise_or_.Scalar", category=_LOGIC)
@operator(
    "aten.bitwise_or.Tensor", "aten.bitwise_or.Scalar", "aten.__or__.Tensor", "aten.__or__.Scalar", category=_LOGIC
)
def bitwise_or(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """self or other, bit by bit"""
    x, y = _bits(b, self, other, "bitwise or")
    return b.or_(x, y) if x.dtype is DType.BOOL else b.function("bitwise_or", x, y, floating=False)


@operator("aten.bitwise_xor.Tensor", "aten.bitwise_xor.Scalar", category=_LOGIC)
def bitwise_xor(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """exactly one of self and other, bit by bit"""
    x, y = _bits(b, self, other, "bitwise exclusive or")
    return b.not_(b.equal(x, y)) if x.dtype is DType.BOOL else b.function("bitwise_xor", x, y, floating=False)


@operator("aten.bitwise_not.default", category=_LOGIC)
def bitwise_not(b: Builder, self: Tensor) -> Tensor:
    """not self; of integers: -self - 1"""
    if self.dtype is DType.BOOL:
        return b.not_(self)
    if not self.dtype.is_integral or (self.dtype.label.startswith("u") and not self.dtype.is_narrow):
        raise ShapeProblem(f"bitwise not of {self.dtype}")
    return b.sub(b.neg(self), 1)


# ---------------------------------------------------------------------------------------------- choice
@operator("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar", category=_LOGIC)
def where(b: Builder, condition: Tensor, self: Operand, other: Operand) -> Tensor:
    """self where the condition holds, else other"""
    return b.where(condition, self, other)


@overwriting("aten.masked_fill_.Scalar", "aten.masked_fill_.Tensor", category=_LOGIC)
@operator("aten.masked_fill.Scalar", "aten.masked_fill.Tensor", category=_LOGIC)
def masked_fill(b: Builder, self: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """value where the mask holds, else self"""
    if isinstance(value, Tensor):
        if value.rank:
            raise ShapeProblem(f"a fill value {value.type}, which is not a single number")
        if value.dtype.kind.value > self.dtype.kind.value:
            raise ShapeProblem(f"a fill value of type {value.dtype} in {self.type}")
        filler = b.cast(value, self.dtype)
    else:
        filler = b.number(value, self.dtype)
    return b.where(mask, filler, self)
