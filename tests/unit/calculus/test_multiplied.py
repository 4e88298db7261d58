"""Sums of sums multiplied out from the outside, pairs of equal functions, and selections by one quantity."""

from __future__ import annotations

from functools import reduce

import pytest

from support.calculus import Workbench
from tantamount.calculus.affine import Coordinate, coordinate, variable
from tantamount.calculus.comparisons import fact_about, record_range
from tantamount.calculus.multiplied import distribute
from tantamount.calculus.search import Search
from tantamount.calculus.terms import Polynomial, single
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor

ROWS, WIDTH = 5, 3


def polynomial_of(x: Tensor) -> Polynomial:
    ((_, found),) = [(box, value) for box, value, *_ in x.value.pieces]
    return found


def total(w: Workbench, *terms: Tensor) -> Tensor:
    return reduce(w.b.add, terms)


def long_product(w: Workbench, name: str = "f") -> Tensor:
    """A product of five sums of four terms: multiplied out, 1024 terms."""
    sums = [total(w, *(w.input(f"{name}{j}{k}", 4, 4) for k in range(4))) for j in range(5)]
    return reduce(w.b.mul, sums)


def test_sums_are_multiplied_out_from_the_outside() -> None:
    w = Workbench()
    a, c, inner = w.input("a", 4, 4), w.input("c", 4, 4), long_product(w)
    named = w.b.sum(w.b.mul(w.b.mul(total(w, a, c), inner), inner), (1,))
    apart = w.b.sum(total(w, *(w.b.mul(w.b.mul(x, inner), inner) for x in (a, c))), (1,))
    assert w.equivalent(named, apart)
    other = w.b.sum(total(w, w.b.mul(w.b.mul(a, inner), inner), w.b.mul(c, inner)), (1,))
    assert not w.equivalent(named, other)


def test_what_does_not_cancel_is_multiplied_out_to_the_end() -> None:
    w = Workbench()
    x, y = w.input("x", 4), w.input("y", 4)
    s = total(w, x, y)
    cube = w.b.mul(total(w, w.b.mul(s, s), x), s)
    flat = distribute(w.store, polynomial_of(cube), ((0, 4),))
    data = w.data()
    assert all(w.store.atoms[f.atom].op == "leaf" for m, _ in flat for f in m)
    assert w.value(cube, data) == pytest.approx(((data["x"] + data["y"]) ** 2 + data["x"]) * (data["x"] + data["y"]))


def test_a_root_of_squares_that_are_named_at_different_places() -> None:
    """Each the square of a sum of eighteen terms: nobody multiplies that out."""
    w = Workbench()
    parts: list[Tensor] = []
    wholes: list[Tensor] = []
    for k in range(2):
        a, c = (w.input(f"{name}{k}", 4, 4) for name in "ac")
        inner = long_product(w, f"h{k}")
        rest = [w.input(f"r{k}{j}", 4, 4) for j in range(16)]
        parts.append(w.b.sum(total(w, w.b.mul(total(w, a, c), inner), *rest), (1,)))
        wholes.append(w.b.sum(total(w, w.b.mul(a, inner), w.b.mul(c, inner), *rest), (1,)))
    squares = [total(w, *(w.b.sum(w.b.mul(x, x), (0,)) for x in side)) for side in (parts, wholes)]
    assert w.equivalent(*(w.aten("aten.sqrt.default", x) for x in squares))


def test_steps_that_find_a_pair_do_not_count() -> None:
    w = Workbench()
    x, y, z = (w.input(name, 4) for name in "xyz")
    named, apart = w.b.mul(x, total(w, y, z)), total(w, w.b.mul(x, y), w.b.mul(x, z))
    left, right = (polynomial_of(w.aten("aten.sin.default", one)) for one in (named, apart))
    search = Search(w.store, ((0, 4),), most=24)
    before = w.store.effort.steps
    assert search.polynomials(left, right, 0)
    assert 0 < search.allowed <= w.store.effort.steps - before
    other = polynomial_of(w.aten("aten.sin.default", total(w, w.b.mul(x, y), z)))
    search = Search(w.store, ((0, 4),), most=24)
    assert not search.polynomials(left, other, 0)
    assert search.allowed == 0


@pytest.mark.parametrize("shift", [0, 1])
def test_rows_are_read_where_they_are_selected(shift: int) -> None:
    """The gradient of an embedding whose rows are in it: a row times the gradient without it, and no other row."""
    w = Workbench()
    table, g = w.input("table", ROWS, WIDTH), w.input("g", 4, WIDTH)
    tokens = w.input("tokens", 4, dtype=DType.INT64)
    p, q, inner = w.input("p", 4, 1), w.input("q", 4, 1), w.b.unsqueeze(w.b.sum(long_product(w), (1,)), 1)
    read = w.aten("aten.embedding.default", table, tokens)

    def backward(x: Tensor) -> Tensor:
        return w.aten("aten.embedding_dense_backward.default", x, tokens, ROWS, -1, False)

    of_read = backward(w.b.mul(w.b.mul(w.b.mul(total(w, p, q), inner), g), read))
    plain = total(w, *(backward(w.b.mul(w.b.mul(x, inner), g)) for x in (p, q)))
    rows = w.aten("aten.roll.default", table, (shift,), (0,)) if shift else table
    assert w.equivalent(of_read, w.b.mul(rows, plain)) is not bool(shift)


@pytest.mark.parametrize(
    ("place", "known"),
    [
        (coordinate({0: 2, 1: 1}, 0), True),  # digits: 0..5
        (coordinate({0: -2, 1: -1}, 5), True),
        (coordinate({0: 3, 1: 1}, 0), False),  # 2 and 5 are never met
        (coordinate({0: 1, 1: 1}, 0), True),  # some are met twice
    ],
)
def test_a_fact_on_digits_is_one_about_what_they_are_of(place: Coordinate, known: bool) -> None:
    w = Workbench()
    x = w.input("x", 6, dtype=DType.INT64)
    ((factor,), _) = polynomial_of(x)[0]
    record_range(w.store, single(factor.atom, (place,)), 9, ((0, 3), (0, 2)))
    numbers = [sum(s * v for (_, s), v in zip(place.parts, at, strict=True)) + place.offset
               for at in ((a, c) for a in range(3) for c in range(2))]  # fmt: skip
    asked = single(factor.atom, (variable(0),))
    inside = ((min(numbers), max(numbers) + 1),)
    assert fact_about(w.store, asked, inside) == ((0, 8) if known else None)
    assert fact_about(w.store, asked, ((min(numbers), max(numbers) + 2),)) is None


def test_one_axis_in_two_coordinates_is_no_box() -> None:
    """Of ``x[i, i]`` nothing is known off the diagonal."""
    w = Workbench()
    ((factor,), _) = polynomial_of(w.input("x", 4, 4, dtype=DType.INT64))[0]
    record_range(w.store, single(factor.atom, (variable(0), variable(0))), 9, ((0, 4),))
    asked = single(factor.atom, (variable(0), variable(1)))
    assert fact_about(w.store, asked, ((0, 4), (0, 4))) is None


def test_of_no_points_nothing_is_known() -> None:
    w = Workbench()
    ((factor,), _) = polynomial_of(w.input("x", 9, dtype=DType.INT64))[0]
    record_range(w.store, single(factor.atom, (coordinate({0: 1, 1: 3}, 0),)), 4, ((0, 3), (0, 0)))
    assert fact_about(w.store, single(factor.atom, (variable(0),)), ((0, 1),)) is None


def test_a_selection_that_is_divided_by_selects_nothing() -> None:
    """``[t == b] / [t == d]`` is undefined where t is not d, and no selection of what is read at d."""
    w = Workbench()
    row, tokens = w.input("row", ROWS), w.input("tokens", 4, dtype=DType.INT64)
    hot = w.b.cast(w.b.equal(w.b.unsqueeze(tokens, 1), w.b.unsqueeze(w.b.iota(ROWS), 0)), DType.FLOAT32)
    divided = w.b.contract("ij,ik,j->k", hot, w.b.power(hot, -1), row)
    assert not w.equivalent(divided, w.b.contract("ij,ik,j->k", hot, hot, row))
    assert w.equivalent(
        w.b.contract("ij,ik,j->k", hot, w.b.power(hot, 2), row), w.b.contract("ij,ij,j->j", hot, hot, row)
    )
