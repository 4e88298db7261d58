"""Recorded numbers that are views of one leaf, and numbers that are not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from tantamount.calculus.calculus import Calculus
from tantamount.calculus.compare import equal
from tantamount.calculus.forms import Form, concat, permute, reshape, slice_form
from tantamount.calculus.tables import recorded
from tantamount.ir.types import Kind

C = np.array([Fraction(2 * k + 1, 97) for k in range(12)], dtype=object).reshape(4, 3)


def form(store: Calculus, numbers: NDArray[np.object_]) -> Form:
    return recorded(store, tuple(numbers.ravel().tolist()), numbers.shape, Kind.FLOAT)


def test_views_of_one_leaf() -> None:
    store = Calculus()
    one = form(store, C)
    views = {
        "beside each other": (np.concatenate([C, C], 1), concat(store, [one, one], 1)),
        "each twice": (np.repeat(C, 2, 1), concat(store, [one] * 2, 0)),
        "dimensions of size 1": (C[None, :, None], reshape(store, one, (1, 4, 1, 3))),
        "turned around": (C.T.copy(), permute(store, one, (1, 0))),
        "rows": (C[1:3], slice_form(store, one, 0, 1, 3, 1)),
        "columns": (C[:, 1:], slice_form(store, one, 1, 1, 3, 1)),
        "copies of columns of one row": (
            np.tile(C[:, :2], (3, 2)),
            concat(store, [slice_form(store, one, 1, 0, 2, 1)] * 2, 1),
        ),
    }
    for name, (numbers, wanted) in views.items():
        found = form(store, numbers)
        assert found.shape == numbers.shape, name
        if name == "each twice":
            wanted = reshape(store, permute(store, reshape(store, wanted, (2, 4, 3)), (1, 2, 0)), (4, 6))
        if name.startswith("copies"):
            wanted = concat(store, [wanted] * 3, 0)
        assert equal(store, found, wanted) is None, name
    assert len(store.leaves.tables) == 1


@pytest.mark.parametrize("change", [0, 5, 23])
def test_one_other_number(change: int) -> None:
    """Copies that differ in one number are no copies."""
    store = Calculus()
    one = form(store, C)
    twice = np.concatenate([C, C], 1)
    twice.reshape(-1)[change] += 1
    found = form(store, twice)
    assert equal(store, found, concat(store, [one, one], 1)) is not None
    assert len(store.leaves.tables) == 2
