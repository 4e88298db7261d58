"""Operators inside auto_functionalized, against the same writes done by PyTorch in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Node, Output, Ref
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.calls import operator_of
from tantamount.ops.execute import apply
from tantamount.ops.functionalized import wrapper
from tantamount.ops.table import Operator
from tantamount.semantics.interpret import interpret
from tantamount.semantics.reference import Reference

torch = pytest.importorskip("torch")


def _swap_scaled(b: Builder, x: Tensor, y: Tensor | None, scale: float) -> tuple[Tensor | None, ...]:
    """returns x + 1; overwrites x by scale * x and y by -y"""
    return b.add(x, 1.0), b.mul(x, scale), None if y is None else b.neg(y)


_INNER = Operator(("test.op",), "vendor", _swap_scaled, mutates=("x", "y"))
_SILENT = Operator(("test.silent",), "vendor", lambda b, x: b.neg(x), mutates=("x",))
_SILENT.define.__annotations__ = {"x": Tensor}


def _array(*shape: int) -> Any:
    return np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)


def _tensor(x: Any) -> Tensor:
    return Tensor(x.shape, DType.FLOAT64, x)


def _call(target: str, inner: Any = _INNER, **kwargs: Any) -> tuple[Any, ...]:
    row = wrapper(inner, target, kwargs, "test")
    found = apply(row, target, (inner.name,), kwargs, Builder(Reference()), "test")
    assert isinstance(found, tuple)
    return tuple(None if item is None else item.value for item in found)


def test_first_version_returns_results_then_new_values() -> None:
    x, y = _array(2, 3), _array(4)
    returned, new_x, new_y = _call("auto_functionalized", x=_tensor(x), y=_tensor(y), scale=3)
    np.testing.assert_array_equal(returned, x + 1)
    np.testing.assert_array_equal(new_x, 3 * x)
    np.testing.assert_array_equal(new_y, -y)
    assert _call("auto_functionalized", x=_tensor(x), y=None, scale=3)[2] is None
    assert _call("auto_functionalized", _SILENT, x=_tensor(x))[0] is None


def test_second_version_writes_into_the_bases() -> None:
    base, other = _array(4, 6), _array(3)
    described = {"_x_base_index": 0, "_x_slice_dim": 1, "_x_slice_start": 2, "_x_slice_end": 5, "_y_base_index": 1}
    bases = (_tensor(base), _tensor(other))
    returned, new_base, new_other = _call("auto_functionalized_v2", scale=10, _all_bases=bases, **described)
    np.testing.assert_array_equal(returned, base[:, 2:5] + 1)
    expected = base.copy()
    expected[:, 2:5] *= 10
    np.testing.assert_array_equal(new_base, expected)
    np.testing.assert_array_equal(new_other, -other)


@pytest.mark.parametrize(
    ("shape", "size", "stride", "offset"),
    [
        ((4, 6), (4, 6), (6, 1), 0),
        ((4, 6), (4, 2), (6, 1), 3),
        ((4, 6), (2, 4), (1, 6), 1),
        ((4, 6), (2,), (12,), 7),
        ((24,), (2, 2, 3), (12, 4, 1), 4),
        ((2, 3, 4), (3, 1, 2), (4, 12, 2), 1),
        ((4, 6), (), (), 5),
    ],
)
def test_strided_views_as_pytorch_sees_them(shape: Any, size: Any, stride: Any, offset: int) -> None:
    base = _array(*shape)
    described = {"_x_base_index": 0, "_x_size": size, "_x_stride": stride, "_x_storage_offset": offset}
    returned, new = _call(
        "auto_functionalized_v2", scale=10, _all_bases=(_tensor(base),), _y_base_index=None, **described
    )
    truth = torch.tensor(base)
    view = torch.as_strided(truth, size, stride, offset)
    np.testing.assert_array_equal(returned, (view + 1).numpy())
    view.mul_(10)
    np.testing.assert_array_equal(new, truth.numpy())
    row = wrapper(_INNER, "auto_functionalized_v2", described, "test")
    assert row.assumes == ("the bases of views that test.op overwrites are contiguous",)


@pytest.mark.parametrize(
    "described",
    [
        {"_x_size": (2, 2), "_x_stride": (1, 1), "_x_storage_offset": 0},  # overlaps itself
        {"_x_size": (3, 3), "_x_stride": (6, 4), "_x_storage_offset": 0},  # 4 does not divide 6
        {"_x_size": (2, 4), "_x_stride": (6, 1), "_x_storage_offset": 3},  # runs over the end of a row
        {"_x_size": (5, 6), "_x_stride": (6, 1), "_x_storage_offset": 0},
        {"_x_slice_dim": 1, "_x_slice_start": 4, "_x_slice_end": 8},
        {"_x_slice_dim": 2, "_x_slice_start": 0, "_x_slice_end": 1},
        {"_x_nonsense": 1},
    ],
)
def test_views_that_are_not_settled_are_refused(described: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        _call(
            "auto_functionalized_v2", scale=1, _all_bases=(_tensor(_array(4, 6)),), _x_base_index=0,
            _y_base_index=None, **described,
        )  # fmt: skip


def test_two_operands_of_one_base() -> None:
    def described(name: str, low: int, high: int) -> dict[str, int]:
        return {f"_{name}_base_index": 0} | {
            f"_{name}_slice_{part}": value for part, value in (("dim", 0), ("start", low), ("end", high))
        }

    base = _array(6)
    kwargs: dict[str, Any] = {"scale": 10, "_all_bases": (_tensor(base),)}
    _, new = _call("auto_functionalized_v2", **kwargs, **described("x", 0, 2), **described("y", 2, 5))
    np.testing.assert_array_equal(new, [10, 20, -3, -4, -5, 6])
    with pytest.raises(UserError, match="may overlap"):
        _call("auto_functionalized_v2", **kwargs, **described("x", 0, 3), **described("y", 2, 5))


def test_what_is_refused() -> None:
    with pytest.raises(UserError, match="overwrites none"):
        wrapper(Operator(("test.pure",), "vendor", _swap_scaled), "auto_functionalized", {}, "test")
    node = Node("log", "call", "tg.inplace_log_tensor.default", (Ref("x"), "name"))
    with pytest.raises(UserError, match="overwrites t"):
        operator_of(Graph((node,), ()), node)
    wrong = Tensor((2,), DType.FLOAT64, None)
    bad = Operator(("test.bad",), "vendor", lambda b, x: b.slice(x, 0, 0, 1), mutates=("x",))
    bad.define.__annotations__ = {"x": Tensor}
    row = wrapper(bad, "auto_functionalized", {}, "test")
    with pytest.raises(UserError, match="written into x"):
        apply(row, "auto_functionalized", ("test.bad",), {"x": wrong}, Builder(TypesOnly()), "test")


def test_in_a_graph() -> None:
    x = Node("x", "input", "x", type=_tensor(_array(2)).type)
    log = Node(
        "log", "call", "auto_functionalized_v2", ("tg.inplace_log_tensor.default",),
        {"s": "x", "_t_base_index": 0, "_all_bases": (Ref("x"),)},
    )  # fmt: skip
    item = Node("item", "call", "getitem", (Ref("log"), 1))
    values = interpret(Graph((x, log, item), (Output("item", "item"),)), {"x": _array(2)})
    np.testing.assert_array_equal(values.array("item"), _array(2))
