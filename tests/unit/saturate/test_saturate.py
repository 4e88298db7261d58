"""E-graphs: congruence, what rules make equal and what not, and the graphs that come out."""

from __future__ import annotations

from random import Random

import pytest

from support.jobs import typed_graph
from tantamount.errors import InternalError
from tantamount.fuzz.cases import Maker
from tantamount.fuzz.draft import Policy
from tantamount.ir.graph import Graph
from tantamount.ir.types import DType, TensorType
from tantamount.rules.record import proved_rules
from tantamount.saturate.egraph import EGraph
from tantamount.saturate.extract import as_graph, most_complex, random_form, simplest, tree_cost
from tantamount.saturate.rewrite import Limits, saturated
from tantamount.saturate.types import HOLE, Operation, Types, defined_type, plain_type

RULES = proved_rules()


def classes(graph: Graph, *names: str, rounds: int = 4) -> tuple[int, ...]:
    chosen = {name: RULES[name] for name in names} if names else RULES
    found = saturated(graph, chosen, Random(0), Limits(rounds, 2000, 500))
    return tuple(found.egraph.find(found.classes[output.node]) for output in graph.outputs)


def equal(text: str, *names: str) -> bool:
    a, b = classes(typed_graph(text), *names)
    return a == b


def test_what_rules_say_is_equal() -> None:
    inputs = "x: float32[4, 6]\ny: float32[4, 6]\nz: float32[4, 6]\n"
    assert equal(inputs + "a = add(x, y)\nb = add(y, x)\n-> a, b", "add-commutes")
    assert equal(
        inputs + "p = add(x, y)\na = add(p, z)\nq = add(z, y)\nb = add(x, q)\n-> a, b", "add-commutes", "add-associates"
    )
    assert equal(
        inputs + "p = add(y, z)\na = mul(x, p)\nq = mul(x, y)\nr = mul(x, z)\nb = add(q, r)\n-> a, b", "mul-distributes"
    )
    assert (
        equal(
            "x: float32[4, 6]\np = permute(x, [1, 0])\na = permute(p, [1, 0])\nb = add(x, 0)\n-> a, b", "permute-twice"
        )
        is False
    )
    assert equal("x: float32[4, 6]\np = permute(x, [1, 0])\na = permute(p, [1, 0])\n-> a, x", "permute-twice")


def test_what_they_do_not_say_stays_apart() -> None:
    inputs = "x: float32[4, 4]\ny: float32[4, 4]\n"
    assert not equal(inputs + "a = mm(x, y)\nb = mm(y, x)\n-> a, b")
    assert not equal(inputs + "a = sub(x, y)\nb = sub(y, x)\n-> a, b")


def test_equal_operands_make_equal_calls() -> None:
    text = "x: float32[4]\ny: float32[4]\na = add(x, y)\nb = add(y, x)\nc = relu(a)\nd = relu(b)\n-> c, d"
    assert equal(text, "add-commutes")


def test_classes_of_two_types_are_never_merged() -> None:
    egraph = EGraph()
    graph = typed_graph("x: float32[4]\ny: float32[5]\n-> x, y")
    a, b = (egraph.insert_node(node, {}) for node in graph.nodes)
    assert a is not None
    assert b is not None
    with pytest.raises(InternalError):
        egraph.merge(a, b)


def test_a_call_that_does_not_fit_is_no_class() -> None:
    from tantamount.rules.terms import term

    egraph = EGraph()
    number = egraph.insert_node(typed_graph("x: float32[4]\n-> x").nodes[0], {})
    assert number is not None
    assert egraph.insert_term(term("aten.mm.default", egraph.leaf(number), egraph.leaf(number))) is None


def test_the_simplest_form_has_no_detours_and_the_most_complex_has() -> None:
    text = "x: float32[4, 6]\np = permute(x, [1, 0])\nq = permute(p, [1, 0])\ny = relu(q)\n-> y"
    graph = typed_graph(text)
    chosen = {name: RULES[name] for name in ("permute-twice", "relu-as-clamp", "relu-twice", "zero-is-neutral")}
    found = saturated(graph, chosen, Random(1), Limits(3, 400, 50))
    low, high = simplest(found, graph), most_complex(found, graph)
    assert [node.op for node in as_graph(found, low, graph).nodes] == ["input", "call"]
    assert tree_cost(found, low, graph) == 1 < tree_cost(found, high, graph)
    forms = {str(as_graph(found, random_form(found, graph, Random(k)), graph).nodes) for k in range(8)}
    assert len(forms) > 1
    for k in range(8):
        assert 1 <= tree_cost(found, random_form(found, graph, Random(k)), graph) <= tree_cost(found, high, graph)


def test_shared_parts_count_once_for_the_simplest() -> None:
    text = "x: float32[4, 4]\ny: float32[4, 4]\nz: float32[4, 4]\na = mm(x, y)\nb = mm(x, z)\nc = add(a, b)\n-> c, a, b"
    graph = typed_graph(text)
    found = saturated(graph, {"mm-factors-out": RULES["mm-factors-out"]}, Random(0))
    assert sum(node.op == "call" for node in as_graph(found, simplest(found, graph), graph).nodes) == 3


def test_the_same_seed_gives_the_same_forms() -> None:
    graph = typed_graph("x: float32[4, 6]\nw: float32[6, 8]\ny = mm(x, w)\nz = relu(y)\n-> z, y")
    texts = set()
    for _ in range(2):
        found = saturated(graph, RULES, Random(5))
        texts.add(str(as_graph(found, most_complex(found, graph), graph).nodes))
    assert len(texts) == 1


def test_plain_types_are_those_of_the_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}
    of = Types.of

    def compared(self: Types, operation: Operation, operands: tuple[object, ...], key: str) -> object:
        found = plain_type(operation, operands)  # type: ignore[arg-type]
        if found is not None:
            assert found == defined_type(operation, operands), (operation, operands)  # type: ignore[arg-type]
            seen[operation.target] = seen.get(operation.target, 0) + 1
        return of(self, operation, operands, key)  # type: ignore[arg-type]

    monkeypatch.setattr(Types, "of", compared)
    maker = Maker(Policy(), RULES)
    for index in range(25):
        maker.case(11, index)
    assert len(seen) >= 20


F, I, B = DType.FLOAT32, DType.INT8, DType.BOOL
ODD = (  # what the plain types must not say too much about: an operator, its arguments, the types of its operands
    ("aten.slice.Tensor", (HOLE, 0, 0, 9, 1), [((4, 2), F)]),
    ("aten.slice.Tensor", (HOLE, 0, -2, 4, 1), [((4, 2), F)]),
    ("aten.slice.Tensor", (HOLE, 1, 1, 6, 2), [((3, 7), B)]),
    ("aten.cat.default", ((HOLE, HOLE), 0), [((0,), F), ((2, 3), F)]),
    ("aten.cat.default", ((HOLE, HOLE), 1), [((2, 3), F), ((2, 3), I)]),
    ("aten.cat.default", ((HOLE, HOLE), -1), [((2, 3), F), ((2, 4), F)]),
    ("aten.split_with_sizes.default", (HOLE, (1, 1), 0), [((3, 3), F)]),
    ("aten.squeeze.dim", (HOLE, 0), [((3, 1), F)]),
    ("aten.squeeze.dim", (HOLE, 1), [((3, 1), B)]),
    ("aten.unsqueeze.default", (HOLE, 2), [((3, 1), F)]),
    ("aten.unsqueeze.default", (HOLE, -1), [((3, 1), F)]),
    ("aten.flip.default", (HOLE, (0, 0)), [((3, 1), F)]),
    ("aten.sum.dim_IntList", (HOLE, (), False), [((3, 2), F)]),
    ("aten.sum.dim_IntList", (HOLE, (0,), True), [((3, 2), B)]),
    ("aten.sum.dim_IntList", (HOLE, (1, 0), True), [((3, 2), I)]),
    ("aten.amax.default", (HOLE, (0,), False), [((0, 2), F)]),
    ("aten.add.Tensor", (HOLE, HOLE), [((3, 1), F), ((4,), F)]),
    ("aten.add.Tensor", (HOLE, HOLE), [((3, 2), F), ((4,), F)]),
    ("aten.add.Tensor", (HOLE, HOLE), [((3, 2), I), ((), F)]),
    ("aten.mul.Tensor", (HOLE, HOLE), [((0, 2), F), ((1, 2), F)]),
    ("aten.mul.Tensor", (HOLE, 300), [((2,), I)]),
    ("aten.mul.Tensor", (HOLE, 0.5), [((2,), I)]),
    ("aten.mul.Tensor", (HOLE, True), [((2,), I)]),
    ("aten.add.Tensor", (HOLE, 1), [((2,), B)]),
    ("aten.eq.Tensor", (HOLE, HOLE), [((3, 1), I), ((1, 5), I)]),
    ("aten.neg.default", (HOLE,), [((3,), B)]),
    ("aten.logical_not.default", (HOLE,), [((3,), F)]),
    ("aten.mm.default", (HOLE, HOLE), [((3, 2), F), ((3, 2), F)]),
    ("aten.mm.default", (HOLE, HOLE), [((3, 2), I), ((2, 3), I)]),
    ("aten.bmm.default", (HOLE, HOLE), [((1, 3, 2), F), ((2, 2, 3), F)]),
    ("aten.permute.default", (HOLE, (0, 0)), [((3, 2), F)]),
    ("aten.permute.default", (HOLE, (-1, 0)), [((3, 2), F)]),
    ("aten.reshape.default", (HOLE, (-1,)), [((3, 2), F)]),
    ("aten.reshape.default", (HOLE, (0,)), [((0, 2), F)]),
    ("aten.cumsum.default", (HOLE, 1), [((3, 2), I)]),
    ("aten.cumsum.default", (HOLE, 0), [((3, 2), B)]),
    ("aten.cumsum.default", (HOLE, 0), [((), F)]),
    ("aten.constant_pad_nd.default", (HOLE, (1, 2, 0, 3), 0), [((3, 2, 4), I)]),
    ("aten.constant_pad_nd.default", (HOLE, (-4, 1), 0), [((3, 2), F)]),
    ("aten.constant_pad_nd.default", (HOLE, (1, 1), 300), [((2,), I)]),
    ("aten.constant_pad_nd.default", (HOLE, (1, 1, 1, 1), 0), [((2,), I)]),
    ("aten.expand.default", (HOLE, (4, 3, 2)), [((3, 1), F)]),
    ("aten.expand.default", (HOLE, (4, -1, 2)), [((3, 1), F)]),
    ("aten.expand.default", (HOLE, (3, 2)), [((4, 1), F)]),
    ("aten.expand.default", (HOLE, (2,)), [((1, 2), F)]),
    ("aten.expand.default", (HOLE, (0,)), [((1,), F)]),
    ("aten.select.int", (HOLE, 1, 1), [((3, 2), B)]),
    ("aten.select.int", (HOLE, 1, 2), [((3, 2), F)]),
    ("aten.select.int", (HOLE, 0, -1), [((3, 2), F)]),
    ("aten.where.self", (HOLE, HOLE, HOLE), [((3, 2), B), ((3, 2), I), ((3, 2), I)]),
    ("aten.where.self", (HOLE, HOLE, HOLE), [((3, 2), B), ((3, 2), I), ((3, 2), F)]),
    ("aten.where.self", (HOLE, HOLE, HOLE), [((3, 2), I), ((3, 2), I), ((3, 2), I)]),
    ("aten.where.self", (HOLE, HOLE, HOLE), [((2,), B), ((3, 2), I), ((3, 2), I)]),
)


@pytest.mark.parametrize(("target", "args", "types"), ODD)
def test_plain_types_of_odd_calls(
    target: str, args: tuple[object, ...], types: list[tuple[tuple[int, ...], DType]]
) -> None:
    operation, operands = Operation(target, args, {}), tuple(TensorType(shape, dtype) for shape, dtype in types)
    assert plain_type(operation, operands) in (None, defined_type(operation, operands))
