"""Opaque functions that the primitives ``function`` (pointwise) and ``rows`` (whole rows) may name, and their facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erf
from typing import Any

import numpy as np

__all__ = ["FUNCTIONS", "ROW_FUNCTIONS", "Function"]


@dataclass(frozen=True, slots=True)
class Function:
    """A pointwise function. ``evaluate`` takes float64 or int64 arrays; ``integer``: its values are whole numbers;
    ``fixes_integers``: it is the identity on whole numbers; ``nonnegative``: its values always are;
    ``even``/``odd``: f(-x) = f(x), f(-x) = -f(x); ``commutative`` for two operands; ``at_zero``: its exact value at 0.
    """

    evaluate: Callable[..., Any]
    arity: int = 1
    integer: bool = False
    fixes_integers: bool = False
    nonnegative: bool = False
    even: bool = False
    odd: bool = False
    commutative: bool = False
    at_zero: int | None = None


_erf = np.vectorize(erf, otypes=[np.float64])


def _pi_times(x: Any) -> Any:
    return np.pi * x


def _sign(x: Any) -> Any:
    return np.sign(x)


FUNCTIONS: dict[str, Function] = {
    "sin": Function(np.sin, odd=True, at_zero=0),
    "cos": Function(np.cos, even=True, at_zero=1),
    "atan": Function(np.arctan, odd=True, at_zero=0),
    "tanh": Function(np.tanh, odd=True, at_zero=0),
    "erf": Function(_erf, odd=True, at_zero=0),
    "pi_times": Function(_pi_times, odd=True, at_zero=0),  # pi * x: how definitions write the constant pi
    "abs": Function(np.abs, even=True, nonnegative=True, at_zero=0),
    "sign": Function(_sign, integer=True, odd=True, at_zero=0),
    "floor": Function(np.floor, integer=True, fixes_integers=True, at_zero=0),
    "trunc": Function(np.trunc, integer=True, fixes_integers=True, odd=True, at_zero=0),
    "round": Function(np.round, integer=True, fixes_integers=True, odd=True, at_zero=0),  # halves to the even neighbour
    "pow": Function(np.power, arity=2),  # x ** y, both operands variable
    "floor_divide": Function(np.floor_divide, arity=2, integer=True),  # floor(x / y) of integers
    "bitwise_and": Function(np.bitwise_and, arity=2, integer=True, commutative=True),  # of integers
    "bitwise_or": Function(np.bitwise_or, arity=2, integer=True, commutative=True),
    "bitwise_xor": Function(np.bitwise_xor, arity=2, integer=True, commutative=True),
}


def _argsort(x: Any, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """``attributes = (descending,)``. Positions in sorted order; equal elements keep their order."""
    (descending,) = attributes
    return (np.argsort(-x if descending else x, axis=-1, kind="stable"),)


# f(*operands, attributes) -> results: float64 or int64 arrays with equal shapes, the function acts along the last axis
# of each and returns one array per result (only the last axis may have another size).
ROW_FUNCTIONS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "argsort": _argsort,
}
