"""Sums compared cell by cell, and differences cleared of denominators: what is equal, and what only looks like it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from support.calculus import Workbench
from tantamount.calculus.cells import common_cells
from tantamount.calculus.compare import equal
from tantamount.ops.algebra import Tensor

SIZE = 8


class Causal(Workbench):
    """sum_a x_a / (sum of exp(s_ab) over b <= a), and the same for parts of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.s = self.input("x", SIZE), self.input("s", SIZE, SIZE)

    def part(self, low: int, high: int, *, columns: int = SIZE, behind: int = 0) -> Tensor:
        """The rows ``low..high``, of which the first ``columns`` are known to be all; ``behind`` shifts the mask."""
        b = self.b
        weights = b.exp(b.slice(b.slice(self.s, 0, low, high), 1, 0, columns))
        rows = b.reshape(b.add(b.iota(high - low), low - behind), (high - low, 1))
        later = b.less(rows, b.reshape(b.iota(columns), (1, columns)))
        total = b.sum(b.where(later, 0, weights), (1,))
        return b.sum(b.div(b.slice(self.x, 0, low, high), total))

    def alike(self, parts: Sequence[Tensor]) -> bool:
        total = parts[0]
        for part in parts[1:]:
            total = self.b.add(total, part)
        return equal(self.store, self.part(0, SIZE).value, total.value) is None


@pytest.mark.parametrize("ends", [(0, 4, 8), (0, 2, 8), (0, 1, 2, 5, 8), (0, 8)])
def test_parts_of_a_causal_sum(ends: tuple[int, ...]) -> None:
    w = Causal()
    assert w.alike([w.part(low, high, columns=high) for low, high in pairwise(ends)])


def test_what_is_no_causal_sum() -> None:
    for wrong in (
        lambda w: [w.part(0, 4, columns=4), w.part(4, 8, behind=1)],
        lambda w: [w.part(0, 4, columns=4), w.part(4, 8, columns=7)],
        lambda w: [w.part(0, 4, columns=4), w.part(5, 8)],
        lambda w: [w.part(0, 4, columns=4), w.part(3, 8)],
        lambda w: [w.part(0, 4, columns=4)],
        lambda w: [w.part(0, 4, columns=4), w.part(4, 8), w.part(4, 8)],
    ):
        w = Causal()
        assert not w.alike(wrong(w))


def test_cells_are_those_of_both_sides() -> None:
    w = Causal()
    whole, split = (x.value.pieces[0][1] for x in (w.part(0, SIZE), w.b.add(w.part(0, 3, columns=3), w.part(3, SIZE))))
    assert [cell.interval for cell in next(common_cells(w.store, whole, split))] == [(0, 3), (3, 8)]
    assert not [*common_cells(w.store, whole, ())]


@pytest.mark.parametrize(("sign", "same"), [(1, True), (-1, False)])
def test_results_merged_by_their_denominators(sign: int, same: bool) -> None:
    """u/d - s u / ((d + s) d) + w/(d + s) = (u + w)/(d + s), where u is a sum of two terms that stay apart."""
    w = Workbench()
    b = w.b
    d, s = (b.sum(b.exp(w.input(name, 3))) for name in "ds")
    u, v, t = (w.input(name, 2) for name in "uvt")
    n = b.add(d, s)
    shrunk = b.add(b.div(u, d), b.mul(b.div(v, d), sign))
    back = b.div(b.mul(s, b.add(u, v)), b.mul(n, d))
    merged = b.add(b.sub(shrunk, back), b.div(t, n))
    found = equal(w.store, merged.value, b.div(b.add(b.add(u, v), t), n).value)
    assert (found is None) is same
