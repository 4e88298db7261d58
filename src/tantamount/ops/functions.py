"""Opaque functions that the primitives ``function`` (pointwise) and ``rows`` (whole rows) may name, with their facts."""

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
    ``fixes_integers``: it is the identity on whole numbers; ``positive`` / ``nonnegative``: its values always are;
    ``even``/``odd``: f(-x) = f(x), f(-x) = -f(x); ``commutative`` for two operands; ``at_zero``: its exact value at 0."""

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

FUNCTIONS: dict[str, Function] = {
    "sin": Function(np.sin, odd=True, at_zero=0),
    "cos": Function(np.cos, even=True, at_zero=1),
    "tanh": Function(np.tanh, odd=True, at_zero=0),
    "erf": Function(_erf, odd=True, at_zero=0),
    "floor": Function(np.floor, integer=True, fixes_integers=True, at_zero=0),
    "trunc": Function(np.trunc, integer=True, fixes_integers=True, odd=True, at_zero=0),
}

ROW_FUNCTIONS: dict[str, Callable[..., Any]] = {}
