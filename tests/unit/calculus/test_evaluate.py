"""The values of forms: parts of inputs are read as blocks, with the same result as point by point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.calculus.evaluate import Evaluator
from tantamount.calculus.polynomials import multiply
from tantamount.calculus.records import freeze
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder

VIEWS: dict[str, Callable[[Builder, Tensor], Tensor]] = {
    "whole": lambda b, x: x,
    "slice": lambda b, x: b.slice(x, 1, 2, 5),
    "last element": lambda b, x: b.slice(x, 1, 5, 6),
    "permuted": lambda b, x: b.permute(x, (2, 0, 1)),
    "blocks": lambda b, x: b.permute(b.reshape(x, (4, 2, 3, 5)), (1, 3, 0, 2)),
    "blocks of a slice": lambda b, x: b.permute(b.reshape(b.slice(x, 1, 2, 6), (4, 2, 2, 5)), (1, 0, 3, 2)),
    "merged": lambda b, x: b.reshape(x, (24, 5)),
    "merged in another order": lambda b, x: b.reshape(b.permute(x, (1, 0, 2)), (24, 5)),
    "repeated": lambda b, x: b.expand(b.slice(x, 0, 1, 2), (3, 6, 5)),
    "every other": lambda b, x: b.slice(x, 1, 0, 6, 2),
    "flipped": lambda b, x: b.flip(x, (1,)),
    "diagonal": lambda b, x: b.contract("iji->ij", b.slice(x, 2, 0, 4)),
}
AS_BLOCKS = {*VIEWS} - {"every other", "flipped", "diagonal", "merged", "merged in another order"}


@pytest.mark.parametrize("name", VIEWS)
def test_parts_of_inputs_are_read_as_point_by_point(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Workbench()
    form = VIEWS[name](bench.b, bench.input("x", 4, 6, 5)).value
    data = {"x": np.where(np.arange(120) % 7 == 0, -0.0, np.arange(120) - 60.5).reshape(4, 6, 5)}
    found = bench.value(form, data)
    part = Evaluator(bench.store, {("x", ()): data["x"]})._part_of_leaf(form)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(Evaluator, "_part_of_leaf", lambda self, form: None)
    wanted = bench.value(form, data)
    assert np.array_equal(found, wanted)
    assert not np.signbit(found[found == 0]).any()
    assert part is not None or name not in AS_BLOCKS


def test_what_lies_outside_a_leaf_is_no_block() -> None:
    """The leaf has fewer elements than the form reads: not a number there, not those of another place."""
    bench = Workbench()
    form = bench.b.slice(bench.input("x", 4, 6), 1, 2, 6).value
    found = bench.value(form, {"x": np.ones((4, 5))})
    assert np.isnan(found[:, 3]).all()
    assert np.array_equal(found[:, :3], np.ones((4, 3)))


def test_negations_that_sums_leave_alone_have_values() -> None:
    bench = Workbench()
    x = bench.input("x", 5)
    ((_, held),) = bench.aten("aten.ge.Scalar", x, 1.0).value.pieces  # 1 - [x < 1]
    frozen = freeze(bench.store, multiply(bench.store, held, bench.aten("aten.ge.Scalar", x, 3.0).value.pieces[0][1]))
    assert {bench.store.atoms[f.atom].op for m, _ in frozen for f in m} == {"not"}
    found = Evaluator(bench.store, {("x", ()): np.arange(5.0)}).polynomial(frozen, {0: np.arange(5)})
    assert np.array_equal(found, np.arange(5) >= 3)
