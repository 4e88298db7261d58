"""The primitives over NumPy: every float kind is float64, integers are exact int64, booleans are 0 and 1.

A NaN means *undefined here* (0 / 0, log of a negative, 0 * inf, inf - inf, a gather out of range); it is never an
error, because the element may be masked later. Other numbers divided by zero are infinite, as in PyTorch: what an
infinity goes into may be a number again. Integers and booleans have no NaN: where one of them is
undefined, it is 0 and the event is recorded in :attr:`Reference.flags`, so that the caller decides. Integers that would
leave 64 bits raise :class:`IntegerOverflow`: nothing wraps but what a definition takes modulo a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, Union
from zlib import crc32

import numpy as np

from tantamount.errors import InternalError, TantamountError, Unsupported
from tantamount.ir.types import DType, Kind, Shape
from tantamount.memory import reserve
from tantamount.ops.algebra import Doubt, Interpretation, Law, Number, PerRank, Scalar
from tantamount.ops.arrays import Array, ArrayLayout
from tantamount.ops.functions import (
    CHOOSING,
    FITTING,
    FUNCTIONS,
    POSITIONS_IN_A_ROW,
    Ties,
    evaluate_rows,
    tied_rows,
)
from tantamount.semantics.draws import sample

__all__ = ["STOPS", "Array", "Flag", "IntegerOverflow", "Masks", "Reference", "fresh"]

reserve()  # before the first product: most jobs are proved, and execute nothing

Masks = Callable[[str, int, Shape, Union[Number, Law]], Union[Array, None]]
"""Site, ordinal of the dropout (or of the draw of this law) on this rank, shape, drop probability (or law) -> keep-mask
(or numbers; ``None``: fresh ones)."""

STOPS = ("out-of-range", "zero-divisor")  # what a flag may say of which eager stops, whatever becomes of the element

_LIMIT = 2**62
_EXACT = 2**53  # float64 has every integer up to here
_LABELS = 52  # of numpy.einsum
_NO_WEIGHT = 1e-9  # what the sine of a whole number of half turns is at most in float64
_INTERMEDIATE = 1 << 24  # elements of a product of two operands out of several
_DTYPE: dict[Kind, type[np.generic]] = {
    Kind.BOOL: np.bool_,
    Kind.INT: np.int64,
    Kind.FLOAT: np.float64,
}


class IntegerOverflow(TantamountError):
    """An integer result beyond 2**62: exact arithmetic is over, and wrapping would be a wrong value."""


@dataclass(frozen=True, slots=True)
class Flag:
    """Something the result rests on that a NaN cannot say. ``what`` is ``out-of-range`` (a gather or scatter),
    ``from-end`` (a negative index that the program was given, which eager counts from the end),
    ``zero-divisor`` (of whole numbers), ``undefined-comparison`` (of a NaN), ``undefined-integer`` (of a NaN or
    infinity), ``unfit`` (a number that becomes an integer of a type that does not hold it), ``double-write``,
    ``doubtful`` (an infinity or NaN of which the operator may make something else),
    ``inexact`` (an integer beyond 2**53 made a float) or ``tie`` (equal elements, and PyTorch does not promise
    which of them an operator chooses); ``count`` elements, or rows; ``site`` the node, filled in by the interpreter."""

    what: str
    count: int
    site: str = ""


class Reference(ArrayLayout):
    """One rank's meaning of the primitives. Values are arrays of the shape that the builder tracks.

    ``masks`` gives what is drawn at a site; by default the keep-mask of the k-th dropout is random by ``seed`` and k,
    equal on all ranks.
    Other draws, and ``unknown`` tensors, are random by ``seed``, ``rank``, site and number of the call.
    ``ties`` says what operators choose among equal elements where PyTorch does not promise it.
    ``undefined`` stands for whole numbers that -inf, inf and NaN became.
    ``left_range`` collects ``overflow`` and ``underflow``: float64 left the reals, whatever the values say.
    """

    def __init__(self, *, rank: int = 0, seed: int = 0, masks: Masks | None = None, ties: Ties = Ties.USUAL) -> None:
        self.ties = ties
        self.rank = rank
        self.seed = seed
        self.masks = masks
        self.undefined: tuple[int, int, int] = (0, 0, 0)
        self.flags: list[Flag] = []
        self.left_range: set[str] = set()
        self._dropouts = 0
        self._draws: dict[Law, int] = {}
        self._unknowns = 0

    @property
    def out_of_range(self) -> list[tuple[str, int]]:
        """The gathers and scatters that left their tensor: (site, number of elements)."""
        return [(flag.site, flag.count) for flag in self.flags if flag.what == "out-of-range"]

    def _flag(self, what: str, count: int | np.integer[Any]) -> None:
        if count:
            self.flags.append(Flag(what, int(count)))

    def _quiet(self) -> np.errstate:
        """No warnings; overflow and underflow are remembered."""
        return np.errstate(all="ignore", over="call", under="call", call=lambda what, _: self.left_range.add(what))

    # -- sources
    def constant(self, value: Scalar, kind: Kind) -> Array:
        return _table([value.values[self.rank] if isinstance(value, PerRank) else value], (), kind)

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> Array:
        return _table(data, shape, kind)

    def iota(self, size: int) -> Array:
        return np.arange(size, dtype=np.int64)

    def unknown(self, shape: Shape, dtype: DType, site: str) -> Array:
        self._unknowns += 1
        return fresh([self.seed, self.rank, crc32(site.encode()), self._unknowns], shape, dtype)

    def mask(self, like: Array, shape: Shape, p: Number, site: str) -> Array:
        ordinal, self._dropouts = self._dropouts, self._dropouts + 1
        if self.masks is None:
            generator = np.random.default_rng([self.seed, ordinal, 0xD0])
            return np.asarray(generator.random(shape) >= float(p))
        keep = np.asarray(self.masks(site, ordinal, shape, p), dtype=np.bool_)
        if keep.shape != shape:
            raise InternalError(f"dropout mask {ordinal} at {site}: shape {keep.shape} where {shape} is needed")
        return keep

    def draw(self, law: Law, like: Array | None, shape: Shape, dtype: DType, site: str) -> Array:
        ordinal = self._draws[law] = self._draws.get(law, -1) + 1
        given = None if self.masks is None else self.masks(site, ordinal, shape, law)
        if given is None:
            self._unknowns += 1
            generator = np.random.default_rng([self.seed, self.rank, crc32(site.encode()), self._unknowns])
            given = sample(law, generator, shape, coarse=self.seed % 3 == 2)
        if given.shape != shape:
            raise InternalError(f"a draw at {site}: shape {given.shape} where {shape} is needed")
        return np.asarray(given, dtype=_DTYPE[dtype.kind])

    # -- pointwise
    def convert(self, x: Array, source: Kind, target: Kind) -> Array:
        """Also from whole floats to integers, after truncation: a NaN or an infinity there is flagged."""
        if source is Kind.FLOAT and target is Kind.INT:
            undefined = ~np.isfinite(x)
            self._flag("undefined-integer", np.count_nonzero(undefined))
            clean = np.where(undefined, 0.0, x)
            if np.any(np.abs(clean) > _LIMIT):
                raise IntegerOverflow("a float beyond 2**62 converted to an integer")
            below, above, neither = self.undefined
            whole = np.asarray(clean, dtype=np.int64)
            return np.select([x == -np.inf, x == np.inf, np.isnan(x)], [below, above, neither], whole)
        if source is Kind.INT and target is Kind.FLOAT and _magnitude(x) > _EXACT:
            self._flag("inexact", np.count_nonzero((x > _EXACT) | (x < -_EXACT)))
        return np.asarray(x, dtype=_DTYPE[target])

    def add(self, x: Array, y: Array) -> Array:
        x, y = _numbers(x), _numbers(y)
        if _integral(x, y) and _magnitude(x) + _magnitude(y) > _LIMIT:
            return _exactly(x.astype(object) + y.astype(object))
        with self._quiet():
            return np.asarray(x + y)

    def mul(self, x: Array, y: Array) -> Array:
        x, y = _numbers(x), _numbers(y)
        if _integral(x, y) and _magnitude(x) * _magnitude(y) > _LIMIT:
            return _exactly(x.astype(object) * y.astype(object))
        with self._quiet():
            return np.asarray(x * y)

    def power(self, x: Array, exponent: Fraction) -> Array:
        x = _numbers(x)
        if x.dtype == np.int64:
            if exponent.denominator != 1 or exponent < 0:
                raise Unsupported(f"integers to the power {exponent}")
            if _magnitude(x) ** int(exponent) > _LIMIT:
                return _exactly(x.astype(object) ** int(exponent))
            return np.asarray(x ** int(exponent))
        with self._quiet():
            value = np.power(x, int(exponent) if exponent.denominator == 1 else float(exponent))
            if exponent.denominator != 1:
                value = np.where(x < 0, np.nan, value)  # numpy: (-inf) ** 0.5 is inf
            return np.asarray(np.where(np.isnan(x), np.nan, value))  # numpy: nan ** 0 is 1

    def exp(self, x: Array) -> Array:
        with self._quiet():
            return np.asarray(np.exp(x))

    def log(self, x: Array) -> Array:
        """``log(0)`` is -inf, the limit; the logarithm of a negative is NaN."""
        with self._quiet():
            return np.asarray(np.log(x))

    def function(self, name: str, xs: Sequence[Array]) -> Array:
        known = FUNCTIONS[name]
        operands = [_numbers(x) for x in xs]
        if known.fixes_integers and _integral(*operands):
            return operands[0]
        if name in FITTING:
            low, high = FITTING[name]
            self._flag("unfit", np.count_nonzero((operands[0] < low) | (operands[0] > high)))
        if name in ("floor_divide", "integer_pow") and _integral(*operands):
            return self._of_integers(name, *operands)
        with self._quiet():
            return np.asarray(known.evaluate(*operands))

    def truncated_quotient(self, x: Array, y: Array) -> Array | None:
        """``x / y`` of integers towards 0: 49 * (1 / 49) is less than 1 in float64."""
        if not _integral(x, y):
            return None
        divisor = np.where(y == 0, 1, y)
        return np.asarray(np.sign(x) * np.sign(divisor) * (np.abs(x) // np.abs(divisor)))

    def _of_integers(self, name: str, x: Array, y: Array) -> Array:
        """Quotients of integers, flagged where the divisor is zero, and powers."""
        if name == "floor_divide":
            undefined = y == 0
            self._flag("zero-divisor", np.count_nonzero(undefined))
            return np.where(undefined, 0, x // np.where(undefined, 1, y))
        most = _magnitude(np.maximum(y, 0))
        if _magnitude(x) > 1 and most * _magnitude(x).bit_length() > _LIMIT.bit_length():
            if most > _LIMIT.bit_length():
                raise IntegerOverflow("an integer power beyond 2**62")
            _exactly(x.astype(object) ** np.maximum(y, 0).astype(object))
        return np.asarray(FUNCTIONS[name].evaluate(x, y))

    def less(self, x: Array, y: Array) -> Array:
        self._undefined_comparison(x, y)
        return np.asarray(np.less(x, y))

    def equal(self, x: Array, y: Array) -> Array:
        self._undefined_comparison(x, y)
        return np.asarray(np.equal(x, y))

    def _undefined_comparison(self, x: Array, y: Array) -> None:
        if not _integral(x, y):
            self._flag("undefined-comparison", np.count_nonzero(np.isnan(x) | np.isnan(y)))

    def maximum(self, x: Array, y: Array) -> Array:
        return np.asarray(np.maximum(x, y))

    def where(self, condition: Array, x: Array, y: Array) -> Array:
        return np.where(np.asarray(condition, dtype=np.bool_), x, y)

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[Array, tuple[int, ...]]], result: tuple[int, ...]) -> Array:
        sizes = {label: size for x, labels in operands for label, size in zip(labels, x.shape, strict=True)}
        if len(sizes) > _LABELS:
            raise Unsupported(f"a contraction with {len(sizes)} labels (the reference interpreter has {_LABELS})")
        number = {label: k for k, label in enumerate(sizes)}
        xs = [_numbers(x) for x, _ in operands]
        summed = prod(size for label, size in sizes.items() if label not in result)
        if _integral(*xs) and prod(map(_magnitude, xs)) * summed > _LIMIT:
            xs = [x.astype(object) for x in xs]
        interleaved: list[Any] = []
        for x, (_, labels) in zip(xs, operands, strict=True):
            interleaved += [x, [number[label] for label in labels]]
        several = len(xs) > 2 or (len(xs) == 2 and prod(sizes.values()) > 100_000)
        # NumPy's own limit, the largest operand or result, would have most products of more than two done in one loop
        optimize = ("greedy", _INTERMEDIATE) if several else False
        with self._quiet():
            value = np.asarray(np.einsum(*interleaved, [number[label] for label in result], optimize=optimize))
        if value.dtype == object:
            return _exactly(value)
        if not np.isfinite(value).all() and all(np.isfinite(x).all() for x in xs):
            self.left_range.add("overflow")  # einsum does not report it
        return value

    def contract_chosen(
        self, operands: Sequence[tuple[Array, tuple[int, ...]]], result: tuple[int, ...], choices: int
    ) -> Array:
        """Reads nothing for which a choice is 0."""
        value = self.contract(operands, result)
        data, guards = operands[:-choices], operands[-choices:]
        if all(np.isfinite(x).all() for x, _ in data):
            return value
        numbers = self.contract([*((np.where(np.isfinite(x), x, 0), at) for x, at in data), *guards], result)
        read = np.zeros(value.shape)
        for k, (x, _) in enumerate(data):
            ones = [(np.ones(y.shape) if j != k else 1.0 - np.isfinite(x), at) for j, (y, at) in enumerate(data)]
            read += self.contract([*ones, *guards], result)
        return np.where(read > 0, value, numbers)

    def contract_nonzero(self, operands: Sequence[tuple[Array, tuple[int, ...]]], result: tuple[int, ...]) -> Array:
        """Reads nothing of which the weight is 0, up to the rounding of the weights."""
        *data, (weights, at) = operands
        nonzero = np.abs(weights) > _NO_WEIGHT
        chosen = [*data, (np.where(nonzero, weights, 0.0), at), (nonzero.astype(weights.dtype), at)]
        return self.doubted(self.contract_chosen(chosen, result, 1), Doubt.VALUE)

    def from_start(self, x: Array, given: bool) -> bool:
        if given:
            self._flag("from-end", np.count_nonzero(x < 0))
        return False

    def doubted(self, x: Array, doubt: Doubt) -> Array:
        if x.dtype.kind == "f":
            where = {Doubt.VALUE: ~np.isfinite(x), Doubt.PLUS: np.isposinf(x), Doubt.WHICH: np.isinf(x)}[doubt]
            self._flag("doubtful", np.count_nonzero(where))
        return x

    def maximum_over(self, x: Array, dims: tuple[int, ...]) -> Array:
        return np.asarray(np.max(x, axis=dims))

    def gather(self, x: Array, indices: Sequence[Array | None]) -> Array:
        source, chosen, outside, _ = self._indexed(x, indices)
        rest = source.shape[len(chosen) :]
        if 0 in source.shape[: len(chosen)]:
            value = np.zeros(outside.shape + rest, dtype=x.dtype)
        else:
            value = source[tuple(chosen)]
        lost = outside.reshape(outside.shape + (1,) * len(rest))
        blank = np.asarray(np.nan if x.dtype.kind in "fc" else 0, dtype=x.dtype)
        return np.where(lost, blank, value) if outside.any() else np.asarray(value)

    def scatter(self, x: Array, indices: Sequence[Array | None], source: Array, accumulate: bool) -> Array:
        moved, chosen, outside, order = self._indexed(x, indices)
        inside = ~outside
        target = np.array(moved)
        flat = tuple(index[inside] for index in chosen)
        written = np.asarray(source)[inside]
        if accumulate:
            if _integral(target) and _magnitude(target) + _magnitude(written) * max(1, len(written)) > _LIMIT:
                raise IntegerOverflow("an accumulating write of integers beyond 2**62")
            with self._quiet():
                np.add.at(target, flat, written)
        else:
            target[flat] = written
            lost = np.zeros(target.shape, dtype=np.bool_)  # where another value than the one that stays was written
            stays = target[flat]
            same = (stays == written) | ((stays != stays) & (written != written))  # two NaN are one value
            np.logical_or.at(lost, flat, ~same)
            self._flag("double-write", np.count_nonzero(lost))
            if target.dtype.kind in "fc":
                target[lost] = np.nan
        return np.transpose(target, np.argsort(order))

    def _indexed(self, x: Array, indices: Sequence[Array | None]) -> tuple[Array, list[Array], Array, tuple[int, ...]]:
        """x with its indexed dimensions in front, the indices clipped, where they were out of range, and the order."""
        positions = [k for k, index in enumerate(indices) if index is not None]
        order = (*positions, *(k for k, index in enumerate(indices) if index is None))
        chosen = [np.asarray(index) for index in indices if index is not None]
        outside = np.zeros(chosen[0].shape, dtype=np.bool_)
        clipped: list[Array] = []
        for k, index in zip(positions, chosen, strict=True):
            outside |= (index < 0) | (index >= x.shape[k])
            clipped.append(np.clip(index, 0, max(x.shape[k] - 1, 0)))
        self._flag("out-of-range", np.count_nonzero(outside))
        return np.transpose(x, order), clipped, outside, order

    def rows(
        self, name: str, xs: Sequence[Array], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[Array, ...]:
        operands = [_numbers(x) for x in xs]
        if name in POSITIONS_IN_A_ROW:  # an order compares elements
            self._undefined_comparison(*operands[:1] * 2)
        if name in CHOOSING:
            self._flag("tie", tied_rows(name, operands[0], attributes))
        with self._quiet():
            values = evaluate_rows(name, operands, attributes, results, self.ties)
        found = tuple(np.asarray(value) for value in values)
        wanted = [(*xs[0].shape[:-1], size) for size in results]
        if [value.shape for value in found] != wanted:
            raise InternalError(
                f"row function {name}: results of shape {[value.shape for value in found]}, declared {wanted}"
            )
        return found

    # -- what data decide
    def nonzero(self, x: Array) -> Array:
        return np.argwhere(x).astype(np.int64)

    def number(self, x: Array) -> Number:
        return x.item()

    # -- process groups: this rank alone; ops.execute.run_ranks does the lock step
    def enter_group(self, x: Array, shape: Shape, group: str) -> tuple[Interpretation, Array]:
        return self, x[np.newaxis]

    def leave_group(self, y: Array, shape: Shape, group: str) -> Array:
        return y[0]


# ---------------------------------------------------------------------------------------------- numbers
def fresh(seed: Sequence[int], shape: Shape, dtype: DType) -> Array:
    """Random numbers of a type, that of memory that nobody wrote say; the same for the same ``seed``."""
    generator = np.random.default_rng(list(seed))
    if dtype.kind is Kind.BOOL:
        return np.asarray(generator.integers(0, 2, shape), dtype=np.bool_)
    if dtype.kind is Kind.INT:
        return np.asarray(generator.integers(0, 100, shape), dtype=np.int64)
    return np.asarray(generator.standard_normal(shape))


def _table(data: Sequence[Number], shape: Shape, kind: Kind) -> Array:
    convert: Callable[[Any], Any] = bool if kind is Kind.BOOL else int if kind is Kind.INT else float
    try:
        return np.array([convert(item) for item in data], dtype=_DTYPE[kind]).reshape(shape)
    except OverflowError:
        raise IntegerOverflow("a constant beyond 64 bits") from None


def _numbers(x: Array) -> Array:
    """Booleans as integers: logic is arithmetic on 0 and 1 here."""
    return np.asarray(x, dtype=np.int64) if x.dtype == np.bool_ else x


def _integral(*xs: Array) -> bool:
    return all(x.dtype.kind in "ib" for x in xs)


def _magnitude(x: Array) -> int:
    """The largest absolute value of integers, as an unbounded integer."""
    return max(int(x.max()), -int(x.min())) if x.size else 0


def _exactly(value: Any) -> Array:
    """Unbounded integers back to int64."""
    found = np.asarray(value, dtype=object)
    if any(abs(item) > _LIMIT for item in found.flat):
        raise IntegerOverflow("an integer result beyond 2**62")
    return np.asarray(found, dtype=np.int64)
