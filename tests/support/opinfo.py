"""PyTorch's own database of operators and samples against the definitions.

Every sample of an ``OpInfo`` is executed in eager, forward and (where it has a derivative) backward; each ATen call on
the way whose operator has a definition is judged by :mod:`support.aten_agreement`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import torch
from torch.utils import _pytree as pytree

from support.aten_agreement import AGREEING, judge
from support.aten_calls import Call, recorded
from support.aten_forms import form_difference

__all__ = ["DTYPES", "Tally", "check", "database"]

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip
_SAME = 4  # calls of one operator that differ in values only, per element type and OpInfo
_LARGE = 1 << 20  # elements of one operand


@dataclass
class Tally:
    """What became of the calls, by operator: numbers by kind of outcome, reasons of refusals, and the first few calls
    that differ. ``forms``: how many calls of an operator are computed as normal forms, too."""

    kinds: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    refusals: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    different: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    forms: int = 0
    agreeing_forms: Counter[str] = field(default_factory=Counter[str])
    samples: int = 0
    failed: Counter[str] = field(default_factory=Counter[str])
    undefined: Counter[str] = field(default_factory=Counter[str])

    def add(self, call: Call) -> None:
        outcome = judge(call)
        if outcome is None:
            self.undefined[call.target] += 1
            return
        self.kinds.setdefault(call.target, Counter())[outcome.kind] += 1
        if outcome.kind == "refused":
            self.refusals.setdefault(call.target, Counter())[outcome.text] += 1
        if outcome.kind == "different":
            self.different.setdefault(call.target, []).append(f"{call}: {outcome.text}")
        if outcome.kind in AGREEING and self.agreeing_forms[call.target] < self.forms:
            text = form_difference(call)
            self.agreeing_forms[call.target] += text == ""
            if text:
                self.different.setdefault(call.target, []).append(f"{call}: {text}")

    def update(self, other: Tally) -> None:
        for target, kinds in other.kinds.items():
            self.kinds.setdefault(target, Counter()).update(kinds)
        for target, reasons in other.refusals.items():
            self.refusals.setdefault(target, Counter()).update(reasons)
        for target, texts in other.different.items():
            self.different.setdefault(target, []).extend(texts)
        self.samples += other.samples
        self.agreeing_forms.update(other.agreeing_forms)
        self.failed.update(other.failed)
        self.undefined.update(other.undefined)

    def total(self, *kinds: str) -> int:
        return sum(counts[kind] for counts in self.kinds.values() for kind in kinds)

    @property
    def agreeing(self) -> int:
        return self.total(*AGREEING)


def database() -> Sequence[Any]:
    """Every ``OpInfo`` of PyTorch, in the order of its list. Raises ``ImportError`` where PyTorch's tests cannot be
    imported (they need the package ``expecttest``)."""
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core

    # At every sample it looks through the whole stack for a TestCase, which takes most of the time; there is none.
    common_utils.extract_test_fn = core.extract_test_fn = lambda: None
    return op_db


def check(
    op: Any,
    dtypes: Sequence[torch.dtype] = DTYPES,
    most: int | None = None,
    references: bool = False,
    forms: int = 0,
    device: str = "cpu",
) -> Tally:
    """The tally of an ``OpInfo``: all its samples (the first ``most``) in every element type that it supports;
    ``references``: the larger set of samples, with extreme values. ``forms``: see :class:`Tally`. ``device``: where
    eager runs; definitions are executed on the CPU."""
    tally = Tally(forms=forms)
    seen: Counter[str] = Counter()

    def each(call: Call) -> None:
        if any(x.numel() > _LARGE for x in call.tensors):
            return
        signature = f"{call} {[(x.stride(), x.storage_offset()) for x in call.tensors]}"
        seen[signature] += 1
        if seen[signature] <= _SAME:
            tally.add(call)

    for dtype in dtypes:
        if dtype not in op.supported_dtypes(device):
            continue
        torch.manual_seed(crc32(f"{op.full_name} {dtype}".encode()))
        for sample in _samples(op, dtype, most, references, tally, device):
            tally.samples += 1
            try:
                _run(op, sample, each)
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError) as problem:
                tally.failed[f"{op.full_name}: {type(problem).__name__} {str(problem).splitlines()[0][:80]}"] += 1
    return tally


def _samples(
    op: Any, dtype: torch.dtype, most: int | None, references: bool, tally: Tally, device: str
) -> Iterator[Any]:
    backward = op.supports_autograd and dtype in op.supported_backward_dtypes(device)
    make = op.reference_inputs if references else op.sample_inputs
    try:
        for k, sample in enumerate(make(device, dtype, requires_grad=backward)):
            if most is not None and k >= most:
                return
            yield sample
    except (RuntimeError, TypeError, NotImplementedError, ImportError, AssertionError) as problem:
        tally.failed[f"{op.full_name}: samples: {type(problem).__name__} {str(problem).splitlines()[0][:80]}"] += 1


def _run(op: Any, sample: Any, each: Any) -> None:
    """Forward, and backward with random gradients of the results."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = recorded(lambda: op(sample.input, *sample.args, **sample.kwargs), each)
        outputs = [x for x in pytree.tree_leaves(results) if isinstance(x, torch.Tensor) and x.requires_grad]
        given = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
        leaves = [x for x in given if isinstance(x, torch.Tensor) and x.requires_grad]
        if outputs and leaves:
            gradients = [torch.randn(x.shape, dtype=torch.float64).to(x.device, x.dtype) for x in outputs]
            recorded(lambda: torch.autograd.grad(outputs, leaves, gradients, allow_unused=True), each)
