"""Equality has three answers: what ended a search is told, and only what is decided is remembered for good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.calculus import Workbench
from tantamount.calculus.answers import Different, Equal, Undecided
from tantamount.calculus.compare import Difference, equal
from tantamount.calculus.expand import equal_polynomials
from tantamount.calculus.terms import Polynomial
from tantamount.effort import Effort
from tantamount.limits import Bounds
from tantamount.ops.algebra import Tensor

CELL = {0: (0, 4)}  # what is compared in a cell costs 250 of the effort before anything is multiplied out


class Binomial(Workbench):
    """(a + b)^2, and what it is multiplied out."""

    def __init__(self, effort: Effort | None = None) -> None:
        super().__init__(effort)
        b, x, y = self.b, self.input("x", 4), self.input("y", 4)
        total = b.add(x, y)
        self.square = b.mul(total, total)
        self.sum = b.add(b.add(b.mul(x, x), b.mul(b.mul(x, y), 2)), b.mul(y, y))
        self.wrong = b.add(b.add(b.mul(x, x), b.mul(b.mul(x, y), 3)), b.mul(y, y))


def polynomials(*tensors: Tensor) -> tuple[Polynomial, ...]:
    return tuple(tensor.value.pieces[0][1] for tensor in tensors)


def test_with_too_little_effort_it_is_undecided_and_with_all_of_it_equal() -> None:
    w = Binomial()
    x, y = polynomials(w.square, w.sum)
    w.store.left = 251
    answer = equal_polynomials(w.store, x, y, CELL)
    assert isinstance(answer, Undecided)
    (hit,) = answer.hits
    assert (hit.topic, hit.bound) == ("limit-search-effort", 25_000)
    assert hit.needed is not None
    assert hit.needed > 25_000
    assert equal_polynomials(w.store, x, y, CELL) == answer  # remembered, with what was left
    w.store.left = None
    assert equal_polynomials(w.store, x, y, CELL) == Equal()
    w.store.left = 251
    assert equal_polynomials(w.store, x, y, CELL) == Equal()  # what is decided stays so


def test_with_other_bounds_the_search_is_made_again() -> None:
    w = Binomial(Effort(bounds=Bounds(expanded_terms=2)))
    x, y = polynomials(w.square, w.sum)
    first = equal_polynomials(w.store, x, y)
    assert isinstance(first, Undecided)
    assert [hit.name for hit in first.hits] == ["expanded_terms"]
    w.store.effort.bounds = replace(w.store.effort.bounds, compared_pairs=1000)
    assert equal_polynomials(w.store, x, y) is first  # not the bound that ended it
    w.store.effort.bounds = Bounds()
    assert equal_polynomials(w.store, x, y).proved


def test_what_differs_is_said_term_by_term() -> None:
    w = Binomial()
    x, y = polynomials(w.square, w.wrong)
    answer = equal_polynomials(w.store, x, y)
    assert isinstance(answer, Different)
    ((_, coefficient),) = answer.residual  # -x y
    assert coefficient == -1
    assert not w.store.effort.hits


def test_no_answer_has_a_truth_value() -> None:
    w = Binomial()
    for pair in ((w.square, w.sum), (w.square, w.wrong)):
        with pytest.raises(TypeError, match="three values"):
            bool(equal_polynomials(w.store, *polynomials(*pair)))
    difference = equal(w.store, w.square.value, w.wrong.value)
    assert isinstance(difference, Difference)
    with pytest.raises(TypeError, match="truth value"):
        bool(difference)


def test_a_difference_of_forms_carries_the_answer() -> None:
    w = Binomial()
    assert equal(w.store, w.square.value, w.sum.value) is None
    unexpanded = equal(w.store, w.square.value, w.sum.value, expand=False)
    assert unexpanded is not None
    assert isinstance(unexpanded.answer, Undecided)
    assert unexpanded.answer.reason == "products were not multiplied out"
    expanded = equal(w.store, w.square.value, w.wrong.value)
    assert expanded is not None
    assert isinstance(expanded.answer, Different)


def test_an_answer_that_rests_on_an_undecided_one_is_undecided_again() -> None:
    """The second question finds the first one's answer in memory: the bound that ended it counts for both."""
    w = Binomial(Effort(bounds=Bounds(expanded_terms=2)))
    x, y = polynomials(w.square, w.sum)
    equal_polynomials(w.store, x, y)
    before = w.store.effort.hits["expanded_terms"].count
    equal_polynomials(w.store, x, y)
    assert w.store.effort.hits["expanded_terms"].count == before + 1


def test_a_way_that_takes_too_many_steps_is_followed_by_the_next() -> None:
    """The first ways give up; one that needs fewer steps still shows it, as long as there are steps for all."""
    few = replace(Bounds(), search_steps=5)
    w = Binomial(Effort(bounds=few))
    x, y = polynomials(w.square, w.wrong)
    first = equal_polynomials(w.store, x, y)
    assert isinstance(first, Undecided)
    assert "search_steps" in {hit.name for hit in first.hits}
    assert w.store.fruitless > 5
    w.store.effort.bounds = Bounds()  # with more of it, the search is made again
    assert isinstance(equal_polynomials(w.store, x, y), Different)
    assert equal_polynomials(w.store, *polynomials(w.square, w.sum)) == Equal()
