"""Each later capability in a few lines on the interface of proofs: what ``compare``, ``fuzz`` and ``plan`` stand on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import pytest

from support.jobs import typed_graph
from tantamount.correspond.alignment import align
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.pieces import piece
from tantamount.ir.relation import Expectation, InputRelation, Partial, Placement, Replicate, Shard
from tantamount.proof import Options, prove
from tantamount.proof.questions import continued, layout_of, multiple_of, partial_layout_of


# ------------------------------------------------------------------------- compare: nobody says which weight is which
def compare(a: Graph, b: Graph) -> dict[str, str] | None:
    """The first correspondence of inputs under which the programs are equal."""
    for guess in correspondences(a, b):
        job = Job("a and b", a, (b,), Mesh(), {x: InputRelation(y, ()) for x, y in guess.items()}, {})
        if all(layout_of(prove(job), x.node, y.node) == () for x, y in zip(a.outputs, b.outputs, strict=True)):
            return guess
    return None


def correspondences(a: Graph, b: Graph) -> Iterator[dict[str, str]]:
    for order in permutations(node.name for node in b.inputs):
        pairs = dict(zip((node.name for node in a.inputs), order, strict=True))
        if all(a.by_name[x].type == b.by_name[y].type for x, y in pairs.items()):
            yield pairs


def test_two_graphs_without_any_input_relation() -> None:
    a = typed_graph("x: float32[4, 6]\nw: float32[6, 6]\nv: float32[6, 6]\nh = mm(x, w)\ny = mm(h, v)\n-> y")
    b = typed_graph("p: float32[6, 6]\nq: float32[6, 6]\nin: float32[4, 6]\nf = mm(p, q)\nout = mm(in, f)\n-> out")
    assert compare(a, b) == {"x": "in", "w": "p", "v": "q"}
    c = typed_graph("p: float32[6, 6]\nq: float32[6, 6]\nin: float32[4, 6]\nf = mm(p, p)\nout = mm(in, f)\n-> out")
    assert compare(a, c) is None


# ------------------------------------------------------------------------- fuzz: a rewrite must preserve meaning
def preserved(graph: Graph, rewritten: Graph) -> bool:
    """True if every output of a rewritten graph is proved to be that of the original."""
    same = {node.name: InputRelation(node.name, ()) for node in graph.inputs}
    outputs = {output.name: Expectation(output.name, ()) for output in graph.outputs}
    checked = prove(Job("rewrite", graph, (rewritten,), Mesh(), same, outputs)).check()
    return all(report.verdict.name == "PROVED" for report in checked)


def test_a_graph_and_its_rewritten_twin() -> None:
    graph = typed_graph("x: float32[4, 6]\nz: float32[4, 6]\na = add(x, z)\ny = mul(a, x)\n-> y")
    good = typed_graph("x: float32[4, 6]\nz: float32[4, 6]\nb = mul(x, x)\nc = mul(x, z)\ny = add(c, b)\n-> y")
    wrong = typed_graph("x: float32[4, 6]\nz: float32[4, 6]\nb = mul(z, z)\nc = mul(x, z)\ny = add(c, b)\n-> y")
    assert preserved(graph, good)
    assert not preserved(graph, wrong)


# ------------------------------------------------------------------------- plan: a stage, given what its inputs are
MODEL = """
    x: float32[4, 6]
    w: float32[6, 8]
    v: float32[8, 6]
    h = mm(x, w)
    a = relu(h)
    y = mm(a, v)
    -> y
"""
STAGE = """
    got: float32[4, 4]
    v: float32[4, 6]
    p = mm(got, v)
    y = all_reduce(p, "sum", "tp")
    -> y
"""


def joint(stage: Graph, arrives: tuple[Placement, ...], weight: tuple[Placement, ...]) -> tuple[Placement, ...] | None:
    """What the ranks of a stage hold of the model's result, given what arrives of ``a`` and how ``v`` is cut."""
    model = piece(typed_graph(MODEL), ["a"], ["y"])
    inputs = {"a": InputRelation("got", arrives), "v": InputRelation("v", weight)}
    mesh = Mesh({"tp": 2}, {"tp": ("tp",)})
    return layout_of(prove(Job("stage", model, (stage, stage), mesh, inputs, {})), "y", "y")


def test_one_stage_given_the_relation_of_its_inputs() -> None:
    stage = typed_graph(STAGE, {"tp": 2})
    assert joint(stage, (Shard(1),), (Shard(0),)) == (Replicate(),)
    twice = typed_graph(
        STAGE.replace("y = all_reduce", "z = all_reduce").replace("-> y", "y = add(z, z)\n    -> y"), {"tp": 2}
    )
    assert joint(twice, (Shard(1),), (Shard(0),)) is None


# ------------------------------------------------------------------------- what else may be asked
@pytest.fixture
def pair() -> Job:
    whole = typed_graph(
        "x: float32[4, 6]\nw: float32[6, 8]\nh = mm(x, w)\ny = mul(h, 3)\nz = aten.sigmoid.default(y)\n-> z"
    )
    rank = typed_graph("a: float32[4, 3]\nb: float32[3, 8]\np = mm(a, b)\nq = mul(p, 6)\n-> q", {"tp": 2})
    inputs = {"x": InputRelation("a", (Shard(1),)), "w": InputRelation("b", (Shard(0),))}
    return Job("pair", whole, (rank, rank), Mesh({"tp": 2}, {"tp": ("tp",)}), inputs, {})


def test_sums_over_ranks_and_multiples_are_told_from_the_whole(pair: Job) -> None:
    proof = prove(pair)
    assert layout_of(proof, "h", "p") is None
    assert partial_layout_of(proof, "h", "p") == (Partial(),)
    assert multiple_of(proof, "h", "p") is None
    whole = typed_graph("a: float32[4, 6]\nb: float32[6, 8]\np = mm(a, b)\nq = mul(p, 6)\n-> q")
    alone = Job(
        "pair", pair.specification, (whole,), Mesh(), {n: InputRelation(m, ()) for n, m in (("x", "a"), ("w", "b"))}, {}
    )
    found = multiple_of(prove(alone), "y", "q")
    assert found is not None
    assert (found.factor, found.placements) == (2, ())


@pytest.mark.parametrize("right", [True, False])
def test_a_proof_goes_on_from_pairs_that_are_proved_and_from_no_others(right: bool) -> None:
    steps = "\n".join(f"h{k + 1} = aten.sigmoid.default(h{k})" for k in range(3))
    whole = typed_graph(f"h0: float32[4]\n{steps}\ny = mul(h3, h3)\n-> y")
    other = typed_graph(
        f"h0: float32[4]\n{steps if right else steps.replace('sigmoid', 'tanh')}\ny = mul(h3, h3)\n-> y"
    )
    proof = prove(Job("chain", whole, (other,), Mesh(), {"h0": InputRelation("h0", ())}, {}), Options(align=align))
    again = continued(proof, {"h2": ("h2", ())})
    leaves = [atom.attributes[1] for atom in again.store.atoms if atom.op == "leaf" and atom.attributes[0] == "cut"]
    assert leaves == (["h2"] if right else [])
    assert (layout_of(again, "y", "y") == ()) is right


def test_what_is_not_related_is_free() -> None:
    a = typed_graph("x: float32[4]\nw: float32[4]\ny = mul(x, w)\nz = sub(y, y)\n-> z")
    b = typed_graph("x: float32[4]\nu: float32[4]\ny = mul(x, u)\nz = sub(u, u)\n-> z")
    proof = prove(Job("free", a, (b,), Mesh(), {"x": InputRelation("x", ())}, {}))
    assert layout_of(proof, "y", "y") is None
    assert layout_of(proof, "z", "z") == ()


def test_every_layout_of_a_small_mesh_is_recognised() -> None:
    kinds: list[Placement] = [Replicate(), Shard(0), Shard(1)]
    whole = typed_graph("x: float32[4, 8]\ny = relu(x)\n-> y")
    mesh = Mesh({"a": 2, "b": 2}, {})
    for placements in product(kinds, repeat=2):
        shape = [4, 8]
        for p in placements:
            if isinstance(p, Shard):
                shape[p.dim] //= 2
        rank = typed_graph(f"x: float32{shape}\ny = relu(x)\n-> y")
        proof = prove(Job("layout", whole, (rank,) * 4, mesh, {"x": InputRelation("x", placements)}, {}))
        assert layout_of(proof, "y", "y") == placements
