"""Operators that a user declares: the table of a job and Python have the same power."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tantamount
from tantamount.errors import UserError
from tantamount.ir.graph import CustomOperator
from tantamount.ir.types import DType
from tantamount.ops import table as tables
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.custom import custom_operator
from tantamount.ops.declare import load_operators
from tantamount.ops.execute import apply
from tantamount.ops.functionalized import wrapper
from tantamount.ops.table import lookup, table
from tantamount.semantics.reference import Reference

X = np.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def _own_table(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    table()
    monkeypatch.setattr(tables, "_TABLE", dict(tables._TABLE))  # pyright: ignore[reportPrivateUsage]


def tensor(x: Any) -> Any:
    return Tensor(x.shape, DType.FLOAT64, x) if isinstance(x, np.ndarray) else x


def call(row: Any, *args: Any, **kwargs: Any) -> Any:
    given = {key: tensor(item) for key, item in kwargs.items()}
    found: Any = apply(row, row.name, tuple(map(tensor, args)), given, Builder(Reference()), "test")
    return tuple(x and x.value for x in found) if isinstance(found, tuple) else found.value


def test_a_definition() -> None:
    tantamount.definition("mylib.scaled_add.default", "a, b, s=2", "add(a, mul(b, s))")
    row = lookup("mylib.scaled_add.default", "")
    np.testing.assert_array_equal(call(row, X, X), 3 * X)
    np.testing.assert_array_equal(call(row, X, b=X, s=5), 6 * X)
    assert row.assumes == ("mylib.scaled_add.default is 'add(a, mul(b, s))' of (a, b, s=2)",)
    assert not row.opaque
    with pytest.raises(UserError, match="unexpected keyword"):
        call(row, X, X, alpha=2)


def test_an_opaque_operator() -> None:
    tantamount.opaque("mylib.kernel.default", "t [d] -> t [d]", args="x, eps=1e-5, tag=None", ignores=["tag"])
    row = lookup("mylib.kernel.default", "")
    assert row.opaque
    assert "'t [d] -> t [d]'" in row.assumes[0]
    np.testing.assert_array_equal(call(row, X), call(row, X, 1e-5, tag="a"))
    assert np.abs(call(row, X) - call(row, X, 1e-6)).max() > 1e-3


def test_a_decorated_function() -> None:
    @tantamount.operator("mylib.double.default")
    def double(b: Builder, self: Tensor) -> Tensor:
        """2 self"""
        return b.mul(self, 2)

    np.testing.assert_array_equal(call(lookup("mylib.double.default", ""), X), 2 * X)
    assert "test_declare" in lookup("mylib.double.default", "").assumes[0]
    with pytest.raises(UserError, match="second definition"):
        tantamount.operator("aten.add.Tensor")(double)
    with pytest.raises(UserError, match="second definition"):
        tantamount.definition("mylib.double.default", "x", "x")


def test_overwriting_operators() -> None:
    declared = [
        CustomOperator("lib.swap", "x, y, s", definition="(x * s, y, x)", mutates=("y", "x")),
        CustomOperator("lib.op", "out: Tensor, x", labels="_, t [d] -> t [d]", mutates=("out",)),
    ]
    swap, opaque = map(custom_operator, declared)
    given = {"x": X, "y": -X, "s": 3}
    row = wrapper(swap, "auto_functionalized", {}, "")
    returned, x, y = call(row, "lib.swap", **given)
    np.testing.assert_array_equal(returned, 3 * X)
    np.testing.assert_array_equal(x, -X)
    np.testing.assert_array_equal(y, X)
    row = wrapper(opaque, "auto_functionalized_v2", {"_out_base_index": 0}, "")
    nothing, new = call(row, "lib.op", x=X, _out_base_index=0, _all_bases=(tensor(np.zeros((2, 3))),))
    assert nothing is None
    assert new.shape == (2, 3)


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"labels": "a b"}, "without one '->'"),
        ({"definition": "a +", "args": "a"}, "does not parse"),
        ({"definition": "b", "args": "a"}, "the name 'b'"),
        ({"definition": "a", "args": "a, a"}, "one name twice"),
        ({"definition": "a", "args": "a=print()"}, "no literal"),
        ({"definition": "a", "args": "a: int"}, "only Tensor is known"),
        ({"definition": "a", "args": "a): pass\ndef g(b"}, "no parameters"),
        ({"definition": "a", "args": "a) -> (b"}, "no parameters"),
        ({"definition": "a", "args": "*a"}, "which are for labels"),
        ({"definition": "a", "args": "a", "dtypes": ("int64",)}, "which are for labels"),
        ({"labels": "a -> a", "mutates": ("x",)}, "no parameter"),
        ({"labels": "a -> a", "mutates": ("args",)}, "no parameter"),
        ({"labels": "a -> a", "args": "x, y, z", "mutates": ("x", "y")}, "1 results for 2"),
        ({"labels": "a -> a", "dtypes": ("int64", "int64")}, "2 dtypes for 1 results"),
    ],
)
def test_wrong_declarations(declared: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        custom_operator(CustomOperator("lib.op", **declared))


def test_a_file_of_declarations(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import tantamount\ntantamount.opaque('mine.op', 't -> t')\n")
    load_operators(path)
    assert "mine.op" in table()
    with pytest.raises(UserError, match="second definition"):
        load_operators(path)
    path.write_text("1 / 0")
    with pytest.raises(UserError, match="ZeroDivisionError"):
        load_operators(path)
    with pytest.raises(UserError, match="FileNotFoundError"):
        load_operators(tmp_path / "none.py")
    path.write_text("raise SystemExit(0)")
    with pytest.raises(UserError, match="SystemExit"):
        load_operators(path)
