"""Cases: the same from the same seed, exact where they say so, and the same values in every form."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from support.fuzzed import failure_in_pytorch
from support.jobs import typed_graph
from tantamount.errors import Unsupported
from tantamount.fuzz.backends import backends
from tantamount.fuzz.backends.base import deviations, policy_of
from tantamount.fuzz.cases import Case, Maker
from tantamount.fuzz.draft import NARROW, Policy
from tantamount.fuzz.generate import generate
from tantamount.fuzz.goals import PLACES, Goal
from tantamount.fuzz.samplers import SAMPLERS
from tantamount.fuzz.shrink import form_of
from tantamount.fuzz.steering import Coverage, pairs
from tantamount.fuzz.variants import varied
from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph
from tantamount.rules.record import proved_rules
from tantamount.semantics.exact import plain

RULES = proved_rules()


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    maker = Maker(Policy(), RULES)
    return [maker.case(3, index) for index in range(15)]


def test_a_case_is_a_function_of_its_seed_and_index() -> None:
    again = [generate(3, 7), generate(3, 7)]
    assert again[0].graph == again[1].graph
    for name, array in again[0].inputs.items():
        assert np.array_equal(array, again[1].inputs[name])
    assert generate(3, 8).graph != again[0].graph
    forms = [[(f.name, f.graph) for f in Maker(Policy(), RULES).case(3, 7).forms] for _ in range(2)]
    assert forms[0] == forms[1]


def test_graphs_are_typed_as_the_operators_say(cases: list[Case]) -> None:
    for case in cases[:15]:
        for form in case.forms:
            check_graph(form.graph, None)


def test_most_cases_have_three_forms_that_differ(cases: list[Case]) -> None:
    assert sum(len(case.forms) >= 3 for case in cases) >= 0.8 * len(cases)
    assert sum(len(case.dropped) for case in cases) <= 0.1 * sum(len(case.forms) for case in cases)


def test_exact_values_are_whole_multiples_that_their_type_holds(cases: list[Case]) -> None:
    for case in cases:
        for form in case.forms:
            for x in form.expected:
                if x.value.exact and x.dtype.kind is Kind.FLOAT:
                    assert np.array_equal(plain(x).astype(np.float64), x.value.array)


def test_every_sampler_finds_operands() -> None:
    from tantamount.fuzz.probe import _programs  # pyright: ignore[reportPrivateUsage]

    backend = backends()["planted"]
    for target in SAMPLERS:
        found: Iterator[object] = (
            program
            for dtype in (DType.FLOAT32, DType.INT32, DType.BOOL)
            for program in _programs(target, dtype, backend)
        )
        assert next(found, None) is not None, target


def test_policies_are_kept() -> None:
    policy = Policy(dtypes=(DType.FLOAT32, DType.INT32), wrap=False, integer_limit=1000, empty=False, inexact=False)
    maker = Maker(policy, RULES)
    for index in range(12):
        for form in maker.case(1, index).forms:
            for x in form.expected:
                assert x.dtype in policy.dtypes
                assert x.value.exact
                assert 0 not in x.shape
                if x.dtype is DType.INT32:
                    assert np.all(np.abs(x.value.array) <= 1000)


def test_casts_go_to_the_types_that_a_backend_casts_to() -> None:
    policy = policy_of([backends()["iree"]])
    assert DType.INT16 in policy.dtypes
    maker = Maker(policy, RULES)
    casts = [
        node.type.dtype
        for index in range(20)
        for form in maker.case(1, index).forms
        for node in form.graph.nodes
        if node.target == "aten._to_copy.default" and node.type is not None
    ]
    assert len(casts) > 10
    assert DType.INT16 not in casts


def test_wrong_rules_blame_no_compiler() -> None:
    from dataclasses import replace

    from tantamount.errors import InternalError
    from tantamount.rules.rule import Match
    from tantamount.rules.terms import Part, term

    def wrong(m: Match) -> Part:
        return term("aten.sub.Tensor", m.x, m.y)

    maker = Maker(Policy(), {"add-commutes": replace(RULES["add-commutes"], build=wrong, share=1.0)})

    def cases() -> None:
        for index in range(40):
            maker.case(2, index)

    with pytest.raises(InternalError, match="a rule is wrong"):
        cases()


@pytest.mark.parametrize("name", list(backends()))
def test_programs_are_said_to_every_backend(name: str) -> None:
    backend = backends()[name]
    maker = Maker(policy_of([backend]), RULES)
    for index in range(5):
        for form in maker.case(4, index).forms:
            try:
                source = backend.emit(form.graph)
            except Unsupported as problem:
                pytest.fail(f"{form.graph.path} {form.name}: {problem.reason}")
            ast.parse(source)


def test_declared_deviations_narrow_what_is_generated() -> None:
    row = {row.name: row for row in deviations("openvino")}
    assert all(entry.about and entry.link for entry in row.values())
    backend = backends()["openvino"]
    assert DType.FLOAT64 not in policy_of([backend]).dtypes
    assert DType.FLOAT64 in policy_of([backend], without=["float64-in-float32"]).dtypes
    assert policy_of([backend]).integer_limit == 2**31 - 1
    assert policy_of([backend], hidden=["integers-in-float32"]).integer_limit == 2**24


def test_values_agree_with_pytorch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    maker = Maker(policy_of([backends()["eager"]]), RULES)
    for index in range(10):
        for form in maker.case(5, index).forms:
            assert failure_in_pytorch(form) is None, f"{form.graph.path} {form.name}"


def test_every_node_of_a_sample_has_its_value() -> None:
    sample = generate(9, 1)
    assert {node.name for node in sample.graph.nodes if node.type is not None} == set(sample.values)
    assert all(isinstance(x, Tensor) for x in sample.values.values())


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_quotients_that_leave_their_type_are_not_compared(dtype: str) -> None:
    low = np.iinfo(dtype).min
    graph = typed_graph(f"x: {dtype}[2]\ny: {dtype}[2]\nq = aten.floor_divide.default(x, y)\n-> q")
    divisors = np.array([-2, 3], dtype)
    assert form_of(graph, {"x": np.array([low, 5], dtype), "y": divisors}) is not None
    assert form_of(graph, {"x": np.array([5, low], dtype), "y": np.array([2, -1], dtype)}) is None


def test_coverage_goes_on_where_a_log_ends() -> None:
    policy = Policy()
    seen, again = Coverage(), Coverage()
    for index in range(12):
        goals = seen.goals(policy, Random(f"6/{index}"))
        assert goals == again.goals(policy, Random(f"6/{index}"))
        sample = generate(6, index, policy, goals, seen.taste())
        line = seen.add([sample.graph], [f"kernel {index % 3}"], goals)
        again.restore(json.loads(json.dumps(line)))
    assert seen.counts == again.counts
    assert seen.taste() == again.taste()
    assert seen.counts["kernels"] == 3


def test_goals_are_what_was_not_seen() -> None:
    policy = Policy(targets=frozenset({"aten.add.Tensor", "aten.neg.default", "aten.amax.default"}))
    seen = Coverage()
    for index in range(120):
        goals = seen.goals(policy, Random(f"6/{index}"))
        seen.add([generate(6, index, policy, goals).graph], (), goals)
    behind = {target: seen.behind[target, "int32"] for target in ("aten.neg.default", "aten.amax.default")}
    assert all({"input", "constant", "aten.neg.default"} <= makers for makers in behind.values())
    assert "aten.amax.default" in behind["aten.neg.default"]


def test_a_goal_is_reached() -> None:
    goal = Goal("aten.amax.default", "aten.neg.default", DType.INT32)
    reached = [pairs(generate(8, index, Policy(), [goal]).graph) for index in range(10)]
    assert sum(("aten.amax.default", "aten.neg.default", "int32") in found for found in reached) >= 7


@pytest.mark.parametrize("place", PLACES)
def test_a_goal_says_which_dimensions_are_reduced(place: str) -> None:
    goal = Goal("aten.amax.default", "aten.neg.default", DType.INT32, place=place)
    reached = [pairs(generate(8, index, Policy(), [goal]).graph) for index in range(8)]
    assert sum((f"aten.amax.default/{place}", "aten.neg.default", "int32") in found for found in reached) >= 5


def test_some_goals_leave_their_type_before_what_tells() -> None:
    seen, left = Coverage(), set[str]()
    for index in range(30):
        (goal,) = [goal for goal in seen.goals(Policy(), Random(f"7/{index}")) if goal.ends and goal.chosen]
        assert goal.dtype in NARROW
        sample = generate(7, index, Policy(), [goal])
        seen.add([sample.graph], (), [goal])
        found = pairs(sample.graph)
        low, high = goal.dtype.bounds
        for node in sample.graph.nodes:
            if node.target == goal.maker and node.type is not None and node.type.dtype is goal.dtype:
                values = sample.values[node.name].value.array
                if values.size and (np.min(values) <= low + 1 or np.max(values) >= high - 1):
                    left.update({goal.target, *goal.also} & {target for _, target, _ in found})
    assert len(left) >= 12
    assert not left & {"aten.add.Tensor", "aten.mul.Tensor", "aten.permute.default"}


def test_calls_made_twice_and_dead_calls_change_no_value() -> None:
    graph = typed_graph(
        "x: float32[4]\na = aten.neg.default(x)\nb = aten.relu.default(a)\nc = aten.abs.default(a)\n-> b, c"
    )
    inputs = {"x": np.array([1.0, -2.0, 3.0, -4.0])}
    seen: set[int] = set()
    for seed in range(40):
        other, given = varied(graph, dict(inputs), Random(seed), Policy(targets=frozenset()))
        before, after = form_of(graph, inputs), form_of(other, given)
        assert before is not None
        assert after is not None
        for a, b in zip(before.expected, after.expected, strict=True):
            assert np.array_equal(plain(a), plain(b))
        seen.add(len(other.nodes))
    assert len(seen) == 3  # as it was, with a call more, with two calls more
