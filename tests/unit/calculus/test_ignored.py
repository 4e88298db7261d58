"""Sums over classes where labels are classes or ignored: what the fact gives, against evaluation; and nothing more."""

from __future__ import annotations

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor

FLOAT, INT = DType.FLOAT32, DType.INT64
LABELS = 3


def hits(w: Workbench, labels: Tensor, classes: int, first: int = 0) -> Tensor:
    """``SUM_{v < classes} [label == first + v]`` for every label."""
    wanted = w.b.add(w.b.iota(classes), first)
    return w.b.sum(w.b.cast(w.b.equal(w.b.unsqueeze(labels, 1), w.b.unsqueeze(wanted, 0)), FLOAT), (1,))


def look_up(w: Workbench, labels: Tensor, classes: int, ignored: int) -> Tensor:
    """Look up logits as a loss does, which assumes that labels are classes or ignored; what is counted."""
    counted = w.b.not_(w.b.equal(labels, ignored))
    inside = w.b.where(counted, labels, w.b.number(0, INT))
    w.b.gather(w.input("logits", classes), [inside])
    return w.b.cast(counted, FLOAT)


@pytest.mark.parametrize("ignored", [-100, -1, 4, 99])
@pytest.mark.parametrize("late", [False, True])  # whether the sum's guards are made before the fact's atoms are joined
def test_what_is_not_ignored_is_found_once(ignored: int, late: bool) -> None:
    w = Workbench()
    labels = w.input("labels", LABELS, dtype=INT)
    if late:
        w.b.equal(w.b.unsqueeze(labels, 1), w.b.unsqueeze(w.b.iota(4), 0))
    counted = look_up(w, labels, 4, ignored)
    found = hits(w, labels, 4)
    assert w.equivalent(found, counted)
    for values in ([0, 3, ignored], [ignored, ignored, 2]):
        data = w.data(labels=values)
        assert w.value(found, data).tolist() == w.value(counted, data).tolist() == [float(v != ignored) for v in values]


@pytest.mark.parametrize(
    ("known", "ignored", "classes", "first"),
    [
        (5, -100, 4, 0),  # a label may be 4
        (4, -100, 3, 1),  # a label may be 0
        (4, 2, 4, 0),  # the ignored one is itself a class
        (4, -100, 6, -100),  # the ignored one is among those that are looked for
    ],
)
def test_nothing_is_concluded_where_it_is_not_so(known: int, ignored: int, classes: int, first: int) -> None:
    w = Workbench()
    labels = w.input("labels", LABELS, dtype=INT)
    counted = look_up(w, labels, known, ignored)
    found = hits(w, labels, classes, first)
    assert not w.equivalent(found, counted)
    for values in ([0, known - 1, ignored], [1, 2, 3]):
        expected = [float(first <= v < first + classes) for v in values]
        assert w.value(found, w.data(labels=values)).tolist() == expected


def test_a_fact_about_some_labels_says_nothing_of_others() -> None:
    w = Workbench()
    labels = w.input("labels", LABELS, dtype=INT)
    first = w.b.slice(labels, 0, 0, 2)
    counted = w.b.cast(w.b.not_(w.b.equal(labels, -100)), FLOAT)
    look_up(w, first, 4, -100)
    found = hits(w, labels, 4)
    assert not w.equivalent(found, counted)
    data = w.data(labels=[0, -100, 7])
    assert w.value(found, data).tolist() == [1.0, 0.0, 0.0]
    assert np.all(w.value(hits(w, first, 4), data) == [1.0, 0.0])


def test_two_values_that_are_ignored() -> None:
    w = Workbench()
    labels = w.input("labels", LABELS, dtype=INT)
    counted = w.b.and_(w.b.not_(w.b.equal(labels, -100)), w.b.not_(w.b.equal(labels, -1)))
    w.b.gather(w.input("logits", 4), [w.b.where(counted, labels, w.b.number(0, INT))])
    found = hits(w, labels, 4)
    assert w.equivalent(found, w.b.cast(counted, FLOAT))
    assert not w.equivalent(found, w.b.cast(w.b.not_(w.b.equal(labels, -1)), FLOAT))
    assert not w.equivalent(hits(w, labels, 6, -2), w.b.cast(counted, FLOAT))  # -1 is among those that are looked for
    values = [3, -1, -100]
    data = w.data(labels=values)
    assert w.value(found, data).tolist() == [1.0, 0.0, 0.0]
