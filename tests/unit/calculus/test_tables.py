"""Recorded constants: numbers where they are round, else leaves of which rows are rows."""

from __future__ import annotations

from fractions import Fraction

from tantamount.calculus.calculus import Calculus
from tantamount.calculus.compare import equal
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.ir.types import DType
from tantamount.ops.builder import Builder

FREQUENCIES = [1.0, 0.10000000149011612, 0.009999999776482582, 0.0010000000474974513]


def test_rows_of_a_table_are_rows_of_its_leaf() -> None:
    store = Calculus()
    b = Builder(Symbolic(store, Trace(assume_indices=True)))
    whole = b.table(FREQUENCIES, (4,), DType.FLOAT32)
    part = b.table(FREQUENCIES[1:], (3,), DType.FLOAT32)
    assert len(whole.value.pieces) == 1
    assert equal(store, b.slice(whole, 0, 1, 4).value, part.value) is None
    other = b.table([*FREQUENCIES[1:3], 0.3000000119], (3,), DType.FLOAT32)
    assert equal(store, b.slice(whole, 0, 1, 4).value, other.value) is not None


def test_round_numbers_stay_numbers() -> None:
    store = Calculus()
    b = Builder(Symbolic(store, Trace(assume_indices=True)))
    slopes = b.table([0.5, 0.25, 0.125], (3,), DType.FLOAT32)
    for k, value in enumerate((Fraction(1, 2), Fraction(1, 4), Fraction(1, 8))):
        assert equal(store, b.slice(slopes, 0, k, k + 1).value, b.full((1,), value, DType.FLOAT32).value) is None
