# ruff: noqa: E501 (lines of HLO text)
"""HLO text: what is read, and what is refused with its line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tantamount.capture.fields import Place
from tantamount.capture.hlo import parse_hlo
from tantamount.capture.hlo_groups import groups_of
from tantamount.capture.readers import read_graph
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.limits import Limits
from tantamount.ops.check import check_graph
from tantamount.semantics.interpret import interpret

PLACE = Place("graph", "a.hlo", Limits())
ADD = "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y)\n}\n"


def module(body: str, before: str = "", header: str = "") -> str:
    return f"HloModule m{header}\n\n{before}\nENTRY %main {{\n{body}\n}}\n"


def read(body: str, before: str = "", header: str = "") -> Graph:
    graph = parse_hlo(module(body, before, header), "a.hlo", Limits())
    check_graph(graph, dict.fromkeys(graph.groups, 2) or None)
    return graph


def value(body: str, *arguments: Any, before: str = "", header: str = "") -> Any:
    graph = read(body, before, header)
    values = interpret(graph, {f"parameter{k}": np.asarray(x) for k, x in enumerate(arguments)})
    found = [values.array(output.node) for output in graph.outputs]
    return found[0] if len(found) == 1 else found


# ---------------------------------------------------------------------------------------------- what is read
def test_names_types_sources_and_outputs() -> None:
    graph = read(
        """
        %p.0 = f16[2,3]{1,0} parameter(1), metadata={source="layers/a.py:12"}
        %q = f32[3]{0} parameter(0), sharding={replicated}
        %c = f32[2,3]{1,0:T(8,128)} convert(f16[2,3]{1,0} %p.0), metadata={op_name="jit(f)/c" source_file="b.py" source_line=7}
        %b = f32[2,3] broadcast(%q), dimensions={1}
        ROOT %t = (f32[2,3]{1,0}, /*index=1*/(f32[3])) tuple(%add.1, %n)
        """.replace(
            "ROOT", "%add.1 = f32[2,3] add(%c, b), metadata={stack_frame_id=2}\n %n = (f32[3]) tuple(%q)\n ROOT"
        ),
        before='FileNames\n1 "m.py"\n\nFunctionNames\n1 "f"\n\nFileLocations\n'
        "1 {file_name_id=1 function_name_id=1 line=31 end_line=31}\n\nStackFrames\n2 {file_location_id=1}\n\n",
    )
    assert [node.name for node in graph.nodes] == ["parameter0", "parameter1", "c", "b", "add.1"]
    assert [(o.name, o.node) for o in graph.outputs] == [("output0", "add.1"), ("output1", "parameter0")]
    assert [str(node.type) for node in graph.inputs] == ["float32[3]", "float16[2, 3]"]
    assert [str(graph.by_name[n].source) for n in ("parameter1", "c", "add.1")] == [
        "layers/a.py:12",
        "b.py:7",
        "m.py:31",
    ]


def test_gzip_and_plain(tmp_path: Path) -> None:
    text = module("ROOT p = f32[2] parameter(0)")
    (tmp_path / "a.hlo").write_text(text)
    (tmp_path / "a.hlo.gz").write_bytes(gzip.compress(text.encode()))
    assert read_graph(tmp_path / "a.hlo").nodes == read_graph(tmp_path / "a.hlo.gz").nodes


def test_constants() -> None:
    body = """
      a = s32[2,2]{1,0} constant({ { 1, 2 }, { -3, 4 } })
      b = pred[3] constant({1, 0, 1})
      c = f32[] constant(-1.5e-07)
      d = f32[2,1] constant({{inf}, {-inf}})
      e = f32[5] constant({...})
      f = u8[2] constant({7, 7})
      ROOT r = (s32[2,2], pred[3], f32[], f32[2,1], u8[2]) tuple(a, b, c, d, f)
    """
    graph = read(body)
    assert "e" in graph.by_name
    assert "e" not in graph.constants
    values = [x.tolist() for x in value(body.replace("e = f32[5] constant({...})", ""))]
    assert values == [[[1, 2], [-3, 4]], [True, False, True], -1.5e-07, [[np.inf], [-np.inf]], [7, 7]]


def test_calls_and_fusions_are_put_in_place() -> None:
    body = """
      p = f32[2] parameter(0)
      a = f32[2] call(p), to_apply=twice
      b = f32[2] fusion(a), kind=kLoop, calls=%twice, backend_config={"x":"}"}
      s = ((f32[2]), f32[2]) async-start(b), calls=twice
      ROOT d = f32[2] async-done(s), calls=twice
    """
    before = '%twice (x: f32[2]) -> f32[2] {\n x = f32[2]{0} parameter(0)\n ROOT y = f32[2] add(x, x)\n}, execution_thread="main"\n'
    assert value(body, [1.0, 2.0], before=before).tolist() == [8.0, 16.0]
    assert [n.name for n in read(body, before).nodes] == ["parameter0", "a/y", "b/y", "s/y"]


def test_asynchronous_and_combined_collectives() -> None:
    graph = read(
        """
        p = f32[4] parameter(0)
        q = f32[2] parameter(1)
        s = f32[4] all-reduce-start(p), replica_groups={{0,1}}, to_apply=add
        d = f32[4] all-reduce-done(s)
        c = (f32[4], f32[2]) all-reduce(p, q), replica_groups={{0,1}}, to_apply=add
        e = f32[2] get-tuple-element(c), index=1
        g = (f32[2], f32[4]) all-gather-start(e), replica_groups={{0,1}}, dimensions={0}
        h = f32[4] all-gather-done(g)
        ROOT t = (f32[4], f32[4]) tuple(d, h)
        """,
        ADD,
    )
    assert [(n.name, n.target) for n in graph.nodes[2:]] == [
        ("d", "hlo.all-reduce"), ("c[0]", "hlo.all-reduce"), ("c[1]", "hlo.all-reduce"), ("h", "hlo.all-gather"),
    ]  # fmt: skip
    assert graph.groups == {"{{0,1}}": ((0, 1),)}


def test_all_to_all_of_several_tensors() -> None:
    graph = read(
        """
        p = f32[3] parameter(0)
        q = f32[3] parameter(1)
        a = (f32[3], f32[3]) all-to-all(p, q), replica_groups={{0,1}}
        ROOT r = f32[3] get-tuple-element(a), index=1
        """
    )
    assert graph.outputs[0].node == "a[1]"
    assert str(graph.by_name["a"].type) == "float32[2, 3]"


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{}", ()),
        ("{{}}", ()),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[4,2]<=[2,4]T(1,0)", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("[2,4]<=[2,2,2]T(1,0,2)", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("mesh['a'=2,'b'=2] {'b'}", ((0, 1), (2, 3))),
        ("mesh['a'=2,'b'=2] {'a'}", ((0, 2), (1, 3))),
        ("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'a'}", ((0, 1), (2, 3))),
        ("mesh['a'=2,'b'=2] {'b','a'}", ((0, 2, 1, 3),)),
    ],
)
def test_replica_groups(text: str, groups: object) -> None:
    assert groups_of(text, PLACE) == groups


@pytest.mark.parametrize(
    "text",
    ["{0,1}", "[2,3]<=[8]", "[2,4]<=[8]T(1)", "[8]<=[8]", "mesh['a'=2] {'b'}", "mesh['a'=2,'b':(1)2=2] {'a'}", "x"],
)
def test_replica_groups_that_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"hlo-(groups|attribute)"):
        groups_of(text, PLACE)


# ---------------------------------------------------------------------------------------------- meanings
def test_logistic_and_bitcasts() -> None:
    x = np.arange(6.0).reshape(2, 3)
    found = value("p = f64[2,3]{1,0} parameter(0)\n ROOT l = f64[2,3] logistic(p)", x)
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-x)), rtol=1e-15)
    transposed = value("p = f64[2,3]{1,0} parameter(0)\n ROOT b = f64[3,2]{0,1} bitcast(p)", x)
    assert transposed.tolist() == x.T.tolist()
    assert value("p = f64[2,3]{1,0} parameter(0)\n ROOT b = f64[6]{0} bitcast(p)", x).tolist() == x.ravel().tolist()
    copied = "p = f64[2,3]{1,0} parameter(0)\n c = f64[2,3]{0,1} copy(p)\n ROOT b = f64[6]{0} bitcast(c)"
    assert value(copied, x).tolist() == x.T.ravel().tolist()
    fused = "p = f64[2,3]{1,0} parameter(0)\n c = f64[2,3]{0,1} fusion(p), calls=f\n ROOT b = f64[6]{0} bitcast(c)"
    before = "f { p = f64[2,3]{1,0} parameter(0)\n ROOT c = f64[2,3]{0,1} copy(p)\n}"
    assert value(fused, x, before=before).tolist() == x.T.ravel().tolist()


def test_neuron_custom_calls() -> None:
    x, w = np.arange(24.0).reshape(2, 3, 4), np.array([1.0, 2.0, 3.0])
    body = """
      p = f32[2,3,4] parameter(0)
      w = f32[3] parameter(1)
      t = f32[3] custom-call(w), custom_call_target="AwsNeuronTransferWithStaticRing", api_version=API_VERSION_UNSPECIFIED
      e = f32[] constant(0.5)
      ROOT n = f16[2,3,4] custom-call(p, t, e), custom_call_target="AwsNeuronRmsNorm", backend_config="1"
    """
    wanted = x / np.sqrt((x * x).mean(1, keepdims=True) + 0.5) * w[:, None]
    np.testing.assert_allclose(value(body, x, w), wanted, rtol=1e-14)
    with pytest.raises(UserError, match="dimension's number"):
        read(body.replace('backend_config="1"', 'backend_config="3"'))


def test_not_a_number_is_where_a_condition_must_hold() -> None:
    body = """
      p = f64[3] parameter(0)
      z = f64[3] parameter(1)
      n = f64[] constant(nan)
      b = f64[3] broadcast(n), dimensions={}
      c = pred[3] compare(z, p), direction=LT
      ROOT s = f64[3] select(c, p, b)
    """
    found = value(body, [1.0, 2.0, 3.0], [0.0, 2.0, 1.0])
    np.testing.assert_array_equal(found[[0, 2]], [1.0, 3.0])
    assert not np.isfinite(found[1])


def test_partition_id_is_the_rank() -> None:
    with pytest.raises(UserError, match="both partition-id and replica-id"):
        read("a = u32[] partition-id()\n b = u32[] replica-id()\n ROOT c = u32[] add(a, b)")
    graph = read(
        "a = u32[] partition-id()\n b = u32[] replica-id()\n ROOT c = u32[] add(a, b)", header=", replica_count=2"
    )
    assert [n.target for n in graph.nodes] == ["hlo.constant", "hlo.constant", "hlo.partition-id", "hlo.add"]
    assert graph.nodes[0].name == "a"
    assert graph.ranks == 2


# ---------------------------------------------------------------------------------------------- what is refused
P = "p = f32[4] parameter(0)\n"


@pytest.mark.parametrize(
    ("body", "line", "because"),
    [
        (P + "ROOT a = f32[4] add(p, q)", 6, "the operand 'q'"),
        (P + "ROOT a = f32[4] add(p, p", 6, "brackets that match"),
        (P + "ROOT a = f32[4] add(p, p) x", 6, "the end of the line"),
        (P + "ROOT a = f32[4] negate(p), dimensions={0}", 6, "the attribute dimensions"),
        (P + "ROOT a = f32[4] negate(p), a=1, a=2", 6, "the attribute a twice"),
        (P + "ROOT a = f32[<=4] negate(p)", 6, "size '<=4'"),
        (P + "ROOT a = c64[4] negate(p)", 6, "complex numbers are not"),
        (P + "a = f32[4] negate(p)", 7, "0 in computation main"),
        (P + "p = f32[4] negate(p)", 6, "two instructions named p"),
        (P + "ROOT a = f32[4] while(p), condition=c, body=second", 6, "condition='c'"),
        (P + "ROOT a = f32[4] conditional(p), branch_computations={}", 6, "one for each of"),
        (P + "i = s32[] constant(0)\nROOT a = f32[4] conditional(i, p), branch_computations={nowhere}", 7, "nowhere"),
        (P + "ROOT a = f32[4] rng(p, p), distribution=rng_uniform", 6, "the instruction rng"),
        (P + "ROOT a = f32[4] convolution(p, p), dim_labels=bf0_oi0->bf0", 6, "labels of one to seven"),
        (P + "ROOT a = s32[4] bitcast(p)", 6, "the bits of a number"),
        (P + "ROOT a = f32[2,2] bitcast(p)", 6, "no layout"),
        (P + "ROOT a = f32[2,2]{1,0:T(8,128)} bitcast(p)", 6, "without tiles"),
        (P + "ROOT a = s32[4] bitcast-convert(p)", 6, "bitcast-convert"),
        (P + 'ROOT a = f32[4] custom-call(p), custom_call_target="Sharding"', 6, "SPMD partitioner"),
        (P + 'ROOT a = f32[4] custom-call(p), custom_call_target="f", custom_call_has_side_effect=true', 6, "side effects"),
        (P + "ROOT a = f32[4] call(p), to_apply=f", 6, "to_apply='f'"),
        (P + "z = f32[] constant(0)\nROOT a = f32[] reduce(p, z), dimensions={0}, to_apply=second", 7, "the computation second"),
        (P + "ROOT a = f32[4] all-reduce(p), replica_groups={{0,1},{2}}, to_apply=add", 6, "groups of one size"),
        (P + "ROOT a = f32[4] all-reduce(p), use_global_device_ids=true, to_apply=add", 6, "without a channel_id"),
        (P + "ROOT a = pred[4] compare(p, p), direction=LT, type=TOTALORDER", 6, "TOTALORDER"),
        (P + "ROOT a = pred[4] compare(p, p), direction=XX", 6, "'XX'"),
        (P + "n = f32[4] constant({nan, nan, nan, nan})\nROOT a = f32[4] add(p, n)", 7, "not-a-number"),
        (P + "ROOT n = f32[2] constant({nan, 1})", 6, "not-a-number"),
        (P + "ROOT n = s8[2] constant({300, 1})", 6, "'300'"),
        (P + "ROOT n = f32[2] constant({1, 2, 3})", 6, "longer than 2"),
        (P + "ROOT n = f32[2] constant({1})", 6, "a list of 1"),
        (P + "ROOT a = f32[4] get-tuple-element(p), index=0", 6, "something that is no tuple"),
        ("p = (f32[4]) parameter(0)\nROOT a = f32[4] get-tuple-element(p), index=0", 5, "an input that is one tensor"),
        ("p = f32[4] parameter(1)\nROOT a = f32[4] negate(p)", 4, "without a gap"),
        (P + "s = f32[4] all-reduce-start(p), to_apply=add\nROOT a = f32[4] negate(s)", 7, "no tensor"),
        (P + "ROOT a = f32[4] all-reduce-done(p)", 6, "the matching all-reduce-start"),
    ],
)  # fmt: skip
def test_refused_with_its_line(body: str, line: int, because: str) -> None:
    second = "second { x = f32[] parameter(0)\n ROOT y = f32[] parameter(1)\n}\n"
    before = ADD + second
    offset = before.count("\n")
    with pytest.raises(UserError) as caught:
        read(body, before)
    assert f"line {line + offset}" in caught.value.place
    assert because in str(caught.value)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("", "`HloModule`"),
        ("HloModule m", "ENTRY"),
        ("HloModule m, new_thing=1\nENTRY e { ROOT p = f32[] parameter(0)\n}", "the attribute new_thing"),
        ("HloModule m, replica_count=2, num_partitions=2\nENTRY e { ROOT p = f32[] parameter(0)\n}", "not both"),
        ("HloModule m\nENTRY e { ROOT p = f32[] parameter(0)\n", "closing brace"),
        (
            "HloModule m\nENTRY e { ROOT p = f32[] parameter(0)\n}\nENTRY g { ROOT p = f32[] parameter(0)\n}",
            "two: e and g",
        ),
        ("HloModule m\nENTRY e { ROOT c = f32[] call(), to_apply=e\n}", "limit nesting"),
    ],
)
def test_modules_that_are_refused(text: str, because: str) -> None:
    with pytest.raises(UserError, match="error") as caught:
        parse_hlo(text, "a.hlo", Limits())
    assert because in str(caught.value)


@pytest.mark.parametrize("first", ["ROOT a = f32[] negate(p)", "ROOT a = f32[] copy(p)"])
def test_calls_that_multiply_are_bounded(first: str) -> None:
    bodies = [f"f0 {{ p = f32[] parameter(0)\n {first}\n}}"]
    for k in range(40):
        call = f"p = f32[] parameter(0)\n a = f32[] call(p), to_apply=f{k}\n ROOT b = f32[] call(a), to_apply=f{k}"
        bodies.append(f"f{k + 1} {{ {call}\n}}")
    text = module("p = f32[] parameter(0)\nROOT c = f32[] call(p), to_apply=f40", "\n".join(bodies))
    with pytest.raises(UserError, match="limit nodes"):
        parse_hlo(text, "a.hlo", Limits(nodes=5000))


def test_tuples_that_multiply_are_bounded() -> None:
    body = "p = f32[] parameter(0)\nt0 = () tuple()\n" + "\n".join(
        f"t{k + 1} = () tuple(t{k}, t{k})" for k in range(60)
    )
    with pytest.raises(UserError, match="limit nodes"):
        parse_hlo(module(body + "\nROOT r = () tuple(t60)"), "a.hlo", Limits(nodes=5000))


def test_comments_that_do_not_end_take_linear_time() -> None:
    with pytest.raises(UserError):
        parse_hlo("HloModule m " + "/*" * 1_000_000, "a.hlo", Limits())


@pytest.mark.parametrize("attribute", ["channel_id=1", "channel_id=1, use_global_device_ids=true", ""])
@pytest.mark.parametrize("header", [", num_partitions=4", ", replica_count=4"])
def test_ids_mean_what_the_channel_says(attribute: str, header: str) -> None:
    """Cross-replica, cross-partition and flattened ids, as XLA's four modes of groups have them."""
    body = f"{P}ROOT a = f32[4] all-reduce(p), replica_groups={{{{0,1}},{{2,3}}}}, to_apply=add, {attribute}".rstrip(
        ", "
    )
    by_rank = "use_global" in attribute or header == ", replica_count=4"
    if by_rank:
        assert read(body, ADD, header).groups == {"{{0,1},{2,3}}": ((0, 1), (2, 3))}
    else:
        with pytest.raises(UserError, match="do not number them"):
            read(body, ADD, header)
    one = body.replace("{{0,1},{2,3}}", "{{0}}")
    if header == ", num_partitions=4" and not by_rank:
        groups = read(one, ADD, header).groups
        assert groups == ({"{}": ()} if attribute else {"each rank alone": ((0,), (1,), (2,), (3,))})


# ------------------------------------------------------------------------------------------------ contradictions
TWO = "x = f32[2,3]{1,0} parameter(0)\n ROOT y = f32[3,2]{1,0} transpose(x), dimensions={1,0}"
LAYOUT = ", entry_computation_layout={%s}"


@pytest.mark.parametrize(
    "header",
    [
        "", LAYOUT % "(f32[2,3]{1,0})->f32[3,2]{1,0}", LAYOUT % "(f32[2,3])->f32[3,2]",
        LAYOUT % "(f32[2,3]{0,1})->f32[3,2]{0,1}",  # of the interface: layouts are assigned later
        ", is_scheduled=true" + LAYOUT % "(f32[2,3]{1,0})->f32[3,2]{1,0:T(8,128)}",
    ],
)  # fmt: skip
def test_headers_that_agree_with_the_instructions(header: str) -> None:
    assert len(read(TWO, header=header).nodes) == 2


@pytest.mark.parametrize(
    ("header", "needed"),
    [
        (LAYOUT % "(f32[3,2]{1,0})->f32[3,2]{1,0}", "float32[2, 3] with layout {1,0}, that of %x in line 5"),
        (LAYOUT % "(f32[2,3]{1,0})->f32[2,3]{1,0}", "float32[3, 2] with layout {1,0}, that of %y in line 6"),
        (LAYOUT % "(f64[2,3]{1,0})->f32[3,2]{1,0}", "that of %x"),
        (LAYOUT % "(f32[2,3]{1,0})->(f32[3,2]{1,0})", "that of %y"),
        (LAYOUT % "(f32[2,3]{1,0}, f32[])->f32[3,2]{1,0}", "1, as many as the computation has"),
        (LAYOUT % "()->f32[3,2]{1,0}", "1, as many as the computation has"),
        (", is_scheduled=true" + LAYOUT % "(f32[2,3]{0,1})->f32[3,2]{1,0}", "that of %x"),
    ],
)
def test_headers_that_contradict_the_instructions(header: str, needed: str) -> None:
    with pytest.raises(UserError) as raised:
        read(TWO, header=header)
    assert raised.value.code == "graph-hlo-contradiction"
    assert needed in raised.value.needed


@pytest.mark.parametrize("signature", ["(x: f32[3,2]) -> f32[3,2]", "(x: f32[2,3]) -> f32[2,3]", "() -> f32[3,2]"])
def test_signatures_that_contradict_the_instructions(signature: str) -> None:
    text = f"HloModule m\n\nENTRY %main {signature} {{\n{TWO}\n}}\n"
    with pytest.raises(UserError) as raised:
        parse_hlo(text, "a.hlo", Limits())
    assert raised.value.code == "graph-hlo-contradiction"
    right = text.replace(signature, "(x: f32[2,3]) -> f32[3,2]")
    assert len(parse_hlo(right, "a.hlo", Limits()).nodes) == 2


@pytest.mark.parametrize("printed", ["f32[3,2]{1,0} x", "f32[2,3]{0,1} x", "f16[2,3] x", "(f32[2,3]) x", "pred[] %x"])
def test_operands_that_contradict_their_definitions(printed: str) -> None:
    with pytest.raises(UserError) as raised:
        read(TWO.replace("transpose(x)", f"transpose({printed})"))
    assert raised.value.code == "graph-hlo-contradiction"
    assert len(read(TWO.replace("transpose(x)", "transpose(f32[2,3]{1,0} %x)")).nodes) == 2


@pytest.mark.parametrize("layout", ["0,0", "1", "2,1", "0,1,2", "1,0,", "x,y"])
def test_layouts_that_are_no_order_of_the_dimensions(layout: str) -> None:
    with pytest.raises(UserError) as raised:
        read(TWO.replace("f32[2,3]{1,0}", f"f32[2,3]{{{layout}}}"))
    assert raised.value.code == "graph-hlo-syntax"


def test_strings_without_an_end_are_read_once() -> None:
    with pytest.raises(UserError):
        parse_hlo('HloModule m, a="' + '\\"' * 300_000, "a.hlo", Limits())
    with pytest.raises(UserError):
        read("x = f32[2] parameter(0)\n ROOT y = f32[2] negate(" + "a" * 300_000 + "!)")


BY = "{name} {{ x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT c = pred[] compare({a}, {b}), direction={way}\n}}\n"
BRANCH = "{name} {{ x = f32[2] parameter(0)\n ROOT y = f32[2] {what}\n}}\n"
PAIRS = """by {{ a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n j = s32[] parameter(3)
 gt = pred[] compare(a, b), direction=GT\n v = f32[] select(gt, a, b)\n eq = pred[] compare(a, b), direction=EQ
 lt = pred[] compare(i, j), direction={tie}\n both = pred[] and(eq, lt)\n or = pred[] or(gt, both)
 k = s32[] select(or, i, j)\n ROOT t = (f32[], s32[]) tuple(v, k)\n}}\n"""


def extreme(tie: str = "LT", along: int = 1, value: str = "-inf", place: int = 0) -> str:
    body = f"""x = f32[2,2] parameter(0)\n i = s32[2,2] iota(), iota_dimension={along}\n s = f32[] constant({value})
        t = s32[] constant({place})\n r = (f32[2], s32[2]) reduce(x, i, s, t), dimensions={{1}}, to_apply=by
        ROOT k = s32[2] get-tuple-element(r), index=1"""
    return value_of(body, PAIRS.format(tie=tie))


def value_of(body: str, before: str) -> Any:
    return value(body, [[1.0, 1.0], [0.0, 2.0]], before=before).tolist()


def test_positions_of_extremes_are_those_of_one_computation() -> None:
    assert extreme() == [0, 1]
    for other in ({"tie": "GT"}, {"along": 0}, {"value": "0"}, {"place": 1}):
        with pytest.raises(UserError, match="other reductions of pairs"):
            extreme(**other)  # type: ignore[arg-type]


def test_orders_of_one_computation() -> None:
    def sorted_by(way: str, a: str = "x", b: str = "y", more: str = "") -> Any:
        body = f"x = f32[2,2] parameter(0)\n ROOT s = f32[2,2] sort(x), dimensions={{1}}{more}, to_apply=by"
        return value_of(body, BY.format(name="by", a=a, b=b, way=way))

    assert sorted_by("LT") == [[1.0, 1.0], [0.0, 2.0]]
    assert sorted_by("GT") == [[1.0, 1.0], [2.0, 0.0]]
    for wrong in (("LE",), ("LT", "y", "x"), ("EQ",)):
        with pytest.raises(UserError, match="the order of the first operand"):
            sorted_by(*wrong)
    pair = "x = f32[2] parameter(0)\n ROOT s = (f32[2], f32[2]) sort(x, x), dimensions={0}, to_apply=by"
    with pytest.raises(UserError, match="which is not stable"):
        read(pair, BY.format(name="by", a="x", b="y", way="LT"))
    total = pair.replace("to_apply", "is_stable=true, to_apply")
    with pytest.raises(UserError, match="which puts -0 before 0"):  # which no proof knows of: where each comes from
        read(total, BY.format(name="by", a="x", b="y", way="LT, type=TOTALORDER"))
    assert sorted_by("LT, type=TOTALORDER") == [[1.0, 1.0], [0.0, 2.0]]


@pytest.mark.parametrize(
    ("window", "start", "because"),
    [
        ("size=2 rhs_dilate=2", "0", "pad, size, stride"),
        ("stride=2", "0", "pad, size, stride"),
        ("size=2", "1", "an initial value that changes"),
        ("size=2 pad=3_0", "0", "beyond dimension"),
        ("size=5", "0", "a window of 5"),
        ("size=0", "0", "a window of sizes"),
    ],
)
def test_windows_that_are_refused(window: str, start: str, because: str) -> None:
    body = f"x = f32[4] parameter(0)\n c = f32[] constant({start})\n"
    with pytest.raises(UserError) as caught:
        read(f"{body} ROOT r = f32[3] reduce-window(x, c), window={{{window}}}, to_apply=add", ADD)
    assert because in str(caught.value)


def test_running_sums_from_the_end() -> None:
    body = "x = f32[3] parameter(0)\n c = f32[] constant(0)\n ROOT r = f32[3] reduce-window(x, c), window={size=3 pad=0_2}, to_apply=add"
    assert value(body, [1.0, 2.0, 4.0], before=ADD).tolist() == [7.0, 6.0, 4.0]


def test_branches() -> None:
    first, second = BRANCH.format(name="first", what="negate(x)"), BRANCH.format(name="second", what="add(x, x)")
    body = "p = pred[] parameter(1)\n x = f32[2] parameter(0)\n ROOT c = f32[2] conditional(p, x, x), true_computation=first, false_computation=second"
    assert value(body, [1.0, 2.0], True, before=first + second).tolist() == [-1.0, -2.0]
    assert value(body, [1.0, 2.0], False, before=first + second).tolist() == [2.0, 4.0]
    sends = BRANCH.format(name="second", what="all-reduce(x), replica_groups={{0,1}}, to_apply=add")
    with pytest.raises(UserError, match="a collective in a branch"):
        read(body, ADD + first + sends)
