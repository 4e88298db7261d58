"""Convolutions cut along samples, channels, groups and rows: what the calculus must put together, and must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.semantics.reference import Reference

CONV, BACK = "aten.convolution.default", "aten.convolution_backward.default"
Attributes = tuple[Any, ...]


def attributes(stride: int = 1, padding: tuple[int, int] = (1, 1), dilation: int = 1, groups: int = 1) -> Attributes:
    return (stride, stride), padding, (dilation, dilation), False, (0, 0), groups


def halves(w: Workbench, x: Tensor, dim: int) -> list[Tensor]:
    half = x.shape[dim] // 2
    return [w.b.slice(x, dim, low, low + half) for low in (0, half)]


def gradients(w: Workbench, dy: Tensor, x: Tensor, k: Tensor, given: Attributes) -> tuple[Tensor, Tensor]:
    return w.aten(BACK, dy, x, k, None, *given, (True, True, False))[:2]


@pytest.mark.parametrize("size", [8, 64])
@pytest.mark.parametrize(
    "given", [attributes(), attributes(2), attributes(1, (0, 2), 2), attributes(3, (2, 0)), attributes(groups=2)]
)
def test_parts_of_convolutions_and_gradients(given: Attributes, size: int) -> None:
    w = Workbench()
    b, groups = w.b, given[-1]
    x, k = w.input("x", 4, 8, size, size), w.input("k", 6, 8 // groups, 3, 3)
    y = w.aten(CONV, x, k, None, *given)
    dy = w.input("dy", *y.shape)
    dx, dk = gradients(w, dy, x, k, given)
    assert all(len(z.value.pieces) == 1 for z in (y, dx, dk))  # whatever the sizes
    xs, ys = halves(w, x, 0), halves(w, dy, 0)  # samples
    parts = [gradients(w, p, q, k, given) for p, q in zip(ys, xs, strict=True)]
    assert w.same(b.concat([w.aten(CONV, p, k, None, *given) for p in xs], 0), y)
    assert w.same(b.concat([p[0] for p in parts], 0), dx)
    assert w.same(b.add(parts[0][1], parts[1][1]), dk)
    assert not w.equivalent(parts[0][1], dk)
    if groups > 1:  # a group each
        given = attributes()
        triples = list(zip(halves(w, dy, 1), halves(w, x, 1), halves(w, k, 0), strict=True))
        parts = [gradients(w, *triple, given) for triple in triples]
        assert w.same(b.concat([w.aten(CONV, p, q, None, *given) for _, p, q in triples], 1), y)
        assert w.same(b.concat([p[0] for p in parts], 1), dx)
        assert w.same(b.concat([p[1] for p in parts], 0), dk)
        assert not w.equivalent(w.aten(CONV, triples[0][1], triples[1][2], None, *given), b.slice(y, 1, 0, 3))
        return
    parts = [gradients(w, p, x, q, given) for p, q in zip(halves(w, dy, 1), halves(w, k, 0), strict=True)]
    assert w.same(b.concat([w.aten(CONV, x, p, None, *given) for p in halves(w, k, 0)], 1), y)  # channels of the result
    assert w.same(b.add(parts[0][0], parts[1][0]), dx)
    assert w.same(b.concat([p[1] for p in parts], 0), dk)
    pairs = list(zip(halves(w, x, 1), halves(w, k, 1), strict=True))  # channels of the input
    sums = [w.aten(CONV, *pair, None, *given) for pair in pairs]
    parts = [gradients(w, dy, *pair, given) for pair in pairs]
    assert w.same(b.add(*sums), y)
    assert not w.equivalent(sums[0], y)
    assert all(w.same(b.concat([p[n] for p in parts], 1), whole) for n, whole in enumerate((dx, dk)))
    assert not w.equivalent(w.aten(CONV, pairs[0][0], pairs[1][1], None, *given), sums[0])


@pytest.mark.parametrize("padding", [(0, 0), (1, 1), (1, 0)])
def test_rows_with_a_halo(padding: tuple[int, int]) -> None:
    """Each rank has its rows and one or two of its neighbour's; the rows of zeros are written out at the borders."""
    w = Workbench()
    b = w.b
    x, k = w.input("x", 2, 3, 12, 6), w.input("k", 4, 3, 3, 3)
    y = w.aten(CONV, x, k, None, *attributes(padding=padding))
    own = attributes(padding=(0, padding[1]))
    zeros = b.full((2, 3, padding[0], 6), 0, DType.FLOAT32)
    half = y.shape[2] // 2
    above = b.concat([zeros, b.slice(x, 2, 0, half + 2 - padding[0])], 2)
    below = b.concat([b.slice(x, 2, half - padding[0], 12), zeros], 2)
    parts = [w.aten(CONV, part, k, None, *own) for part in (above, below)]
    assert w.equivalent(b.concat(parts, 2), y)
    assert not w.equivalent(b.concat([parts[1], parts[0]], 2), y)
    shifted = b.slice(x, 2, half - padding[0] - 1, 12 - 1) if not padding[0] else b.flip(below, (2,))
    assert not w.equivalent(b.concat([parts[0], w.aten(CONV, shifted, k, None, *own)], 2), y)
    if padding[0]:  # a halo of zeros instead of the neighbour's row, and a border of its own row
        without = b.concat([b.slice(above, 2, 0, half + 1), zeros], 2)
        assert not w.equivalent(b.concat([w.aten(CONV, without, k, None, *own), parts[1]], 2), y)
        repeated = b.concat([b.slice(x, 2, 0, 1), b.slice(x, 2, 0, half + 1)], 2)
        assert not w.equivalent(b.concat([w.aten(CONV, repeated, k, None, *own), parts[1]], 2), y)


@pytest.mark.parametrize(
    "given", [attributes(), attributes(2), attributes(1, (0, 2), 2), attributes(3, (2, 0)), attributes(groups=2)]
)
def test_forms_evaluate_to_the_reference(given: Attributes) -> None:
    w = Workbench()
    x, k = w.input("x", 2, 4, 5, 6), w.input("k", 4, 4 // given[-1], 3, 2)
    y = w.aten(CONV, x, k, None, *given)
    dy = w.input("dy", *y.shape)
    found = (y, *gradients(w, dy, x, k, given))
    data = w.data()
    values = {name: Tensor(array.shape, DType.FLOAT32, array) for name, array in data.items()}
    plain = Builder(Reference())

    def computed(target: str, *args: Any) -> Any:
        return apply(lookup(target, ""), target, args, {}, plain, "test")

    wanted = (
        computed(CONV, values["x"], values["k"], None, *given),
        *computed(BACK, values["dy"], values["x"], values["k"], None, *given, (True, True, False))[:2],
    )
    for form, tensor in zip(found, wanted, strict=True):
        np.testing.assert_allclose(w.value(form, data), tensor.value, rtol=1e-9, atol=1e-12)
