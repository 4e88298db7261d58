"""The values that follow from each definition are PyTorch's, in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.several import case, grouped
from tantamount.ir.graph import Device, Setting
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.samples.operators.attributes import unvaried
from tantamount.samples.operators.table import NOT_RUN, SAMPLES, Operand, Sample
from tantamount.semantics.reference import Reference

torch = pytest.importorskip("torch", reason="the values are PyTorch's own")

SEEDS = (0, 1)


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    """Every float of a sample is float64 here, defaults too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def wide(dtype: DType) -> DType:
    return DType.FLOAT64 if dtype.is_float else DType.COMPLEX128 if dtype.is_complex else dtype


def drawn(item: Any, generator: np.random.Generator) -> Any:
    """An argument with arrays in the places of operands."""
    if isinstance(item, Operand):
        if item.data is not None:
            array = np.array(item.data).reshape(item.shape)
        elif item.dtype.is_float:
            array = generator.uniform(item.low, item.high, item.shape)
        elif item.dtype.is_complex:
            parts = generator.uniform(item.low, item.high, (2, *item.shape))
            array = parts[0] + 1j * parts[1]
        else:
            array = generator.integers(int(item.low), int(item.high), item.shape)
        return wide(item.dtype), np.asarray(array)
    if isinstance(item, DType):
        return wide(item)
    return [drawn(entry, generator) for entry in item] if isinstance(item, tuple) else item


def theirs(item: Any) -> Any:
    """An argument as PyTorch wants it."""
    if isinstance(item, tuple):
        dtype, array = item
        return torch.tensor(array, dtype=getattr(torch, dtype.label))
    if isinstance(item, DType):
        return getattr(torch, item.label)
    if isinstance(item, Device):
        return torch.device(item.name)
    if isinstance(item, Setting):
        return getattr(torch, item.name)
    return [theirs(entry) for entry in item] if isinstance(item, list) else item


def ours(item: Any) -> Any:
    """An argument as a definition wants it."""
    if isinstance(item, tuple):
        dtype, array = item
        if dtype.is_complex:
            return Tensor(array.shape, dtype, np.stack([array.real, array.imag], -1))
        kind = np.float64 if dtype.is_float else np.bool_ if dtype is DType.BOOL else np.int64
        return Tensor(array.shape, dtype, array.astype(kind))
    return tuple(ours(entry) for entry in item) if isinstance(item, list) else item


def compare(found: Any, wanted: Any, values: bool) -> int:
    """The number of elements compared."""
    if isinstance(wanted, (tuple, list)):
        assert isinstance(found, tuple)
        assert len(found) == len(wanted)
        return sum(compare(f, w, values) for f, w in zip(found, wanted, strict=True))
    if found is None:
        return 0
    if isinstance(wanted, (bool, int, float)):  # a number is a tensor here, which promotes as numbers do
        assert found.weak
        wanted = torch.tensor(wanted)
    assert f"torch.{found.dtype.label}" == str(wanted.dtype)
    assert np.shape(found.value) == found.type.stored.shape
    assert found.shape == tuple(wanted.shape)
    if not values:
        return 0
    expected = wanted.detach().resolve_conj().numpy()
    if found.dtype.is_complex:
        expected = np.stack([expected.real, expected.imag], -1)
    actual = np.asarray(found.value, dtype=expected.dtype)
    if not found.dtype.is_integral:
        undefined = np.isnan(actual)
        assert not np.isfinite(expected[undefined]).any(), "undefined where PyTorch has a number"
        assert not np.isnan(expected[~undefined]).any(), "a number where PyTorch has none"
        actual, expected = actual[~undefined], expected[~undefined]
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)
    return actual.size


BY_OPERATOR = grouped(SAMPLES, lambda sample: sample.target)


@pytest.mark.parametrize("target", BY_OPERATOR)
def test_values_are_those_of_pytorch(target: str) -> None:
    for sample in BY_OPERATOR[target]:
        with case(sample):
            compare_values(sample)


def compare_values(sample: Sample) -> None:
    """Raises AssertionError where the values that follow from the definition are not PyTorch's."""
    _, name, overload = sample.target.split(".")
    operation = getattr(getattr(torch.ops.aten, name), overload)
    row = lookup(sample.target, "sample")
    for seed in SEEDS:
        torch.manual_seed(seed)
        generator = np.random.default_rng(seed)
        args = [drawn(item, generator) for item in sample.args]
        kwargs = {key: drawn(item, generator) for key, item in sample.kwargs.items()}
        reference = Reference(seed=seed)
        found = apply(
            row,
            sample.target,
            tuple(ours(item) for item in args),
            {key: ours(item) for key, item in kwargs.items()},
            Builder(reference, "sample", DType.FLOAT64),
            "sample",
        )
        wanted = operation(*[theirs(item) for item in args], **{key: theirs(item) for key, item in kwargs.items()})
        compare(found, wanted, sample.values)
        assert not [flag for flag in reference.flags if flag.what == "out-of-range"]


# Attributes that are refused unless they have their default (tests/tables/test_refusals.py), or that change no value.
FIXED = {
    ("aten.einsum.default", "path"),
    ("aten.topk.default", "sorted"),
    ("aten.unique_consecutive.default", "dim"),
}


def test_every_attribute_is_varied() -> None:
    left = {
        (target, name) for target, name in unvaried(SAMPLES) if target.startswith("aten.") and target not in NOT_RUN
    }
    left -= {(target, name) for target, name in left if name == "dropout_p"}  # test_values_elsewhere.py
    assert left == FIXED
