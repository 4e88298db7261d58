"""An interpretation that records what a definition does with its operands, instead of computing it.

A :class:`~tantamount.ops.record.Recorded` value says of a tensor how it came about: of which operands' elements it
consists, as which polynomial in them, growing or falling with which, between which bounds. Every rule is a statement
that holds for all values of the operands over the reals; where none is known, the record says less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf, prod
from typing import Any

from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Interpretation, Number, PerRank, Scalar
from tantamount.ops.functions import FUNCTIONS
from tantamount.ops.record import (
    HIDDEN,
    MAX_FACTORS,
    Bound,
    Recorded,
    Terms,
    blurred,
    hidden,
    no_axes,
    product_of,
    product_of_terms,
    sign_of,
    signs_of,
    sum_of,
    sum_of_terms,
)

__all__ = ["Recorder"]

_OPPOSITE = {
    "below": "at least", "at least": "below", "above": "at most", "at most": "above",
    "equal": "unequal", "unequal": "equal",
}  # fmt: skip


class Recorder(Interpretation):
    """Records one call of a definition. ``random`` is true once it asked for what nothing decides."""

    def __init__(self) -> None:
        self.random = False
        self._numbers: dict[object, int] = {}
        self._made: dict[int, tuple[str, tuple[Any, ...]]] = {}  # what the value of a key is, for its simplification

    def _key(self, op: str, *parts: Any) -> int:
        number = self._numbers.setdefault((op, parts), len(self._numbers))
        self._made.setdefault(number, (op, parts))
        return number

    # ------------------------------------------------------------------ sources
    def leaf(self, name: str, shape: Shape, kind: Kind) -> Recorded:
        """An operand of the call."""
        whole = kind in (Kind.BOOL, Kind.INT)
        bounds = (0, 1) if kind is Kind.BOOL else (-inf, inf)
        axes = None if kind is Kind.COMPLEX else tuple(reversed(range(len(shape))))
        return Recorded(
            self._key("leaf", name), shape, {(name,): Fraction(1)}, frozenset((name,)), axes=axes, signs={name: 1},
            low=bounds[0], high=bounds[1], whole=whole, uniform=prod(shape) == 1,
        )  # fmt: skip

    def item(self, x: Recorded, number: int) -> Recorded:
        """One of several operands that share a name."""
        return replace(x, key=self._key("item", x.key, number))

    def _constant(self, key: int, shape: Shape, value: Fraction | None, **more: Any) -> Recorded:
        terms: Terms = {} if value == 0 else {(): value}
        return Recorded(key, shape, terms, frozenset(), axes=(None,) * len(shape), **more)

    def constant(self, value: Scalar, kind: Kind) -> Recorded:
        whole = kind is not Kind.FLOAT
        if isinstance(value, PerRank):
            return self._constant(self._key("ranks", repr(value)), (), None, whole=whole, uniform=True)
        try:
            exact = Fraction(value)
        except OverflowError:  # an infinity
            bound = float(value)
            return self._constant(self._key("number", value), (), None, low=bound, high=bound, uniform=True)
        except (TypeError, ValueError):  # a size that is no number
            return self._constant(self._key("size", repr(value)), (), None, whole=whole, uniform=True)
        return self._constant(
            self._key("number", exact), (), exact, low=exact, high=exact, whole=exact.denominator == 1, uniform=True
        )

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> Recorded:
        if len(set(data)) == 1:
            return replace(self.constant(data[0], kind), shape=shape, axes=(None,) * len(shape))
        low, high = min(data, default=0), max(data, default=0)
        key = self._key("table", data, shape)
        return self._constant(key, shape, None, positional=True, low=low, high=high, whole=kind is not Kind.FLOAT)

    def iota(self, size: int) -> Recorded:
        more: dict[str, Any] = {"positional": True, "low": 0, "high": max(size - 1, 0), "whole": True}
        return self._constant(self._key("iota", size), (size,), None, consecutive=True, uniform=size == 1, **more)

    def unknown(self, shape: Shape, dtype: DType, site: str) -> Recorded:
        self.random = True
        bounds = (0, 1) if dtype.kind is Kind.BOOL else (-inf, inf)
        key = self._key("unknown", len(self._numbers))
        return self._constant(key, shape, None, positional=True, low=bounds[0], high=bounds[1])

    def mask(self, like: Recorded, shape: Shape, p: Number, site: str) -> Recorded:
        return replace(self.unknown(shape, DType.BOOL, site), whole=True)

    # ------------------------------------------------------------------ layout
    def _moved(self, x: Recorded, move: str, key: int, shape: Shape, **more: Any) -> Recorded:
        kept: dict[str, Any] = {"axes": None, "consecutive": False, **more}
        return replace(x, key=key, shape=shape, moves=x.moves | {move}, **kept)

    def _constant_key(self, x: Recorded, key: int) -> int:
        """Uniform constants have one key in all shapes."""
        return x.key if x.uniform and not x.leaves else key

    def permute(self, x: Recorded, order: tuple[int, ...]) -> Recorded:
        op, parts = self._made[x.key]
        inner = x.key
        if op == "permute":
            inner, before = parts
            order_ = tuple(before[k] for k in order)
        else:
            order_ = order
        key = inner if order_ == tuple(range(len(order_))) else self._key("permute", inner, order_)
        shape = tuple(x.shape[k] for k in order)
        axes = None if x.axes is None else tuple(x.axes[k] for k in order)
        return self._moved(x, "permute", self._constant_key(x, key), shape, axes=axes, consecutive=x.consecutive)

    def reshape(self, x: Recorded, shape: Shape) -> Recorded:
        op, parts = self._made[x.key]
        inner, original = (parts[0], parts[1]) if op == "reshape" else (x.key, x.shape)
        key = inner if original == shape else self._key("reshape", inner, original, shape)
        squeezed = [size for size in x.shape if size != 1] == [size for size in shape if size != 1]
        if not squeezed:
            return self._moved(x, "reshape", self._constant_key(x, key), shape, axes=no_axes(x, shape))
        axes: tuple[int | None, ...] | None = None
        if x.axes is not None:
            rest = iter([axis for axis, size in zip(x.axes, x.shape, strict=True) if size != 1])
            axes = tuple(None if size == 1 else next(rest) for size in shape)
        return self._moved(x, "squeeze", self._constant_key(x, key), shape, axes=axes, consecutive=x.consecutive)

    def expand(self, x: Recorded, shape: Shape) -> Recorded:
        axes = x.axes
        if axes is not None:
            axes = tuple(None if old == 1 != new else axis for axis, old, new in zip(axes, x.shape, shape, strict=True))
        key = self._constant_key(x, self._key("expand", x.key, x.shape, shape))
        return self._moved(x, "expand", key, shape, axes=axes, consecutive=x.consecutive)

    def slice(self, x: Recorded, dim: int, start: int, stop: int, step: int) -> Recorded:
        length = -(-(stop - start) // step)
        shape = (*x.shape[:dim], length, *x.shape[dim + 1 :])
        key = self._constant_key(x, self._key("slice", x.key, x.shape, dim, start, stop, step))
        axes = no_axes(x, shape)
        uniform = x.uniform or prod(shape) == 1
        move = "slice" if step == 1 or length == 1 else "stride"
        return self._moved(
            x, move, key, shape, axes=axes, uniform=uniform, positional=False if uniform else x.positional
        )

    def flip(self, x: Recorded, dim: int) -> Recorded:
        key = self._constant_key(x, self._key("flip", x.key, dim))
        return self._moved(x, "flip", key, x.shape, axes=no_axes(x, x.shape))

    def concat(self, xs: Sequence[Recorded], dim: int) -> Recorded:
        first = xs[0]
        shape = (*first.shape[:dim], sum(x.shape[dim] for x in xs), *first.shape[dim + 1 :])
        terms = sum_of_terms([blurred(x.terms) for x in xs])
        same = all(x.reduction == first.reduction for x in xs)
        move = "stack" if all(x.shape[dim] == 1 for x in xs) else "concat"
        return replace(
            self._joined(self._key("concat", dim, *((x.key, x.shape) for x in xs)), shape, xs, move),
            terms=terms if terms is not None else hidden(*xs),
            reduction=first.reduction if same else "",
        )

    def _joined(
        self, key: int, shape: Shape, xs: Sequence[Recorded], move: str, deciders: Sequence[Recorded] = ()
    ) -> Recorded:
        """Elements of several values and no others; which, depends on ``deciders``."""
        moved: frozenset[str] | None = frozenset()
        for x in xs:
            moved = None if moved is None or x.moved is None else moved | x.moved
        chosen = frozenset[str]().union(*(x.leaves for x in deciders), *(x.deciders for x in xs))
        signs = signs_of(*((x, 1) for x in xs), *((x, 0) for x in deciders))
        moves = frozenset({move}).union(*(x.moves for x in (*xs, *deciders)))
        low, high = min(x.low for x in xs), max(x.high for x in xs)
        whole = all(x.whole for x in xs)
        return Recorded(
            key, shape, {}, moved, moves, chosen, None, True, signs, low, high, whole,
        )  # fmt: skip

    # ------------------------------------------------------------------ pointwise
    def _pointwise(self, key: int, terms: Terms | None, *xs: Recorded, **more: Any) -> Recorded:
        nowhere: list[int | None] = [None] * len(xs[0].shape)
        axes: list[int | None] | None = nowhere
        for x in xs:
            for k, axis in enumerate(x.axes if x.axes is not None else ()):
                if axes is not None and axis is not None:
                    if axes[k] not in (None, axis):
                        axes = None
                        break
                    axes[k] = axis
            if x.axes is None:
                axes = None
        kept: dict[str, Any] = {
            "moves": frozenset[str]().union(*(x.moves for x in xs)),
            "positional": any(x.positional for x in xs),
            "uniform": all(x.uniform for x in xs),
            **more,
        }
        terms = terms if terms is not None else hidden(*xs)
        deciders = frozenset[str]().union(*(x.deciders for x in xs))
        return Recorded(
            key, xs[0].shape, terms, None, deciders=deciders, axes=None if axes is None else tuple(axes), **kept
        )

    def convert(self, x: Recorded, source: Kind, target: Kind) -> Recorded:
        return x

    def add(self, x: Recorded, y: Recorded) -> Recorded:
        for a, b in ((x, y), (y, x)):
            if a.number == 0:
                return self._like(b, a)
        if self._opposite(x, y):
            return self._as_number(self._pointwise(x.key, {}, x, y, uniform=True))
        low, high = sorted((x.key, y.key))
        found = self._pointwise(
            self._key("add", low, high), sum_of_terms([x.terms, y.terms]), x, y, signs=signs_of((x, 1), (y, 1)),
            low=sum_of(x.low, y.low), high=sum_of(x.high, y.high), whole=x.whole and y.whole,
            consecutive=(x.consecutive and y.uniform) or (y.consecutive and x.uniform),
        )  # fmt: skip
        for a, b in ((x, y), (y, x)):
            if a.number == 1 and b.comparison.startswith("-"):
                found = replace(found, comparison=_OPPOSITE[b.comparison[1:]])
        return self._as_number(found)

    def _opposite(self, x: Recorded, y: Recorded) -> bool:
        """True if one is -1 times the other."""
        return any(self._made[a.key] == ("scaled", (b.key, Fraction(-1))) for a, b in ((x, y), (y, x)))

    def _like(self, x: Recorded, other: Recorded) -> Recorded:
        """x, which a number that changes nothing was combined with."""
        return replace(x, moves=x.moves | other.moves)

    def _as_number(self, x: Recorded) -> Recorded:
        """x with the key of a number if it is one."""
        value = x.number
        if value is None:
            return x
        made = self.constant(value, Kind.INT if value.denominator == 1 else Kind.FLOAT)
        return replace(x, key=made.key, low=value, high=value, whole=made.whole, moved=frozenset(), positional=False)

    def mul(self, x: Recorded, y: Recorded) -> Recorded:
        for a, b in ((x, y), (y, x)):
            if a.number is not None and b.number is None:
                return self._scaled(b, a)
        corners = [product_of(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
        low, high = sorted((x.key, y.key))
        if x.key == y.key:
            corners = [max(min(corners), Fraction(0)), max(corners)]
        reduction = x.reduction if x.reduction and y.reduction == "reciprocal" else ""
        reduction = reduction or (y.reduction if y.reduction and x.reduction == "reciprocal" else "")
        signs = signs_of((x, sign_of(y)), (y, sign_of(x)))
        return self._as_number(
            self._pointwise(
                self._key("mul", low, high), product_of_terms(x.terms, y.terms), x, y, signs=signs,
                low=min(corners), high=max(corners), whole=x.whole and y.whole,
                reduction={"sum": "mean"}.get(reduction, reduction) if reduction != "reciprocal" else "",
            )
        )  # fmt: skip

    def _scaled(self, x: Recorded, by: Recorded) -> Recorded:
        """x times a number."""
        factor = by.number
        if factor is None or factor == 1:
            return self._like(x, by)
        if factor == 0:
            return replace(self._pointwise(self.constant(0, Kind.INT).key, {}, x, by), uniform=True, low=0, high=0)
        op, parts = self._made[x.key]
        inner, total = (parts[0], parts[1] * factor) if op == "scaled" else (x.key, factor)
        reduction, comparison = x.reduction, ""
        if reduction == "sum" and abs(factor) * x.count == 1:
            reduction = "mean"
        elif factor < 0:
            reduction = {"max": "min", "min": "max"}.get(reduction, reduction)
        if factor == -1 and x.comparison:
            comparison = "-" + x.comparison
        bounds = sorted((product_of(x.low, factor), product_of(x.high, factor)))
        return self._pointwise(
            inner if total == 1 else self._key("scaled", inner, total),
            product_of_terms(x.terms, {(): factor}), x, by, signs=signs_of((x, 1 if factor > 0 else -1)),
            low=bounds[0], high=bounds[1], whole=x.whole and factor.denominator == 1,
            reduction=reduction, count=x.count, comparison=comparison,
        )  # fmt: skip

    def power(self, x: Recorded, exponent: Fraction) -> Recorded:
        if exponent == 1:
            return x
        value = x.number
        if value is not None and exponent.denominator == 1 and (value or exponent >= 0) and abs(exponent) <= 64:
            constant: Terms = {(): Fraction(value**exponent)} if value or not exponent else {}
            made = self._pointwise(x.key, constant, x, uniform=True)
            return self._as_number(made)
        even = exponent.denominator == 1 and exponent % 2 == 0
        odd = exponent.denominator == 1 and exponent % 2 == 1
        positive = x.low >= 0 or exponent.denominator > 1  # its domain
        sign = 0
        if exponent > 0 and (odd or positive):
            sign = 1
        elif exponent < 0 and (x.low >= 0 or exponent.denominator > 1):
            sign = -1
        terms: Terms | None = None
        if exponent.denominator == 1 and 0 < exponent <= MAX_FACTORS:
            terms = {(): Fraction(1)}
            for _ in range(int(exponent)):
                terms = None if terms is None else product_of_terms(terms, x.terms)
        reduction = "reciprocal" if exponent < 0 and x.reduction in ("sum", "mean") else ""
        if exponent == Fraction(1, 2) and x.reduction in ("sum", "mean"):
            reduction = "norm"
        plain = self._made[x.key][0] == "leaf"
        low = Fraction(0) if even or positive else -inf
        high: Bound = inf
        if exponent < 0 and x.low > 0 and x.low != inf and exponent == -1:
            high = 1 / Fraction(x.low)
        return self._pointwise(
            self._key("power", x.key, exponent), terms, x, signs=signs_of((x, sign)), low=low, high=high,
            whole=x.whole and terms is not None, reduction=reduction, exponent=exponent if plain else None,
        )  # fmt: skip

    def exp(self, x: Recorded) -> Recorded:
        high = Fraction(1) if x.high <= 0 else inf
        return self._pointwise(self._key("exp", x.key), None, x, signs=signs_of((x, 1)), low=Fraction(0), high=high)

    def log(self, x: Recorded) -> Recorded:
        low = Fraction(0) if x.low >= 1 else -inf
        return self._pointwise(self._key("log", x.key), None, x, signs=signs_of((x, 1)), low=low)

    def function(self, name: str, xs: Sequence[Recorded]) -> Recorded:
        facts = FUNCTIONS[name]
        x = xs[0]
        if facts.fixes_integers and x.whole:
            return x
        if name == "abs" and x.low >= 0:
            return x
        keys = [y.key for y in xs]
        if facts.commutative:
            keys.sort()
        if name == "sign" and self._made[x.key][0] == "sign":
            return x
        sign = 1 if facts.growing else 0
        if name == "abs" and x.high <= 0:
            sign = -1
        bounds = (-1, 1) if name in ("tanh", "erf", "sign", "sin", "cos") else (0 if facts.nonnegative else -inf, inf)
        terms = None
        if name == "pi_times":
            bounds, terms = (0 if x.low >= 0 else -inf, 0 if x.high <= 0 else inf), blurred(x.terms)
        elif facts.growing and facts.at_zero == 0:
            bounds = (max(bounds[0], 0) if x.low >= 0 else bounds[0], min(bounds[1], 0) if x.high <= 0 else bounds[1])
        return self._pointwise(
            self._key(name, *keys), terms, *xs, signs=signs_of(*((y, sign) for y in xs)), low=bounds[0], high=bounds[1],
            whole=facts.integer,
        )  # fmt: skip

    def less(self, x: Recorded, y: Recorded) -> Recorded:
        return self._compared("less", x, y, ("below", "above"), signs_of((x, -1), (y, 1)))

    def equal(self, x: Recorded, y: Recorded) -> Recorded:
        low, high = sorted((x, y), key=lambda one: one.key)
        return self._compared("equal", low, high, ("equal", "equal"), signs_of((x, 0), (y, 0)))

    def _compared(
        self, op: str, x: Recorded, y: Recorded, words: tuple[str, str], signs: Mapping[str, int]
    ) -> Recorded:
        """``words``: of the first operand of the call, where it is on the left, and on the right."""
        first = [self._made[one.key] for one in (x, y)]
        word = ""
        if all(op_ in ("leaf", "number") for op_, _ in first):
            ours = x.leaves and (not y.leaves or x.key < y.key)
            word = words[0] if ours else words[1]
        return self._pointwise(
            self._key(op, x.key, y.key), None, x, y, signs=signs, low=0, high=1, whole=True, comparison=word
        )

    def maximum(self, x: Recorded, y: Recorded) -> Recorded:
        for a, b in ((x, y), (y, x)):
            if a.low >= b.high or a.key == b.key:
                return self._like(a, b)
        parts = sorted({*self._of_maximum(x), *self._of_maximum(y)})
        return self._pointwise(
            self._key("maximum", *parts), None, x, y, signs=signs_of((x, 1), (y, 1)),
            low=Fraction(0) if self._opposite(x, y) else max(x.low, y.low), high=max(x.high, y.high),
            whole=x.whole and y.whole,
        )  # fmt: skip

    def _of_maximum(self, x: Recorded) -> tuple[int, ...]:
        op, parts = self._made[x.key]
        return parts if op == "maximum" else (x.key,)

    def where(self, condition: Recorded, x: Recorded, y: Recorded) -> Recorded:
        chosen = condition.number
        if chosen is not None:
            return self._like(x if chosen else y, condition)
        if x.key == y.key:
            return self._like(x, condition)
        a, b = x.key, y.key
        for k, side in enumerate((x, y)):  # a choice by the same condition inside
            op, parts = self._made[side.key]
            if op == "where" and parts[0] == condition.key:
                a, b = (parts[1], b) if k == 0 else (a, parts[2])
        gate: Terms = {tuple(HIDDEN + name for name in sorted(condition.leaves)): None}  # c x + (1 - c) y
        either = sum_of_terms([blurred(x.terms), blurred(y.terms)])
        terms = None if either is None else product_of_terms(gate, either)
        made = self._pointwise(
            self._key("where", condition.key, a, b), terms, condition, x, y,
            signs=signs_of((x, 1), (y, 1), (condition, 0)), low=min(x.low, y.low), high=max(x.high, y.high),
            whole=x.whole and y.whole,
        )  # fmt: skip
        joined = self._joined(made.key, x.shape, (x, y), "choose", (condition,))
        return replace(made, moved=joined.moved, moves=joined.moves, deciders=joined.deciders)

    # ------------------------------------------------------------------ contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[Recorded, tuple[int, ...]]], result: tuple[int, ...]) -> Recorded:
        sizes = {label: size for x, labels in operands for label, size in zip(labels, x.shape, strict=True)}
        shape = tuple(sizes[label] for label in result)
        xs = [x for x, _ in operands]
        summed = [label for label in sizes if label not in result]
        key = self._key("contract", *min(_numbered(operands, result), _numbered(operands[::-1], result)))
        if len(operands) == 1:
            x, labels = operands[0]
            if not summed and len(set(labels)) == len(labels):
                return self.permute(x, tuple(labels.index(label) for label in result))
            if not summed:
                return self._moved(x, "diagonal", key, shape)
            if len(set(labels)) == len(labels) and all(sizes[label] == 1 for label in summed):
                kept = self.permute(x, (*(labels.index(n) for n in result), *(labels.index(n) for n in summed)))
                return replace(self.reshape(kept, shape), reduction="sum", count=1)
        count = prod(sizes[label] for label in summed)
        terms: Terms | None = {(): Fraction(1)}
        for x in xs:
            terms = None if terms is None else product_of_terms(terms, blurred(x.terms))
        low, high = xs[0].low, xs[0].high
        for x in xs[1:]:
            corners = [product_of(a, b) for a in (low, high) for b in (x.low, x.high)]
            low, high = min(corners), max(corners)
        signs = [(x, 1 if all(y.low >= 0 for y in xs if y is not x) else 0) for x in xs]
        return Recorded(
            key, shape, terms if terms is not None else hidden(*xs),
            moves=frozenset[str]().union(*(x.moves for x in xs)), positional=any(x.positional for x in xs),
            deciders=frozenset[str]().union(*(x.deciders for x in xs)), signs=signs_of(*signs),
            low=product_of(low, count), high=product_of(high, count), whole=all(x.whole for x in xs),
            uniform=prod(shape) == 1, reduction="sum" if summed and len(xs) == 1 else "", count=count,
        )  # fmt: skip

    def maximum_over(self, x: Recorded, dims: tuple[int, ...]) -> Recorded:
        shape = tuple(size for k, size in enumerate(x.shape) if k not in dims)
        if all(x.shape[k] == 1 for k in dims):
            return replace(self.reshape(x, shape), reduction="max")
        made = self._pointwise(
            self._key("maximum over", x.key, x.shape, dims), None, x, signs=signs_of((x, 1)), low=x.low, high=x.high,
            whole=x.whole, reduction="max",
        )  # fmt: skip
        return replace(made, shape=shape, axes=no_axes(x, shape), uniform=prod(shape) == 1)

    def gather(self, x: Recorded, indices: Sequence[Recorded | None]) -> Recorded:
        chosen = [index for index in indices if index is not None]
        shape = (*chosen[0].shape, *(n for n, index in zip(x.shape, indices, strict=True) if index is None))
        key = self._key("gather", x.key, x.shape, tuple(None if index is None else index.key for index in indices))
        one_block = all(index.consecutive or index.uniform for index in chosen)
        made = self._joined(key, shape, (x,), "slice" if one_block else "gather", chosen)
        return replace(made, terms=self._read(x.terms, chosen, x), reduction=x.reduction, count=x.count)

    def _read(self, terms: Terms, indices: Sequence[Recorded], *xs: Recorded) -> Terms:
        """A polynomial that is read or written at indices."""
        deciders = frozenset[str]().union(*(index.leaves for index in indices))
        gate: Terms = {tuple(HIDDEN + name for name in sorted(deciders)): None}
        found = product_of_terms(blurred(terms), gate)
        return found if found is not None else hidden(*xs, *indices)

    def scatter(self, x: Recorded, indices: Sequence[Recorded | None], source: Recorded, accumulate: bool) -> Recorded:
        chosen = [index for index in indices if index is not None]
        places = tuple(None if index is None else index.key for index in indices)
        key = self._key("scatter", x.key, x.shape, places, source.key, accumulate)
        made = self._joined(key, x.shape, (x, source), "scatter", chosen)
        both = sum_of_terms([blurred(x.terms), blurred(source.terms)])
        terms = hidden(x, source, *chosen) if both is None else self._read(both, chosen, x, source)
        if not accumulate:
            return replace(made, terms=terms)
        return replace(made, terms=terms, moved=None, low=-inf, high=inf)

    def rows(
        self, name: str, xs: Sequence[Recorded], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[Recorded, ...]:
        key = self._key("rows", name, tuple((x.key, x.shape) for x in xs), attributes)
        out: list[Recorded] = []
        for k, size in enumerate(results):
            made = self._pointwise(self._key("row", key, k), None, *xs)
            inside = all(x.shape[-1] == 1 for x in xs) and size == 1 and made.axes is not None
            axes = (*made.axes[:-1], None) if inside and made.axes is not None else None
            out.append(replace(made, shape=(*xs[0].shape[:-1], size), axes=axes, uniform=False))
        return tuple(out)

    # ------------------------------------------------------------------ process groups
    def enter_group(self, x: Recorded, shape: Shape, group: str) -> tuple[Interpretation, Recorded]:
        return self, self.reshape(x, (1, *shape))

    def leave_group(self, y: Recorded, shape: Shape, group: str) -> Recorded:
        return self.reshape(y, shape)


def _numbered(operands: Sequence[tuple[Recorded, tuple[int, ...]]], result: tuple[int, ...]) -> tuple[Any, Any]:
    """Operands and labels of a contraction, the labels numbered as they come."""
    number: dict[int, int] = {}
    terms = tuple(
        (x.key, x.shape, tuple(number.setdefault(label, len(number)) for label in labels)) for x, labels in operands
    )
    return terms, tuple(number[label] for label in result)
