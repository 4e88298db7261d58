"""Comparisons of compositions of functions have the values that the reference interpreter gives, at zeros and ones,
too: comparisons are decided by rules about signs, squares, what grows and what is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from support.agreement import CheckedEvaluator, difference, leaves_of
from support.amount import EVERYTHING
from tantamount.calculus.calculus import Calculus
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.effort import Effort
from tantamount.errors import Unsupported
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.semantics.reference import IntegerOverflow, Reference

Function = Callable[[Builder, Tensor], Tensor]
REALS = np.array([-3.0, -2.0, -1.0, -0.75, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0])
WHOLE = np.arange(-4, 8)
ROUNDED = {"tanh", "atan", "expm1", "sigmoid"}  # to their bounds, by float64; forms have exponentials in the last two


def _aten(name: str, *more: object) -> Function:
    target = f"aten.{name}"
    return lambda b, x: apply(lookup(target, "test"), target, (x, *more), {}, b, "test")


FUNCTIONS: dict[str, Function] = {
    "x": lambda b, x: x,
    "-x": lambda b, x: b.neg(x),
    "square": lambda b, x: b.mul(x, x),
    "-square": lambda b, x: b.neg(b.mul(x, x)),
    "cube": lambda b, x: b.mul(x, b.mul(x, x)),
    "abs": _aten("abs.default"),
    "relu": _aten("relu.default"),
    "sign": _aten("sign.default"),
    "minus": lambda b, x: b.sub(x, 1),
    "three quarters": lambda b, x: b.mul(x, Fraction(-3, 4)),
    "x |x|": lambda b, x: b.mul(x, _aten("abs.default")(b, x)),
    "1 - x^2": lambda b, x: b.sub(1, b.mul(x, x)),
    "x - |x|": lambda b, x: b.sub(x, _aten("abs.default")(b, x)),
    "x^2 - x": lambda b, x: b.sub(b.mul(x, x), x),
    "x sign": lambda b, x: b.mul(x, _aten("sign.default")(b, x)),
    "clamped": _aten("clamp.default", -1, 2),
    "chosen": lambda b, x: b.where(b.less(x, 1), x, b.neg(x)),
    "truth": lambda b, x: b.cast(b.less(x, 1), x.dtype),
}
OUTER: dict[str, Function] = {
    **FUNCTIONS,
    "tanh": _aten("tanh.default"),
    "expm1": _aten("expm1.default"),
    "atan": _aten("atan.default"),
    "floor": _aten("floor.default"),
    "sigmoid": _aten("sigmoid.default"),
}
COMPARED: dict[str, Function] = {
    f"{op} {number}": (
        (lambda b, x, k=number: b.less(x, k))
        if op == "<"
        else (lambda b, x, k=number: b.less(k, x))
        if op == ">"
        else (lambda b, x, k=number: b.equal(x, k))
    )
    for op, number in product("<>=", (0, 1, -1, Fraction(1, 2)))
}


def _wrong(dtype: DType, values: np.ndarray, names: tuple[str, ...]) -> Iterator[str]:
    """The comparisons of one composition that a form and the reference disagree about."""
    store = Calculus(Effort(1))
    symbolic, exact = Builder(Symbolic(store, Trace())), Builder(Reference())
    shape = values.shape
    form = Tensor(shape, dtype, symbolic.interpretation.fresh("input", "x", shape, dtype))  # type: ignore[attr-defined]
    value = Tensor(shape, dtype, values)
    evaluator = CheckedEvaluator(store, leaves_of({"x": values}))
    for name in names:
        try:
            form, value = OUTER[name](symbolic, form), OUTER[name](exact, value)
        except IntegerOverflow:
            return
    rounded, by_exponentials = ROUNDED & {*names}, {"expm1", "sigmoid"} & {*names}
    for label, compared in COMPARED.items():
        wanted = np.asarray(compared(exact, value).value, dtype=np.float64)
        number = float(Fraction(label[2:]))
        if by_exponentials or (rounded and number):
            wanted[np.abs(np.asarray(value.value) - number) < 1e-6] = np.nan
        try:
            found = compared(symbolic, form).value
        except Unsupported:
            continue
        told = difference(wanted, evaluator.form(found))
        if told is not None:
            yield f"{dtype.label}: {' then '.join(names)} {label}: {told}"


CHAINS = [(first, second, last) for first, second, last in product(FUNCTIONS, OUTER, OUTER) if second not in ROUNDED]


@pytest.mark.parametrize(("dtype", "values"), [(DType.FLOAT64, REALS), (DType.INT64, WHOLE)])
def test_comparisons_are_those_of_the_values(dtype: DType, values: np.ndarray) -> None:
    """Chains of two functions, and of three, one in a number of them."""
    pairs = [*product(FUNCTIONS, OUTER)]
    chains = pairs + CHAINS if EVERYTHING else pairs[:: 2 if dtype is DType.FLOAT64 else 5] + CHAINS[::397]
    wrong = [one for names in chains for one in _wrong(dtype, values, names)]
    assert not wrong, wrong[:10]
