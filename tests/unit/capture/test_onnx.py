"""ONNX models: what is read, and that what is broken or not understood is refused with its place.

The operators are checked against ONNX Runtime by ``benchmarks/check_onnx.py``.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.onnx_models import blob, model, node, number, tensor
from tantamount.capture.onnx.rows import ROWS
from tantamount.capture.readers import read_graph
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.limits import Limits
from tantamount.ops.check import check_graph
from tantamount.semantics.interpret import interpret

ROOT = Path(__file__).resolve().parents[3]
X = ("x", [2, 3])


def read(folder: Path, data: bytes, limits: Limits | None = None) -> Graph:
    (folder / "m.onnx").write_bytes(data)
    graph = read_graph(folder / "m.onnx", limits)
    check_graph(graph, None)
    return graph


def value(folder: Path, data: bytes, **inputs: Any) -> np.ndarray:
    graph = read(folder, data)
    return interpret(graph, inputs).array(graph.outputs[0].node)


def error(folder: Path, data: bytes) -> UserError:
    with pytest.raises(UserError) as caught:
        read(folder, data)
    assert caught.value.place.startswith(str(folder / "m.onnx"))
    return caught.value


def one(op: str, *tensors: bytes, inputs: tuple[str, ...] = ("x",), opset: int = 18, **attributes: object) -> bytes:
    return model([node(op, inputs, ["y"], **attributes)], [X], ["y"], tensors, opset)


# ---------------------------------------------------------------------------------------------- what is read
def test_shapes_are_followed_while_reading(tmp_path: Path) -> None:
    """x.reshape(x.shape[1], -1), as exporters write it."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "place"], ["n"], axis=0),
        node("Unsqueeze", ["n", "zero"], ["row"]),
        node("Concat", ["row", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ]
    given = [tensor("place", np.int64(1)), tensor("zero", np.array([0])), tensor("rest", np.array([-1]))]
    x = np.arange(6.0).reshape(2, 3)
    assert (value(tmp_path, model(nodes, [X], ["y"], given), x=x) == x.reshape(3, 2)).all()


def test_backwards_from_in_front_of_all_is_the_first(tmp_path: Path) -> None:
    ends = [tensor(n, np.array([k])) for n, k in (("s", -9), ("e", -9), ("a", 1), ("d", -1))]
    found = value(tmp_path, one("Slice", *ends, inputs=("x", "s", "e", "a", "d")), x=np.arange(6.0).reshape(2, 3))
    assert found.tolist() == [[0], [3]]


def test_rows_of_a_recorded_table(tmp_path: Path) -> None:
    table = np.arange(6.0).reshape(3, 2)
    places = np.array([2, 0])
    data = model([node("Gather", ["w", "k"], ["y"], axis=0)], [("k", [2], "int64")], ["y"], [tensor("w", table)])
    assert (value(tmp_path, data, k=places) == table[places]).all()


@pytest.mark.parametrize(
    ("dtype", "listed"),
    [*((kind, False) for kind in ("float32", "float16", "int64", "int32", "int8", "bool")),
     *((kind, True) for kind in ("float32", "int64", "int32", "int8", "bool"))],
)  # fmt: skip
def test_numbers_of_every_type(tmp_path: Path, dtype: str, listed: bool) -> None:
    numbers = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype) if dtype == "bool" else np.array([[0, 1, -2], [3, 4, 5]])
    numbers = numbers.astype(dtype)
    data = model([node("Identity", ["w"], ["y"])], [X], ["y"], [tensor("w", numbers, listed=listed)])
    assert (value(tmp_path, data, x=np.zeros((2, 3))) == numbers).all()


def test_halves_are_listed_as_bits(tmp_path: Path) -> None:
    halves = np.array([0.5, -2], dtype=np.float16)
    bits = b"".join(number(5, int(b)) for b in halves.view(np.uint16))
    data = number(1, 2) + number(2, 10) + blob(8, "w") + bits
    assert value(
        tmp_path, model([node("Identity", ["w"], ["y"])], [X], ["y"], [data]), x=np.zeros((2, 3))
    ).tolist() == [0.5, -2]


def test_an_initialiser_that_is_an_input_is_one(tmp_path: Path) -> None:
    data = model([node("Add", ["x", "w"], ["y"])], [X, ("w", [3])], ["y"], [tensor("w", np.ones(3, np.float32))])
    assert [one.name for one in read(tmp_path, data).inputs] == ["x", "w"]


def test_external_data_is_read_from_beside_the_model(tmp_path: Path) -> None:
    weights = np.arange(3, dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(b"....." + weights.tobytes())
    where = {"location": "w.bin", "offset": "5", "length": "12"}
    data = model([node("Add", ["x", "w"], ["y"])], [X], ["y"], [tensor("w", weights, external=where)])
    assert value(tmp_path, data, x=np.zeros((2, 3)))[1].tolist() == [0, 1, 2]


# ---------------------------------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"location": "../w.bin"}, "'../w.bin'"),
        ({"location": "/etc/passwd"}, "'/etc/passwd'"),
        ({"location": "link.bin"}, "'link.bin'"),
        ({"location": "."}, "'.'"),
        ({"location": ""}, "''"),
        ({"location": "none.bin"}, "'none.bin'"),
        ({"location": "w.bin", "offset": "-1"}, "a list of 2"),
        ({"location": "w.bin", "length": "400"}, "12 bytes from 0 on"),
        ({"location": "w.bin", "basepath": "x"}, "'basepath'"),
        ({}, "no location"),
    ],
)
def test_other_files_are_not_read(tmp_path: Path, where: dict[str, str], found: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for path in (folder / "w.bin", tmp_path / "w.bin"):
        path.write_bytes(np.zeros(3, np.float32).tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    data = model([node("Identity", ["w"], ["y"])], [X], ["y"], [tensor("w", np.zeros(3, np.float32), external=where)])
    problem = error(folder, data)
    assert (problem.code, problem.found) == ("graph-onnx-external", found)


@pytest.mark.parametrize(
    ("data", "code", "found"),
    [
        (one("Loop"), "operator", "'Loop'"),
        (one("Relu", inputs=("x", "x")), "operands", "2 operands"),
        (one("Softmax", axes=1), "attribute", "the attribute 'axes'"),
        (one("Softmax", axis=0.5), "attribute", "0.5"),
        (one("Relu", opset=9), "version", "operators of version 9"),
        (one("Pad", tensor("p", np.array([1] * 4)), inputs=("x", "p"), mode="reflect"), "attribute", "'reflect'"),
        (one("Reshape", inputs=("x", "x")), "operands", "the operand 1 (x), which is computed"),
        (one("Add", tensor("w", np.zeros(3, np.int64)), inputs=("x", "w")), "operands",
         "operands float32[2, 3], int64[3]"),
        (one("Transpose", perm=[0, 0]), "operands", None),
        (one("GlobalMaxPool"), "operands", "an operand float32[2, 3]"),
        (one("ReduceL2", noop_with_empty_axes=1), "operands", "no axes"),
        (one("Slice", *(tensor(n, np.array([k])) for n, k in (("s", 1), ("e", 9), ("a", 1), ("d", -1))),
             inputs=("x", "s", "e", "a", "d")), "operands", "the end 9 with the step -1"),
        (model([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], pads=[1, 1, 1, 1], auto_pad="VALID")],
               [("x", [1, 1, 4, 4])], ["y"]), "attribute", "pads [1, 1, 1, 1] and auto_pad VALID"),
        (one("Add", inputs=("x", "z")), "data", "'z', which nothing before it makes"),
        (one("Cast", to=8), "type", "the element type 8"),
        (model([node("Gelu", ["x"], ["y"], "com.microsoft")], [X], ["y"]), "operator", "'com.microsoft.Gelu'"),
        (model([node("Relu", ["x"], ["x"])], [X], ["x"]), "data", "the name 'x' a second time"),
        (model([node("Relu", ["x"], ["y"])], [("x", ["batch", 3])], ["y"]), "type", "a size called 'batch'"),
        (model([node("Relu", ["x"], ["y"])], [("x", [-1])], ["y"]), "type", "-1"),
        (model([node("TopK", ["x", "k"], ["y", "z", "u"])], [X], ["y"], [tensor("k", np.array([1]))]), "operands",
         "the output 2"),
        (one("Relu") + number(99, 1), "data", "the field 99 of a message"),
        (one("Relu") + b"\x0b", "data", None),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(tmp_path: Path, data: bytes, code: str, found: str | None) -> None:
    problem = error(tmp_path, data)
    assert problem.code == f"graph-onnx-{code}"
    assert found is None or problem.found == found


def test_a_changed_byte_anywhere(tmp_path: Path) -> None:
    """A graph or an error, never another exception."""
    weights = tensor("w", np.arange(3, dtype=np.float32))
    data = one("LayerNormalization", weights, inputs=("x", "w"), epsilon=0.5, axis=-1)
    for at in range(0, len(data), 2):
        for byte in (0, 0x7F, 0xFF):
            with suppress(UserError):
                read(tmp_path, data[:at] + bytes([byte]) + data[at + 1 :])


def test_limits(tmp_path: Path) -> None:
    data = one("Add", tensor("w", np.zeros(3, np.float32)), inputs=("x", "w"))
    with pytest.raises(UserError, match="limit-constant-elements"):
        read(tmp_path, data, Limits(constant_elements=2))
    with pytest.raises(UserError, match="limit-values"):
        read(tmp_path, data, Limits(values=3))


def test_the_page_lists_what_is_read() -> None:
    listed = (ROOT / "docs" / "onnx.md").read_text().split("Operators that are read:")[1]
    assert sorted(listed.replace(",", " ").replace(".", " ").split()) == sorted(ROWS)
