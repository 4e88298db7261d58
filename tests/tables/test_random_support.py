"""What random operators give lies where their definitions say: PyTorch's numbers, and those of executions, lie in the
enclosure that proofs rest on, and whole numbers that both can give are the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tantamount.calculus.atoms import ValueFacts
from tantamount.calculus.calculus import Calculus
from tantamount.calculus.forms import leaf_form
from tantamount.calculus.signs import enclosure
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.samples.operators.rare import SAMPLES
from tantamount.samples.operators.table import Operand, Sample
from tantamount.semantics.reference import Reference

torch = pytest.importorskip("torch", reason="the numbers are PyTorch's own")

RANDOM = [sample for sample in SAMPLES if not sample.values]
TIMES = 60
SMALL = 8  # whole numbers of so few values are all met


def test_there_are_samples() -> None:
    assert len(RANDOM) > 30


def _run(sample: Sample, builder: Builder, operand: Any) -> Any:
    args = tuple(operand(item) if isinstance(item, Operand) else item for item in sample.args)
    kwargs = {key: operand(item) if isinstance(item, Operand) else item for key, item in sample.kwargs.items()}
    return apply(lookup(sample.target, "sample"), sample.target, args, kwargs, builder, "sample")


def _eager(sample: Sample) -> Any:
    _, name, overload = sample.target.split(".")

    def theirs(item: Any) -> Any:
        if isinstance(item, DType):
            return getattr(torch, item.label)
        if not isinstance(item, Operand):
            return item
        if item.dtype.kind is Kind.INT:
            return torch.ones(item.shape, dtype=torch.int64)
        return torch.full(item.shape, 0.75, dtype=torch.float64)

    args, kwargs = map(theirs, sample.args), {key: theirs(item) for key, item in sample.kwargs.items()}
    return getattr(getattr(torch.ops.aten, name), overload)(*args, **kwargs).double().numpy()


@pytest.mark.parametrize("sample", RANDOM, ids=str)
def test_numbers_are_of_the_support(sample: Sample) -> None:
    store = Calculus()

    def number(item: Operand, seed: int = 0) -> Tensor:
        dtype = DType.INT64 if item.dtype.kind is Kind.INT else DType.FLOAT64
        return Tensor(item.shape, dtype, np.full(item.shape, 1 if dtype is DType.INT64 else 0.75))

    def symbol(item: Operand) -> Tensor:
        dtype = DType.INT64 if item.dtype.kind is Kind.INT else DType.FLOAT64
        return Tensor(item.shape, dtype, leaf_form(store.leaf("input", item, item.shape, ValueFacts()), item.shape))

    form = _run(sample, Builder(Symbolic(store, Trace(assume_indices=True)), "node"), symbol).value
    ends = [enclosure(store, x, box) for box, x in form.pieces]
    low = min(end.low for end in ends)
    high = max(end.high for end in ends)
    torch.manual_seed(1)
    eager = np.concatenate([_eager(sample).ravel() for _ in range(TIMES)])
    executed = np.concatenate(
        [
            np.asarray(_run(sample, Builder(Reference(seed=seed), "node", DType.FLOAT64), number).value).ravel()
            for seed in range(TIMES)
        ]
    ).astype(np.float64)
    for found in (eager, executed):
        assert (found > float(low.at)).all() if low.out else (found >= float(low.at)).all()
        assert (found < float(high.at)).all() if high.out else (found <= float(high.at)).all()
    if not np.isinf(float(high.at)) and len(np.unique(eager)) <= SMALL and np.array_equal(eager, np.rint(eager)):
        assert set(np.unique(eager)) == set(np.unique(executed))
