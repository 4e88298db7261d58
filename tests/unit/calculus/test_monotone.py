"""What compares alike: arguments of functions that grow strictly, and of no others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.functions import FUNCTIONS, ROUNDINGS

Function = Callable[[Workbench, Tensor], Tensor]

STRICT: dict[str, Function] = {
    "exp": lambda w, x: w.b.exp(x),
    "softmax": lambda w, x: w.aten("aten._softmax.default", x, -1, False),
    "log of softmax": lambda w, x: w.aten("aten._log_softmax.default", x, -1, False),
    "a factor and an addend of the row": lambda w, x: w.b.add(
        w.b.mul(x, w.b.exp(w.input("s", 2, 1))), w.input("t", 2, 1)
    ),
    "tanh, doubled": lambda w, x: w.b.mul(w.b.function("tanh", x), 2),
}
OTHER: dict[str, Function] = {
    "turned round": lambda w, x: w.b.neg(x),
    "a factor of unknown sign": lambda w, x: w.b.mul(x, w.input("s", 2, 1)),
    "an addend of its own": lambda w, x: w.b.add(x, w.input("t", 2, 5)),
    "a factor of its own": lambda w, x: w.b.mul(x, w.b.exp(w.input("t", 2, 5))),
    "in steps": lambda w, x: w.b.cast(w.b.cast(x, DType.FLOAT8_E4M3FN), x.dtype),
    "the absolute value": lambda w, x: w.aten("aten.abs.default", x),
    "another row": lambda w, x: w.input("y", 2, 5),
}  # fmt: skip
ORDERS: dict[str, Function] = {
    "topk": lambda w, x: w.aten("aten.topk.default", x, 2)[1],
    "sort(stable)": lambda w, x: w.aten("aten.sort.stable", x, stable=True)[1],
    "argmax": lambda w, x: w.aten("aten.argmax.default", x, -1),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("name", [*STRICT, *OTHER])
def test_rows_in_one_order(name: str, order: Function) -> None:
    """Of a row and of a function of it that grows strictly, an operator takes the same positions."""
    w = Workbench()
    x = w.input("x", 2, 5)
    one, other = order(w, x), order(w, {**STRICT, **OTHER}[name](w, x))
    assert w.equivalent(one, other) is (name in STRICT)
    if name in STRICT:
        for data in (w.data(1), {**w.data(2), "x": np.array([[1, 0, 1, 0, 2], [3, 3, 3, 1, 1]])}):
            np.testing.assert_array_equal(w.value(one, data), w.value(order(w, x), data))


@pytest.mark.parametrize("name", ROUNDINGS.values())
def test_a_rounding_grows_in_steps(name: str) -> None:
    """``f(x) < f(y)`` is not ``x < y``: numbers that differ are rounded to one."""
    w = Workbench()
    x, y = w.input("x", 3), w.input("y", 3)
    rounded = [w.b.function(name, z) for z in (x, y)]
    assert not w.equivalent(w.b.less(*rounded), w.b.less(x, y))
    assert float(FUNCTIONS[name].evaluate(1.001)) == float(FUNCTIONS[name].evaluate(1.0))


def taken(w: Workbench, x: Tensor, *, ordered: bool) -> tuple[Tensor, Tensor]:
    """The two greatest elements of each row and their places, sorted or not."""
    return w.aten("aten.topk.default", x, 2, -1, True, ordered)


def test_results_that_are_not_sorted() -> None:
    """They are those of the sorted ones, in some order: sums over all of them are equal, and nothing else is."""
    w = Workbench()
    x, table = w.input("x", 2, 5), w.input("t", 5, 3)
    (_, at), (_, anyhow) = (taken(w, x, ordered=ordered) for ordered in (True, False))
    rows = [w.b.gather(table, [places, None]) for places in (at, anyhow)]
    sums = [w.b.sum(w.b.function("tanh", one), (1,)) for one in rows]
    by_place = w.input("c", 2)
    weighed = [w.b.contract("tkf,k->tf", one, by_place) for one in rows]
    assert w.equivalent(*sums)
    assert not w.equivalent(*weighed)
    assert not w.equivalent(at, anyhow)
    assert not w.equivalent(*(w.b.select(one, 1, 0) for one in rows))
    _, least = w.aten("aten.topk.default", x, 2, -1, False, False)
    other = w.b.gather(table, [least, None])
    assert not w.equivalent(sums[0], w.b.sum(w.b.function("tanh", other), (1,)))
    data = w.data(3)
    np.testing.assert_allclose(w.value(sums[0], data), w.value(sums[1], data))
