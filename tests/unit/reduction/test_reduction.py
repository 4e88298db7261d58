"""Smaller jobs of the same structure: what shrinks, what stays, and what is said after an execution there.

A right program must never be refuted, whatever the reduction does; a wrong one that full execution catches should be
caught at reduced sizes as well."""

from __future__ import annotations

import time
from dataclasses import replace
from math import isclose, prod
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.amount import count
from support.jobs import job_files
from support.layers import MUTANTS, Sizes, caught_less, elements, layer, mutants
from support.puzzle import one
from tantamount import read_job
from tantamount.answers import refine
from tantamount.execution import reduced
from tantamount.execution.control import control
from tantamount.ir.graph import Constant
from tantamount.ir.job import Job
from tantamount.ir.types import DType, TensorType
from tantamount.limits import Limits
from tantamount.ops.algebra import Tensor
from tantamount.proof import Options, prove
from tantamount.reduction import NotReduced, Reduction, reduce_job
from tantamount.reduction.gather import gather
from tantamount.reduction.solve import solve
from tantamount.report.json_report import as_job
from tantamount.report.text import text
from tantamount.sizes.traced import Size, SizeFacts, polynomial
from tantamount.verdict import Relation, Verdict

LARGE = Sizes(tokens=2048, heads=32, head=128, ffn=11008, vocabulary=131072)
EVERYTHING = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'


def job(folder: Path, specification: str, implementation: str, tables: str = EVERYTHING) -> Job:
    return read_job(job_files(folder, specification, [implementation], tables, {}, {}))


# ------------------------------------------------------------------------------------------------ sizes
def test_arithmetic_is_followed_and_comparisons_are_facts() -> None:
    facts = SizeFacts()
    a, b = facts.variable("a", 96), facts.variable("b", 12)
    assert isinstance(a, Size)
    computed = (a * b + 7, a // b, a % b, *divmod(a + 5, b), -a, 5 - b)
    assert [int(n) for n in computed] == [1159, 8, 0, 8, 5, -96, -7]
    assert a > b
    assert a == b * 8  # 96 = 8 * 12, and the quotient 8 is a size too
    assert sorted({kind for kind, _ in facts.found if kind != "!="}) == ["==", ">="]
    smaller = solve(facts.found, {a.polynomial: 1}, dict(enumerate(facts.values)), ())
    assert smaller[0] == smaller[1] * 8
    assert smaller[1] < 12


def test_equal_variables_are_one() -> None:
    facts = SizeFacts()
    a, b = facts.variable("a", 96), facts.variable("b", 96)
    assert a == b
    assert facts.representative(1) == 0
    assert not facts.found


def test_lists_are_repeated_as_often_as_before() -> None:
    facts = SizeFacts()
    n = facts.variable("n", 12)
    assert (1,) * n == (1,) * 12
    assert isinstance(n, Size)
    assert solve(facts.found, {n.polynomial: 1}, {0: 12}, ())[0] == 12


# ------------------------------------------------------------------------------------------------ jobs
@pytest.mark.parametrize("ranks", [2, 8])
def test_a_large_layer_becomes_small_and_stays_proved(tmp_path: Path, ranks: int) -> None:
    large = layer(tmp_path, LARGE, ranks)
    start = time.process_time()
    found = reduce_job(large)
    assert time.process_time() - start < 2
    assert elements(large) > 10**9
    assert elements(found.job) < 2_000_000
    assert refine(found.job).verdict is Verdict.PROVED
    shape = {node.name: node.type.shape for node in found.job.specification.nodes if node.type is not None}
    tokens, heads, head = shape["qh"]
    assert shape["x"] == (tokens, heads * head)
    assert heads % ranks == 0
    scale = next(node for node in found.job.specification.nodes if node.name == "scaled").args[1]
    assert isinstance(scale, float)
    assert isclose(scale, head**-0.5)
    mean = next(node for node in found.job.specification.nodes if node.name == "loss").args[1]
    assert mean == 1 / prod(shape["x"])
    news = [n for new in found.sizes.values() for n in new]
    assert len(news) == len(set(news))
    assert 1 not in news


def test_a_table_keeps_the_positions_that_are_looked_up_in_it(tmp_path: Path) -> None:
    program = """
        table: float32[65536, 640]
        x: float32[16, 640]
        counted = aten.arange.default(16)
        positions = add(counted, 2)
        rows = aten.embedding.default(table, positions)
        y = add(rows, x)
        -> y
    """
    tables = '[inputs]\ntable = "Replicate()"\nx = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
    wrong = program.replace("add(rows, x)", "mul(rows, x)")
    found = refine(read_job(job_files(tmp_path, program, [wrong, wrong], tables, {"tp": 2}, {})))
    assert found.verdict is Verdict.REFUTED
    assert found.counterexample is not None
    (rows,) = found.counterexample.sizes[65536]
    (positions,) = found.counterexample.sizes.get(16, (16,))
    assert rows >= positions + 2


def test_bounds_of_shards_follow_the_vocabulary(tmp_path: Path) -> None:
    found = reduce_job(layer(tmp_path, LARGE, 8))
    (part,) = found.sizes[LARGE.vocabulary // 8]
    for k, graph in enumerate(found.job.implementation):
        named = {node.name: node.args for node in graph.nodes}
        assert (named["low"][1], named["high"][1], named["shifted"][1]) == (k * part, (k + 1) * part, k * part)


def test_boundaries_of_a_fused_weight_follow_its_parts(tmp_path: Path) -> None:
    spec = """
        x: float32[7, 640]
        w: float32[1536, 640]
        wt = t(w)
        y = mm(x, wt)
        q, k, v = aten.split_with_sizes.default(y, [1024, 256, 256], -1)
        -> q, k, v
    """
    rank = spec.replace("1536", "768").replace("1024", "512").replace("256", "128")
    blocks = [f"rank({r})[{a}:{b}]" for a, b in ((0, 512), (512, 640), (640, 768)) for r in (0, 1)]
    tables = f'[inputs]\nx = "Replicate()"\nw = "concat({", ".join(blocks)}, dim=0)"\n[outputs]\ndefault = "Shard(1)"\n'
    found = reduce_job(read_job(job_files(tmp_path, spec, [rank, rank], tables, {"tp": 2}, {})))
    assert refine(found.job).verdict is Verdict.PROVED
    assert elements(found.job) < 20_000


def test_sizes_that_are_equal_by_chance_come_apart(tmp_path: Path) -> None:
    """There are as many heads as half a head has elements, and as many tokens as a head has: a list with a number twice
    does not say which of them an operand has, and the bound of a slice belongs to its dimension."""
    graph = """
        x: float32[64, 4, 32, 64]
        c: float32[64, 32]
        b = hlo.broadcast(c, dimensions=[0, 3], shape=[64, 4, 32, 32])
        low = hlo.slice(x, start_indices=[0, 0, 0, 0], limit_indices=[64, 4, 32, 32], strides=[1, 1, 1, 1])
        high = hlo.slice(x, start_indices=[0, 0, 0, 32], limit_indices=[64, 4, 32, 64], strides=[1, 1, 1, 1])
        s = hlo.add(low, high)
        y = hlo.multiply(s, b)
        -> y
    """
    found = job(tmp_path, graph, graph)
    gathered = gather(found)
    value = gathered.lifted[id(found.specification)].types["y"]
    assert isinstance(value, Tensor)
    tokens, _, heads, half = (gathered.facts.settled(polynomial(n)) for n in value.shape)
    assert len({tokens, heads, half}) == 3


def test_halves_stay_halves_where_other_numbers_are_as_large() -> None:
    """Of three numbers that are 32 one cannot shrink; the end of a slice, which nothing decides, goes with the half
    that it belongs to and not its own way."""
    axis, half, end, other, rows = range(5)
    facts = [
        ("==", (((axis,), 1), ((half,), -2))),
        (">=", (((), -1), ((axis,), 1), ((end,), -1))),
        (">=", (((), -20), ((half,), 1))),
        (">=", (((), -30), ((other,), 1))),
        (">=", (((), -10_000), ((rows,), 1))),
    ]
    values = {axis: 64, half: 32, end: 32, other: 32, rows: 10_000}
    prices = {(((axis, rows), 1),): 2, (((end, rows), 1),): 1, (((other,), 1),): 1}
    found = solve(facts, prices, values, {3})
    assert found[end] == found[half] == found[axis] // 2 < 32


def test_a_slice_of_a_relation_ends_where_its_tensor_does(tmp_path: Path) -> None:
    """A mistake in a program must not let the relation's boundaries come apart from the program's own."""
    spec = "w: float32[3072]\nk = slice(w, 0, 2048, 2560)\ny = aten.view.default(k, [8, 64])\n-> y"
    rank = "w: float32[1536]\nk = slice(w, 0, 0, 256)\ny = aten.view.default(k, [4, 64])\n-> y"
    blocks = [f"rank({r})[{a}:{b}]" for a, b in ((0, 1024), (1024, 1280), (1280, 1536)) for r in (0, 1)]
    tables = f'[inputs]\nw = "concat({", ".join(blocks)}, dim=0)"\n[outputs]\ny = "Shard(0)"\n'
    found = gather(read_job(job_files(tmp_path, spec, [rank, rank], tables, {"tp": 2}, {})))
    assert len({found.facts.representative(v) for v, n in enumerate(found.facts.values) if n == 1536}) == 1


def test_a_reshape_goes_on_cutting_and_merging_dimensions(tmp_path: Path) -> None:
    """Not any sizes will do whose products are equal: 256 = 64 * 4, and 2048 = 32 * 64."""
    graph = """
        x: float32[256, 2048]
        cut = view(x, [64, 4, 32, 64])
        turned = aten.permute.default(cut, [3, 1, 2, 0])
        y = add(cut, turned)
        -> y
    """
    found = reduce_job(job(tmp_path, graph, graph)).job
    shape = {node.name: node.type.shape for node in found.specification.nodes if node.type is not None}
    a, b, c, d = shape["cut"]
    assert shape["x"] == (a * b, c * d)
    assert a < 64


def test_what_may_be_any_number_stays(tmp_path: Path) -> None:
    graph = "x: float32[64, 4096]\ny = mul(x, 0.125)\n-> y"  # 1 / 8, or 1 / sqrt(64)
    found = reduce_job(job(tmp_path, graph, graph))
    assert 64 not in found.sizes
    assert found.sizes[4096][0] < 10
    assert found.numbers == {}


def test_recorded_constants_keep_their_shape(tmp_path: Path) -> None:
    graph = "x: float32[4096, 5]\nc = constant float32[5] [1, 2, 3, 4, 5]\ny = add(x, c)\n-> y"
    found = reduce_job(job(tmp_path, graph, graph))
    assert 5 not in found.sizes
    assert isinstance(found.job.specification.constants["c"], Constant)
    assert found.job.specification.constants["c"].type == TensorType((5,), DType.FLOAT32)


def test_uneven_shards_stay_uneven(tmp_path: Path) -> None:
    tables = '[inputs]\ndefault = "Shard(0)"\n[outputs]\ndefault = "Shard(0)"\n'
    graphs = ["x: float32[400, 64]\ny = relu(x)\n-> y"] * 2 + ["x: float32[200, 64]\ny = relu(x)\n-> y"]
    spec = "x: float32[1000, 64]\ny = relu(x)\n-> y"
    with_three = job_files(tmp_path, spec, graphs, tables, {"tp": 3}, {})
    with pytest.raises(Exception, match="relation-shape"):
        read_job(with_three)  # torch.chunk gives 334, 334, 332
    graphs = ["x: float32[334, 64]\ny = relu(x)\n-> y"] * 2 + ["x: float32[332, 64]\ny = relu(x)\n-> y"]
    found = reduce_job(read_job(job_files(tmp_path, spec, graphs, tables, {"tp": 3}, {})))
    sizes = [graph.nodes[0].type.shape[0] for graph in found.job.implementation if graph.nodes[0].type]
    assert sizes[0] == sizes[1] > sizes[2] > 1
    assert sizes[0] < 30


@pytest.mark.parametrize("right", [True, False])
def test_complex_inputs_are_reduced_with_the_rest(right: bool, tmp_path: Path) -> None:
    """Rotary embeddings by complex numbers, which are an input."""
    spec = """
        x: float32[512, 4096]
        cache: complex64[512, 32]
        pairs = view(x, [512, 64, 32, 2])
        c = aten.view_as_complex.default(pairs)
        rows = view(cache, [512, 1, 32])
        r = mul(c, rows)
        y = aten.view_as_real.default(r)
        z = view(y, [512, 4096])
        -> z
    """
    rank = spec.replace("4096", "2048").replace("64, 32, 2", "32, 32, 2")
    rank = rank if right else rank.replace("mul(c, rows)", "add(c, rows)")
    tables = '[inputs]\nx = "Shard(1)"\ncache = "Replicate()"\n[outputs]\nz = "Shard(1)"\n'
    found = reduce_job(read_job(job_files(tmp_path, spec, [rank, rank], tables, {"tp": 2}, {})))
    assert refine(found.job).verdict is (Verdict.PROVED if right else Verdict.REFUTED)
    assert elements(found.job) < 20_000


def test_a_job_without_large_sizes_is_not_reduced(tmp_path: Path) -> None:
    graph = "x: float32[2, 3]\ny = relu(x)\n-> y"
    with pytest.raises(NotReduced, match="no size can shrink"):
        reduce_job(job(tmp_path, graph, graph))


# ------------------------------------------------------------------------------------------------ verdicts
def test_a_right_layer_that_is_not_proved_is_not_refuted(tmp_path: Path) -> None:
    report = refine(layer(tmp_path, LARGE, 2, puzzle=True))
    assert {output.name: output.verdict for output in report.outputs} == {
        "hidden": Verdict.PROVED,
        "loss": Verdict.UNKNOWN,
    }
    (loss,) = (output for output in report.outputs if output.name == "loss")
    assert "too small to tell" in " ".join(loss.notes)
    assert "executed at reduced sizes" in " ".join(loss.notes)


def test_the_report_says_at_which_sizes_values_were_found(tmp_path: Path) -> None:
    wrong = mutants(layer(tmp_path, LARGE, 2), LARGE, 2)["mlp not summed"]
    report = refine(wrong)
    assert report.verdict is Verdict.REFUTED
    assert report.counterexample is not None
    assert report.counterexample.sizes[131072] == (2 * report.counterexample.sizes[65536][0],)
    assert "at reduced sizes: 131072 -> " in text(report)
    assert as_job(report)["counterexample"]["sizes"]["131072"] == [*report.counterexample.sizes[131072]]


PUZZLE = one(20, 30) + "y = mul(one, {})\n-> y"
TRUTH = "x: float32[20, 30]\ny = aten.ones_like.default(x)\n-> y"


def test_large_jobs_are_executed_at_smaller_shapes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = job(tmp_path, TRUTH, PUZZLE.format(2))
    assert refine(wrong).counterexample.sizes == {}  # type: ignore[union-attr]
    monkeypatch.setattr(reduced, "_MANY", 10)
    monkeypatch.setattr(reduced, "LITTLE", 10)
    report = refine(wrong)
    assert report.verdict is Verdict.REFUTED
    assert report.counterexample is not None
    assert {*report.counterexample.sizes} == {20, 30}


def test_large_jobs_with_dropouts_are_executed_with_nothing_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What differs whatever is dropped takes no proof at smaller shapes; what differs only where something is, does."""
    monkeypatch.setattr(reduced, "_MANY", 10)
    monkeypatch.setattr(reduced, "LITTLE", 10)
    monkeypatch.setattr(reduced, "prove", lambda *_: pytest.fail("nothing has to be proved"))
    program = "x: float32[20, 30]\nd, keep = native_dropout(x, 0.5, True)\ny = {}\n-> y"
    same = EVERYTHING + '[assume]\ndropout = "same mask"\n'

    def pair(wrong: str) -> Job:
        return read_job(job_files(tmp_path, program.format("add(d, x)"), [program.format(wrong)], same, {}, {}))

    report = refine(pair("mul(d, x)"))
    assert report.verdict is Verdict.REFUTED
    assert report.counterexample is not None
    assert {*report.counterexample.sizes} == {20, 30}
    assert "both sides were executed with nothing dropped" in report.notes
    monkeypatch.undo()
    monkeypatch.setattr(reduced, "_MANY", 10)
    monkeypatch.setattr(reduced, "LITTLE", 10)
    report = refine(pair("mul(x, 3)"))
    assert report.verdict is Verdict.REFUTED
    assert "both sides were executed with nothing dropped" not in report.notes


def test_a_smaller_job_is_controlled_by_what_is_proved_of_the_job(tmp_path: Path) -> None:
    """Relations that name no size are compared; of others every element must be there."""
    spec = "x: float32[8, 6]\na = mul(x, 3)\nb = relu(a)\nc = aten.slice.Tensor(a, 1, 0, 2)\n-> b\n-> c"
    rank = "x: float32[8, 3]\na = mul(x, 3)\nb = relu(a)\n-> b"
    tables = '[inputs]\nx = "Shard(1)"\n[outputs]\nb = "Shard(1)"\nc = "rank(0, \\"a\\")[:, 0:2]"\n'
    rank = rank + "\n-> a"
    small = read_job(job_files(tmp_path, spec, [rank, rank], tables, {"tp": 2}, {}))
    proof = prove(small)
    outputs, relations = proof.check(), proof.relations()
    assert {one.verdict for one in outputs} == {Verdict.PROVED}
    plan = reduced.planned(small, Options())
    control(plan, outputs, relations)
    pieces = Relation("a", "pieces at [k, 3tp+j]", "a")
    control(plan, (), {"a": pieces, "c": Relation("c", 'rank(0, "a")[:, 0:5]', "a")})
    for wrong in (
        replace(pieces, implementation="b"),
        Relation("a", "Shard(0)", "a"),
        Relation("a", "Shard(1)", "b"),
        Relation("b", 'rank(0, "a")[:, 0:2]', "a"),
    ):
        with pytest.raises(NotReduced, match="has a counterpart at the job's shapes only"):
            control(plan, (), {wrong.tensor: wrong})
    (tmp_path / "wrong").mkdir()
    other = rank.replace("relu(a)", "mul(a, 2)")
    wrong_job = read_job(job_files(tmp_path / "wrong", spec, [other, other], tables, {"tp": 2}, {}))
    with pytest.raises(NotReduced, match="the output b is proved at the job's shapes only"):
        control(reduced.planned(wrong_job, Options()), outputs, {})


def test_what_differs_at_smaller_shapes_alone_is_not_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job can be executed as it is: what a reduction that is wrong says of it counts for nothing."""
    right = job(tmp_path, TRUTH, PUZZLE.format(1))
    (tmp_path / "smaller").mkdir()
    wrong = job(tmp_path / "smaller", TRUTH, PUZZLE.format(2))
    monkeypatch.setattr(reduced, "_MANY", 10)
    monkeypatch.setattr(reduced, "LITTLE", 10)
    monkeypatch.setattr(reduced, "reduce_job", lambda *_: Reduction(wrong, {20: (2,)}, {}))
    report = refine(right)
    assert report.verdict is Verdict.UNKNOWN
    assert "both sides agree" in " ".join(report.outputs[0].notes)
    assert "at reduced sizes" not in text(report)


@settings(max_examples=count(3, 4), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.builds(
        lambda tokens, heads, head, ffn, vocabulary: Sizes(tokens, 4 * heads, head, 4 * ffn, 4 * vocabulary),
        st.integers(2, 60),
        st.integers(1, 6),
        st.integers(1, 40),
        st.integers(1, 60),
        st.integers(1, 60),
    ),
    st.sampled_from([2, 4]),
)
def test_right_layers_stay_right(tmp_path: Path, z: Sizes, ranks: int) -> None:
    large = layer(tmp_path, z, ranks, puzzle=True)
    try:
        found = reduce_job(large)
    except NotReduced:
        return
    assert elements(found.job) <= elements(large)
    limits = Limits(witness_elements=elements(large) - 1)
    verdicts = {output.name: output.verdict for output in refine(large, limits=limits, effort="low").outputs}
    assert verdicts == {"hidden": Verdict.PROVED, "loss": Verdict.UNKNOWN}


def test_wrong_layers_are_caught_as_at_full_size(tmp_path: Path) -> None:
    """Some of them; ``benchmarks/bench_reduction.py`` takes all."""
    assert list(caught_less(tmp_path, list(MUTANTS)[:: count(9, 6)])) == []
