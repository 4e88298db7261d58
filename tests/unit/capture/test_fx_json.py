"""Graphs of format fx-nodes/1: what is read, and every way in which a file can be broken."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.graphs import call, graph, placeholder, ref, returns, write
from tantamount.capture.fx_json import parse_graph
from tantamount.capture.readers import read_graph
from tantamount.errors import UserError
from tantamount.ir.graph import Constant, Device, Node, Output, Ref, Setting, Source
from tantamount.ir.types import DType, TensorType
from tantamount.limits import Limits

X = placeholder("x")
Y = call("y", "aten.add.Tensor", [ref("x"), ref("x")])


def _parse(value: Any, limits: Limits | None = None) -> Any:
    return parse_graph(value if isinstance(value, str) else json.dumps(value), "g.json", limits or Limits())


# ---------------------------------------------------------------------------------------------- what is read
@pytest.mark.parametrize("name", ["g.json", "g.json.gz"])
def test_plain_and_gzip(tmp_path: Path, name: str) -> None:
    read = read_graph(write(tmp_path / name, graph(rank=3, origin="a test")))
    assert read.path == str(tmp_path / name)
    assert (read.rank, read.origin) == (3, "a test")
    assert read.nodes[0] == Node("x", "input", "x", type=TensorType((2, 3), DType.FLOAT32))
    assert read.nodes[1].args == (Ref("x"), Ref("x"))
    assert read.outputs == (Output("y", "y"),)


@pytest.mark.parametrize(
    ("value", "argument"),
    [
        (1, 1), (1.0, 1.0), (True, True), (None, None), ("sum", "sum"), ([1, [2.5, None]], (1, (2.5, None))),
        ({"node": "x"}, Ref("x")), ({"dtype": "int64"}, DType.INT64), ({"device": "cuda"}, Device("cuda")),
        ({"torch": "strided"}, Setting("strided")), ({"torch": "torch.strided"}, Setting("strided")),
        ("torch.strided", Setting("strided")), ("torch.contiguous_format", Setting("contiguous_format")),
        ("torch.tensor", "torch.tensor"), ({"float": "inf"}, float("inf")), ({"float": "-inf"}, float("-inf")),
        ({"complex": [1, -0.5]}, 1 - 0.5j), ({"complex": [0, {"float": "inf"}]}, complex(0, float("inf"))),
        (2**63, 2**63), (-1e-5, -1e-5),
    ],
)  # fmt: skip
def test_arguments(value: Any, argument: Any) -> None:
    read = _parse(graph(X, call("y", "aten.f.default", [value], k=value), returns(ref("y"))))
    assert repr(read.nodes[1].args) == repr((argument,))
    assert repr(read.nodes[1].kwargs) == repr({"k": argument})


@pytest.mark.parametrize(
    ("stack", "source"),
    [
        ('File "a/b.py", line 12, in forward | x @ w', Source("a/b.py", 12, "forward", "x @ w")),
        ('File "b.py", line 7', Source("b.py", 7)),
        ('  File "b.py", line 7, in <listcomp>\n', Source("b.py", 7, "<listcomp>")),
        ('File "b.py", line 7, in f | a | b', Source("b.py", 7, "f", "a | b")),
        ("return x\ny = 2", Source("", 0, "", "return x\ny = 2")),
        ("\x1b[31mred", Source("", 0, "", "\N{REPLACEMENT CHARACTER}[31mred")),
        ("  ", None),
        (None, None),
    ],
)
def test_sources(stack: str | None, source: Source | None) -> None:
    assert _parse(graph(X | {"stack": stack}, returns(ref("x")))).nodes[0].source == source


@pytest.mark.parametrize("target", ["getitem", "<built-in function getitem>", "_operator.getitem"])
def test_getitem_has_one_name(target: str) -> None:
    split = call("s", "aten.split.Tensor", [ref("x"), 1], None)
    read = _parse(graph(X, split, call("g", target, [ref("s"), 0], [1, 3]), returns(ref("g"))))
    assert read.nodes[2].target == "getitem"


def test_output_node_is_flattened_and_not_kept() -> None:
    read = _parse(graph(X, Y, returns(ref("y"), None, [ref("x"), [ref("y")]])))
    assert read.outputs == (Output("y", "y"), Output("x", "x"))
    assert [node.name for node in read.nodes] == ["x", "y"]


def test_listed_outputs_win() -> None:
    read = _parse(graph(X, Y, returns(ref("x")), outputs=[{"name": "loss", "node": "y"}]))
    assert read.outputs == (Output("loss", "y"),)


def test_constants() -> None:
    get = {"name": "c_1", "op": "get_attr", "target": "c", "args": [], "kwargs": {}, "shape": None, "dtype": None}
    constants = {
        "c": {"dtype": "float64", "shape": [2], "data": [1, {"float": "inf"}]},
        "i": {"dtype": "uint8", "shape": [], "data": [255]},
        "z": {"dtype": "complex64", "shape": [2], "data": [[1, 2], [3, 4]]},
        "w": {"dtype": "complex64", "shape": [2], "data": [1, 2, 3, 4]},
        "b": {"dtype": "bool", "shape": [0], "data": []},
    }
    read = _parse(graph(X, get, returns(ref("x")), constants=constants))
    assert read.nodes[1] == Node("c_1", "constant", "c")
    assert read.constants["c"] == Constant(TensorType((2,), DType.FLOAT64), (1.0, float("inf")))
    assert read.constants["i"].data == (255,)
    assert read.constants["z"].data == read.constants["w"].data == (1 + 2j, 3 + 4j)
    assert read.constants["b"].data == ()


# ---------------------------------------------------------------------------------------------- broken values
def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _y(**changes: Any) -> Any:
    return graph(X, Y | changes, returns(ref("y")))


def _constant(**changes: Any) -> Any:
    return graph(constants={"c": {"dtype": "int8", "shape": [2], "data": [1, 2]} | changes})


BROKEN: dict[str, tuple[Any, str, str, str]] = {
    # name: (file, code, place, found)
    "empty": ("", "graph-json", "g.json", "line 1"),
    "cut off": (json.dumps(graph())[:-20], "graph-json", "g.json", "line 1"),
    "not JSON": ("hello", "graph-json", "g.json", "Expecting value"),
    "NaN": ('{"format": NaN}', "graph-json", "g.json", "the literal NaN"),
    "Infinity": ('{"format": -Infinity}', "graph-json", "g.json", "the literal -Infinity"),
    "key twice": ('{"format": 1, "format": 2}', "graph-json", "g.json", "'format' twice"),
    "deep JSON": ("[" * 200_000, "limit-nesting", "g.json", "nested too deeply"),
    "huge integer": ('{"format": ' + "9" * 5000 + "}", "graph-json", "g.json", "digits"),
    "a list": ([], "graph-field", "g.json", "a list of 0"),
    "a number": ("3", "graph-field", "g.json", "3"),
    "no format": ({"nodes": []}, "graph-missing-key", "g.json", "no 'format'"),
    "no nodes": ({"format": "fx-nodes/1"}, "graph-missing-key", "g.json", "no 'nodes'"),
    "other format": (graph(format="fx-nodes/2"), "graph-format", "g.json: format", "'fx-nodes/2'"),
    "unknown key": (graph(extra=1), "graph-unknown-key", "g.json", "'extra'"),
    "nodes is a table": (graph(nodes={}), "graph-field", "g.json: nodes", "a table"),
    "rank is text": (graph(rank="0"), "graph-field", "g.json: rank", "'0'"),
    "rank is true": (graph(rank=True), "graph-field", "g.json: rank", "true"),
    "rank is negative": (graph(rank=-1), "graph-field", "g.json: rank", "-1"),
    "origin is a number": (graph(origin=5), "graph-field", "g.json: origin", "5"),
    "no outputs": (graph(X, Y), "graph-no-outputs", "g.json", "neither"),
    "node is text": (graph("x"), "graph-field", "g.json: node 0", "'x'"),
    "node without a name": (graph({"op": "placeholder"}), "graph-missing-key", "g.json: node 0", "'name'"),
    "node without an op": (graph({"name": "x"}), "graph-missing-key", "g.json: node 0", "'op'"),
    "node with an unknown field": (_y(users=[]), "graph-unknown-key", "g.json: node 1", "'users'"),
    "name is a number": (_y(name=3), "graph-field", "g.json: node 1: name", "3"),
    "name is empty": (_y(name=""), "graph-field", "g.json: node 1: name", "''"),
    "name with control characters": (_y(name="\x1b[2J"), "graph-field", "g.json: node 1: name", "\\x1b"),
    "name with half a character": (_y(name="\ud800"), "graph-field", "g.json: node 1: name", "\\ud800"),
    "unknown op": (_y(op="call_module"), "graph-field", "g.json: node y: op", "'call_module'"),
    "op is a list": (_y(op=[]), "graph-field", "g.json: node y: op", "a list"),
    "target is null": (_y(target=None), "graph-field", "g.json: node y: target", "null"),
    "args is a table": (_y(args={}), "graph-field", "g.json: node y: args", "a table"),
    "args is null": (_y(args=None), "graph-field", "g.json: node y: args", "null"),
    "kwargs is a list": (_y(kwargs=[]), "graph-field", "g.json: node y: kwargs", "a list"),
    "keyword is empty": (_y(kwargs={"": 1}), "graph-field", "g.json: node y: kwargs", "''"),
    "shape is a number": (_y(shape=6), "graph-field", "g.json: node y: shape", "6"),
    "size is negative": (_y(shape=[-1, 2]), "graph-field", "g.json: node y: shape", "size -1"),
    "size is a float": (_y(shape=[2.0]), "graph-field", "g.json: node y: shape", "size 2.0"),
    "size is true": (_y(shape=[True]), "graph-field", "g.json: node y: shape", "size true"),
    "input size is a symbol": (
        graph(X | {"shape": ["s0", 3]}, Y, returns(ref("y"))),
        "graph-symbolic-size",
        "g.json: node x: shape",
        "'s0'",
    ),
    "size is enormous": (_y(shape=[2**63]), "limit-dimension-size", "g.json: node y: shape", "9223372036854775808"),
    "too many dimensions": (_y(shape=[1] * 65), "limit-dimensions", "g.json: node y: shape", "65 dimensions"),
    "unknown dtype": (_y(dtype="float31"), "graph-dtype", "g.json: node y: dtype", "'float31'"),
    "dtype is a number": (_y(dtype=32), "graph-field", "g.json: node y: dtype", "32"),
    "shape without dtype": (_y(dtype=None), "graph-field", "g.json: node y", "with dtype null"),
    "dtype without shape": (_y(shape=None), "graph-field", "g.json: node y", "shape null"),
    "stack is a number": (_y(stack=3), "graph-field", "g.json: node y: stack", "3"),
    "input without a type": (
        graph(X | {"shape": None, "dtype": None}), "graph-input-type", "g.json: node x", "without a type",
    ),
    "input with arguments": (graph(X | {"args": [1]}), "graph-field", "g.json: node x", "1 arguments"),
    "node twice": (graph(X, X, returns()), "graph-duplicate-node", "g.json: node x", "0 and 1"),
    "unknown node": (_y(args=[ref("z"), 1]), "graph-unknown-node", "g.json: node y", "'z'"),
    "itself": (_y(args=[ref("y"), 1]), "graph-node-order", "g.json: node y", "itself"),
    "a cycle": (
        graph(call("a", "aten.f.default", [ref("b")]), call("b", "aten.f.default", [ref("a")]), returns(ref("b"))),
        "graph-node-order", "g.json: node a", "'b', which comes later",
    ),
    "reference to the output node": (_y(args=[ref("output")]), "graph-unknown-node", "g.json: node y", "'output'"),
    "reference is a number": (_y(args=[{"node": 3}]), "graph-field", "args[0]: 'node'", "3"),
    "argument is an empty table": (_y(args=[{}]), "graph-argument", "g.json: node y: args[0]", "0 keys"),
    "argument has two keys": (_y(args=[{"node": "x", "dtype": "bool"}]), "graph-argument", "args[0]", "2 keys"),
    "argument of unknown kind": (_y(args=[{"tensor": "x"}]), "graph-argument", "g.json: node y: args[0]", "'tensor'"),
    "keyword of unknown kind": (_y(kwargs={"k": {"py": "os"}}), "graph-argument", "node y: kwargs['k']", "'py'"),
    "unknown setting": (_y(args=[{"torch": "load"}]), "graph-argument", "args[0]: 'torch'", "'load'"),
    "unknown dtype argument": (_y(args=[{"dtype": "str"}]), "graph-dtype", "args[0]: 'dtype'", "'str'"),
    "device is a number": (_y(args=[{"device": 0}]), "graph-field", "args[0]: 'device'", "0"),
    "not a number": (_y(args=[{"float": "nan"}]), "graph-nan", "args[0]: 'float'", "not-a-number"),
    "float is text": (_y(args=[{"float": "1.0"}]), "graph-number", "args[0]: 'float'", "'1.0'"),
    "float overflow": (json.dumps(_y(args=["N"])).replace('"N"', "1e999"), "graph-number", "args[0]", "inf"),
    "integer overflow": (_y(args=[2**64]), "graph-number", "g.json: node y: args[0]", "64 bits"),
    "complex of three": (_y(args=[{"complex": [1, 2, 3]}]), "graph-field", "args[0]: 'complex'", "a list of 3"),
    "complex of text": (_y(args=[{"complex": ["1", 2]}]), "graph-number", "args[0]: 'complex'", "'1'"),
    "nested arguments": (_y(args=[_nested(60)]), "limit-nesting", "g.json: node y: args[0]", "51 lists"),
    "long string": (_y(args=["a" * 70_000]), "limit-string-length", "args[0]", "70000 characters"),
    "node after the output": (graph(X, returns(ref("x")), Y), "graph-output-node", "g.json: node 2", "after"),
    "two output nodes": (graph(X, returns(ref("x")), returns()), "graph-output-node", "g.json: node 2", "after"),
    "output is a number": (graph(X, returns(1)), "graph-output-value", "g.json: output node", "1"),
    "output is unknown": (graph(X, returns(ref("z"))), "graph-unknown-output", "g.json: output z", "'z'"),
    "outputs is a table": (graph(outputs={}), "graph-field", "g.json: outputs", "a table"),
    "output without a node": (graph(outputs=[{"name": "y"}]), "graph-missing-key", "g.json: outputs[0]", "'node'"),
    "listed output is unknown": (
        graph(outputs=[{"name": "y", "node": "z"}]), "graph-unknown-output", "output y", "'z'",
    ),
    "output twice": (
        graph(outputs=[{"name": "y", "node": "y"}] * 2), "graph-duplicate-output", "output y", "two outputs",
    ),
    "getitem of a list": (
        _y(target="getitem", args=[[ref("x")], 0]), "graph-getitem", "g.json: node y", "something else",
    ),
    "getitem without index": (
        _y(target="getitem", args=[ref("x")]), "graph-getitem", "g.json: node y", "something else",
    ),
    "getitem of true": (
        _y(target="getitem", args=[ref("x"), True]), "graph-getitem", "g.json: node y", "something else",
    ),
    "constants is a list": (graph(constants=[]), "graph-field", "g.json: constants", "a list"),
    "constant is a list": (graph(constants={"c": [1]}), "graph-field", "g.json: constants: c", "a list"),
    "constant without data": (
        graph(constants={"c": {"dtype": "int8", "shape": []}}), "graph-missing-key", "constants: c", "data",
    ),
    "constant too short": (_constant(data=[1]), "graph-constant-size", "g.json: constants: c: data", "1 values"),
    "constant too long": (_constant(data=[1, 2, 3]), "graph-constant-size", "g.json: constants: c: data", "3 values"),
    "constant out of range": (_constant(data=[1, 128]), "graph-constant-value", "g.json: constants: c: data", "128"),
    "constant of floats": (_constant(data=[1, 2.0]), "graph-constant-value", "g.json: constants: c: data", "2.0"),
    "constant of booleans": (_constant(data=[1, True]), "graph-constant-value", "g.json: constants: c: data", "true"),
    "boolean of integers": (_constant(dtype="bool"), "graph-constant-value", "g.json: constants: c: data", "1"),
    "nested constant": (_constant(data=[[1, 2]]), "graph-constant-size", "g.json: constants: c: data", "1 values"),
    "constant of NaN": (
        _constant(dtype="float32", data=[1, {"float": "nan"}]), "graph-nan", "constants: c: data", "not-a-number",
    ),
    "enormous constant": (
        _constant(shape=[2**40], data=[]), "limit-constant-elements", "constants: c", "1099511627776",
    ),
    "constant of another type": (
        graph(
            {"name": "c", "op": "get_attr", "target": "c", "shape": [3], "dtype": "int8"}, returns(ref("c")),
            constants={"c": {"dtype": "int8", "shape": [2], "data": [1, 2]}},
        ),
        "graph-constant-type", "g.json: node c", "int8[3]",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("value", "code", "place", "found"), BROKEN.values(), ids=BROKEN)
def test_broken(value: Any, code: str, place: str, found: str) -> None:
    with pytest.raises(UserError) as caught:
        _parse(value)
    error = caught.value
    assert error.code == code
    assert error.place.startswith("g.json")
    assert place in error.place
    assert found in error.found
    assert error.needed
    assert all(line.isprintable() for line in str(error).split("\n"))
    assert len(str(error)) < 2000


@pytest.mark.parametrize(
    ("name", "value"),
    [("nodes", 2), ("string_length", 5), ("dimensions", 1), ("dimension_size", 2), ("nesting", 0)],
)
def test_lowered_limits(name: str, value: int) -> None:
    nodes = [X, call("y", "f", [[1], ref("x")]), call("z", "f", ["a long string"])]
    _parse(graph(*nodes, returns(ref("y"))))
    with pytest.raises(UserError) as caught:
        _parse(graph(*nodes, returns(ref("y"))), Limits(**{name: value}))
    assert caught.value.code == f"limit-{name.replace('_', '-')}"
    assert f"TANTAMOUNT_LIMIT_{name.upper()}" in caught.value.hint


# ---------------------------------------------------------------------------------------------- broken files
def _refused(path: Path, limits: Limits | None = None) -> UserError:
    with pytest.raises(UserError) as caught:
        read_graph(path, limits)
    assert caught.value.place == str(path)
    return caught.value


def test_files_that_are_not_there(tmp_path: Path) -> None:
    assert _refused(tmp_path / "absent.json").code == "file-unreadable"
    (tmp_path / "folder.json").mkdir()
    assert _refused(tmp_path / "folder.json").code == "file-kind"
    os.mkfifo(tmp_path / "pipe.json")
    assert _refused(tmp_path / "pipe.json").code == "file-kind"


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
def test_truncated_gzip(tmp_path: Path, keep: float) -> None:
    data = gzip.compress(json.dumps(graph(*[X | {"name": f"x{k}"} for k in range(50)], returns())).encode())
    error = _refused(write(tmp_path / "g.json.gz", data[: int(len(data) * keep)]))
    assert (error.code, error.found) == ("file-truncated", "gzip data that ends too early")


def test_broken_gzip(tmp_path: Path) -> None:
    assert _refused(write(tmp_path / "a.json.gz", b"not gzip")).code == "file-gzip"
    data = bytearray(gzip.compress(b"0" * 1000))
    data[-5] ^= 1  # the checksum
    assert _refused(write(tmp_path / "b.json.gz", bytes(data))).code == "file-gzip"
    assert _refused(write(tmp_path / "c.json.gz", gzip.compress(b"{}") + b"trailing")).code == "file-gzip"


def test_gzip_bomb(tmp_path: Path) -> None:
    path = write(tmp_path / "g.json.gz", gzip.compress(b" " * (1 << 22)))
    error = _refused(path, Limits(decompressed_bytes=1 << 20))
    assert error.code == "limit-decompressed-bytes"
    assert "more than 1048576 bytes" in error.found


def test_large_file(tmp_path: Path) -> None:
    assert _refused(write(tmp_path / "g.json", graph()), Limits(file_bytes=100)).code == "limit-file-bytes"


def test_encodings(tmp_path: Path) -> None:
    assert _refused(write(tmp_path / "a.json", json.dumps(graph()).encode("utf-16"))).code == "file-encoding"
    error = _refused(write(tmp_path / "b.json", gzip.compress(b"{}")))
    assert (error.code, error.hint) == ("file-encoding", "it is gzip data: name it .gz")


# ---------------------------------------------------------------------------------------------- anything at all
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
_PLACES = ["format", "rank", "origin", "nodes", "outputs", "constants"]
_NODE_PLACES = ["name", "op", "target", "args", "kwargs", "shape", "dtype", "stack"]


@settings(max_examples=300)
@given(st.sampled_from(_PLACES), st.sampled_from(_NODE_PLACES), st.booleans(), _VALUES)
def test_any_value_anywhere_is_read_or_refused(top: str, field: str, inside: bool, value: Any) -> None:
    broken = graph(X, Y | {field: value}, returns(ref("y"))) if inside else graph() | {top: value}
    with suppress(UserError):
        assert _parse(broken).nodes
