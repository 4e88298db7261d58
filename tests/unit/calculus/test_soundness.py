"""One test per unsound rule that was found and repaired, or suspected and found right."""

from __future__ import annotations

import numpy as np
from support.calculus import Workbench

from tantamount.calculus.forms import Form
from tantamount.calculus.rebuild import distribute
from tantamount.ir.types import DType


def distributed(w: Workbench, form: Form) -> Form:
    return Form(form.dims, tuple((box, distribute(w.store, x)) for box, x in form.pieces))


def test_a_rebuild_inside_a_rebuild_does_not_capture_its_axes() -> None:
    # sum_a p[a, i] s[i] with s[i] = sum_a p[a, i]: simplifying s under "p[a, i] = 1" must not touch its own bound a
    w = Workbench()
    p, x, y = w.input("p", 2, 2, dtype=DType.BOOL), w.input("x", 2), w.input("y", 2)
    chosen = w.b.where(p, x, y)
    variance = w.b.sum(w.b.power(w.b.sub(chosen, w.b.mean(chosen, (0,), keepdim=True)), 2), (0,))
    data = w.data(3, p=[[True, False], [False, False]])
    values = np.where(data["p"], data["x"], data["y"])
    expected = ((values - values.mean(0)) ** 2).sum(0)
    assert np.allclose(w.value(variance, data), expected)
    assert np.allclose(w.value(distributed(w, variance.value), data), expected)


def test_a_count_of_equal_indices_is_not_a_boolean() -> None:
    # sum_k [i[k] == v] counts; its square is not itself
    w = Workbench()
    i = w.input("i", 4, dtype=DType.INT64)
    hot = w.b.cast(w.b.equal(w.b.unsqueeze(i, -1), w.b.iota(3)), DType.FLOAT32)
    count = w.b.sum(hot, (0,))
    data = w.data(i=[1, 1, 0, 1])
    assert w.value(w.b.mul(count, count), data).tolist() == [1.0, 9.0, 0.0]
    assert not w.same(w.b.mul(count, count), count)
