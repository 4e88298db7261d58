"""Jobs of format job/1: what is read, and every way in which a job can be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from support.graphs import call, graph, placeholder, ref, returns, write, write_job
from tantamount.capture.job import read_job
from tantamount.errors import UserError
from tantamount.ir.graph import CustomOperator
from tantamount.ir.job import SAME_NAME, Assumptions
from tantamount.ir.relation import Concat, Expectation, InputRelation, Partial, RankTensor, Replicate, Shard, Slice
from tantamount.limits import Limits

SPEC = graph(placeholder("x", [4, 3]), call("y", "aten.mul.Tensor", [ref("x"), 2.0], [4, 3]), returns(ref("y")))


def half(rank: int, rows: int = 2) -> Any:
    """``y = 2 x`` on some rows, gathered over group ``7``."""
    nodes = [
        placeholder("x", [rows, 3]),
        call("m", "aten.mul.Tensor", [ref("x"), 2.0], [rows, 3]),
        call("y", "_c10d_functional.all_gather_into_tensor.default", [ref("m"), 2, "7"], [2 * rows, 3]),
        returns(ref("y"), ref("m")),
    ]
    return graph(*nodes, rank=rank)


GRAPHS = {"spec.json": SPEC, "rank0.json": half(0), "rank1.json": half(1)}

HEAD = """format = "job/1"
[spec]
graph = "spec.json"
[impl]
graphs = ["rank0.json", "rank1.json"]
mesh = { tp = 2 }
[impl.groups]
"7" = ["tp"]
"""
INPUTS = """[inputs]
x = "Shard(0)"
"""


def _read(folder: Path, job: str = HEAD + INPUTS, graphs: Mapping[str, Any] = GRAPHS, **options: Any) -> Any:
    return read_job(write_job(folder, job, graphs), **options)


# ---------------------------------------------------------------------------------------------- what is read
def test_whole_job(tmp_path: Path) -> None:
    text = """
[outputs]
y = "Replicate()"
[assume]
constants = 0.1
dropout = "same mask"
[ops]
"mylib.scaled_add.default" = { args = "a, b, s", is = "add(a, mul(b, s))" }
"mylib.kernel.default" = { labels = "b q, b k -> b q" }
"""
    job = _read(tmp_path, HEAD + INPUTS + text)
    assert job.path == str(tmp_path / "job.toml")
    assert [graph.rank for graph in job.implementation] == [0, 1]
    assert job.mesh.axes == {"tp": 2}
    assert job.mesh.groups == {"7": ("tp",)}
    assert job.inputs == {"x": InputRelation("x", (Shard(0),), text="Shard(0)")}
    assert job.outputs == {"y": Expectation("y", (Replicate(),), text="Replicate()")}
    assert job.assume == Assumptions(Fraction(1, 10), dropout=True)
    declared = job.specification.operators
    assert declared == {
        "mylib.scaled_add.default": CustomOperator("mylib.scaled_add.default", "a, b, s", "add(a, mul(b, s))"),
        "mylib.kernel.default": CustomOperator("mylib.kernel.default", labels="b q, b k -> b q"),
    }
    assert all(graph.operators == declared for graph in job.implementation)


def test_nothing_is_assumed_by_default(tmp_path: Path) -> None:
    assert _read(tmp_path).assume == Assumptions(None, dropout=False)


def test_same_name_assumption(tmp_path: Path) -> None:
    job = _read(tmp_path, HEAD + INPUTS + '[assume]\nconstants = "same name, same value"\n')
    assert job.assume.constants == SAME_NAME


@pytest.mark.parametrize(
    ("table", "outputs"),
    [
        ("", {"y": Expectation("y")}),
        ("[outputs]\n", {}),
        ('[outputs]\ndefault = "infer"\n', {"y": Expectation("y")}),
        ('[outputs]\ny = "infer"\n', {"y": Expectation("y")}),
        ('[outputs]\ndefault = "Replicate()"\n', {"y": Expectation("y", (Replicate(),), text="Replicate()")}),
        (
            '[outputs]\ny = { name = "m", placement = "Shard(-2)" }\n',
            {"y": Expectation("m", (Shard(0),), text="Shard(-2)")},
        ),
        (
            '[outputs]\ny = \'concat(rank(0, "m"), rank(1, "m"), dim=0)\'\n',
            {
                "y": Expectation(
                    "y",
                    expression=Concat((RankTensor(0, "m"), RankTensor(1, "m")), 0),
                    text='concat(rank(0, "m"), rank(1, "m"), dim=0)',
                )
            },
        ),
    ],
)
def test_outputs(tmp_path: Path, table: str, outputs: Mapping[str, Expectation]) -> None:
    assert _read(tmp_path, HEAD + INPUTS + table).outputs == outputs


def test_an_expectation_that_shapes_contradict_is_told_not_refused(tmp_path: Path) -> None:
    """The implementation may be what is wrong: a missing gather is a bug to report, not a mistake in the job."""
    expected = _read(tmp_path, HEAD + INPUTS + '[outputs]\ny = { name = "m", placement = "Replicate()" }\n').outputs[
        "y"
    ]
    assert "m is float32[2, 3] on rank 0" in expected.problem
    assert "not of shape [4, 3]" in expected.problem
    expected = _read(tmp_path, HEAD + INPUTS + "[outputs]\ny = 'rank(0, \"m\")'\n").outputs["y"]
    assert expected.problem == "the expression has shape [2, 3], not [4, 3]"


def test_one_program_for_all_ranks(tmp_path: Path) -> None:
    job = _read(tmp_path, HEAD.replace('graphs = ["rank0.json", "rank1.json"]', 'graph = "rank0.json"') + INPUTS)
    assert len(job.implementation) == 2
    assert job.implementation[0] is job.implementation[1]


def test_single_program(tmp_path: Path) -> None:
    text = HEAD.split("[impl]")[0] + '[impl]\ngraphs = ["spec.json"]\nmesh = {}\n[inputs]\ndefault = "Replicate()"\n'
    job = _read(tmp_path, text)
    assert job.mesh.world_size == 1
    assert job.inputs["x"] == InputRelation("x", (), text="Replicate()")


def test_relation_expressions_are_resolved(tmp_path: Path) -> None:
    spec = graph(placeholder("w", [4, 3]), returns(ref("w")))
    ranks = {
        f"rank{k}.json": graph(placeholder("a", [4, 3]), placeholder("b", [4, 2]), returns(ref("a"))) for k in (0, 1)
    }
    text = """[inputs.w]
name = "a"
relation = "concat(rank(0)[:2], rank(1)[-2:], dim=-2)"
equal = ["rank(0) == rank(1)", 'rank(0, "b") == rank(1, "b")']
"""
    relation = _read(tmp_path, HEAD + text, {"spec.json": spec} | ranks).inputs["w"]
    a0, a1 = RankTensor(0, "a"), RankTensor(1, "a")
    assert relation.expression == Concat((Slice(a0, ((0, 2, 1), (0, 3, 1))), Slice(a1, ((2, 4, 1), (0, 3, 1)))), 0)
    assert relation.equal == ((a0, a1), (RankTensor(0, "b"), RankTensor(1, "b")))
    assert relation.text == "concat(rank(0)[:2], rank(1)[-2:], dim=-2)"


def _mesh_job(value: str, mesh: str = "{ dp = 2, tp = 2 }") -> str:
    head = 'format = "job/1"\n[spec]\ngraph = "spec.json"\n[impl]\ngraph = "impl.json"\n'
    return f"{head}mesh = {mesh}\n[inputs]\nx = {value}\n"


def _copy(*shape: int) -> Any:
    return graph(placeholder("x", shape), returns(ref("x")))


@pytest.mark.parametrize(
    ("value", "local", "placements"),
    [
        ('"Replicate()"', (8, 4), (Replicate(), Replicate())),
        ('["Shard(0)", "Shard(1)"]', (4, 2), (Shard(0), Shard(1))),
        ('["Shard(0)", "Shard(0)"]', (2, 4), (Shard(0), Shard(0))),
        ('["Partial()", "Replicate()"]', (8, 4), (Partial("sum"), Replicate())),
        ('{ placement = ["Replicate()", "Shard(-1)"] }', (8, 2), (Replicate(), Shard(1))),
    ],
)
def test_several_mesh_axes(tmp_path: Path, value: str, local: tuple[int, ...], placements: tuple[Any, ...]) -> None:
    job = _read(tmp_path, _mesh_job(value), {"spec.json": _copy(8, 4), "impl.json": _copy(*local)})
    assert job.inputs["x"].placements == placements


def test_uneven_shards_follow_torch_chunk(tmp_path: Path) -> None:
    rows = [3, 3, 3, 1]
    graphs = {"spec.json": _copy(10, 2)} | {f"rank{k}.json": _copy(n, 2) for k, n in enumerate(rows)}
    names = [f"rank{k}.json" for k in range(4)]
    text = HEAD.replace('["rank0.json", "rank1.json"]', str(names)).replace("tp = 2", "tp = 4") + INPUTS
    assert _read(tmp_path, text, graphs).inputs["x"].placements == (Shard(0),)
    with pytest.raises(UserError, match=r"x is float32\[2, 2\] on rank 3 .*not of shape \[1, 2\]"):
        _read(tmp_path, text, graphs | {"rank3.json": _copy(2, 2)})


def test_groups(tmp_path: Path) -> None:
    text = _mesh_job('"Replicate()"').replace("[inputs]", '[impl.groups]\na = []\nb = ["tp", "dp"]\n[inputs]')
    job = _read(tmp_path, text, {"spec.json": _copy(2), "impl.json": _copy(2)})
    assert job.mesh.groups == {"a": (), "b": ("tp", "dp")}
    assert job.mesh.group_size("a") == 1


def test_unmentioned_implementation_inputs_are_free(tmp_path: Path) -> None:
    impl = graph(placeholder("x", [2]), placeholder("free", [5]), returns(ref("x")))
    assert set(_read(tmp_path, _mesh_job('"Replicate()"'), {"spec.json": _copy(2), "impl.json": impl}).inputs) == {"x"}


def test_graphs_outside_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    write(tmp_path / "spec.json", SPEC)
    for name in ("../spec.json", str(tmp_path / "spec.json")):
        text = (HEAD + INPUTS).replace('"spec.json"', f'"{name}"')
        with pytest.raises(UserError) as caught:
            _read(inner, text)
        assert caught.value.code == "job-graph-outside"
        assert _read(inner, text, allow_outside=True).specification.inputs
    (inner / "link.json").symlink_to(tmp_path / "spec.json")
    with pytest.raises(UserError, match="outside the job's folder"):
        _read(inner, (HEAD + INPUTS).replace('"spec.json"', '"link.json"'))


# ---------------------------------------------------------------------------------------------- what is refused
def _with(old: str, new: str) -> str:
    text = HEAD + INPUTS
    assert old in text
    return text.replace(old, new)


def _inputs(value: str) -> str:
    return HEAD + f"[inputs]\n{value}\n"


def _outputs(value: str) -> str:
    return HEAD + INPUTS + f"[outputs]\n{value}\n"


WRONG: dict[str, tuple[str, str, str, str]] = {
    # name: (job, code, place, found)
    "not TOML": ("format = ", "job-toml", "job.toml", "Invalid value"),
    "deep TOML": ("a = " + "[" * 100_000, "limit-nesting", "job.toml", "nested too deeply"),
    "key twice": ("format = 1\nformat = 2", "job-toml", "job.toml", "overwrite"),
    "no format": ("[spec]\n[impl]\n", "job-missing-key", "job.toml", "no 'format'"),
    "other format": (_with("job/1", "job/2"), "job-format", "job.toml: format", "'job/2'"),
    "unknown table": (HEAD + INPUTS + "[input]\n", "job-unknown-key", "job.toml", "'input'"),
    "spec is text": ('format = "job/1"\nspec = "spec.json"\nimpl = {}', "job-field", "job.toml: [spec]", "'spec.json'"),
    "no spec graph": (_with('graph = "spec.json"\n', ""), "job-missing-key", "[spec]", "no 'graph'"),
    "spec has graphs": (_with('graph = "spec.json"', "graphs = []"), "job-unknown-key", "[spec]", "'graphs'"),
    "graph is a number": (_with('"spec.json"', "3"), "job-field", "[spec]: graph", "3"),
    "missing file": (_with("spec.json", "absent.json"), "file-unreadable", "absent.json", "No such file"),
    "HLO": (_with("spec.json", "spec.hlo.gz"), "file-unreadable", "spec.hlo.gz", "No such file"),
    "unknown kind of file": (_with("spec.json", "spec.pt"), "job-graph-format", "[spec]: graph", "spec.pt"),
    "path with NUL": (_with("spec.json", "a\\u0000.json"), "job-field", "[spec]: graph", "\\x00"),
    "no mesh": (_with("mesh = { tp = 2 }\n", ""), "job-missing-key", "[impl]", "no 'mesh'"),
    "mesh is a number": (_with("{ tp = 2 }", "2"), "job-field", "[impl]: mesh", "2"),
    "axis of size 0": (_with("tp = 2", "tp = 0"), "job-field", "[impl]: mesh: tp", "0"),
    "axis size is text": (_with("tp = 2", 'tp = "2"'), "job-field", "[impl]: mesh: tp", "'2'"),
    "too many ranks": (_with("tp = 2", "tp = 200000"), "limit-ranks", "[impl]: mesh", "200000 ranks"),
    "missing rank": (_with("tp = 2", "tp = 4"), "job-mesh-size", "[impl]: graphs", "2 graphs for the mesh tp=4"),
    "too many graphs": (_with("tp = 2", "tp = 1"), "job-mesh-size", "[impl]: graphs", "2 graphs for the mesh tp=1"),
    "a list as a graph": (_with('["rank0.json", ', '[["rank0.json"], '), "job-field", "[impl]: graphs", "a list of 1"),
    "no graphs": (_with('graphs = ["rank0.json", "rank1.json"]\n', ""), "job-field", "[impl]", "neither"),
    "graph and graphs": (_with("mesh =", 'graph = "rank0.json"\nmesh ='), "job-field", "[impl]", "both"),
    "graphs is text": (_with('["rank0.json", "rank1.json"]', '"rank0.json"'), "job-field", "[impl]: graphs", "rank0"),
    "swapped ranks": (
        _with('["rank0.json", "rank1.json"]', '["rank1.json", "rank0.json"]'),
        "job-rank-order", "[impl]: graphs", "[1, 0]",
    ),
    "unknown axis in a group": (_with('["tp"]', '["pp"]'), "job-unknown-axis", "[impl]: groups: 7", "'pp'"),
    "axis twice in a group": (_with('["tp"]', '["tp", "tp"]'), "job-field", "[impl]: groups: 7", "tp twice"),
    "group is text": (_with('["tp"]', '"tp"'), "job-field", "[impl]: groups: 7", "'tp'"),
    "group not listed": (_with('"7" = ["tp"]\n', ""), "group-unknown", "rank0.json: node y", "'7'"),
    "group of another size": (_with('["tp"]', "[]"), "operator-types", "rank0.json: node y", "group"),
    "inputs is a list": ("inputs = []\n" + HEAD, "job-field", "[inputs]", "a list of 0"),
    "unlisted input": (HEAD, "job-input-missing", "[inputs]", "x: float32[4, 3]"),
    "unknown input": (_inputs('x = "Shard(0)"\nz = "Shard(0)"'), "job-unknown-input", "[inputs]", "'z'"),
    "input to infer": (_inputs('x = "infer"'), "job-field", "[inputs]: x", '"infer"'),
    "relation is a number": (_inputs("x = 0"), "job-field", "[inputs]: x", "0"),
    "relation is no relation": (_inputs('x = "Sharded"'), "relation-syntax", "[inputs]: x", "'Sharded'"),
    "shard of a missing dimension": (
        _inputs('x = "Shard(2)"'), "job-relation-shape", "[inputs]: x", "Shard(2) of a tensor",
    ),
    "shard of another dimension": (
        _inputs('x = "Shard(1)"'), "job-relation-shape", "[inputs]: x", "x is float32[2, 3] on rank 0",
    ),
    "replicate of a shard": (_inputs('x = "Replicate()"'), "job-relation-shape", "[inputs]: x", "not of shape [4, 3]"),
    "default does not fit": (
        _inputs('default = "Replicate()"'), "job-relation-shape", "[inputs]: default, for x", "not of shape [4, 3]",
    ),
    "too many placements": (
        _inputs('x = ["Shard(0)", "Shard(0)"]'), "job-placement-count", "[inputs]: x", "2 placements",
    ),
    "expression in a list": (_inputs('x = ["rank(0)"]'), "job-field", "[inputs]: x", "an expression in a list"),
    "expression of another shape": (
        _inputs('x = "concat(rank(0), rank(1), dim=1)"'), "job-relation-shape", "[inputs]: x", "[2, 6], not [4, 3]",
    ),
    "expression that does not fit": (
        _inputs('x = "concat(rank(0)[0:3], rank(1), dim=0)"'), "job-relation-shape", "[inputs]: x", "slice 0:3",
    ),
    "unknown rank": (_inputs('x = "concat(rank(0), rank(2), dim=0)"'), "job-unknown-rank", "[inputs]: x", "rank(2)"),
    "unknown implementation input": (
        _inputs('x = { name = "xx", placement = "Shard(0)" }'), "job-unknown-input", "[inputs]: x", "no input 'xx'",
    ),
    "unknown input in an expression": (
        _inputs('x = \'concat(rank(0), rank(1, "w"), dim=0)\''), "job-unknown-input", "[inputs]: x", "no input 'w'",
    ),
    "intermediate as an input": (
        _inputs('x = { name = "m", placement = "Shard(0)" }'), "job-unknown-input", "[inputs]: x", "no input 'm'",
    ),
    "table without a relation": (_inputs('x = { name = "x" }'), "job-field", "[inputs]: x", "neither"),
    "placement and relation": (
        _inputs('x = { placement = "Shard(0)", relation = "rank(0)" }'), "job-field", "[inputs]: x", "both",
    ),
    "relation under placement": (_inputs('x = { placement = "rank(0)" }'), "job-field", "x: placement", "rank(0)"),
    "placement under relation": (_inputs('x = { relation = "Shard(0)" }'), "job-field", "x: relation", "Shard(0)"),
    "unknown key of a relation": (_inputs('x = { shard = 0 }'), "job-unknown-key", "[inputs]: x", "'shard'"),
    "equal is text": (_inputs('x = { placement = "Shard(0)", equal = "" }'), "job-field", "[inputs]: x: equal", "''"),
    "equal of an expression": (
        _inputs('x = { placement = "Shard(0)", equal = ["rank(0)"] }'), "relation-syntax", "x: equal", "the end",
    ),
    "equal on an unknown rank": (
        _inputs('x = { placement = "Shard(0)", equal = ["rank(0) == rank(9)"] }'), "job-unknown-rank", "x", "rank(9)",
    ),
    "unknown output": (_outputs('z = "infer"'), "job-unknown-output", "[outputs]", "'z'"),
    "unknown implementation output": (
        _outputs('y = { name = "x", placement = "Replicate()" }'),
        "job-unknown-output", "[outputs]: y", "no output 'x'",
    ),
    "output on an unknown rank": (_outputs('y = "rank(5)"'), "job-unknown-rank", "[outputs]: y", "rank(5)"),
    "infer inside a table": (_outputs('y = { placement = "infer" }'), "job-field", "y: placement", '"infer"'),
    "unknown assumption": (HEAD + INPUTS + "[assume]\nrounding = 0\n", "job-unknown-key", "[assume]", "'rounding'"),
    "dropout is true": (HEAD + INPUTS + "[assume]\ndropout = true\n", "job-field", "[assume]: dropout", "true"),
    "constants is true": (HEAD + INPUTS + "[assume]\nconstants = true\n", "job-field", "[assume]: constants", "true"),
    "constants is NaN": (HEAD + INPUTS + "[assume]\nconstants = nan\n", "job-field", "[assume]: constants", "nan"),
    "constants is text": (HEAD + INPUTS + '[assume]\nconstants = "0"\n', "job-field", "[assume]: constants", "'0'"),
    "operator is text": (HEAD + INPUTS + '[ops]\n"a.b" = "c"\n', "job-field", "[ops]: a.b", "'c'"),
    "operator without a definition": (
        HEAD + INPUTS + '[ops]\n"a.b" = { args = "a" }\n', "job-field", "[ops]: a.b", "args",
    ),
    "operator with bad names": (
        HEAD + INPUTS + '[ops]\n"a.b" = { args = "a, a", is = "a" }\n', "operator-declaration", "[ops]: operator a.b",
        "'a, a'",
    ),
    "operator with bad labels": (
        HEAD + INPUTS + '[ops]\n"a.b" = { labels = "a b" }\n', "operator-declaration", "[ops]: operator a.b", "'a b'",
    ),
    "operator with labels and a definition": (
        HEAD + INPUTS + '[ops]\n"a.b" = { labels = "a -> a", args = "a", is = "a" }\n', "job-field", "[ops]: a.b",
        "labels",
    ),
    "operator with names that are no list": (
        HEAD + INPUTS + '[ops]\n"a.b" = { labels = "a -> a", mutates = "x" }\n', "job-field", "[ops]: a.b: mutates",
        "'x'",
    ),
    "operator that is known": (
        HEAD + INPUTS + '[ops]\n"aten.mul.Tensor" = { args = "a, b", is = "mul(a, b)" }\n',
        "job-known-operator", "[ops]", "aten.mul.Tensor",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("job", "code", "place", "found"), WRONG.values(), ids=WRONG)
def test_wrong(tmp_path: Path, job: str, code: str, place: str, found: str) -> None:
    with pytest.raises(UserError) as caught:
        _read(tmp_path, job)
    error = caught.value
    assert error.code == code
    assert error.place.startswith(str(tmp_path))
    assert place in error.place
    assert found in error.found
    assert error.needed


@pytest.mark.parametrize(
    ("value", "code", "found"),
    [
        ('"Shard(0)"', "job-placement-count", "Shard(0)"),
        ('["Shard(0)"]', "job-placement-count", "1 placements"),
        ('["Shard(0)", "Shard(0)"]', "job-relation-shape", "x is float32[8, 4] on rank 0"),
    ],
)
def test_wrong_on_two_axes(tmp_path: Path, value: str, code: str, found: str) -> None:
    with pytest.raises(UserError) as caught:
        _read(tmp_path, _mesh_job(value), {"spec.json": _copy(8, 4), "impl.json": _copy(8, 4)})
    assert caught.value.code == code
    assert found in caught.value.found


def test_shard_without_a_mesh(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        _read(tmp_path, _mesh_job('"Shard(0)"', "{}"), {"spec.json": _copy(2), "impl.json": _copy(2)})
    assert caught.value.code == "job-placement-count"
    assert "the mesh has no axes" in caught.value.needed


def test_another_kind_of_number(tmp_path: Path) -> None:
    whole = graph(placeholder("x", [2], "int64"), returns(ref("x")))
    with pytest.raises(UserError, match="another kind of number") as caught:
        _read(tmp_path, _mesh_job('"Replicate()"'), {"spec.json": _copy(2), "impl.json": whole})
    assert caught.value.code == "job-relation-shape"


def test_another_width_is_the_same_kind(tmp_path: Path) -> None:
    narrow = graph(placeholder("x", [2], "bfloat16"), returns(ref("x")))
    assert _read(tmp_path, _mesh_job('"Replicate()"'), {"spec.json": _copy(2), "impl.json": narrow}).inputs


# ---------------------------------------------------------------------------------------------- graphs of a job
MISTYPED: dict[str, tuple[Any, str, str]] = {
    "unknown operator": (call("y", "aten.nope.default", [ref("x")], [4, 3]), "operator-unknown", "'aten.nope.default'"),
    "unknown attribute": (
        call("y", "aten.mul.Tensor", [ref("x"), 2.0], [4, 3], rounding="up"), "operator-attribute", "rounding",
    ),
    "missing operand": (call("y", "aten.mm.default", [ref("x")], [4, 3]), "operator-attribute", "missing"),
    "attribute of another kind": (
        call("y", "aten.transpose.int", [ref("x"), "0", 1], [3, 4]), "operator-attribute", "'0'",
    ),
    "recorded shape contradicts": (
        call("y", "aten.mul.Tensor", [ref("x"), 2.0], [4, 4]), "type-mismatch", "float32[4, 4]",
    ),
    "recorded dtype contradicts": (
        call("y", "aten.mul.Tensor", [ref("x"), 2.0], [4, 3], "int64"), "type-mismatch", "int64[4, 3]",
    ),
    "operands do not fit": (call("y", "aten.mm.default", [ref("x"), ref("x")], [4, 3]), "operator-types", ""),
    "several results as an output": (
        call("y", "aten.split.Tensor", [ref("x"), 2], None), "graph-output-type", "not one tensor",
    ),
    "item beyond the results": (call("y", "getitem", [ref("x"), 5], [4, 3]), "getitem-index", "item 5"),
    "constant without a type": (
        {"name": "y", "op": "get_attr", "target": "c", "shape": None, "dtype": None}, "constant-type", "neither",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("node", "code", "found"), MISTYPED.values(), ids=MISTYPED)
def test_graphs_are_type_checked(tmp_path: Path, node: Any, code: str, found: str) -> None:
    spec = graph(placeholder("x", [4, 3]), node, returns(ref("y")))
    with pytest.raises(UserError) as caught:
        _read(tmp_path, graphs=GRAPHS | {"spec.json": spec})
    error = caught.value
    assert error.code == code
    assert "spec.json" in error.place
    assert "y" in error.place
    assert found in error.found


def test_collective_whose_recorded_size_contradicts_its_group(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        _read(
            tmp_path,
            _with('["rank0.json", "rank1.json"]', '["a.json", "b.json", "c.json", "d.json"]').replace("= 2", "= 4"),
            {"spec.json": SPEC} | {f"{name}.json": half(k, 1) for k, name in enumerate("abcd")},
        )
    assert caught.value.code == "operator-types"
    assert "node y" in caught.value.place
    assert "4" in caught.value.found


def test_limits_reach_the_graphs(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        _read(tmp_path, limits=Limits(nodes=2))
    assert caught.value.code == "limit-nodes"
    assert "spec.json" in caught.value.place


def test_limits_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANTAMOUNT_LIMIT_NODES", "2")
    with pytest.raises(UserError, match="TANTAMOUNT_LIMIT_NODES"):
        _read(tmp_path)


def test_captured_jobs(shared: Path) -> None:
    """Every job that needs no format or operator still to come is read, with all its inputs related."""
    waiting = {"job-graph-format", "operator-unknown", "sizes-unsupported"}
    read = 0
    for path in sorted(shared.glob("*/*/*.toml")):
        try:
            job = read_job(path)
        except UserError as error:
            assert error.code in waiting, str(error)  # noqa: PT017
            continue
        assert set(job.inputs) == {node.name for node in job.specification.inputs}
        read += 1
    assert read >= 70
