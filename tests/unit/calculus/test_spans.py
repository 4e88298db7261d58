"""Intervals of what forms are made of."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf

import pytest

from support.calculus import Workbench
from tantamount.calculus.signs import decided
from tantamount.calculus.spans import of_polynomial
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.sizes.symbolic import Space

Make = Callable[[Workbench], Tensor]


def span(make: Make) -> tuple[object, object]:
    w = Workbench()
    form = make(w).value
    ((box, x),) = form.pieces
    return of_polynomial(w.store, x, box)


def s8(w: Workbench) -> Tensor:
    return w.input("s", 4, dtype=DType.INT8)


def u8(w: Workbench) -> Tensor:
    return w.input("u", 4, dtype=DType.UINT8)


def real(w: Workbench) -> Tensor:
    return w.input("x", 4)


def wide(w: Workbench, x: Tensor) -> Tensor:
    return w.b.cast(x, DType.INT64)


CASES: dict[str, tuple[Make, object, object]] = {
    "int8": (s8, -128, 127),
    "uint8": (u8, 0, 255),
    "a product": (lambda w: w.b.mul(wide(w, s8(w)), wide(w, u8(w))), -128 * 255, 127 * 255),
    "a square": (lambda w: w.b.mul(wide(w, s8(w)), wide(w, s8(w))), 0, 128 * 128),
    "a sum over a dimension": (lambda w: w.b.expand(w.b.sum(u8(w)), (4,)), 0, 4 * 255),
    "a clamp": (lambda w: w.aten("aten.clamp.default", real(w), -3, 5), -3, 5),
    "clamped below only": (lambda w: w.aten("aten.clamp_min.default", real(w), -3), -3, inf),
    "clamped above only": (lambda w: w.aten("aten.clamp_max.default", real(w), 5), -inf, 5),
    "rounded": (lambda w: w.aten("aten.round.default", w.aten("aten.clamp.default", real(w), -2.5, 3.5)), -2, 4),
    "a reciprocal": (
        lambda w: w.b.power(w.aten("aten.clamp.default", real(w), 2, 4), -1), Fraction(1, 4), Fraction(1, 2),
    ),
    "a quotient": (lambda w: w.aten("aten.floor_divide.Scalar", wide(w, s8(w)), 16), -8, 7),
    "a remainder": (lambda w: w.b.function("modulo_8", wide(w, w.input("i", 4, dtype=DType.INT64))), 0, 255),
    "an exponential": (lambda w: w.b.exp(real(w)), 0, inf),
    "a reciprocal of what may be 0": (lambda w: w.b.power(real(w), -2), -inf, inf),
    "a half": (lambda w: w.b.mul(w.b.function("tanh", real(w)), Fraction(1, 2)), Fraction(-1, 2), Fraction(1, 2)),
    "anything": (real, -inf, inf),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_interval(name: str) -> None:
    make, low, high = CASES[name]
    assert span(make) == (low, high)


def test_a_maximum_under_a_mask_may_have_no_member() -> None:
    """The greatest of ``u[i] + 7`` where the mask holds, and of x: no more than x where it holds nowhere."""
    w = Workbench()
    mask, x = w.input("m", 4, dtype=DType.BOOL), real(w)
    kept = w.b.where(mask, w.b.cast(w.b.add(wide(w, u8(w)), 7), DType.FLOAT32), -inf)
    top = w.b.maximum(w.b.expand(w.b.amax(kept), (4,)), w.aten("aten.clamp.default", x, -1, 1))
    for box, piece in top.value.pieces:
        low, _ = of_polynomial(w.store, piece, box)
        assert low <= -1


def test_a_place_in_a_row_of_symbolic_size_beside_what_has_no_end() -> None:
    """Sizes and infinities are not added up."""
    w, space = Workbench(), Space({"n": 5})
    x = w.input("x", space.symbols["n"])
    (order,) = w.b.rows("argsort", [x], 0, (False,), [(space.symbols["n"], DType.INT64)])
    for found in (w.b.add(order, x), w.b.mul(order, x), w.b.sub(w.b.mul(x, x), order)):
        ((box, form),) = found.value.pieces
        assert of_polynomial(w.store, form, box)[1] == inf
        assert decided(w.store, "less", form, box) is None
