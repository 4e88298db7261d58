"""The text form of graphs prints and parses back."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tantamount.capture.readers import read_graph
from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Constant, Device, Graph, Node, Output, Ref, Setting, Source
from tantamount.ir.text import format_graph, format_node, parse_graph
from tantamount.ir.types import DType, TensorType
from tantamount.limits import Limits

FLOAT = TensorType((2, 3), DType.FLOAT32)


def _same(graph: Graph) -> None:
    again = parse_graph(format_graph(graph), graph.path)
    assert again == graph
    assert repr(again) == repr(graph)  # 1, 1.0 and True are equal, but not the same argument


def test_lines_read_like_code() -> None:
    source = Source("layers.py", 12, "forward", "x @ w  # fast")
    node = Node("mm", "call", "aten.mm.default", (Ref("x"), Ref("t")), {}, FLOAT, source)
    assert format_node(node) == (
        "%mm: float32[2, 3] = aten.mm.default(%x, %t)  # layers.py:12 in forward | x @ w  # fast"
    )
    full = Node("f", "call", "aten.full.default", ((2, 3), 1.0), {"dtype": DType.INT64, "device": Device("cpu")})
    assert format_node(full) == '%f = aten.full.default([2, 3], 1.0, dtype=int64, device=device("cpu"))'
    assert format_node(Node("x", "input", "x", type=FLOAT)) == "%x: float32[2, 3] = input"
    assert format_node(Node("x", "input", "arg0", type=FLOAT)) == "%x: float32[2, 3] = input arg0"
    assert format_node(Node("c 1", "constant", "a b")) == '%"c 1" = constant "a b"'


@pytest.mark.parametrize(
    "argument",
    [
        True, False, None, 0, 1, -1, 2**63 - 1, 1.0, -0.0, 1e-05, 1e22, 0.1, float("inf"), float("-inf"), 1 + 2j, -0.0j,
        complex(float("inf"), 0.5), "",
        "a # b", 'quote " and \\', "line\nbreak", "\u2028 \u00e9", DType.BOOL, Device("cuda:0"),
        Setting("strided"), (), (1,), ((Ref("x"), None), (1.0, (True,))), "inf", "float32", Ref("x"),
    ],
)  # fmt: skip
def test_arguments_round_trip(argument: Argument) -> None:
    node = Node("y", "call", "aten.f.default", (argument,), {"k": argument, "odd key": argument}, FLOAT)
    _same(Graph((Node("x", "input", "x", type=FLOAT), node), (Output("y", "y"),)))


@pytest.mark.parametrize(
    "source",
    [
        Source("a.py", 1),
        Source("a.py", 1, "f"),
        Source("a.py", 1, "<listcomp>", "x"),
        Source("", 0, "", "only text"),
        Source("with space.py", 3, "odd name", " padded "),
        Source('q"uote.py', 3, 'f"', '"quoted"'),
        Source("a.py", 3, "f", "two\nlines"),
        Source("a.py", 3, "f", "a | b # c"),
        Source("in", 3, "in", "in | in"),
        Source("C:\\x.py", 3),
    ],
)
def test_sources_round_trip(source: Source) -> None:
    _same(Graph((Node("x", "input", "x", type=FLOAT, source=source),), (Output("x", "x"),)))


def test_whole_graph_round_trips() -> None:
    nodes = (
        Node("input", "input", "input", type=FLOAT),
        Node("constant", "constant", "odd name"),
        Node("call", "call", "input", (Ref("input"),)),
        Node("call2", "call", "constant", (), {"x": Ref("constant")}),
        Node("g", "call", "getitem", (Ref("call"), 0), {}, TensorType((), DType.COMPLEX64)),
    )
    constants = {
        "odd name": Constant(TensorType((2,), DType.COMPLEX64), (1j, complex(0.0, float("-inf")))),
        "c": Constant(TensorType((0,), DType.INT8), ()),
        "b": Constant(TensorType((1, 2), DType.BOOL), (True, False)),
    }
    _same(Graph(nodes, (Output("loss", "g"), Output("odd name", "g")), constants, 3, 'origin "x"\n', "g.json"))


def test_every_captured_graph_round_trips(shared: Path) -> None:
    paths = sorted(shared.glob("jobs/*/*.json.gz")) + sorted(shared.glob("bugs/*/*.json.gz"))
    assert len(paths) > 100
    for path in paths:
        _same(read_graph(path))


_TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
_FLOATS = st.floats(allow_nan=False)
_COMPLEX = st.builds(complex, _FLOATS, _FLOATS)
_SCALAR = st.none() | st.booleans() | st.integers(-(2**64), 2**64) | _FLOATS | _COMPLEX | _TEXT
_LEAF = _SCALAR | st.sampled_from(DType) | st.builds(Device, _TEXT) | st.builds(Setting, _TEXT) | st.just(Ref("x"))
_ARGUMENT = st.recursive(_LEAF, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
_SOURCE = st.builds(Source, _TEXT, st.integers(0, 10**9), _TEXT, _TEXT)
_TYPE = st.builds(TensorType, st.lists(st.integers(0, 9), max_size=3).map(tuple), st.sampled_from(DType))


@settings(max_examples=300)
@given(
    target=_TEXT, args=st.lists(_ARGUMENT, max_size=3).map(tuple), kwargs=st.dictionaries(_TEXT, _ARGUMENT, max_size=3),
    recorded=st.none() | _TYPE, source=st.none() | _SOURCE, name=_TEXT.filter(lambda name: name != "x"),
)  # fmt: skip
def test_nodes_round_trip(target, args, kwargs, recorded, source, name) -> None:
    node = Node(name, "call", target, args, kwargs, recorded, source)
    _same(Graph((Node("x", "input", "arg", type=FLOAT), node), (Output(name, name),)))


HEADER = "tantamount graph 1\n"
X = "%x: float32[2] = input\n"


@pytest.mark.parametrize(
    ("text", "code", "place", "found"),
    [
        ("", "text-syntax", "g.txt:1:1", "''"),
        ("graph\n", "text-syntax", "g.txt:1:1", "'graph'"),
        (HEADER + "%x: float31[2] = input\n", "text-syntax", "g.txt:2:5", "'float31'"),
        (HEADER + "%x: float32[-2] = input\n", "text-syntax", "g.txt:2:13", "'-2'"),
        (HEADER + X + "%y = f(%x\n", "text-syntax", "g.txt:3:10", "the end"),
        (HEADER + X + "%y = f(k=1, 2)\n", "text-syntax", "g.txt:3:13", "'2'"),
        (HEADER + X + "%y = f(k=1, k=2)\n", "text-syntax", "g.txt:3:13", "'k'"),
        (HEADER + X + "%y = f(nothing)\n", "text-syntax", "g.txt:3:8", "'nothing'"),
        (HEADER + X + "%y = f(1e999)\n", "text-syntax", "g.txt:3:8", "'1e999'"),
        (HEADER + X + "%y = f\n", "text-syntax", "g.txt:3:7", "the end"),
        (HEADER + X + "%y = f(%x)  # nowhere\n", "text-syntax", "g.txt:3:13", "' nowhere'"),
        (HEADER + X + '%y = f("\\u12")\n', "text-syntax", "g.txt:3:8", "string"),
        (HEADER + X + "hello\n", "text-syntax", "g.txt:3:1", "'hello'"),
        (HEADER + "value c: int64[2] = [1]\n", "text-syntax", "g.txt:2:21", "1 values"),
        (HEADER + 'value c: int64[1] = ["a"]\n', "text-syntax", "g.txt:2:21", "not a number"),
        (HEADER + "%y = f(" + "[" * 10_000 + "\n", "text-syntax", "g.txt:2:58", "a list"),
        (HEADER + X + X, "graph-duplicate-node", "g.txt: node x", "same name"),
        (HEADER + X + "%y = f(%z)\n", "graph-unknown-node", "g.txt: node y", "'z'"),
        (HEADER + "%y = f(%x)\n" + X, "graph-node-order", "g.txt: node y", "comes later"),
        (HEADER + "%y = f(%y)\n", "graph-node-order", "g.txt: node y", "itself"),
        (HEADER + X + "output y = %y\n", "graph-unknown-output", "g.txt: output y", "'y'"),
        (HEADER + X + "output y = %x\noutput y = %x\n", "graph-duplicate-output", "g.txt: output y", "two outputs"),
    ],
)
def test_bad_text(text: str, code: str, place: str, found: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_graph(text, "g.txt")
    error = caught.value
    assert (error.code, error.place) == (code, place)
    assert found in error.found


def test_node_limit() -> None:
    with pytest.raises(UserError) as caught:
        parse_graph(HEADER + "%a = f()\n%b = f()\n", "g.txt", Limits(nodes=1))
    assert caught.value.code == "limit-nodes"


@settings(max_examples=300)
@given(st.text(string.printable, max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        graph = parse_graph(HEADER + text, "g.txt")
    except UserError:
        return
    _same(graph)
