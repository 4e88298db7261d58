"""The type rule that follows from each definition gives PyTorch's result types, and every operator has a sample."""

from __future__ import annotations

from typing import Any

import pytest

from support.several import case, grouped
from tantamount.errors import DataDependent
from tantamount.ir.graph import Device, Setting
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup, table
from tantamount.samples.operators import numbers as sample_numbers
from tantamount.samples.operators.table import NOT_RUN, SAMPLES, Operand, Sample

torch = pytest.importorskip("torch", reason="the types are PyTorch's own")


def _argument(item: Any) -> Any:
    """An argument as PyTorch wants it."""
    if isinstance(item, Operand):
        dtype = getattr(torch, item.dtype.label)
        if item.data is not None:
            return torch.tensor(item.data, dtype=dtype).reshape(item.shape)
        if item.dtype.is_complex:
            return torch.randn(item.shape, dtype=dtype)
        if item.dtype.is_float:
            return torch.rand(item.shape, dtype=dtype) * (item.high - item.low) + item.low
        return torch.randint(int(item.low), int(item.high), item.shape).to(dtype)
    if isinstance(item, DType):
        return getattr(torch, item.label)
    if isinstance(item, Device):
        return torch.device(item.name)
    if isinstance(item, Setting):
        return getattr(torch, item.name)
    return [_argument(entry) for entry in item] if isinstance(item, tuple) else item


def _typed(item: Any) -> Any:
    """An argument as a definition wants it, tensors with their types only."""
    if isinstance(item, Operand):
        return Tensor(item.shape, item.dtype, None)
    return tuple(_typed(entry) for entry in item) if isinstance(item, tuple) else item


def _described(result: Any) -> Any:
    """The types of one or several results."""
    if isinstance(result, (tuple, list)):
        return [_described(entry) for entry in result]
    if isinstance(result, Tensor):
        return str(result.type)
    if isinstance(result, (bool, int, float)):  # a number is a tensor here
        return {bool: "bool[]", int: "int64[]", float: "float32[]"}[type(result)]
    return None if result is None else f"{str(result.dtype).removeprefix('torch.')}{list(result.shape)}"


BY_OPERATOR = grouped(SAMPLES, lambda sample: sample.target)


@pytest.mark.parametrize("target", BY_OPERATOR)
def test_types_are_those_of_pytorch(target: str) -> None:
    for sample in BY_OPERATOR[target]:
        with case(sample):
            _compare(sample)


def _compare(sample: Sample) -> None:
    torch.manual_seed(0)
    _, name, overload = sample.target.split(".")
    operation = getattr(getattr(torch.ops.aten, name), overload)
    expected = operation(
        *[_argument(item) for item in sample.args], **{key: _argument(item) for key, item in sample.kwargs.items()}
    )
    row = lookup(sample.target, "")
    args = tuple(_typed(item) for item in sample.args)
    kwargs = {key: _typed(item) for key, item in sample.kwargs.items()}
    try:
        found = apply(row, sample.target, args, kwargs, Builder(TypesOnly(), "sample"), "sample")
    except DataDependent:
        assert sample in sample_numbers.SAMPLES  # test_values_against_torch.py looks at the types too
        return
    assert _described(found) == _described(expected)


def test_every_operator_of_pytorch_has_a_sample() -> None:
    sampled = {sample.target for sample in SAMPLES}
    missing = [target for target in table() if target.startswith("aten.") and target not in sampled | NOT_RUN]
    assert not missing
    assert sampled <= set(table())
