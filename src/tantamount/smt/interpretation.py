"""The primitives of operators over arrays whose elements are exact numbers or terms.

What is concrete stays concrete: masks that are made of positions decide which elements there are. A row function that
nothing is known of is a function of its whole row, and choices among equal elements belong to the operator that chooses
(its name and arguments are attributes), as everywhere in this project.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any, cast

import numpy as np

from tantamount.errors import DataDependent, Unsupported
from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Interpretation, Number, PerRank, Scalar
from tantamount.ops.arrays import Array, ArrayLayout
from tantamount.ops.functions import FITTING, FUNCTIONS, MODULI, POSITIONS_IN_A_ROW, ROW_FUNCTIONS
from tantamount.smt.arithmetic import add, mul, where
from tantamount.smt.functions import equal, exp, less, log, maximum, power
from tantamount.smt.terms import Condition, Element, Exact, Table, Term, exact_number

__all__ = ["Array", "Elements", "Masks", "array_of"]

Masks = Callable[[int, Array], Array]  # number of the dropout on its rank, what it is of -> the mask


def array_of(values: Sequence[Element], shape: Shape) -> Array:
    """An array with these elements, row-major."""
    out = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):  # not at once: NumPy would look into them
        out[k] = value
    return out.reshape(shape)


class Elements(ArrayLayout):
    """One rank's meaning of the primitives. ``ranges`` are the terms that were used as indices, with the size that they
    index: conditions, on the specification's side assumed, on a rank's to be shown."""

    def __init__(self, table: Table, rank: int, side: str, masks: Masks | None = None) -> None:
        self.terms = table
        self.rank = rank
        self.side = side
        self.masks = masks
        self.ranges: dict[Condition, str] = {}
        self._dropouts = 0
        self._unknowns = 0

    # -- sources
    def constant(self, value: Scalar, kind: Kind) -> Array:
        return array_of([exact_number(value.values[self.rank] if isinstance(value, PerRank) else value)], ())

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> Array:
        return array_of([exact_number(one) for one in data], shape)

    def iota(self, size: int) -> Array:
        return array_of(list(range(size)), (size,))

    def unknown(self, shape: Shape, dtype: DType, site: str) -> Array:
        self._unknowns += 1
        return self._fresh(shape, dtype, ("unknown", self.side, self.rank, site, self._unknowns))

    def uninitialised(self, shape: Shape, dtype: DType, site: str) -> Array:
        """Memory that nobody wrote, which need not hold numbers: undefined, but for integers, which always are some."""
        if dtype.kind is not Kind.FLOAT:
            return self.unknown(shape, dtype, site)
        return array_of([self.terms.undefined() for _ in range(int(np.prod(shape, dtype=np.int64)))], shape)

    def mask(self, like: Array, shape: Shape, p: Number, site: str) -> Array:
        number, self._dropouts = self._dropouts, self._dropouts + 1
        if p in (0, 1):
            return array_of([int(not p)] * like.size, shape)
        if self.masks is None:
            raise Unsupported(f"dropout {site}: masks are compared only where the job says `same mask`")
        return self.masks(number, like)

    def _fresh(self, shape: Shape, dtype: DType, name: tuple[object, ...]) -> Array:
        integer, boolean = dtype.kind is not Kind.FLOAT, dtype.kind is Kind.BOOL
        count = int(np.prod(shape, dtype=np.int64))
        return array_of(
            [self.terms.variable((*name, k), integer=integer, boolean=boolean) for k in range(count)], shape
        )

    def doubted_at_zero(self, x: Array) -> Array:
        """x, if nothing was computed of it, or it is no 0: among the reals a zero has no sign. Raises
        :class:`Unsupported`."""
        if any(one.op != "var" if type(one) is Term else not one for one in x.flat):
            raise Unsupported("the sign of a number that was computed, and may be 0")
        return x

    # -- pointwise
    def _each(self, function: Callable[..., Element], *xs: Array) -> Array:
        """The function of the elements at every place, computed once for equal ones."""
        known: dict[tuple[Element, ...], Element] = {}
        out: list[Element] = []
        for items in zip(*(x.flat for x in xs), strict=True):
            found = known.get(items)
            if found is None:
                found = known[items] = function(*items)
            out.append(found)
        return array_of(out, xs[0].shape)

    def _sum(self, a: Element, b: Element) -> Element:
        return add(self.terms, ((1, a), (1, b)))

    def _product(self, a: Element, b: Element) -> Element:
        return mul(self.terms, (a, b))

    def _greater(self, a: Element, b: Element) -> Element:
        return maximum(self.terms, (a, b))

    def convert(self, x: Array, source: Kind, target: Kind) -> Array:
        if source is Kind.FLOAT and any(type(one) is float for one in x.flat):
            raise Unsupported("an infinity converted to an integer")
        return x

    def add(self, x: Array, y: Array) -> Array:
        return self._each(self._sum, x, y)

    def mul(self, x: Array, y: Array) -> Array:
        return self._each(self._product, x, y)

    def power(self, x: Array, exponent: Fraction) -> Array:
        return self._each(partial(power, self.terms, exponent=exponent), x)

    def exp(self, x: Array) -> Array:
        return self._each(partial(exp, self.terms), x)

    def log(self, x: Array) -> Array:
        return self._each(partial(log, self.terms), x)

    def function(self, name: str, xs: Sequence[Array]) -> Array:
        return self._each(partial(self._function, name), *xs)

    def _function(self, name: str, *xs: Element) -> Element:
        known = FUNCTIONS[name]
        if any(type(x) is float for x in xs):
            raise Unsupported(f"{name} of an infinity")
        if any(type(x) is Term and x.infinite for x in xs):
            raise Unsupported(f"{name} of an infinity under a condition")
        if not any(type(x) is Term for x in xs):
            value = _of_numbers(name, cast("tuple[Exact, ...]", xs))
            if value is not None:
                return value
        (first, *_) = xs
        if known.fixes_integers and len(xs) == 1 and type(first) is Term and first.integer:
            return first
        if name == "isnan" and not (type(first) is Term and first.partial):
            return 0
        return self.terms.make("fn", name, *xs, integer=known.integer, boolean=name == "isnan")

    def less(self, x: Array, y: Array) -> Array:
        return self._each(partial(less, self.terms), x, y)

    def equal(self, x: Array, y: Array) -> Array:
        return self._each(partial(equal, self.terms), x, y)

    def maximum(self, x: Array, y: Array) -> Array:
        return self._each(self._greater, x, y)

    def where(self, condition: Array, x: Array, y: Array) -> Array:
        return self._each(partial(where, self.terms), condition, x, y)

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[Array, tuple[int, ...]]], result: tuple[int, ...]) -> Array:
        sizes = {label: size for x, labels in operands for label, size in zip(labels, x.shape, strict=True)}
        summed = [label for label in sizes if label not in result]
        order = [*result, *summed]
        spread: list[Array] = []
        for x, labels in operands:
            own = list(dict.fromkeys(labels))
            number = {label: k for k, label in enumerate(own)}
            if len(own) < len(labels):  # diagonals
                x = np.einsum(x, [number[label] for label in labels], list(range(len(own))))
            x = np.transpose(x, [number[label] for label in order if label in number])
            x = x.reshape([sizes[label] if label in number else 1 for label in order])
            spread.append(np.broadcast_to(x, [sizes[label] for label in order]))
        lead = tuple(sizes[label] for label in result)
        count = int(np.prod([sizes[label] for label in summed], dtype=np.int64))
        rows = [x.reshape(-1, count) for x in spread]
        known: dict[tuple[Element, ...], Element] = {}
        out: list[Element] = []
        for k in range(int(np.prod(lead, dtype=np.int64))):
            out.append(self._dot([row[k] for row in rows], known))
        return array_of(out, lead)

    def _dot(self, xs: list[Array], known: dict[tuple[Element, ...], Element]) -> Element:
        if len(xs) == 1:
            return add(self.terms, [(1, x) for x in xs[0]])
        products: list[tuple[Exact, Element]] = []
        for items in zip(*xs, strict=True):
            found = known.get(items)
            if found is None:
                found = known[items] = mul(self.terms, items)
            products.append((1, found))
        return add(self.terms, products)

    def maximum_over(self, x: Array, dims: tuple[int, ...]) -> Array:
        kept = [d for d in range(x.ndim) if d not in dims]
        lead = tuple(x.shape[d] for d in kept)
        rows = np.transpose(x, (*kept, *dims)).reshape(*lead, -1) if x.ndim else x.reshape(1)
        flat = rows.reshape(-1, rows.shape[-1])
        return array_of([maximum(self.terms, row) for row in flat], lead)

    def from_start(self, x: Array, given: bool) -> bool:
        return given  # a condition of the specification, an obligation of the implementation

    def gather(self, x: Array, indices: Sequence[Array | None]) -> Array:
        moved, chosen, _ = _indexed(x, indices)
        at = [list(index.flat) for index in chosen]
        rest = moved.shape[len(chosen) :]
        out = np.empty((len(at[0]), *rest), dtype=object)
        for k, place in enumerate(zip(*at, strict=True)):
            found = self._at(moved, place)
            out[k] = found if rest else np.asarray(found, dtype=object).item()
        return out.reshape(chosen[0].shape + rest)

    def _at(self, x: Array, place: tuple[Element, ...]) -> Array:
        """``x[place]``, chosen by comparisons where an index is not known: ``sum over k of [index == k] x[k]``."""
        if not place:
            return x
        here, rest = place[0], place[1:]
        if type(here) is not Term:
            if type(here) is float or not 0 <= here < len(x) or int(here) != here:
                self.terms.lose(self.terms.undefined())  # it fails, whatever becomes of the value
                blank = [self.terms.undefined() for _ in range(int(np.prod(x.shape[len(place) :], dtype=np.int64)))]
                return array_of(blank, x.shape[len(place) :])
            return self._at(np.asarray(x[int(here)], dtype=object), rest)
        self.ranges.setdefault(Condition("range", here, len(x)), "")
        chosen = [equal(self.terms, here, k) for k in range(len(x))]
        parts = [np.asarray(self._at(x[k], rest), dtype=object) for k in range(len(x))]
        if not parts:
            return array_of([], (0,))
        shape = parts[0].shape
        values = [
            add(self.terms, [(1, mul(self.terms, (c, _finite(one)))) for c, one in zip(chosen, column, strict=True)])
            for column in zip(*(part.flat for part in parts), strict=True)
        ]
        return array_of(values, shape)

    def scatter(self, x: Array, indices: Sequence[Array | None], source: Array, accumulate: bool) -> Array:
        moved, chosen, order = _indexed(x, indices)
        out = np.array(moved, dtype=object)
        lead, rest = moved.shape[: len(chosen)], moved.shape[len(chosen) :]
        writes: dict[tuple[int, ...], list[tuple[Element, Array]]] = {}
        values = source.reshape((-1, *rest))
        for k, place in enumerate(zip(*(index.flat for index in chosen), strict=True)):
            for size, one in zip(lead, place, strict=True):
                if type(one) is Term:
                    self.ranges.setdefault(Condition("range", one, size), "")
                elif type(one) is float or not 0 <= one < size:
                    self.terms.lose(self.terms.undefined())
            for target in np.ndindex(*lead):
                hit = mul(self.terms, [equal(self.terms, one, k) for one, k in zip(place, target, strict=True)])
                if type(hit) is Term or hit:
                    writes.setdefault(target, []).append((hit, np.asarray(values[k], dtype=object)))
        for target, found in writes.items():
            if not accumulate and len(found) > 1 and not _apart([hit for hit, _ in found]):
                raise Unsupported("several writes that may meet at one place")
            now = np.asarray(out[target], dtype=object)
            for hit, value in found:
                flat: list[Element] = []
                for old, new in zip(now.flat, value.flat, strict=True):
                    if accumulate:
                        flat.append(add(self.terms, [(1, old), (1, mul(self.terms, (hit, _finite(new))))]))
                    else:
                        flat.append(where(self.terms, hit, new, old))
                now = array_of(flat, now.shape)
            out[target] = now if now.shape else now.item()
        return np.transpose(out, np.argsort(order))

    def rows(
        self, name: str, xs: Sequence[Array], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[Array, ...]:
        lead = xs[0].shape[:-1]
        flat = [x.reshape(-1, x.shape[-1]) for x in xs]
        out: list[list[Element]] = [[] for _ in results]
        for k in range(len(flat[0])):
            row = tuple(tuple(x[k]) for x in flat)
            if any(type(one) is float or (type(one) is Term and one.infinite) for part in row for one in part):
                raise Unsupported(f"{name} of a row with an infinity")
            for j, size in enumerate(results):
                out[j] += self._row(name, repr(attributes), attributes, j, size, row)
        return tuple(array_of(values, (*lead, size)) for values, size in zip(out, results, strict=True))

    def _row(
        self, name: str, key: str, attributes: tuple[Any, ...], j: int, size: int, row: tuple[tuple[Element, ...], ...]
    ) -> list[Element]:
        known = ROW_FUNCTIONS.get(name)
        if (
            known is not None
            and name in POSITIONS_IN_A_ROW
            and len(row) == 1
            and not any(type(x) is Term for x in row[0])
        ):
            distinct = sorted({cast(Exact, x) for x in row[0]})
            if len(distinct) == len(row[0]):  # by their order alone; of equal ones the operator chooses
                order = np.array([distinct.index(cast(Exact, x)) for x in row[0]], dtype=np.float64)
                return [int(i) for i in known(order, attributes)[j][:size]]
        return [
            self.terms.make("row", name, key, j, k, row, attributes, integer=name in POSITIONS_IN_A_ROW)
            for k in range(size)
        ]

    # -- what data decide: known of numbers
    def number(self, x: Array) -> Number:
        found = x.item()
        if type(found) is Term:
            raise DataDependent("a size or an attribute depends on data")
        return found

    # -- process groups: this rank alone; ops.lockstep does the rest
    def enter_group(self, x: Array, shape: Shape, group: str) -> tuple[Interpretation, Array]:
        return self, x[np.newaxis]

    def leave_group(self, y: Array, shape: Shape, group: str) -> Array:
        return y[0, ...]  # an array also of a scalar


def _finite(x: Element) -> Element:
    if type(x) is float or (type(x) is Term and x.infinite):
        raise Unsupported("an infinity at an index that is not known")
    return x


def _indexed(x: Array, indices: Sequence[Array | None]) -> tuple[Array, list[Array], tuple[int, ...]]:
    """x with its indexed dimensions in front, the indices, and the order of dimensions."""
    positions = [k for k, index in enumerate(indices) if index is not None]
    order = (*positions, *(k for k, index in enumerate(indices) if index is None))
    return np.transpose(x, order), [index for index in indices if index is not None], order


def _apart(hits: Sequence[Element]) -> bool:
    """True if no two of some comparisons can hold at once, as ``i == 0`` and ``i == 1``."""
    return all(_excluded(a, b) for a, b in combinations(hits, 2))


def _excluded(a: Element, b: Element) -> bool:
    """True of ``u + c == 0`` and ``u + d == 0`` with different numbers."""
    if not (type(a) is Term and type(b) is Term and a.op == b.op == "zero"):
        return False
    left, right = (_shifted(one.args[0]) for one in (a, b))
    return left[1] == right[1] and left[0] != right[0]


def _shifted(x: Term) -> tuple[Exact, object]:
    return (x.args[0], x.args[1]) if x.op == "sum" else (0, ((x, 1),))


def _of_numbers(name: str, xs: tuple[Exact, ...]) -> Exact | None:
    """The exact value of a function at numbers; ``None`` where it has none, or it is not known here."""
    (x, *more) = xs
    if name in MODULI:
        return int(x % (1 << MODULI[name]))
    if name in FITTING:
        low, high = FITTING[name]
        return x if low <= x <= high else None
    if name == "floor_divide":
        return None if not more[0] else x // more[0]
    if name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        a, b = int(x), int(more[0])
        return a & b if name == "bitwise_and" else a | b if name == "bitwise_or" else a ^ b
    if name in _EXACT and not more:
        return _EXACT[name](x)
    return FUNCTIONS[name].at_zero if not x and not more else None


_EXACT: dict[str, Callable[[Any], Exact]] = {
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "floor": lambda x: x // 1,
    "trunc": int,
    "round": round,
    "isnan": lambda x: 0,
}
