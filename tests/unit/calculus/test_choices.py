"""Elements at chosen positions: equal whatever the choice, where the sum is over the whole row and of its elements
alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.calculus.choices import settled
from tantamount.ops.algebra import Tensor

Row = Callable[[Workbench], Tensor]


def _select(w: Workbench, x: Tensor, at: int) -> Tensor:
    return w.b.select(x, -1, at)


# The position of the second smallest element, by who chooses it.
POSITIONS: dict[str, Callable[[Workbench, Tensor], Tensor]] = {
    "sort": lambda w, x: _select(w, w.aten("aten.sort.default", x)[1], 1),
    "sort(descending)": lambda w, x: _select(w, w.aten("aten.sort.default", x, -1, True)[1], 3),
    "sort(stable)": lambda w, x: _select(w, w.aten("aten.sort.stable", x, stable=True)[1], 1),
    "topk": lambda w, x: _select(w, w.aten("aten.topk.default", x, 2, -1, False)[1], 1),
    "kthvalue": lambda w, x: w.aten("aten.kthvalue.default", x, 2)[1],
}
ROWS: dict[str, Row] = {
    "x": lambda w: w.input("x", 2, 5),
    "of several terms": lambda w: w.b.add(x := w.input("x", 2, 5), w.aten("aten.relu.default", x)),
    "scaled": lambda w: w.b.mul(w.input("x", 2, 5), -3),
    "a product": lambda w: w.b.mul(w.input("x", 2, 5), w.input("y", 2, 5)),
    "scaled by an unknown": lambda w: w.b.mul(w.input("x", 2, 5), w.input("s", 2, 1)),
    "a function": lambda w: w.b.function("sin", w.input("x", 2, 5)),
}  # fmt: skip


def _at(w: Workbench, x: Tensor, place: Tensor) -> Tensor:
    return w.b.squeeze(w.aten("aten.gather.default", x, -1, w.b.unsqueeze(place, -1)), (-1,))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("second", list(POSITIONS)[1:])
def test_the_value_does_not_depend_on_the_choice(second: str, row: Row) -> None:
    w = Workbench()
    x = row(w)
    one, other = (_at(w, x, POSITIONS[name](w, x)) for name in ("sort", second))
    assert w.equivalent(one, other)
    ties = {name: np.array([[1, 0, 1, 0, 2], [3, 3, 3, 1, 1]])[: s[0], : s[1]] for name, (s, _) in w.shapes.items()}
    for data in (ties, w.data(1)):
        for form in (one, other):
            before = w.value(form, data)
            after = [settled(w.store, inner) for _, inner in form.value.pieces]
            again = type(form.value)(
                form.value.dims, tuple((b, x) for (b, _), x in zip(form.value.pieces, after, strict=True))
            )
            np.testing.assert_allclose(w.value(again, data), before)


def _of_another_row(w: Workbench, x: Tensor, place: Tensor) -> Tensor:
    return _at(w, w.input("z", 2, 5), place)


def _of_a_factor_that_may_vanish(w: Workbench, x: Tensor, place: Tensor) -> Tensor:
    return _at(w, w.b.mul(x, w.input("z", 2, 5)), place)


def _of_a_part_of_the_row(w: Workbench, x: Tensor, place: Tensor) -> Tensor:
    hit = w.b.equal(w.b.unsqueeze(place, -1), w.b.iota(3))
    return w.b.sum(w.b.where(hit, w.b.slice(x, -1, 0, 3), w.b.number(0, x.dtype)), (-1,))


def _the_place_itself(w: Workbench, x: Tensor, place: Tensor) -> Tensor:
    return place


def _whether_it_is_the_first(w: Workbench, x: Tensor, place: Tensor) -> Tensor:
    return w.b.equal(place, 0)


@pytest.mark.parametrize(
    "read",
    [_of_another_row, _of_a_factor_that_may_vanish, _of_a_part_of_the_row, _the_place_itself, _whether_it_is_the_first],
)
@pytest.mark.parametrize("second", list(POSITIONS)[1:])
def test_what_depends_on_the_choice_is_not_equal(second: str, read: Any) -> None:
    w = Workbench()
    x = w.input("x", 2, 5)
    one, other = (read(w, x, POSITIONS[name](w, x)) for name in ("sort", second))
    assert not w.equivalent(one, other)


def test_the_order_of_a_product_with_a_factor_that_may_be_zero_says_nothing_of_the_other_factor() -> None:
    w = Workbench()
    x, s = w.input("x", 2, 5), w.input("s", 2, 1)
    row = w.b.mul(x, s)
    one, other = (_at(w, x, POSITIONS[name](w, row)) for name in ("sort", "topk"))
    assert not w.equivalent(one, other)  # where s is 0, all of s x tie, and x does not


def test_a_row_of_zeros_has_no_value_to_be_read_by() -> None:
    w = Workbench()
    x = w.input("x", 6, 6)
    chosen = w.aten("aten.argmax.default", w.b.sub(x, x), 1)
    read = w.aten("aten.embedding.default", w.b.function("sin", x), chosen)
    assert not w.equivalent(read, x)
