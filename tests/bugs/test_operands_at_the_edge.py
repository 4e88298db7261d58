"""Calls that definitions got wrong, or had a value for that eager does not have; found by PyTorch's own samples and
by hand.

Each class is generated: the call of every member on every element type is judged against eager
(``support/aten_agreement.py``). It agrees, or is refused by name."""
# ruff: noqa: E402 - PyTorch first, or skip

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the values are PyTorch's own")

from support.aten_agreement import AGREEING, judge
from support.aten_calls import called
from tantamount.ops.table import table

INF = float("inf")
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
aten = torch.ops.aten
Calls = Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]


def _truth() -> Calls:
    for dtype, name in itertools.product((torch.bool, *INTEGERS, torch.float32), ("any", "all")):
        for x in (torch.tensor([[0, 2, 0], [1, 1, 1]]), torch.zeros(0, 3), torch.tensor(1), torch.zeros(2, 3)):
            x = x.to(dtype)
            packet = getattr(aten, name)
            yield packet.default, (x,), {}
            for keep in (False, True):
                yield packet.dim, (x, -1, keep), {}
                for dims in ([], [0], None, [0, 1][: x.dim()]):
                    if x.dim() or not dims:
                        yield packet.dims, (x, dims, keep), {}


def _no_differences() -> Calls:
    x, more = torch.arange(6.0).reshape(2, 3), torch.ones(2, 1)
    for n, before, after in itertools.product((0, 1, 2), (None, more), (None, more)):
        yield aten.diff.default, (x, n, -1, before, after), {}
    yield aten.diff.default, (torch.tensor([True, False]), 0), {}


def _infinite_windows() -> Calls:
    x = torch.tensor([[-INF, -INF, 1.0, 2.0], [-INF, -INF, 3.0, INF], [1.0, 5.0, -3.0, 4.0], [0.0, -1.0, -INF, 2.0]])
    for kernel, stride, padding, dilation, up in itertools.product((2, 3), (1, 2), (0, 1), (1, 2), (False, True)):
        args = (x[None, None], [kernel], [stride], [padding], [dilation], up)
        try:
            aten.max_pool2d_with_indices.default(*args)
        except RuntimeError:
            continue
        yield aten.max_pool2d_with_indices.default, args, {}
        yield aten.max_pool2d.default, args, {}


_BINARY = (
    "add sub mul eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor floor_divide remainder fmod rsub"
    " clamp_min clamp_max div minimum maximum"
)


def _numbers_out_of_range() -> Calls:
    for dtype, name in itertools.product(INTEGERS, _BINARY.split()):
        x = torch.tensor([0, 1, 2, 127]).to(dtype)
        info = torch.iinfo(dtype)
        packet = getattr(aten, name)
        for number in (-1, info.max, info.max + 1, info.min, info.min - 1, 3):
            for overload in ("Scalar", "Tensor", "default"):
                if overload in packet.overloads() and f"aten.{name}.{overload}" in table():
                    yield getattr(packet, overload), (x, number), {}
    for dtype in INTEGERS:
        for number in (-1, torch.iinfo(dtype).max + 1):
            x = torch.tensor([0, 1, 2, 3]).to(dtype)
            yield aten.full.default, ([2], number), {"dtype": dtype}
            yield aten.full_like.default, (x, number), {}
            yield aten.fill.Scalar, (x, number), {}
            yield aten.masked_fill.Scalar, (x, x == 0, number), {}
            yield aten.where.ScalarOther, (x == 0, x, number), {}
            yield aten.where.ScalarSelf, (x == 0, number, x), {}
            yield aten.constant_pad_nd.default, (x, [1, 1], number), {}
            yield aten.scatter.value, (x, 0, torch.tensor([1]), number), {}
            yield aten.clamp.default, (x, number, None), {}


def _booleans() -> Calls:
    for bits in itertools.product((False, True), repeat=4):
        x, y = torch.tensor(bits[:2]), torch.tensor(bits[2:])
        twice = torch.tensor([0, 0])
        yield aten.index_put.default, (x, [twice], y, True), {}
        yield aten.index_put.default, (x, [torch.tensor([True, False])], y[:1], True), {}
        yield aten.index_add.default, (x, 0, twice, y), {}
        yield aten.scatter_add.default, (x, 0, twice, y), {}
        yield aten.addr.default, (torch.tensor([[bits[0]], [bits[3]]]), x, y[:1]), {}
        yield aten.addr.default, (torch.tensor(bits[1]), x, y), {"beta": False}
        yield aten.cumsum.default, (x, 0), {}
        yield aten.sum.default, (x,), {}


def _infinite_divisors() -> Calls:
    x = torch.tensor([3.0, -3.0, 0.0, 0.5], dtype=torch.float64)
    for infinite, name in itertools.product((INF, -INF), ("floor_divide", "remainder", "fmod")):
        packet = getattr(aten, name)
        yield packet.Scalar, (x, infinite), {}
        yield getattr(packet, "Tensor" if name != "floor_divide" else "default"), (x, torch.full_like(x, infinite)), {}
    for infinite, mode in itertools.product((INF, -INF), ("floor", "trunc", None)):
        yield aten.div.Scalar_mode, (x, infinite), {"rounding_mode": mode}
        yield aten.div.Tensor_mode, (x, torch.full_like(x, infinite)), {"rounding_mode": mode}


def _integer_powers() -> Calls:
    x, y = torch.meshgrid(torch.arange(-3, 4), torch.arange(-3, 4), indexing="ij")
    for dtype in (torch.int8, torch.int32, torch.int64):
        yield aten.pow.Tensor_Tensor, (x.to(dtype), y.to(dtype)), {}
        for base in (1, 2, 3):
            yield aten.pow.Scalar, (base, y.to(dtype)), {}


def _places_from_the_end() -> Calls:
    x, index = torch.arange(6.0).reshape(2, 3), torch.tensor([[-1, 0], [1, -2]])
    yield aten.take.default, (x, index), {}
    yield aten.take.default, (x, torch.tensor(-6)), {}
    yield aten.take_along_dim.default, (x, index, 1), {}
    yield aten.take_along_dim.default, (x, index, None), {}
    line, plane = torch.tensor([-1, 0, -2]), torch.arange(12.0).reshape(4, 3)
    yield aten.index.Tensor, (plane, [line]), {}
    yield aten.index.Tensor, (plane, [None, line]), {}
    yield aten.index.Tensor, (plane, [line, line]), {}
    yield aten.index.Tensor, (plane, [torch.tensor([True, False, True, True]), line]), {}
    yield aten._unsafe_index.Tensor, (plane, [line.int(), torch.tensor([[0], [-2]])]), {}
    for accumulate in (False, True):
        yield aten.index_put.default, (plane, [line], torch.ones(3, 3), accumulate), {}
        yield aten.index_put.default, (plane, [None, line], torch.ones(4, 3), accumulate), {}
        yield aten._unsafe_index_put.default, (plane, [line, line], torch.ones(3), accumulate), {}
    yield aten.index_fill.int_Scalar, (plane, 1, line, 7.0), {}
    yield aten.index_fill.int_Tensor, (plane, 0, line, torch.tensor(7.0)), {}


def _complex_gradients() -> Calls:
    z = torch.complex(torch.tensor([0.3, -0.2]), torch.tensor([0.1, 0.7]))
    for dtype in (torch.complex64, torch.complex128):
        for name in ("tanh_backward", "sigmoid_backward"):
            yield getattr(aten, name).default, (z.to(dtype), z.flip(0).to(dtype)), {}


def _sums_of_integers() -> Calls:
    for dtype in INTEGERS:
        x = torch.arange(4).reshape(2, 2).to(dtype)
        for equation in ("ij->i", "ij->", "ii->", "ij->ji", "ii->i"):
            yield aten.einsum.default, (equation, [x]), {}
        for equation in ("ij,jk->ik", "ij,ij->", "ij,ik->i", "ij,kl->ijkl"):
            yield aten.einsum.default, (equation, [x, x]), {}


CLASSES = [
    _truth, _no_differences, _infinite_windows, _numbers_out_of_range, _booleans, _infinite_divisors, _integer_powers,
    _places_from_the_end, _complex_gradients, _sums_of_integers,
]  # fmt: skip
# Those of which some calls are refused.
REFUSED = {"_numbers_out_of_range", "_infinite_divisors", "_sums_of_integers", "_no_differences", "_infinite_windows"}


@pytest.mark.parametrize("calls", CLASSES, ids=lambda f: f.__name__.strip("_"))
def test_a_call_agrees_with_eager_or_is_refused(calls: Any) -> None:
    agreed = refused = 0
    for overload, args, kwargs in calls():
        if str(overload) not in table():
            continue
        try:
            call = called(overload, args, kwargs)
        except (RuntimeError, IndexError, OverflowError):  # eager fails: then there is nothing to agree with
            continue
        outcome = judge(call)
        assert outcome is not None
        assert outcome.kind in (*AGREEING, "wraps", "undefined", "refused"), f"{call}: {outcome.text}"
        agreed += outcome.kind in AGREEING
        refused += outcome.kind == "refused"
    assert agreed >= 3
    assert not refused or calls.__name__ in REFUSED
