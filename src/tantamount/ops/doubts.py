"""Operators of which eager makes something else than their formula where operands are infinite or NaN.

A formula says what an operator computes of numbers. What kernels make of infinities follows another formula at times,
and is not promised. Of such operators less is claimed there: nothing, or only that there is no number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from tantamount.ops.algebra import Doubt, Tensor
from tantamount.ops.builder import Builder

__all__ = ["doubted", "doubted_at_zero", "doubtful", "doubts_of"]


def doubted(b: Builder, x: Any, doubt: Doubt = Doubt.VALUE) -> Any:
    """A tensor of which less is known where it is infinite or NaN; a list of them; anything else as it is."""
    if isinstance(x, tuple):
        return tuple(doubted(b, item, doubt) for item in x)  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(x, Tensor) or x.dtype.is_integral:
        return x
    return replace(x, value=b.interpretation.doubted(x.value, doubt))


def doubted_at_zero(b: Builder, x: Tensor) -> Tensor:
    """An operand of which the operator reads the sign of a zero: nothing is claimed where it was computed to be 0."""
    return x if x.dtype.is_integral else replace(x, value=b.interpretation.doubted_at_zero(x.value))


def doubtful(why: str, doubt: Doubt = Doubt.VALUE) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a definition, because of ``why`` (one clause). Its operands are doubted where they are infinite or NaN; if
    only which of these is not known, its results are."""

    def mark(define: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(define)
        def careful(b: Builder, *args: Any, **kwargs: Any) -> Any:
            if doubt is Doubt.WHICH:
                return doubted(b, define(b, *args, **kwargs), doubt)
            named = {key: doubted(b, x, doubt) for key, x in kwargs.items()}
            return define(b, *(doubted(b, x, doubt) for x in args), **named)

        careful.__dict__["doubts"] = why
        return careful

    return mark


def doubts_of(define: Callable[..., Any]) -> str:
    """The reason why a definition is marked as doubtful; empty if it is not."""
    return getattr(define, "doubts", "")
