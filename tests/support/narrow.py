"""Operators on integers of 8 and 16 bits with extreme values: what a definition gives, and what eager PyTorch does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tantamount.errors import Unsupported, UserError
from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.samples.operators.table import NOT_RUN, SAMPLES, Operand, Sample
from tantamount.semantics.reference import IntegerOverflow, Reference

__all__ = ["NARROW", "Case", "cases", "outcome"]

NARROW = (DType.INT8, DType.UINT8, DType.INT16)  # of uint16 eager has no arithmetic


@dataclass(frozen=True)
class Case:
    """A sample whose operands are all of ``dtype`` (if ``attributes``, its dtypes, too) but for the indices, which keep
    theirs."""

    sample: Sample
    dtype: DType
    attributes: bool

    def __str__(self) -> str:
        return f"{self.sample}-{self.dtype}" + ("-result" if self.attributes else "")


def cases(samples: Sequence[Sample] = SAMPLES) -> Iterator[Case]:
    """Every sample of an ATen operator with a real or integer operand, in every narrow type."""
    for sample in samples:
        arguments = [*sample.args, *sample.kwargs.values()]
        if not sample.target.startswith("aten.") or not sample.values or sample.target in NOT_RUN:
            continue
        operands = [item for item in _flat(arguments) if isinstance(item, Operand)]
        if not any(map(_changes, operands)) or any(item.dtype.is_complex for item in operands):
            continue
        if any(isinstance(item, DType) and item.is_complex for item in arguments):
            continue
        for dtype in NARROW:
            yield Case(sample, dtype, False)
            if any(isinstance(item, DType) for item in arguments):
                yield Case(sample, dtype, True)


def _flat(items: Any) -> Iterator[Any]:
    for item in items:
        yield from _flat(item) if isinstance(item, tuple) else (item,)


def _changes(item: Any) -> bool:
    return isinstance(item, Operand) and item.dtype.kind in (Kind.FLOAT, Kind.INT)


def _drawn(item: Any, case: Case, generator: np.random.Generator, indices: bool) -> Any:
    if isinstance(item, Operand):
        kept = item.dtype is DType.BOOL or (indices and item.dtype.kind is Kind.INT)
        if kept:
            array = np.array(item.data).reshape(item.shape) if item.data is not None else None
            if array is None:
                array = generator.integers(int(item.low), max(int(item.high), int(item.low) + 1), item.shape)
            return item.dtype, array
        low, high = case.dtype.bounds
        edges = np.array([low, low + 1, -1 if low else 0, 0, 1, 2, high - 1, high, high // 2 + 1])
        array = np.where(
            generator.random(item.shape) < 0.6,
            generator.choice(edges, item.shape),
            generator.integers(low, high + 1, item.shape),
        )
        return case.dtype, np.asarray(array)
    if isinstance(item, DType) and case.attributes:
        return case.dtype
    return [_drawn(entry, case, generator, indices) for entry in item] if isinstance(item, tuple) else item


def _theirs(item: Any) -> Any:
    if isinstance(item, tuple):
        dtype, array = item
        return torch.tensor(array, dtype=getattr(torch, dtype.label))
    if isinstance(item, DType):
        return getattr(torch, item.label)
    if isinstance(item, list):
        return [_theirs(entry) for entry in item]
    name = getattr(item, "name", None)
    if type(item).__name__ == "Device":
        return torch.device(name)
    return getattr(torch, name) if type(item).__name__ == "Setting" else item


def _ours(item: Any) -> Any:
    if isinstance(item, tuple):
        dtype, array = item
        kind = np.float64 if dtype.is_float else np.bool_ if dtype is DType.BOOL else np.int64
        return Tensor(array.shape, dtype, array.astype(kind))
    return tuple(_ours(entry) for entry in item) if isinstance(item, list) else item


def outcome(case: Case, seed: int) -> str:
    """``agrees``, ``refused`` (by the definition), ``fails`` (in eager), ``undefined`` (flagged as such), or what is
    wrong. Integers are compared bit for bit."""
    indices = not all(item.dtype.kind is Kind.INT for item in _flat(_all(case)) if _changes(item))
    generator = np.random.default_rng(seed)
    args = [_drawn(item, case, generator, indices) for item in case.sample.args]
    kwargs = {key: _drawn(item, case, generator, indices) for key, item in case.sample.kwargs.items()}
    _, name, overload = case.sample.target.split(".")
    try:
        wanted = getattr(getattr(torch.ops.aten, name), overload)(
            *[_theirs(item) for item in args], **{key: _theirs(item) for key, item in kwargs.items()}
        )
    except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
        return "fails"
    reference = Reference(seed=seed)
    try:
        found = apply(
            lookup(case.sample.target, "sample"),
            case.sample.target,
            tuple(_ours(item) for item in args),
            {key: _ours(item) for key, item in kwargs.items()},
            Builder(reference, "sample", DType.FLOAT32),
            "sample",
        )
    except (Unsupported, UserError, ShapeProblem, IntegerOverflow):
        return "refused"
    if reference.flags:
        return "undefined"
    return _compared(found, wanted)


def _all(case: Case) -> list[Any]:
    return [*case.sample.args, *case.sample.kwargs.values()]


def _compared(found: Any, wanted: Any) -> str:
    if isinstance(wanted, (tuple, list)):
        for f, w in zip(found, wanted, strict=True):
            if (text := _compared(f, w)) != "agrees":
                return text
        return "agrees"
    if found is None or not isinstance(wanted, torch.Tensor):
        return "agrees"
    if f"torch.{found.dtype.label}" != str(wanted.dtype):
        return f"{found.dtype} where eager has {wanted.dtype}"
    theirs, ours = wanted.detach().numpy(), np.asarray(found.value)
    if ours.shape != theirs.shape:
        return f"shape {ours.shape} where eager has {theirs.shape}"
    if found.dtype.is_integral:
        if found.dtype.kind is Kind.INT and ours.size:
            low, high = found.dtype.bounds
            if ours.min() < low or ours.max() > high:
                return f"{ours.tolist()}, which {found.dtype} does not hold"
        if not np.array_equal(ours.astype(np.int64), theirs.astype(np.int64)):
            return f"{ours.tolist()} where eager has {theirs.tolist()}"
        return "agrees"
    known = np.isfinite(ours) & np.isfinite(theirs)
    if not np.allclose(ours[known], theirs[known], rtol=1e-4, atol=1e-4):
        return f"{ours.tolist()} where eager has {theirs.tolist()}"
    return "agrees"
