"""The facts that are derived from definitions, against values: on every sample what is claimed holds, and what holds on
all draws is claimed, but for what is listed here with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tantamount.errors import TantamountError
from tantamount.ir.types import DType
from tantamount.ops.algebra import ShapeProblem, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.facts import NOTHING, Facts
from tantamount.ops.table import Operator, bind, invoke, lookup
from tantamount.samples.operators.table import SAMPLES, Operand, Sample
from tantamount.semantics.reference import Reference

Array = Any
Values = dict[str, Array]  # by the name of the operand


@dataclass(frozen=True)
class Call:
    """A sample: its operands by name, and the facts of the call."""

    sample: Sample
    row: Operator
    operands: Mapping[str, Operand]
    facts: Facts

    def arguments(self, make: Callable[[str, Operand], Any]) -> dict[str, Any]:
        names = iter(self.operands)

        def one(item: Any) -> Any:
            if isinstance(item, Operand):
                return make(next(names), item)
            return tuple(map(one, item)) if isinstance(item, tuple) else item

        args = tuple(map(one, self.sample.args))
        kwargs = {key: one(item) for key, item in self.sample.kwargs.items()}
        return bind(self.row, self.sample.target, args, kwargs, "sample")

    def drawn(self, seed: int) -> Values:
        generator = np.random.default_rng(seed)
        return {name: _draw(operand, generator) for name, operand in self.operands.items()}

    def results(self, values: Values) -> list[Array] | None:
        """Every result; ``None`` where the operands are refused."""

        def made(name: str, operand: Operand) -> Tensor:
            kind = np.float64 if operand.dtype.is_float else np.bool_ if operand.dtype is DType.BOOL else np.int64
            return Tensor(operand.shape, operand.dtype, np.asarray(values[name]).astype(kind))

        try:
            with np.errstate(all="ignore"):
                found = invoke(self.row, Builder(Reference(seed=0)), self.arguments(made))
        except (ShapeProblem, TantamountError, IndexError):
            return None
        items = found if isinstance(found, tuple) else (found,)
        return [np.asarray(x.value, dtype=np.float64) for x in items if isinstance(x, Tensor)]


def _draw(operand: Operand, generator: np.random.Generator) -> Array:
    if operand.data is not None:
        return np.array(operand.data).reshape(operand.shape)
    if operand.dtype.is_float:
        return generator.uniform(operand.low, operand.high, operand.shape)
    return generator.integers(int(operand.low), int(operand.high), operand.shape)


def _operands(item: Any) -> Iterator[Operand]:
    if isinstance(item, Operand):
        yield item
    elif isinstance(item, tuple):
        for one in item:
            yield from _operands(one)


def _call(sample: Sample) -> Call | None:
    """``None`` for samples with complex numbers, whose elements are pairs."""
    found = [*_operands(sample.args), *(one for item in sample.kwargs.values() for one in _operands(item))]
    if any(operand.dtype.is_complex for operand in found):
        return None
    named = {f"t{k}": operand for k, operand in enumerate(found)}
    call = Call(sample, lookup(sample.target, "sample"), named, NOTHING)
    facts = call.row.facts_of(call.arguments(lambda name, x: Tensor(x.shape, x.dtype, name)))
    return replace(call, facts=facts)


@cache
def calls() -> tuple[Call, ...]:
    return tuple(call for sample in SAMPLES if sample.values and (call := _call(sample)) is not None)


def equal(found: Sequence[Array] | None, wanted: Sequence[Array] | None) -> bool:
    """Equal where both are finite."""
    if found is None or wanted is None:
        return found is wanted
    for x, y in zip(found, wanted, strict=True):
        if x.shape != y.shape:
            return False
        defined = np.isfinite(x) & np.isfinite(y)
        if not np.allclose(x[defined], y[defined], rtol=1e-7, atol=1e-9):
            return False
    return True


# ------------------------------------------------------------------------------------- does a fact hold on a draw?
def _other(call: Call, values: Values, names: Sequence[str], seed: int) -> Values:
    """Other values of some operands."""
    fresh = call.drawn(seed + 1000)
    return {name: fresh[name] if name in names else value for name, value in values.items()}


def is_linear(call: Call, names: Sequence[str], seed: int) -> bool:
    x = call.drawn(seed)
    y = _other(call, x, names, seed)
    both = {name: 2 * x[name] - 3 * y[name] if name in names else x[name] for name in x}
    f, g, h = call.results(x), call.results(y), call.results(both)
    if f is None or g is None or h is None:
        return False
    return equal(h, [2 * a - 3 * b for a, b in zip(f, g, strict=True)])


def is_layout(call: Call, names: Sequence[str], seed: int) -> bool:
    """Every element of a result is one of these operands', or stays when these change."""
    x = call.drawn(seed)
    moved = {name: 3 * x[name] + 7 if name in names else x[name] for name in x}
    f, g = call.results(x), call.results(moved)
    if f is None or g is None:
        return False
    known = np.concatenate([np.ravel(x[name]) for name in names])
    for a, b in zip(f, g, strict=True):
        taken = np.isin(a, known) & np.isclose(b, 3 * a + 7, equal_nan=True)
        if not (taken | (a == b) | (np.isnan(a) & np.isnan(b))).all():
            return False
    return True


def is_independent(call: Call, names: Sequence[str], seed: int) -> bool:
    x = call.drawn(seed)
    return equal(call.results(x), call.results(_other(call, x, names, seed)))


def is_monotone(call: Call, name: str, sign: int, seed: int) -> bool:
    x = call.drawn(seed)
    more = np.random.default_rng(seed).integers(0, 2, np.shape(x[name]))
    if call.operands[name].dtype.is_float:
        more = more * np.random.default_rng(seed + 1).uniform(0, 2, np.shape(x[name]))
    grown = x[name] | more if call.operands[name].dtype is DType.BOOL else x[name] + more
    f, g = call.results(x), call.results({**x, name: grown})
    if f is None or g is None:
        return False
    with np.errstate(invalid="ignore"):
        return not any((sign * (b - a) < -1e-9).any() for a, b in zip(f, g, strict=True))


def is_elementwise(call: Call, seed: int) -> bool:
    """A change at one place of one operand changes the result there only; a rotation of all operands rotates it."""
    x = call.drawn(seed)
    f = call.results(x)
    shapes = [np.shape(value) for value in x.values()]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    if f is None or any(a.shape != shape for a in f):
        return False
    for name, value in x.items():
        if not np.size(value):
            continue
        flat = np.array(_other(call, x, [name], seed)[name]).reshape(-1)
        changed = np.array(value).reshape(-1)
        changed[0] = flat[0]
        g = call.results({**x, name: changed.reshape(np.shape(value))})
        if g is None:
            return False
        first = np.zeros(np.shape(value), dtype=bool)
        first.reshape(-1)[0] = True
        for a, b in zip(f, g, strict=True):
            where = ~np.broadcast_to(first, a.shape)
            if not equal([a[where]], [b[where]]):
                return False
    if len(set(shapes)) == 1:
        g = call.results({name: np.roll(value, 1) for name, value in x.items()})
        return g is not None and equal(g, [np.roll(a, 1) for a in f])
    return True


def first_tensor(call: Call) -> str | None:
    """The name of the operand that is the definition's first tensor by itself."""
    given = call.arguments(lambda name, x: Tensor(x.shape, x.dtype, name))
    return next((value.value for value in given.values() if isinstance(value, Tensor)), None)


def is_idempotent(call: Call, seed: int) -> bool:
    x, name = call.drawn(seed), first_tensor(call)
    f = call.results(x)
    if f is None or len(f) != 1 or name is None or f[0].shape != np.shape(x[name]) or np.isnan(f[0]).any():
        return False
    if not call.operands[name].dtype.is_float and not (f[0] == np.round(f[0])).all():
        return False
    return equal(call.results({**x, name: f[0]}), f)


def is_commutative(call: Call, seed: int) -> bool:
    x = call.drawn(seed)
    a, b = x
    return equal(call.results({a: x[b], b: x[a]}), call.results(x))


SEEDS = (1, 2, 3, 4)


def floats(call: Call) -> list[str]:
    return [name for name, operand in call.operands.items() if operand.dtype.is_float]


def held(claimed: Callable[[Call], Iterator[tuple[str, Callable[[int], bool]]]]) -> tuple[int, list[str]]:
    """How many claims there are, and which fail."""
    count, failed = 0, list[str]()
    for call in calls():
        for text, holds in claimed(call):
            count += 1
            failed += [f"{call.sample}: {text}"] if not all(map(holds, SEEDS[:2])) else []
    return count, failed


def _linear(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    for names in call.facts.linear:
        if not any(call.operands[name].dtype is DType.BOOL for name in names):
            yield f"linear in {sorted(names)}", lambda seed, names=names: is_linear(call, sorted(names), seed)


def _layout(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    names = sorted(call.facts.moved)
    if names and not any(call.operands[name].dtype is DType.BOOL for name in names):
        yield "layout", lambda seed: is_layout(call, names, seed)


def _pieces(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    """Elements that are taken once (a piece), or all of them (a view)."""
    if (call.facts.piece or call.facts.view) and all(call.operands[name].dtype.is_float for name in call.facts.moved):

        def holds(seed: int) -> bool:
            (name,) = call.facts.moved
            x = call.drawn(seed)
            for result in call.results(x) or []:
                taken, whole = np.unique(result), np.unique(x[name])
                if not np.isin(taken, whole).all() or (call.facts.view and len(taken) != len(whole)):
                    return False
                if call.facts.piece and (len(taken) != result.size or result.size > np.size(x[name])):
                    return False
            return True

        yield "piece or view", holds


def _factory(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    if call.facts.factory:
        yield "factory", lambda seed: is_independent(call, list(call.operands), seed)


def _monotone(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    for name, sign in call.facts.monotone.items():
        yield f"monotone in {name}", lambda seed, name=name, sign=sign: is_monotone(call, name, sign, seed)


def _elementwise(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    if call.facts.elementwise and call.operands:
        yield "elementwise", lambda seed: is_elementwise(call, seed)


def _combination(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    if call.facts.combination:

        def holds(seed: int) -> bool:
            x = call.drawn(seed)
            total = sum(float(c) * (x[name] if name else 1.0) for name, c in call.facts.combination.items())
            found = call.results(x)
            return found is not None and equal(found, [np.broadcast_to(total, found[0].shape)])

        yield "combination", holds


def _again(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    if call.facts.idempotent:
        yield "idempotent", lambda seed: is_idempotent(call, seed)


def _exchanged(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    if call.facts.commutative and len(call.operands) == 2:
        yield "commutative", lambda seed: is_commutative(call, seed)


def _power(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    exponent = call.facts.exponent
    if exponent is not None and len(call.operands) == 1:

        def holds(seed: int) -> bool:
            x = call.drawn(seed)
            with np.errstate(all="ignore"):
                return equal(call.results(x), [np.power(x["t0"].astype(float), float(exponent))])

        yield "exponent", holds


_COMPARED = {
    "below": np.less, "at most": np.less_equal, "above": np.greater, "at least": np.greater_equal, "equal": np.equal,
    "unequal": np.not_equal,
}  # fmt: skip


def _comparison(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    if call.facts.comparison and call.operands:

        def holds(seed: int) -> bool:
            x = call.drawn(seed)
            other = x["t1"] if "t1" in x else next(a for a in call.sample.args[1:] if isinstance(a, (int, float)))
            wanted = _COMPARED[call.facts.comparison](x["t0"], other)
            return equal(call.results(x), [wanted.astype(float)])

        yield "comparison", holds


# what is claimed, with how many claims the samples must have at least
CLAIMS = {
    "linear": (_linear, 300), "layout": (_layout, 120), "pieces": (_pieces, 40), "factory": (_factory, 20),
    "monotone": (_monotone, 200), "elementwise": (_elementwise, 300), "combination": (_combination, 40),
    "idempotent": (_again, 40), "commutative": (_exchanged, 4), "exponent": (_power, 4), "comparison": (_comparison, 8),
}  # fmt: skip


@pytest.mark.parametrize("fact", CLAIMS)
def test_what_is_claimed_holds(fact: str) -> None:
    claimed, least = CLAIMS[fact]
    count, failed = held(claimed)
    assert not failed
    assert count >= least


# ------------------------------------------------------------------------------------- what holds is claimed
_DATA = "data decide how many elements there are"
_ONE = "in some sample there is one element, or operands are replaced as a whole"
_ZERO = "zero or not finite on every draw, or with a mask beside the result"
_NUMBERS = "of numbers it is the identity, of infinities not"
_ASKS = "the definition asks whether the operand is 0"
_ORDER = "which element it is, the elements decide"
_SIGN = "|x - y| is |y - x|: the record of a difference is of one order"
_TURNED = "a transpose of the other order, or of one sample's equation only"
# What holds on all draws of some sample of an operator and is not claimed: by fact and reason, the operators.
NOT_CLAIMED: Mapping[str, Mapping[str, str]] = {
    "linear": {
        _DATA: (
            "aten.bincount.default aten.index.Tensor aten.index_put.default aten.masked_select.default "
            "aten.nonzero.default aten.repeat_interleave.self_Tensor"
        ),
        _ONE: ("aten.argmax.default aten.argmin.default aten.log_softmax.int"),
        _ZERO: (
            "aten._assert_tensor_metadata.default aten.eq.Scalar aten.eq.Tensor aten.isinf.default "
            "aten.isnan.default aten.isneginf.default aten.isposinf.default aten.logical_not.default "
            "aten.constant_pad_nd.default aten.masked_fill.Scalar aten.where.ScalarOther "
            "aten.binary_cross_entropy.default "
            "aten.native_dropout.default aten.new_zeros.default aten.zero.default aten.zeros_like.default"
        ),
        _ASKS: ("aten.xlogy.Scalar_Other aten.xlogy.Tensor"),
        _NUMBERS: "aten.nan_to_num.default",
    },
    "layout": {
        _ORDER: (
            "aten.amax.default aten.amin.default aten.aminmax.default aten.argmax.default aten.argmin.default "
            "aten.argsort.default aten.argsort.stable aten.cummax.default aten.cummin.default "
            "aten.kthvalue.default aten.max.default aten.max.dim aten.max_pool2d.default "
            "aten.max_pool2d_with_indices.default aten.min.default aten.min.dim aten.scatter_reduce.two "
            "aten.median.default aten.median.dim aten.sort.default aten.sort.stable aten.topk.default"
        ),
        _NUMBERS: "aten.nan_to_num.default",
        _DATA: (
            "aten.index.Tensor aten.index_put.default aten.masked_select.default aten.repeat_interleave.self_Tensor"
        ),
    },
    "elementwise": {
        _ONE: (
            "aten._assert_tensor_metadata.default aten.constant_pad_nd.default aten.einsum.default "
            "aten.diagonal_scatter.default "
            "aten.scatter.src aten.scatter.value aten.select_scatter.default aten.slice_scatter.default "
            "aten.view_as_complex.default aten.view_as_complex_copy.default"
        ),
    },
    "commutative": {
        _SIGN: ("aten.huber_loss.default aten.l1_loss.default aten.mse_loss.default aten.smooth_l1_loss.default"),
        _TURNED: ("aten.einsum.default aten.inner.default"),
    },
}


def _properties(call: Call) -> Iterator[tuple[str, Callable[[int], bool]]]:
    """Properties that the call does not claim, by the fact that would claim them."""
    facts, names = call.facts, floats(call)
    for name in names:
        if not any(name in some for some in facts.linear):
            yield "linear", lambda seed, name=name: is_linear(call, [name], seed)
        if not facts.layout:
            yield (
                "layout",
                lambda seed, name=name: is_layout(call, [name], seed) and not is_independent(call, [name], seed),
            )
    if len(names) > 1 and not facts.linear:
        yield "linear", lambda seed: is_linear(call, names, seed)
    if names and not facts.elementwise:
        yield "elementwise", lambda seed: is_elementwise(call, seed)
    shapes = [operand.shape for operand in call.operands.values()]
    if len(names) == len(shapes) == 2 and shapes[0] == shapes[1] and not facts.commutative:
        yield "commutative", lambda seed: is_commutative(call, seed)


def unclaimed() -> Mapping[str, set[str]]:
    """The operators of the samples that have a property, on every draw, that they do not claim, by fact; without those
    that overwrite their operand, which are defined by the others."""
    found: dict[str, set[str]] = {fact: set() for fact in NOT_CLAIMED}
    for call in calls():
        target = call.sample.target
        if not target.partition(".")[2].partition(".")[0].endswith("_"):
            for fact, holds in _properties(call):
                if target not in found[fact] and all(map(holds, SEEDS)):
                    found[fact].add(target)
    return found


def test_what_holds_is_claimed() -> None:
    listed = {fact: set(" ".join(reasons.values()).split()) for fact, reasons in NOT_CLAIMED.items()}
    assert unclaimed() == listed
