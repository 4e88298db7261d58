"""Integers of 8 and 16 bits: every operator gives what eager PyTorch gives, bit for bit, at the ends of the types."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tantamount.errors import UserError
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.semantics.reference import Reference

torch = pytest.importorskip("torch", reason="the values are PyTorch's own")

from support.integers import fuzz  # noqa: E402
from support.narrow import cases, outcome  # noqa: E402

STEP = 9  # every so many cases; benchmarks/fuzz_integers.py takes all of them


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(2))
def test_values_are_those_of_pytorch(part: int) -> None:
    chosen = [case for number, case in enumerate(cases()) if number % STEP == part]
    found = {str(case): outcome(case, seed=part) for case in chosen}
    wrong = {name: text for name, text in found.items() if text not in ("agrees", "fails", "refused", "undefined")}
    assert not wrong
    assert Counter(found.values())["agrees"] > len(chosen) / 2


def test_forms_and_the_reference_are_eager_on_random_expressions() -> None:
    figures = fuzz(40, seed=5)
    assert not figures.wrong
    assert figures.pairs > 30
    assert figures.proved > 0.8 * figures.equal > 10


QUANTISED = [
    ("quantize_per_tensor.default", "float", 0.037, 3, 0, 255, DType.UINT8),
    ("quantize_per_tensor.default", "float", 0.5, -1, -128, 127, DType.INT8),
    ("quantize_per_tensor.tensor", "float", "scale", "zero", -8, 7, DType.INT8),
    ("quantize_per_channel.default", "float", "scales", "zeros", 1, -128, 127, DType.INT8),
    ("dequantize_per_tensor.default", "uint8", 0.037, 3, 0, 255, DType.UINT8),
    ("dequantize_per_tensor.tensor", "int8", "scale", "zero", -8, 7, DType.INT8),
    ("dequantize_per_channel.default", "int8", "scales", "zeros", 1, -128, 127, DType.INT8),
    ("dequantize_per_channel.default", "int8", "scales", "int8 zeros", 1, -128, 127, DType.INT8),
    ("dequantize_per_channel.default", "int8", "scales", None, 1, -128, 127, DType.INT8),
]
_GENERATOR = np.random.default_rng(4)
_OPERANDS = {
    "float": (DType.FLOAT32, _GENERATOR.standard_normal((5, 3)) * 20),
    "uint8": (DType.UINT8, _GENERATOR.integers(0, 256, (5, 3))),
    "int8": (DType.INT8, _GENERATOR.integers(-128, 128, (5, 3))),
    "scale": (DType.FLOAT32, np.array(0.25)),
    "zero": (DType.INT64, np.array(-3)),
    "scales": (DType.FLOAT32, np.array([0.25, 3.0, 0.7])),
    "zeros": (DType.INT64, np.array([0, -3, 100])),
    "int8 zeros": (DType.INT8, np.array([0, -128, 127])),
}  # fmt: skip


def _theirs(item: Any) -> Any:
    if isinstance(item, str):
        dtype, array = _OPERANDS[item]
        return torch.tensor(array, dtype=getattr(torch, dtype.label))
    return getattr(torch, item.label) if isinstance(item, DType) else item


def _ours(item: Any) -> Any:
    if not isinstance(item, str):
        return item
    dtype, array = _OPERANDS[item]
    return Tensor(array.shape, dtype, np.asarray(array, dtype=np.float64 if dtype.is_float else np.int64))


@pytest.mark.parametrize("call", QUANTISED, ids=str)
def test_quantisation_is_that_of_pytorch(call: tuple[Any, ...]) -> None:
    pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="the operators are defined there")
    target, *args = call
    name, overload = target.split(".")
    wanted = getattr(getattr(torch.ops.quantized_decomposed, name), overload)(*map(_theirs, args))
    full = f"quantized_decomposed.{target}"
    found = apply(lookup(full, "test"), full, tuple(map(_ours, args)), {}, Builder(Reference()), "test")
    assert isinstance(found, Tensor)
    assert f"torch.{found.dtype}" == str(wanted.dtype)
    np.testing.assert_allclose(np.asarray(found.value), wanted.numpy(), rtol=1e-5)


@pytest.mark.parametrize(("least", "greatest"), [(-200, 127), (5, -5), (0, 300)])
def test_ranges_that_the_type_does_not_hold_are_refused(least: int, greatest: int) -> None:
    full = "quantized_decomposed.quantize_per_tensor.default"
    with pytest.raises(UserError, match=f"numbers from {least} to {greatest} in int8"):
        apply(
            lookup(full, "test"), full, (_ours("float"), 0.5, 0, least, greatest, DType.INT8), {},
            Builder(Reference()), "test",
        )  # fmt: skip
