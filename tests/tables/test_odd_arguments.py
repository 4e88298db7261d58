"""Odd arguments of every operator are refused with a clause, or have a type: no definition fails in another way."""

from __future__ import annotations

from itertools import islice

import pytest

from support.odd_arguments import Call, odd_calls, problem_of
from tantamount.errors import UserError
from tantamount.ir.graph import Constant, Graph, Node
from tantamount.ir.types import DType, TensorType
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.execute import recorded_constant


def test_no_definition_fails_on_odd_arguments() -> None:
    """Every seventh; `benchmarks/fuzz_hostile.py` tries all."""
    failed = [(call, problem) for call in islice(odd_calls(), 0, None, 7) if (problem := problem_of(call)) is not None]
    assert not failed, failed[:5]


def test_a_vector_is_not_enlarged_by_two_factors() -> None:
    x = Tensor((3,), DType.FLOAT32, None)
    assert problem_of(Call("aten.upsample_nearest2d.vec", (x, None, (2.0, 2.0)), {})) is None


def test_a_recorded_constant_that_is_no_number_is_refused() -> None:
    recorded = Constant(TensorType((1,), DType.FLOAT32), (float("nan"),))
    node = Node("c", "constant", "c", type=recorded.type)
    graph = Graph((node,), (), {"c": recorded})
    with pytest.raises(UserError) as problem:
        recorded_constant(graph, node, Builder(TypesOnly(), "c"))
    assert problem.value.code == "graph-constant-value"
