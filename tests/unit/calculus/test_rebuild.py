"""Polynomials computed anew: each atom at a few places, whatever the way to it, and nothing that was bound is confused
with what was put in."""

from __future__ import annotations

import pytest

from support.calculus import Workbench
from tantamount.calculus import comparisons
from tantamount.calculus.affine import coordinate, fixed, variable
from tantamount.calculus.atoms import LAST_AXIS, Store, ValueFacts
from tantamount.calculus.cases import _Replacing
from tantamount.calculus.expand import equal_polynomials
from tantamount.calculus.polynomials import add, iota, multiply, pinned, sum_over
from tantamount.calculus.powers import function
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import Factor, Polynomial, single
from tantamount.ops.algebra import Tensor

SIZE = 6


def polynomial_of(x: Tensor) -> Polynomial:
    """The one polynomial of a form, over its axes."""
    ((_, found),) = [(box, value) for box, value, *_ in x.value.pieces]
    return found


def test_axes_for_bound_variables_are_the_same_below_the_same_variables() -> None:
    store = Workbench().store
    one, other = ((a, (low, high)) for low, high in ((0, 4), (0, 8)) for a in store.posing_axes([(low, high)], ()))
    assert one != other  # an axis has one interval
    assert store.posing_axes([(0, 4)], ()) == dict([one])
    inner = store.posing_axes([(0, 4), (0, 4)], [3, one[0]])
    assert len(inner) == 2
    assert all(axis > one[0] for axis in inner)


def test_towers_take_a_step_per_atom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every floor reads the one below at its own place and at all others: the ways to the ground are 2 ** floors."""

    def steps(floors: int) -> int:
        w = Workbench()
        b = w.b
        x = w.input("x", SIZE, SIZE)
        for _ in range(floors):
            x = b.function("sin", b.add(x, b.unsqueeze(b.sum(b.mul(x, b.function("cos", x)), (1,)), 1)))
        count = 0
        compute = Rebuild._compute

        def counted(self: Rebuild, factor: Factor) -> Polynomial:
            nonlocal count
            count += 1
            return compute(self, factor)

        with monkeypatch.context() as patch:
            patch.setattr(Rebuild, "_compute", counted)
            Rebuild(w.store, budget=1 << 30, box=((0, SIZE), (0, SIZE))).polynomial(polynomial_of(x))
        return count

    few, more = steps(4), steps(8)
    assert few < more < 6 * few  # an atom is met at as many places as there are floors above it


def _pair_sum(store: Store, x: int, y: int) -> Polynomial:
    """``SUM_j x[j] y[j]``."""
    (axis,) = store.fresh_axes(1)
    product = multiply(store, single(x, (variable(axis),)), single(y, (variable(axis),)))
    return sum_over(store, product, {axis: (0, SIZE)})


def test_what_is_put_in_is_not_captured_by_a_sum() -> None:
    """``x[a] = z[a]`` for an axis a says nothing of the other elements of x, though a sum takes axes like it."""
    w = Workbench()
    x, y, z = (polynomial_of(w.input(name, SIZE))[0].monomial[0].atom for name in ("x", "y", "z"))
    total = _pair_sum(w.store, x, y)
    (axis,) = w.store.posing_axes([(0, SIZE)], ())
    place = (variable(axis),)
    replacing = _Replacing(w.store, {(x, place): (single(z, place), 1)}, {axis: (0, SIZE)})
    assert replacing.polynomial(total) == total
    assert replacing.polynomial(multiply(w.store, total, single(x, place))) == multiply(
        w.store, total, single(z, place)
    )


def test_what_was_found_in_one_box_is_not_taken_in_another() -> None:
    """``[i < 4]`` is 1 for i below 4, and unknown below 8."""
    store = Workbench().store
    x = single(store.leaf("input", "x", (8,), ValueFacts()), (variable(0),))
    guard = comparisons.compare(store, "less", iota(variable(0, 1, -4)), (), {})
    masked = function(store, "sin", (multiply(store, guard, x),))
    found = [
        Rebuild(store, budget=100, box={0: interval}).polynomial(masked)
        for interval in ((0, 8), (0, 4), (4, 8), (0, 8), (0, 4))
    ]
    whole, low, high, *again = found
    assert (whole, low) == (masked, function(store, "sin", (x,)))
    assert high not in (whole, low)
    assert again == [whole, low]


@pytest.mark.parametrize("axis", ["first", "posing", "fresh", "after many"])
def test_a_sum_is_the_same_whatever_number_its_free_axis_has(axis: str) -> None:
    """``sum over c of [c + e <= 2] x[c]``: bound variables that pose as axes for a moment are none of the others,
    however many axes there have been. (Both once began at 2^40: e was taken for c.)"""
    w = Workbench()
    store = w.store
    x = store.leaf("input", "x", (4,), ValueFacts())
    if axis == "after many":
        for _ in range(1 << 17):
            store.fresh_axes(1)
    numbers = {
        "first": 0,
        "posing": next(iter(store.posing_axes([(0, 3)], ()))),
        "fresh": store.fresh_axes(1)[0],
        "after many": store.fresh_axes(2)[1],
    }
    e = numbers[axis]
    (c,) = store.posing_axes([(0, 4)], [e])
    guard = comparisons.compare(store, "less", iota(coordinate({c: 1, e: 1}, -3)), (), {e: (0, 3), c: (0, 4)})
    summand = multiply(store, guard, single(x, (variable(c),)))
    found = sum_over(store, summand, {c: (0, 4)})
    for value in range(3):
        here = pinned(store, found, {e: fixed(value)})
        wanted = [single(x, (fixed(k),)) for k in range(3 - value)]
        assert equal_polynomials(store, here, add(store, *wanted), ()).proved
    assert max(store.fresh_axes(1)) < LAST_AXIS
