"""Every operator at the edges of the numbers: with infinities, NaN, zeros of both signs, and huge numbers.

Of a call it is asked whether the definition computes what eager does (:func:`at_edges`); of a normal form, whether
what its record says of an operand that is infinite somewhere is true of eager (:func:`untrue_records`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from support.aten_agreement import Outcome, judge
from support.aten_calls import Call, called
from support.records import IS, Opaque, RecordEvaluator
from tantamount.calculus.calculus import Calculus
from tantamount.calculus.definedness import Definedness
from tantamount.calculus.forms import Form
from tantamount.calculus.infinities import unbounded
from tantamount.calculus.kinds import KINDS, NAN
from tantamount.calculus.symbolic import Trace
from tantamount.errors import TantamountError
from tantamount.ir.graph import Device, Setting
from tantamount.ir.types import DType, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.samples.operators.table import NOT_RUN, SAMPLES, Operand, Sample

__all__ = ["at_edges", "calls", "samples", "untrue_records"]

SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1e100, -1e100, 1.0, -1.0)


def samples() -> Iterator[Sample]:
    """The samples of ATen operators that eager runs on a CPU and that have an operand of floats."""
    for sample in SAMPLES:
        run = sample.target.startswith("aten.") and sample.values and sample.target not in NOT_RUN
        if run and any(operand.dtype.is_float for operand in operands((sample.args, tuple(sample.kwargs.values())))):
            yield sample


def operands(items: Any) -> Iterator[Operand]:
    """The operands among arguments, in order."""
    for item in items:
        if isinstance(item, Operand):
            yield item
        elif isinstance(item, tuple):
            yield from operands(item)


def drawn(item: Any, generator: np.random.Generator, share: float) -> Any:
    """An argument as PyTorch wants it; a share of all floats is special."""
    if isinstance(item, Operand):
        if item.data is not None:
            array = np.array(item.data).reshape(item.shape)
        elif item.dtype.is_float:
            array = generator.uniform(item.low, item.high, item.shape)
        elif item.dtype.is_complex:
            array = generator.uniform(item.low, item.high, item.shape) + 1j * generator.uniform(size=item.shape)
        else:
            array = generator.integers(int(item.low), max(int(item.high), int(item.low) + 1), item.shape)
        if item.dtype.is_float and item.data is None:
            array = np.where(generator.random(item.shape) < share, generator.choice(SPECIAL, item.shape), array)
        return torch.tensor(array, dtype=getattr(torch, _wide(item.dtype).label))
    if isinstance(item, DType):
        return getattr(torch, _wide(item).label)
    if isinstance(item, Device):
        return torch.device(item.name)
    if isinstance(item, Setting):
        return getattr(torch, item.name)
    return [drawn(entry, generator, share) for entry in item] if isinstance(item, tuple) else item


def _wide(dtype: DType) -> DType:
    return DType.FLOAT64 if dtype.is_float else DType.COMPLEX128 if dtype.is_complex else dtype


def calls(sample: Sample, draws: int, seed: int) -> Iterator[Call]:
    """The sample with special operands: few of them, and many."""
    _, name, overload = sample.target.split(".")
    operation = getattr(getattr(torch.ops.aten, name), overload)
    for draw in range(draws):
        generator = np.random.default_rng((seed, draw))
        share = (0.1, 0.4, 1.0)[draw % 3]
        torch.manual_seed(draw)
        args = [drawn(item, generator, share) for item in sample.args]
        kwargs = {key: drawn(item, generator, share) for key, item in sample.kwargs.items()}
        try:
            yield called(operation, args, kwargs)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            continue


def at_edges(sample: Sample, draws: int = 6, seed: int = 1) -> Iterator[tuple[Call, Outcome]]:
    """What became of each call."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        for call in calls(sample, draws, seed):
            outcome = judge(call)
            if outcome is not None:
                yield call, outcome
    finally:
        torch.set_default_dtype(before)


# ---------------------------------------------------------------------------------------------- records
INFECTIONS = ("quotient", "plus infinity", "minus infinity", "masked", "zero")
_MODERATE = 1e4


def untrue_records(sample: Sample, draws: int = 3, seed: int = 1) -> Iterator[str]:
    """What the records of an operator say of infinities and NaNs in one of its operands that is not true of eager."""
    count = sum(1 for operand in operands((sample.args, tuple(sample.kwargs.values()))) if _real(operand))
    for which in range(count):
        for infection in INFECTIONS:
            text = _untrue(sample, which, infection, draws, seed)
            if text:
                yield f"{sample}, operand {which}, {infection}: {text}"


def _real(operand: Operand) -> bool:
    return operand.dtype.is_float and operand.data is None


class _Symbols:
    """Arguments as leaves of the calculus, one of which is made infinite where a mask ``z`` says, and their values."""

    def __init__(self, which: int, infection: str) -> None:
        self.store = Calculus()
        self.meaning = Definedness(self.store, Trace(assume_indices=True))
        self.b = Builder(self.meaning, "", DType.FLOAT64)
        self.which, self.infection = which, infection
        self.shapes: dict[str, Operand] = {}
        self.seen = 0

    def argument(self, item: Any) -> Any:
        if isinstance(item, Operand):
            dtype = _wide(item.dtype)
            name = f"a{len(self.shapes)}"
            self.shapes[name] = item
            if item.data is not None:
                numbers = tuple(item.data)
                return Tensor(item.shape, dtype, self.meaning.table(numbers, item.shape, dtype.kind))
            stored = TensorType(item.shape, dtype).stored
            out = Tensor(item.shape, dtype, self.meaning.fresh("input", name, stored.shape, stored.dtype))
            if _real(item):
                self.seen += 1
                if self.seen - 1 == self.which:
                    return self.infected(out)
            return out
        if isinstance(item, DType):
            return _wide(item)
        return tuple(self.argument(entry) for entry in item) if isinstance(item, tuple) else item

    def infected(self, x: Tensor) -> Tensor:
        b = self.b
        z = Tensor(x.shape, DType.BOOL, self.meaning.fresh("input", "z", x.shape, DType.BOOL))
        if self.infection == "masked":
            return b.where(z, x, b.full(x.shape, float("-inf"), x.dtype))
        f = b.cast(z, DType.FLOAT64)
        if self.infection == "quotient":
            return b.div(x, f)
        if self.infection == "zero":
            return b.mul(x, b.power(b.power(f, -1), -1))
        log = b.log(f)
        return b.add(x, log) if self.infection == "minus infinity" else b.sub(x, log)


def _infect(x: torch.Tensor, z: torch.Tensor, infection: str) -> torch.Tensor:
    f = z.double()
    if infection == "masked":
        return torch.where(z, x, float("-inf"))
    if infection == "quotient":
        return x / f
    if infection == "zero":
        return x * f.reciprocal().reciprocal()
    return x + f.log() if infection == "minus infinity" else x - f.log()


def _untrue(sample: Sample, which: int, infection: str, draws: int, seed: int) -> str:
    symbols = _Symbols(which, infection)
    args = tuple(symbols.argument(item) for item in sample.args)
    kwargs = {key: symbols.argument(item) for key, item in sample.kwargs.items()}
    try:
        found = apply(lookup(sample.target, "edge"), sample.target, args, kwargs, symbols.b, "edge")
    except TantamountError:
        return ""
    found = found if isinstance(found, tuple) else (found,)
    _, name, overload = sample.target.split(".")
    operation = getattr(getattr(torch.ops.aten, name), overload)
    for draw in range(draws):
        given, values = _values(sample, which, infection, np.random.default_rng((seed, draw)))
        try:
            wanted = operation(*values[0], **values[1])
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            continue
        wanted = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
        for k, (ours, eager) in enumerate(zip(found, wanted, strict=False)):
            if not isinstance(ours, Tensor) or not isinstance(eager, torch.Tensor) or ours.dtype.is_integral:
                continue
            text = _false(symbols.store, ours.value, given, _array(eager.detach()))
            if text:
                return f"result {k}, draw {draw}: {text}"
    return ""


def _values(
    sample: Sample, which: int, infection: str, generator: np.random.Generator
) -> tuple[dict[Any, Any], tuple[list[Any], dict[str, Any]]]:
    given: dict[Any, Any] = {}
    seen = 0

    def value(item: Any) -> Any:
        nonlocal seen
        if isinstance(item, Operand):
            x = drawn(item, generator, 0.0)
            given[f"a{len(given) - (('z', ()) in given)}", ()] = _array(x)
            if _real(item):
                seen += 1
                if seen - 1 == which:
                    z = torch.tensor(generator.random(item.shape) < 0.7)
                    given["z", ()] = z.numpy()
                    return _infect(x, z, infection)
            return x
        if isinstance(item, tuple):
            return [value(entry) for entry in item]
        return drawn(item, generator, 0.0)

    args = [value(item) for item in sample.args]
    kwargs = {key: value(item) for key, item in sample.kwargs.items()}
    return given, (args, kwargs)


def _array(x: torch.Tensor) -> Any:
    return (torch.view_as_real(x.resolve_conj()) if x.is_complex() else x).double().numpy()


def _false(store: Calculus, form: Form, given: dict[Any, Any], eager: Any) -> str:
    if form.undefined is None and np.isfinite(eager).all():
        return ""
    said = np.isinf(eager) & any(unbounded(store, x) for _, x in form.pieces)
    never = np.zeros(eager.shape, dtype=bool)
    for kind in KINDS:
        if form.undefined is None:
            break
        leaves: dict[Any, Any] = {("undefined", k): np.array(float(k == kind)) for k in KINDS}
        leaves["undefined", "somewhere"] = np.array(1.0)
        try:
            holds = RecordEvaluator(store, leaves | given).form(form.undefined)
        except Opaque:
            return ""
        if np.isnan(holds).any():
            return ""
        true = np.zeros(eager.shape, dtype=bool)
        for part in kind.split("|"):
            true |= IS[part](eager)
        never |= (holds != 0) & (kind == NAN)
        true |= never & np.isnan(eager)
        if ((holds != 0) & ~true).any():
            at = tuple(np.argwhere((holds != 0) & ~true)[0])
            return f"{kind} is said of {eager[at]}"
        said |= holds != 0
    wrong = ~said & ~np.isfinite(eager)
    return f"nothing is said of {eager[wrong][0]}" if wrong.any() else ""
