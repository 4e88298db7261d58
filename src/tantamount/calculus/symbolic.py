"""The interpretation of the operator primitives as forms, for one rank or for all ranks of a mesh at once.

With a mesh, every value has one leading dimension per mesh axis (``batch``): what rank (i, j) computes is the form at
mesh coordinate (i, j). A collective moves the axes of its group into the tensor, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isinf, isnan, prod

from tantamount.calculus import (
    comparisons,
    contraction,
    forms,
    index_ranges,
    moduli,
    partial,
    powers,
    quotients,
    writes,
)
from tantamount.calculus.affine import fixed, variable
from tantamount.calculus.atoms import BOOLEAN, Store, ValueFacts
from tantamount.calculus.constants import Reading, reading
from tantamount.calculus.forms import Box, Form, constant_form
from tantamount.calculus.ignored_labels import are_labels
from tantamount.calculus.infinities import infinite_signs, infinity, may_conceal, unbounded
from tantamount.calculus.polynomials import add, affine_polynomial, constant, iota, multiply, scale
from tantamount.calculus.products import is_boolean, is_integer
from tantamount.calculus.records import body
from tantamount.calculus.tables import recorded
from tantamount.calculus.terms import ONE, ZERO, Polynomial, Rational, Term, single, sole_number
from tantamount.calculus.written_conditions import written
from tantamount.errors import Unsupported
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Interpretation, Law, Number, PerRank, Scalar
from tantamount.ops.draws import kept
from tantamount.ops.functions import FITTING, FUNCTIONS, MODULI
from tantamount.sizes.symbolic import is_one, is_size, rational

__all__ = ["Drawn", "Obligation", "Symbolic", "Trace", "facts_of"]


def facts_of(law: Law) -> ValueFacts:
    """The facts that hold of every number that is drawn from a law."""
    if law.name == "kept":
        return BOOLEAN
    if law.name == "below":
        return ValueFacts(nonnegative=True, integer=True, span=(0, int(law.parameter) - 1))
    if law.name == "unit":
        return ValueFacts(nonnegative=True, span=(0, 1), below=True)
    return ValueFacts(law.name == "exponential", law.name in ("exponential", "counts"), law.name == "counts")


_ROUND = 1 << 10  # the largest denominator of round numbers


@dataclass(frozen=True, slots=True)
class Obligation:
    """Something that must hold for the program to be defined: ``kind`` is ``nonzero``, ``positive``, ``nonnegative``,
    ``fits`` (into an integer type with ``size`` numbers), ``index`` (then ``0 <= value < size``) or ``divisor`` (the
    boolean ``value`` says where a whole number is divided by 0), on a box of the axes. The last two stop the whole
    program where they do not hold, whatever becomes of the element."""

    kind: str
    value: Polynomial
    site: str
    size: int = 0
    box: Box = ()


@dataclass
class Trace:
    """The record of one run besides its values: obligations met on the way, in order, and a count of dropouts.

    ``assume_indices``: the indices of this program are taken to be in range (a specification).
    ``readings``: the literals that stand for other numbers. ``indices``: the (value, size, box) of indices that were
    not in range by themselves. ``drawn`` counts what is no function of any operand: fresh tensors, masks; ``draws``
    those from each law. ``paired`` gives the form of a draw that belongs to one of the specification (``None``: it has
    none)."""

    assume_indices: bool = False
    obligations: dict[Obligation, None] = field(default_factory=dict[Obligation, None])
    dropouts: int = 0
    readings: dict[Fraction, Reading] = field(default_factory=dict[Fraction, Reading])
    assumed_indices: list[str] = field(default_factory=list[str])
    indices: dict[tuple[Polynomial, int, Box], None] = field(default_factory=dict[tuple[Polynomial, int, Box], None])
    drawn: int = 0
    draws: dict[Law, int] = field(default_factory=dict[Law, int])
    paired: Callable[[Drawn], Form | None] | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A draw: the ``ordinal``-th from a law (of dropouts: from any), of a tensor of this shape (mesh axes first), drawn
    into the image of ``like``, at a place in the program."""

    law: Law
    ordinal: int
    like: Form | None
    shape: Shape
    site: str


@dataclass(frozen=True)
class Symbolic(Interpretation):
    """Forms over ``store``. ``mesh`` gives the sizes and groups of the folded ranks; ``batch`` the positions of the
    mesh axes that are still leading dimensions. ``rank`` tells apart what is fresh on every rank when ranks are not
    folded."""

    store: Store
    trace: Trace
    mesh: Mesh = Mesh()
    batch: tuple[int, ...] = ()
    rank: str = ""
    site: str = ""

    @property
    def prefix(self) -> Shape:
        return tuple(self.mesh.sizes[k] for k in self.batch)

    # -- sources
    def constant(self, value: Scalar, kind: Kind) -> Form:
        if isinstance(value, PerRank):
            return self._per_rank(value)
        return constant_form(self.prefix, self._number(value))

    def _number(self, value: Number) -> Polynomial:
        if isinstance(value, float):
            if not isinf(value):
                raise Unsupported("a number that is not exact")
            return infinity(self.store, 1 if value > 0 else -1)
        if is_size(value):
            return constant(value)
        number = Fraction(value)
        read = reading(number)
        if read is None:
            return constant(number)
        self.store.fired["rounded-roots"] += 1
        self.trace.readings[number] = read
        return scale(powers.power(self.store, constant(read.radicand), Fraction(1, read.root)), 1 if number > 0 else -1)

    def _per_rank(self, value: PerRank) -> Form:
        """One number per rank: affine in the mesh coordinates (checked at every one), else a piece or table entry
        each."""
        sizes = self.mesh.sizes
        if self.batch != tuple(range(len(sizes))) or any(isinstance(v, float) for v in value.values):
            raise Unsupported("a number that differs by rank inside a collective")
        numbers: list[Rational] = [v if type(v) is int else rational(v) for v in value.values]
        origin = numbers[0]
        steps: list[Rational] = []
        affine = [origin]  # the numbers that there are if they are affine
        for k, size in enumerate(sizes):
            stride = prod(sizes[k + 1 :])
            steps.append(step := numbers[stride] - origin if size > 1 else 0)
            affine = [number + step * c for number in affine for c in range(size)]
        axes = iter(range(len(sizes)))
        where = [next(axes) if size > 1 else -1 for size in sizes]
        if affine == numbers:
            return constant_form(
                self.prefix, affine_polynomial({v: s for v, s in zip(where, steps, strict=True) if v >= 0}, origin)
            )
        if not self.store.effort.exceeds("table_ranks", len(numbers)):
            return self._cells(numbers, sizes)
        atom = self.store.leaf(
            "table", (sizes, tuple(numbers)), sizes, ValueFacts(integer=all(n.denominator == 1 for n in numbers))
        )
        index = tuple(variable(v) if v >= 0 else fixed(0) for v in where)
        return constant_form(self.prefix, single(atom, index))

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> Form:
        if self.store.effort.exceeds("table_elements", len(data)) or any(
            isinstance(v, float) and isnan(v) for v in data
        ):
            return self.spread(recorded(self.store, data, shape, kind), shape)
        form = self._cells(data, shape)
        if any(
            not isinstance(v, float) and Fraction(v).denominator > _ROUND for v in data
        ) and self.store.effort.exceeds("table_pieces", len(form.pieces)):
            # a sum over a tensor in pieces has a term for every piece, and nothing follows from what the numbers are
            form = recorded(self.store, data, shape, kind)
        return self.spread(form, shape)

    def _cells(self, data: Sequence[Number], shape: Shape) -> Form:
        """A tensor of numbers, one piece per element."""
        cells: list[forms.Piece] = []
        dims = forms.axes_of(shape)
        sizes = [size for dim in dims for size in dim]
        for k, value in enumerate(data):
            box: list[tuple[int, int]] = []
            for size in reversed(sizes):
                k, digit = divmod(k, size)
                box.append((digit, digit + 1))
            cells.append((tuple(reversed(box)), self._number(value)))
        return forms.canonical(self.store, dims, cells)

    def spread(self, form: Form, shape: Shape) -> Form:
        """The same tensor at every mesh coordinate."""
        if not self.prefix:
            return form
        form = forms.reshape(self.store, form, (*(1 for _ in self.prefix), *shape))
        return forms.expand(form, (*self.prefix, *shape))

    def iota(self, size: int) -> Form:
        return self.spread(constant_form((size,), ZERO if is_one(size) else iota(variable(0))), (size,))

    def unknown(self, shape: Shape, dtype: DType, site: str) -> Form:
        return self.fresh("unknown", f"{self.rank}{site}", shape, dtype)

    def fresh(self, source: str, name: object, shape: Shape, dtype: DType) -> Form:
        """A leaf of its own at every mesh coordinate."""
        return self._leaf(source, (name, self.batch), shape, ValueFacts.of_type(dtype))

    def _leaf(self, source: str, name: object, shape: Shape, facts: ValueFacts) -> Form:
        self.trace.drawn += 1
        whole = (*self.prefix, *shape)
        atom = self.store.leaf(source, name, whole, facts)
        return forms.leaf_form(atom, whole)

    def mask(self, like: Form, shape: Shape, p: Number, site: str) -> Form:
        ordinal = self.trace.dropouts
        self.trace.dropouts += 1
        return self._drawn(kept(p), ordinal, like, shape, site)

    def draw(self, law: Law, like: Form | None, shape: Shape, dtype: DType, site: str) -> Form:
        ordinal = self.trace.draws[law] = self.trace.draws.get(law, -1) + 1
        return self._drawn(law, ordinal, like, shape, site)

    def _drawn(self, law: Law, ordinal: int, like: Form | None, shape: Shape, site: str) -> Form:
        place = f"{self.rank}{site}"
        if self.trace.paired is not None:
            found = self.trace.paired(Drawn(law, ordinal, like, (*self.prefix, *shape), place))
            if found is not None:
                self.trace.drawn += 1
                return found
        key = (place, law, ordinal)
        return self._leaf("mask" if law.name == "kept" else "draw", (law, key, self.batch), shape, facts_of(law))

    # -- layout
    def permute(self, x: Form, order: tuple[int, ...]) -> Form:
        self.store.fired["layout"] += 1
        n = len(self.batch)
        return forms.permute(self.store, x, [*range(n), *(n + k for k in order)])

    def reshape(self, x: Form, shape: Shape) -> Form:
        self.store.fired["layout"] += 1
        return forms.reshape(self.store, x, (*self.prefix, *shape))

    def expand(self, x: Form, shape: Shape) -> Form:
        self.store.fired["layout"] += 1
        return forms.expand(x, (*self.prefix, *shape))

    def slice(self, x: Form, dim: int, start: int, stop: int, step: int) -> Form:
        self.store.fired["layout"] += 1
        return forms.slice_form(self.store, x, len(self.batch) + dim, start, stop, step)

    def flip(self, x: Form, dim: int) -> Form:
        self.store.fired["layout"] += 1
        return forms.flip(self.store, x, len(self.batch) + dim)

    def concat(self, xs: Sequence[Form], dim: int) -> Form:
        self.store.fired["layout"] += 1
        return forms.concat(self.store, xs, len(self.batch) + dim)

    # -- pointwise
    def convert(self, x: Form, source: Kind, target: Kind) -> Form:
        if source is not Kind.BOOL:
            return x
        return contraction.pointwise(self.store, lambda box, xs: written(self.store, xs[0], box), [x])

    def add(self, x: Form, y: Form) -> Form:
        def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
            if len({sign for z in xs for sign in infinite_signs(self.store, z)}) > 1:
                raise Unsupported("a sum of infinities, which may be undefined")
            return add(self.store, *xs, box=box)

        return contraction.pointwise(self.store, apply, [x, y])

    def mul(self, x: Form, y: Form) -> Form:
        def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
            for a, b in (xs, xs[::-1]):
                if unbounded(self.store, a) and not (b and sole_number(b) is not None):
                    raise Unsupported("a product with an infinity, which is undefined where the other factor is 0")
            return multiply(self.store, *xs, box=box)

        return contraction.pointwise(self.store, apply, [x, y])

    def power(self, x: Form, exponent: Fraction) -> Form:
        def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
            self._defined(xs[0], exponent, box)
            return powers.power(self.store, xs[0], exponent, box)

        return contraction.pointwise(self.store, apply, [x])

    def _defined(self, x: Polynomial, exponent: Fraction, box: Box) -> None:
        if exponent < 0:
            if powers.nonzero(self.store, x) or partial.always_positive(self.store, x, box):
                return
            if exponent.denominator > 1:
                self._oblige("positive", x, box)
            elif partial.zero_parts(self.store, x, box):  # of a product: of any factor
                self._oblige("nonzero", x, box)
        elif exponent.denominator > 1 and not powers.nonnegative(self.store, x):
            self._oblige("nonnegative", x, box)

    def _oblige(self, kind: str, x: Polynomial, box: Box, size: int = 0) -> None:
        self.store.fired["obligations"] += 1
        self.trace.obligations.setdefault(Obligation(kind, x, f"{self.rank}{self.site}", size, box))

    def exp(self, x: Form) -> Form:
        return contraction.pointwise(self.store, lambda box, xs: powers.exponential(self.store, xs[0], box), [x])

    def log(self, x: Form) -> Form:
        def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
            if not powers.strictly_positive(self.store, xs[0]) and not partial.always_positive(self.store, xs[0], box):
                self._oblige("positive", xs[0], box)
            return powers.logarithm(self.store, xs[0], box)

        return contraction.pointwise(self.store, apply, [x])

    def function(self, name: str, xs: Sequence[Form]) -> Form:
        if name not in FUNCTIONS:
            raise Unsupported(f"function {name}")
        if name == "floor_divide":
            self._check_divisor(xs[1])
        if name in ("floor", "floor_divide"):
            exact = quotients.floor_of(self.store, *xs) if name == "floor" else quotients.quotient(self.store, *xs)
            if exact is not None:
                self.store.fired["floors"] += 1
                return exact
        if name in MODULI:
            return contraction.pointwise(self.store, lambda box, ys: self._modulo(MODULI[name], ys[0], box), xs)
        if name in FITTING:
            return contraction.pointwise(self.store, lambda box, ys: self._fitting(ys[0], FITTING[name], box), xs)
        return contraction.pointwise(self.store, lambda _, ys: powers.function(self.store, name, tuple(ys)), xs)

    def _check_divisor(self, y: Form) -> None:
        """Obligations that no element of a divisor of integers is 0: eager stops there, also if the quotient is masked
        later. Of an implementation also that it is the number that the form says."""
        for box, x in y.pieces:
            for condition in index_ranges.zero_somewhere(self.store, x, box):
                self._oblige("divisor", condition, box)
        if y.undefined is not None and not self.trace.assume_indices:
            for box, record in y.undefined.pieces:
                for term in record:
                    self._oblige("divisor", ((Term(body(self.store, term), 1)),), box)

    def _modulo(self, bits: int, x: Polynomial, box: Box) -> Polynomial:
        if index_ranges.in_range(self.store, x, 1 << bits, box):
            self.store.fired["remainders"] += 1
            return x
        return moduli.modulo(self.store, bits, x, box)

    def _fitting(self, x: Polynomial, bounds: tuple[int, int], box: Box) -> Polynomial:
        """x, which is taken to be a number that an integer type holds: an obligation."""
        if not index_ranges.fits(self.store, x, *bounds, box):
            self._oblige("fits", x, box, bounds[1] - bounds[0] + 1)
        return x

    def less(self, x: Form, y: Form) -> Form:
        def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
            if not xs[0] and self._is_sum(xs[1]):
                return add(self.store, ONE, scale(partial.is_zero(self.store, xs[1], box), -1))
            found = comparisons.compare(self.store, "less", xs[0], xs[1], box)
            decided = None if sole_number(found) is not None else self._decided(xs[0], xs[1], box)
            return found if decided is None else decided

        return contraction.pointwise(self.store, apply, [x, y])

    def _decided(self, x: Polynomial, y: Polynomial, box: Box) -> Polynomial | None:
        """The truth of ``x < y``, if it is the same by cases over the comparisons that whole numbers contain: of a
        number that is clamped already, for one."""
        store = self.store
        if not any(f.exponent == 1 and store.atoms[f.atom].op == "less" for z in (x, y) for m, _ in z for f in m):
            return None
        difference = add(store, y, scale(x, -1))
        if unbounded(store, difference) or not is_integer(store, difference):
            return None
        if index_ranges.never_negative(store, scale(difference, -1), box):
            return ZERO
        return ONE if index_ranges.never_negative(store, add(store, difference, constant(-1)), box) else None

    def equal(self, x: Form, y: Form) -> Form:
        def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
            for a, b in (xs, xs[::-1]):
                if not b and self._is_sum(a):
                    return partial.is_zero(self.store, a, box)
                for sign in (1, -1):
                    if powers.is_negative_infinity(self.store, scale(b, sign)):
                        if sign < 0 and not may_conceal(self.store, a):
                            return ZERO
                        found = partial.minus_infinite(self.store, scale(a, sign), box)
                        if found is not None:
                            return found
            return comparisons.compare(self.store, "equal", xs[0], xs[1], box)

        return contraction.pointwise(self.store, apply, [x, y])

    def _is_sum(self, x: Polynomial) -> bool:
        """True if x is a sum over a dimension of numbers that are not negative."""
        return powers.nonnegative(self.store, x) and any(self.store.atoms[a].op == "sum" for m, _ in x for a, _, _ in m)

    def maximum(self, x: Form, y: Form) -> Form:
        return contraction.pointwise(self.store, lambda box, xs: powers.maximum(self.store, xs[0], xs[1], box), [x, y])

    def where(self, condition: Form, x: Form, y: Form) -> Form:
        def apply(box: Box, xs: list[Polynomial]) -> Polynomial:
            c, a, b = xs
            if a == b or not c:
                return b
            if c == ONE:
                return a
            c = written(self.store, c, box)
            if not is_boolean(self.store, c):  # a choice must be a factor that is known to be 0 or 1
                c = comparisons.compare(self.store, "equal", c, ONE, box)
            other = add(self.store, ONE, scale(c, -1))
            return add(
                self.store, powers.gated(self.store, c, a, box), powers.gated(self.store, other, b, box), box=box
            )

        return contraction.pointwise(self.store, apply, [condition, x, y])

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[Form, tuple[int, ...]]], result: tuple[int, ...]) -> Form:
        if any(unbounded(self.store, z) for form, _ in operands for _, z in form.pieces):
            raise Unsupported("a sum or product of infinities, which may be undefined")
        n = len(self.batch)
        lead = tuple(range(n))
        shifted = [(form, (*lead, *(n + label for label in labels))) for form, labels in operands]
        return contraction.contract(self.store, shifted, (*lead, *(n + label for label in result)))

    def maximum_over(self, x: Form, dims: tuple[int, ...]) -> Form:
        return contraction.maximum_over(self.store, x, [len(self.batch) + d for d in dims])

    def gather(self, x: Form, indices: Sequence[Form | None]) -> Form:
        n = len(self.batch)
        number = self._looked_up(x, indices)
        if number is not None:
            return number
        return contraction.gather(self.store, x, [*(None for _ in range(n)), *indices], n, self.check_index)

    def _looked_up(self, x: Form, indices: Sequence[Form | None]) -> Form | None:
        """One number per rank, read off a table of numbers at a place that is a number on every rank: how XLA's
        partitioner writes the offset of a shard. ``None`` where it is something else."""
        index, n = indices[0], len(self.batch)
        if (
            len(indices) != 1
            or index is None
            or self.batch != tuple(range(len(self.mesh.sizes)))
            or self.mesh.world_size == 1
            or prod(index.shape[n:]) != 1
            or any(m for _, z in x.pieces for m, _ in z)
            or self.store.effort.exceeds("table_ranks", self.mesh.world_size)
        ):
            return None
        values: list[Number] = []
        for rank in range(self.mesh.world_size):
            here = self.mesh.coordinates(rank)
            place = self._number_at(index, here)
            if place is None or place.denominator != 1 or not 0 <= place < x.shape[n]:
                return None
            value = self._number_at(x, (*here, int(place)))
            if value is None:
                return None
            values.append(value)
        return forms.reshape(self.store, self._per_rank(PerRank(tuple(values))), index.shape)

    def _number_at(self, x: Form, coordinates: Sequence[int]) -> Fraction | None:
        """The element at these coordinates of the first dimensions, all others of size 1, if it is a number."""
        for dim, at in enumerate(coordinates):
            x = forms.slice_form(self.store, x, dim, at, at + 1, 1)
        ((_, found),) = x.pieces
        number = sole_number(found)
        return None if number is None else Fraction(number)

    def from_start(self, x: Form, given: bool) -> bool:
        if given and self.trace.assume_indices:  # what is assumed is printed: 0 <= i < n
            return True
        return all(index_ranges.never_negative(self.store, value, box) for box, value in x.pieces)

    def check_index(self, value: Polynomial, size: int, box: Box) -> None:
        """An index on a box: shown to be in range, assumed to be (in a specification), or an obligation."""
        if index_ranges.in_range(self.store, value, size, box):
            if are_labels(self.store, value) and not comparisons.is_bounded(self.store, value, size, box):
                comparisons.record_range(self.store, value, size, box)  # it took cases to show it
            return
        self.trace.indices.setdefault((value, size, box))
        if self.trace.assume_indices:
            comparisons.record_range(self.store, value, size, box)
            if self.site not in self.trace.assumed_indices:
                self.trace.assumed_indices.append(self.site)
        else:
            self._oblige("index", value, box, size)

    def scatter(self, x: Form, indices: Sequence[Form | None], source: Form, accumulate: bool) -> Form:
        n = len(self.batch)
        chosen = [d for d, index in enumerate(indices) if index is not None]
        given = [index for index in indices if index is not None]
        count = len(given[0].dims) - n
        rank = len(x.dims) - n
        lead = tuple(range(n))
        places = tuple(n + rank + k for k in range(count))
        kept = tuple(n + d for d in range(rank))
        if (rank, count, accumulate) == (1, 1, False):
            settled = writes.written(self.store, x, given[0], source, n)
            if settled is not None:
                self.store.fired["laid-writes"] += 1
                return settled
        counted = contraction.counted(self.store, x, chosen, given, n)
        places = tuple(n + counted[k] if k in counted else place for k, place in enumerate(places))
        hot: list[tuple[Form, tuple[int, ...]]] = []
        for d, index in zip(chosen, given, strict=True):
            for box, value in index.pieces:
                self.check_index(value, x.shape[n + d], box)
            if d in counted.values():
                continue
            axes = contraction.cut_like(x.dims[n + d], x.shape[n + d], index, source)
            index = contraction.counting_like(self.store, index, x.shape[n + d], axes)
            guard = contraction.one_hot(self.store, index, axes)
            hot.append((guard, (*lead, *places, n + d)))

        def spread(values: Form) -> Form:
            """The sum of what is written at every element."""
            labels = (*lead, *places, *(n + d for d in range(rank) if d not in chosen))
            return contraction.contract(self.store, [(values, labels), *hot], (*lead, *kept))

        if accumulate:
            return self.add(x, spread(source))
        distinct = contraction.distinct(self.store, given, n)
        self.store.fired["distinct-writes"] += distinct
        change = self._change(x, indices, source) if distinct else None
        if change is not None:
            return self.add(x, spread(change))
        hit = contraction.contract(self.store, hot, (*lead, *(n + d for d in chosen)))
        flat = tuple(size if d in chosen else 1 for d, size in enumerate(x.shape[n:]))
        hit = forms.expand(forms.reshape(self.store, hit, (*self.prefix, *flat)), x.shape)
        if distinct:
            return self.add(self.where(hit, constant_form(x.shape, ZERO), x), spread(source))
        if forms.number_of(source) is None:
            raise Unsupported("writing different values at computed places, where two writes might meet")
        value = constant_form(x.shape, source.pieces[0][1])  # however many of the writes meet
        return self.where(self.equal(hit, constant_form(x.shape, ZERO)), x, value)

    def _change(self, x: Form, indices: Sequence[Form | None], source: Form) -> Form | None:
        """``source - x`` at the places where source is written, if x cancels there: ``x[i] -= u`` adds -u at i. (With
        writes at distinct places, ``x + sum of [i == v] (source - x[i])`` is x with source written.)"""
        if any(unbounded(self.store, z) for form in (x, source) for _, z in form.pieces):
            return None
        there = self.gather(x, indices)
        change = self.add(source, contraction.pointwise(self.store, lambda _, xs: scale(xs[0], -1), [there]))
        shorter = sum(len(z) for _, z in change.pieces) < sum(len(z) for _, z in source.pieces)
        return change if shorter else None

    def rows(
        self, name: str, xs: Sequence[Form], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[Form, ...]:
        return tuple(contraction.rows(self.store, name, xs, attributes, results))

    # -- process groups
    def enter_group(self, x: Form, shape: Shape, group: str) -> tuple[Interpretation, Form]:
        if not self.mesh.axes or group not in self.mesh.groups:
            return self, forms.reshape(self.store, x, (*self.prefix, 1, *shape))
        positions = self.mesh.group_positions(group)
        outside = tuple(k for k in self.batch if k not in positions)
        n = len(self.batch)
        order = [*(self.batch.index(k) for k in (*outside, *positions)), *range(n, n + len(shape))]
        moved = forms.permute(self.store, x, order)
        size = prod(self.mesh.sizes[k] for k in positions)
        lead = tuple(self.mesh.sizes[k] for k in outside)
        return replace(self, batch=outside), forms.reshape(self.store, moved, (*lead, size, *shape))

    def leave_group(self, y: Form, shape: Shape, group: str) -> Form:
        if not self.mesh.axes or group not in self.mesh.groups:
            return forms.reshape(self.store, y, (*self.prefix, *shape))
        positions = self.mesh.group_positions(group)
        outside = tuple(k for k in self.batch if k not in positions)
        lead = tuple(self.mesh.sizes[k] for k in (*outside, *positions))
        split = forms.reshape(self.store, y, (*lead, *shape))
        where = (*outside, *positions)
        n = len(self.batch)
        return forms.permute(self.store, split, [*(where.index(k) for k in self.batch), *range(n, n + len(shape))])
