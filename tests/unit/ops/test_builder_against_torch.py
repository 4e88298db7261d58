"""Shapes and values of the builder's layout methods are PyTorch's: broadcasting, slicing, joining, padding."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.semantics.reference import Reference

torch = pytest.importorskip("torch")

BUILDER = Builder(Reference())
SHAPES = [(), (1,), (3,), (2, 3), (1, 3), (2, 1), (4, 1, 3), (0,), (2, 0), (4, 2, 1)]


def pair(shape: tuple[int, ...], dtype: DType = DType.FLOAT64) -> tuple[Tensor, Any]:
    """The same distinct values as a tensor of ours and of PyTorch's."""
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    theirs = torch.tensor(values, dtype=getattr(torch, dtype.label))
    return Tensor(shape, dtype, theirs.to(torch.float64 if dtype.is_float else theirs.dtype).numpy()), theirs


def same(found: Tensor, wanted: Any, what: object) -> None:
    assert found.shape == tuple(wanted.shape), what
    assert f"torch.{found.dtype.label}" == str(wanted.dtype), what
    assert np.shape(found.value) == found.shape, what
    np.testing.assert_array_equal(found.value, wanted.numpy(), err_msg=str(what))


def both(ours: Any, theirs: Any, what: object) -> bool:
    """Either both refuse, or both give the same. Whether there was a result."""
    try:
        wanted = theirs()
    except (RuntimeError, IndexError, ValueError, TypeError):
        with pytest.raises(ShapeProblem):
            ours()
        return False
    same(ours(), wanted, what)
    return True


def test_broadcasting() -> None:
    results = [
        both(lambda x=x, y=y: BUILDER.sub(x, y), lambda p=p, q=q: p - q, (a, b))
        for a, b in product(SHAPES, SHAPES)
        for (x, p), (y, q) in [(pair(a), pair(b))]
    ]
    assert any(results)
    assert not all(results)


def test_expand() -> None:
    targets = [*SHAPES, (-1, 3), (2, -1), (-1,), (5, -1, -1), (-1, -1, -1)]
    results = [
        both(lambda x=x, t=t: BUILDER.expand(x, t), lambda p=p, t=t: p.expand(t), (s, t))
        for s, t in product(SHAPES, targets)
        for x, p in [pair(s)]
    ]
    assert any(results)
    assert not all(results)


def test_slices() -> None:
    bounds = [None, *range(-7, 8)]
    x, p = pair((2, 5))
    for dim, start, stop, step in product((0, 1, -1), bounds, bounds, (1, 2, 3)):
        index = [slice(None), slice(None)]
        index[dim] = slice(start, stop, step)
        same(BUILDER.slice(x, dim, start or 0, stop, step), p[tuple(index)], (dim, start, stop, step))


@pytest.mark.parametrize("step", [0, -1])
def test_slices_go_forward(step: int) -> None:
    with pytest.raises(ShapeProblem, match="step"):
        BUILDER.slice(pair((4,))[0], 0, 0, 4, step)


def test_select() -> None:
    x, p = pair((2, 3, 4))
    for dim, index in product(range(-4, 4), range(-5, 5)):
        both(lambda d=dim, i=index: BUILDER.select(x, d, i), lambda d=dim, i=index: p.select(d, i), (dim, index))


def test_concat() -> None:
    for shapes in product([(2, 3), (2, 1), (0,), (2, 0), (1, 3), (3,)], repeat=3):
        pairs = [pair(shape) for shape in shapes]
        for dim in (-1, 0) if set(shapes) == {(0,)} else (-2, -1, 0, 1):  # of nothing, PyTorch takes any dimension
            both(
                lambda d=dim, xs=pairs: BUILDER.concat([x for x, _ in xs], d),
                lambda d=dim, xs=pairs: torch.cat([p for _, p in xs], d),
                (shapes, dim),
            )


def test_concat_promotes() -> None:
    types = (DType.BOOL, DType.INT32, DType.INT64, DType.FLOAT16, DType.FLOAT64)
    for a, b, shape in product(types, types, [(2,), (0,)]):
        (x, p), (y, q) = pair(shape, a), pair((3,), b)
        same(BUILDER.concat([x, y], 0), torch.cat([p, q], 0), (a, b, shape))


def test_stack_and_unsqueeze() -> None:
    for shape, dim in product(SHAPES, range(-4, 4)):
        x, p = pair(shape)
        both(lambda x=x, d=dim: BUILDER.stack([x, x], d), lambda p=p, d=dim: torch.stack([p, p], d), (shape, dim))
        both(lambda x=x, d=dim: BUILDER.unsqueeze(x, d), lambda p=p, d=dim: p.unsqueeze(d), (shape, dim))
        both(lambda x=x, d=dim: BUILDER.squeeze(x, [d]), lambda p=p, d=dim: p.squeeze(d), (shape, dim))


def test_pad() -> None:
    x, p = pair((3, 2))
    for before, after, value in product(range(-4, 4), range(-4, 4), (0, 7.5)):
        both(
            lambda b=before, a=after, v=value: BUILDER.pad(x, 0, b, a, v),
            lambda b=before, a=after, v=value: torch.nn.functional.pad(p, (0, 0, b, a), value=v),
            (before, after, value),
        )


def test_reshape() -> None:
    targets = [(6,), (-1,), (3, 2), (2, -1), (-1, -1), (4, 2), (1, 6, 1), (0, -1), (), (-2, 3)]
    for shape, target in product([(2, 3), (6,), (0,), (1,), ()], targets):
        x, p = pair(shape)
        both(lambda x=x, t=target: BUILDER.reshape(x, t), lambda p=p, t=target: p.reshape(t), (shape, target))


def test_permutations_and_flips() -> None:
    x, p = pair((2, 3, 4))
    for order in product(range(-3, 3), repeat=3):
        both(lambda o=order: BUILDER.permute(x, o), lambda o=order: p.permute(o), order)
    for dims in [(0,), (1, 2), (-1,), (0, 0), (3,)]:
        both(lambda d=dims: BUILDER.flip(x, d), lambda d=dims: p.flip(d), dims)


def test_split() -> None:
    x, p = pair((5, 2))
    for found, wanted in zip(BUILDER.split(x, (1, 0, 4), 0), p.split((1, 0, 4)), strict=True):
        same(found, wanted, "split")
    with pytest.raises(ShapeProblem, match="split"):
        BUILDER.split(x, (1, 2), 0)


def test_casts() -> None:
    values = [-2.5, -1.0, -0.3, 0.0, 0.7, 3.0]
    x = Tensor((6,), DType.FLOAT64, np.array(values))
    for dtype in (DType.INT64, DType.INT8, DType.BOOL, DType.FLOAT64):
        wanted = torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype.label))
        found = BUILDER.cast(x, dtype)
        assert found.dtype is dtype
        np.testing.assert_array_equal(found.value, wanted.numpy())
    flags = BUILDER.cast(Tensor((2,), DType.INT64, np.array([0, 5])), DType.BOOL)
    same(BUILDER.cast(flags, DType.FLOAT64), torch.tensor([0.0, 1.0], dtype=torch.float64), "bool to float")


def test_full_stores_values_as_its_type_does() -> None:
    for value, dtype in product([0, 1, 2.5, -2.5, True], [DType.BOOL, DType.INT64, DType.FLOAT64]):
        wanted = torch.full((2,), value, dtype=getattr(torch, dtype.label))
        same(BUILDER.full((2,), value, dtype), wanted, (value, dtype))


def test_no_nan_is_written() -> None:
    with pytest.raises(ShapeProblem, match="NaN"):
        BUILDER.number(float("nan"))
