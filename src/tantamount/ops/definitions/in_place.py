"""The parts that definitions share: in-place variants, scaling, and operands that must be floats."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tantamount.ops.algebra import PerRank, Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.table import operator
from tantamount.sizes.symbolic import is_integer

__all__ = ["any_number", "few", "is_zero", "overwriting", "require_float", "scaled"]


def overwriting(*targets: str, category: str) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Register the in-place variants of a definition: the result is the new value of the first operand, whose shape and
    type it keeps."""

    def register(define: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @wraps(define)
        def overwritten(b: Builder, *args: Any, **kwargs: Any) -> Tensor:
            before = args[0]
            if not isinstance(before, Tensor):
                raise ShapeProblem(f"the number {before}, which nothing can be written into")
            after = define(b, *args, **kwargs)
            if after.shape != before.shape:
                raise ShapeProblem(f"a result {after.type} written into {before.type}")
            if after.dtype.kind.value > before.dtype.kind.value:
                raise ShapeProblem(f"a result of type {after.dtype} written into {before.type}")
            return b.cast(after, before.dtype)

        operator(*targets, category=category)(overwritten)
        return define

    return register


_MOST = 1 << 16


def few(count: int, what: str) -> None:
    """Raise :class:`ShapeProblem` unless there are so few that each can be a tensor, or a number in a list."""
    if int(count) > _MOST:
        raise ShapeProblem(f"{count} {what}; at most {_MOST} are known")


def is_zero(value: Scalar) -> bool:
    """True if a number is 0 on every rank."""
    return all(item == 0 for item in value.values) if isinstance(value, PerRank) else value == 0


def any_number(value: Scalar) -> bool | int | float:
    """The number, or that of the first rank: for its kind only."""
    found = value.values[0] if isinstance(value, PerRank) else value
    return found if is_integer(found) else float(found)


def scaled(b: Builder, x: Tensor, factor: Scalar) -> Tensor:
    """``factor * x`` in the type of x; a factor of 1 leaves no trace."""
    if not isinstance(factor, PerRank) and factor == 1:
        return x
    if x.dtype.is_integral and isinstance(any_number(factor), float):
        raise ShapeProblem(f"a factor {factor} for integers")
    return b.mul(x, b.number(factor, x.dtype))


def require_float(x: Tensor) -> Tensor:
    """x, which must have a float type."""
    if not x.dtype.is_float:
        raise ShapeProblem(f"an operand of type {x.dtype} where a float is needed")
    return x
