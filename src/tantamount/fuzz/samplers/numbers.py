"""Pointwise operators: arithmetic, comparisons, logic, casts, functions."""

from __future__ import annotations

import numpy as np

from tantamount.fuzz.draft import Draft
from tantamount.fuzz.samplers.registry import sampler
from tantamount.ir.graph import Ref
from tantamount.ir.types import DType, Kind

__all__: list[str] = []

NUMBERS = (Kind.FLOAT, Kind.INT)


def _binary(d: Draft, target: str, kinds: tuple[Kind, ...]) -> str | None:
    first = d.pick(kinds)
    if first is None:
        return None
    second = d.like(d.values[first])
    pair = (first, second) if d.random.random() < 0.5 else (second, first)
    return d.call(target, Ref(pair[0]), Ref(pair[1]))


@sampler("aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", weight=4)
def arithmetic(d: Draft, target: str) -> str | None:
    """``x + y``, ``x - y``, ``x * y``, sometimes with a number."""
    if d.random.random() < 0.2:
        x = d.pick(NUMBERS)
        number = d.random.choice((0, 1, 2, 3, -1, 2, 4))
        if x is None or (number < 0 and d.values[x].dtype is DType.UINT8):
            return None
        return d.call(target, Ref(x), number)
    return _binary(d, target, NUMBERS)


@sampler("aten.maximum.default", "aten.minimum.default", weight=1.5)
@sampler("aten.lt.Tensor", "aten.le.Tensor", "aten.gt.Tensor", "aten.ge.Tensor", weight=0.5)
def ordered(d: Draft, target: str) -> str | None:
    """Of two numbers the greater, or whether it is."""
    return _binary(d, target, NUMBERS)


@sampler("aten.eq.Tensor", "aten.ne.Tensor", weight=0.5)
def same(d: Draft, target: str) -> str | None:
    """Equal or not: numbers and booleans."""
    return _binary(d, target, (*NUMBERS, Kind.BOOL))


@sampler("aten.bitwise_and.Tensor", "aten.bitwise_or.Tensor", "aten.bitwise_xor.Tensor", weight=0.4)
def bits(d: Draft, target: str) -> str | None:
    """Bit by bit, of integers and booleans."""
    return _binary(d, target, (Kind.INT, Kind.BOOL))


@sampler("aten.logical_and.default", "aten.logical_or.default", "aten.logical_xor.default", weight=0.4)
def logic(d: Draft, target: str) -> str | None:
    """Of booleans."""
    return _binary(d, target, (Kind.BOOL,))


@sampler("aten.div.Tensor", weight=1.5)
def quotient(d: Draft, target: str) -> str | None:
    """By a power of two, which is exact, or by a small number."""
    x = d.pick((Kind.FLOAT,))
    if x is None:
        return None
    if d.random.random() < 0.4:
        return d.call(target, Ref(x), d.random.choice((2, 4, 8, 0.5)))
    powers = [1.0, 2.0, 4.0, 0.5, -2.0] if d.random.random() < 0.8 else [3.0, 5.0, 7.0, -3.0]
    shape = d.values[x].shape
    divisor = d.leaf(shape, d.values[x].dtype, np.asarray(d.numpy.choice(powers, shape)))
    return d.call(target, Ref(x), Ref(divisor))


@sampler("aten.remainder.Tensor", "aten.floor_divide.default", weight=0.7)
def whole_quotient(d: Draft, target: str) -> str | None:
    """Of integers, by numbers that are not 0."""
    x = d.pick((Kind.INT,))
    if x is None:
        return None
    value = d.values[x]
    numbers = [2, 3, 4, 7] if value.dtype is DType.UINT8 or d.random.random() < 0.6 else [2, -3, 4, -1, -2]
    divisor = d.leaf(value.shape, value.dtype, np.asarray(d.numpy.choice(numbers, value.shape)))
    return d.call(target, Ref(x), Ref(divisor))


@sampler("aten.neg.default", "aten.abs.default", "aten.relu.default", "aten.sign.default", weight=1.2)
def signs(d: Draft, target: str) -> str | None:
    """Functions of the sign; of a result of a reduction more often, which is where they were seen to go wrong."""
    x = d.pick(NUMBERS)
    return None if x is None else d.call(target, Ref(x))


@sampler("aten.logical_not.default", weight=0.4)
def negation(d: Draft, target: str) -> str | None:
    """Not, of booleans."""
    x = d.pick((Kind.BOOL,))
    return None if x is None else d.call(target, Ref(x))


@sampler("aten.bitwise_not.default", weight=0.3)
def complement(d: Draft, target: str) -> str | None:
    """All bits turned round."""
    x = d.pick((Kind.INT, Kind.BOOL))
    return None if x is None else d.call(target, Ref(x))


@sampler("aten.floor.default", "aten.ceil.default", "aten.round.default", "aten.trunc.default", weight=0.3)
def whole(d: Draft, target: str) -> str | None:
    """Floats made whole."""
    x = d.pick((Kind.FLOAT,), lambda x: x.value.exact)
    return None if x is None else d.call(target, Ref(x))


@sampler(
    "aten.exp.default", "aten.tanh.default", "aten.sigmoid.default", "aten.erf.default", "aten.sin.default",
    "aten.cos.default", "aten.silu.default", "aten.gelu.default", "aten.sqrt.default", weight=0.25,
)  # fmt: skip
def smooth(d: Draft, target: str) -> str | None:
    """Functions whose values are not exact; the root is one of squares."""
    least = 0.0 if target == "aten.sqrt.default" else -30.0
    x = d.pick((Kind.FLOAT,), lambda x: x.value.total <= 30 and (x.value.array >= least).all())
    return None if x is None else d.call(target, Ref(x))


@sampler("aten.clamp.default", weight=0.7)
def clamp(d: Draft, target: str) -> str | None:
    """Between two numbers, or on one side."""
    x = d.pick(NUMBERS)
    if x is None:
        return None
    low: int | None = 0 if d.values[x].dtype is DType.UINT8 else d.random.choice((-2, -1, 0))
    high: int | None = d.random.choice((1, 2, 5))
    side = d.random.random()
    low, high = (low, None) if side < 0.2 else (None, high) if side < 0.4 else (low, high)
    return d.call(target, Ref(x), low, high)


@sampler("aten._to_copy.default", weight=2)
def cast(d: Draft, target: str) -> str | None:
    """To another element type, which holds the values unless integers may wrap."""
    x = d.pick()
    if x is None:
        return None
    value = d.values[x]
    dtype = d.aim or d.random.choice(d.policy.dtypes)
    if dtype is value.dtype:
        return None
    held = value.value
    if dtype.kind is Kind.INT and held.array.size:
        low, high = dtype.bounds
        outside = bool(np.any((held.array < low) | (held.array > high)))
        if outside and (value.dtype.is_float or not d.policy.wrap):
            return None
    return d.call(target, Ref(x), dtype=dtype)


@sampler("aten.where.self", weight=1)
def where(d: Draft, target: str) -> str | None:
    """One of two, by a boolean."""
    x = d.pick()
    if x is None:
        return None
    y = d.like(d.values[x])
    shape = d.values[x].shape
    condition = d.pick((Kind.BOOL,), lambda c: c.shape == shape) or d.leaf(shape, DType.BOOL)
    return d.call(target, Ref(condition), Ref(x), Ref(y))
