"""Atoms and their hash-consed table.

An atom is a function of integer coordinates: a leaf tensor, an opaque function of closed arguments, or a sum over bound
variables. Its arguments mention coordinates only through the *slots* of their skeleton (the arguments with all index
maps erased), so the value of an operator is a function F of its slot vector s in Z^n. A use with slots ``s = N y + n``
lies on a coset of the saturated lattice of N; the atom of that coset has one coordinate per lattice dimension.

Two uses with the same skeleton share an atom iff one coset contains both. The table keeps the cosets of a skeleton
disjoint: a new coset that meets old ones without lying inside one is joined with them to the coset that all span, and
the old atoms are redirected to it, so that identity does not depend on the order of lookups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tantamount.calculus.affine import (
    Coordinate,
    Index,
    Lattice,
    fixed,
    lattice,
    meet,
    span,
    substitute_index,
    variable,
)
from tantamount.calculus.answers import Remembered
from tantamount.calculus.boxes import Box
from tantamount.calculus.naming import Names
from tantamount.calculus.rules import RULES, RuleName
from tantamount.calculus.terms import (
    IOTA,
    Exponent,
    Factor,
    Factors,
    Flat,
    Monomial,
    Polynomial,
    Ranges,
    Rational,
    Term,
    single,
)
from tantamount.effort import Effort
from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Number
from tantamount.ops.functions import ROUNDINGS
from tantamount.sizes.symbolic import is_one

__all__ = ["BOOLEAN", "LAST_AXIS", "Atom", "KnownRange", "Store", "ValueFacts"]

# Axes of bound variables that pose as axes begin here; so many for each level, the upper half of which occur once.
# There are as many levels as anybody asks for: who needs other numbers begins at the last axis, which no level reaches.
_POSING, _LEVEL = 1 << 20, 1 << 24
LAST_AXIS = 1 << 80

# operators whose arguments are formal or bound: fixing a coordinate does not simplify them by itself
_BINDERS = frozenset({"sum", "max", "element", "pair", "fact", "place"})


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """Properties that every value of an atom is known to have. ``positive`` means > 0; ``span`` are the least and the
    greatest number that it may be (``below``: it is less than the greatest); ``rounded`` names the rounding that leaves
    it as it is."""

    positive: bool = False
    nonnegative: bool = False
    integer: bool = False
    boolean: bool = False
    span: tuple[int, int] | None = None
    below: bool = False
    rounded: str = ""

    @staticmethod
    def of_type(dtype: DType) -> ValueFacts:
        """The facts that hold of every tensor of this type."""
        facts = ValueFacts.of(dtype.kind)
        if dtype.kind is not Kind.INT:
            return replace(facts, rounded=ROUNDINGS.get(dtype, ""))
        return replace(facts, nonnegative=dtype.bounds[0] == 0, span=dtype.bounds if dtype.is_narrow else None)

    @staticmethod
    def of(kind: Kind, positive: bool = False) -> ValueFacts:
        """The facts that hold of every tensor of this kind; ``positive`` if that is known besides."""
        boolean = kind is Kind.BOOL
        return ValueFacts(positive, positive or boolean, integer=kind in (Kind.INT, Kind.BOOL), boolean=boolean)


BOOLEAN = ValueFacts(integer=True, boolean=True, nonnegative=True)  # 0 or 1


@dataclass(frozen=True, slots=True)
class Atom:
    """``op`` is ``leaf``, ``sum``, ``polynomial``, ``exp``, ``log`` or a function's name. ``arguments`` are Polynomials
    over the atom's own coordinates (variables 0, 1, ...); for ``sum`` the one argument is the summand with bound
    variables -1, -2, ... over ``ranges``. ``signature`` is the multiset of factors after unboxing; ``guards`` are the
    boolean atoms inside, at any depth."""

    number: int
    op: str
    attributes: tuple[Any, ...]
    arguments: tuple[Polynomial, ...]
    arity: int
    facts: ValueFacts
    ranges: tuple[int, ...] = ()
    signature: tuple[tuple[int, Exponent], ...] = ()
    guards: frozenset[int] = frozenset()
    shape: Shape | None = None
    positional: bool = False  # its value depends on positions as numbers: at a fixed position it is another expression

    @property
    def summand(self) -> Monomial:
        """Of a ``sum``: the product that is summed."""
        return self.arguments[0][0].monomial

    @property
    def position(self) -> Coordinate:
        """Of a comparison ``[rest + position < 0]``: the part that is affine in its coordinates."""
        return self.arguments[1][0].monomial[0].at[0]


class _Record(NamedTuple):
    """A coset of slots, and the atom that all uses on it are."""

    coset: Lattice
    atom: int


@dataclass(slots=True)
class _Bucket:
    """The disjoint cosets of one skeleton."""

    records: list[_Record] = field(default_factory=list[_Record])


@dataclass(slots=True)
class Leaves:
    """The sources of a proof: inputs, recorded numbers, random draws, and what was cut out of both programs."""

    numbers: dict[tuple[str, Any], int] = field(default_factory=dict[tuple[str, Any], int])  # kind and name -> atom
    definitions: dict[int, Polynomial] = field(default_factory=dict[int, Polynomial])  # what a leaf stands for
    computed: set[int] = field(default_factory=set[int])  # leaves that stand for what programs compute
    tables: dict[tuple[Shape, tuple[Number, ...]], int] = field(
        default_factory=dict[tuple[Shape, tuple[Number, ...]], int]
    )  # recorded numbers -> atom
    constant_shapes: dict[str, Shape] = field(default_factory=dict[str, Shape])  # of constants that are not recorded


class KnownRange(NamedTuple):
    """The least and greatest value of a polynomial where the coordinates of its ``fact`` atom lie in closed spans."""

    spans: tuple[tuple[int, int], ...]
    low: int
    high: int


@dataclass(slots=True)
class KnownRanges:
    """Integers of which an interval is known: the indices of the specification, which are assumed to be in range.

    ``assumed`` are these indices with their size and box, and how many atoms had been joined when they were recorded
    with joined atoms replaced (-1: never). ``spared`` belongs to :mod:`tantamount.calculus.ignored_labels`: by the
    number of assumptions."""

    assumed: dict[tuple[Polynomial, int, Box], int] = field(default_factory=dict[tuple[Polynomial, int, Box], int])
    of_atoms: dict[int, list[KnownRange]] = field(default_factory=dict[int, list[KnownRange]])
    spared: dict[int, tuple[tuple[int, ...], ...]] = field(default_factory=dict[int, "tuple[tuple[int, ...], ...]"])


@dataclass(slots=True)
class Memo:
    """Answers about atoms and terms that are asked for again and again. Atoms never change, so they stay true; where
    joining atoms or a new assumption matters, their number is part of the key."""

    names: Names = field(default_factory=Names)
    merged: dict[tuple[Polynomial, Box | None, int], list[Term]] = field(
        default_factory=dict[tuple[Polynomial, Box | None, int], list[Term]]
    )
    compared: dict[object, Remembered] = field(default_factory=dict[object, Remembered])  # two polynomials and a box
    spans: dict[int, tuple[Any, Any]] = field(default_factory=dict[int, tuple[Any, Any]])  # of all values of an atom
    enclosures: dict[int, Any] = field(default_factory=dict[int, Any])  # the same, with ends that are excluded
    heights: dict[int, int] = field(default_factory=dict[int, int])  # sums of sums in the products inside an atom
    has_extreme: dict[int, bool] = field(default_factory=dict[int, bool])
    has_cases: dict[int, bool] = field(default_factory=dict[int, bool])
    remainders_inside: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])
    infinite: dict[int, bool] = field(default_factory=dict[int, bool])
    infinity_inside: dict[int, bool] = field(default_factory=dict[int, bool])  # at any depth
    mentions_order: dict[int, bool] = field(default_factory=dict[int, bool])  # of the elements of a row
    mentions_look_up: dict[int, bool] = field(default_factory=dict[int, bool])
    angles: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])  # sines and cosines inside
    compared_numbers: dict[int, int | None] = field(default_factory=dict[int, "int | None"])  # by an equality
    conditions: dict[Any, Polynomial] = field(default_factory=dict[Any, Polynomial])  # on boxes: how they are written
    conditions_met: dict[Any, list[Polynomial]] = field(
        default_factory=dict[Any, "list[Polynomial]"]
    )  # on the same data
    boolean_maxima: set[int] = field(default_factory=set[int])
    kinds_of_undefined: dict[int, str] = field(default_factory=dict[int, str])
    rebuilt: dict[Any, Polynomial] = field(default_factory=dict[Any, Polynomial])  # factors computed anew, on boxes
    rebuilt_at: tuple[int, int] = (0, 0)  # joins, and ranges assumed, that it knows
    stale: dict[int, dict[int, bool]] = field(default_factory=dict[int, dict[int, bool]])
    booleans_inside: dict[int, frozenset[tuple[int, Index]]] = field(
        default_factory=dict[int, frozenset[tuple[int, Index]]]
    )
    places_of_leaves: dict[int, tuple[tuple[tuple[int, int], Coordinate], ...]] = field(
        default_factory=dict[int, tuple[tuple[tuple[int, int], Coordinate], ...]]
    )  # (leaf, its coordinate), and where an atom reads it


class Store(ABC):
    """The table of atoms of one proof. Nothing is ever removed; ``redirects`` maps a joined atom to its successor.

    The methods without a body are what rules need of those above them; :class:`tantamount.calculus.calculus.Calculus`
    has them.

    ``effort`` bounds every search in it; ``left`` is what is left for the comparison that is going on (``None``: none
    is), ``nested`` how many sums inside sums it compares cell by cell, ``fruitless`` how many steps comparisons took in
    ways that showed nothing."""

    def __init__(self, effort: Effort | None = None) -> None:
        self.effort = effort if effort is not None else Effort()
        self.left: int | None = None
        self.nested = 0
        self.fruitless = 0
        self.atoms: list[Atom] = []
        self.redirects: dict[int, tuple[int, Index]] = {}
        self.leaves = Leaves()
        self.ranges = KnownRanges()
        self.memo = Memo()
        self.fired: dict[RuleName, int] = dict.fromkeys(RULES, 0)
        self.sites_of_undefined: dict[int, dict[str, None]] = {}  # where a condition first made something undefined
        self._buckets: dict[Any, _Bucket] = {}
        self._level = -1  # the last one of which there are axes
        self._posing: dict[tuple[int, int], int] = {}  # an interval -> its number among the axes of one level
        self.leaf("iota", "iota", None, ValueFacts(integer=True))

    def __getitem__(self, number: int) -> Atom:
        return self.atoms[number]

    @abstractmethod
    def simplify(self, flat: Flat, box: Ranges) -> list[Flat] | None:
        """One step of simplification of a summed product by its conditions; ``None`` if there is none."""

    @abstractmethod
    def absorb(self, m: Monomial, c: Rational, box: Ranges) -> Polynomial | None:
        """A product simplified by its conditions; ``None`` if they cannot help."""

    @abstractmethod
    def covered(self, factor: Factor, size: int, box: Ranges) -> bool:
        """True if an equality is known to hold for exactly one value of the bound variable -1, which is below size."""

    @abstractmethod
    def permuted(self, factor: Factor, v: int, size: int, box: Ranges, ranges: tuple[int, ...]) -> bool:
        """True if an equality with an element of a permutation is known to hold for exactly one place ``v < size``."""

    @abstractmethod
    def missed(self, factor: Factor, size: int, box: Ranges) -> bool:
        """True if ``SUM_{v < size} factor`` is known to be 0 for a one-hot factor."""

    @abstractmethod
    def found_or_ignored(self, factor: Factor, size: int, box: Ranges) -> Factors | None:
        """The sum of an equality over the bound variable -1 as ``1 - [t == k]``; ``None`` if it is not known to be."""

    @abstractmethod
    def at_fixed_positions(self, x: Polynomial) -> Polynomial:
        """The polynomial computed anew where positions that count as numbers have become numbers."""

    @abstractmethod
    def assuming(self, known: Mapping[tuple[int, Index], int], factor: Factor) -> Polynomial:
        """A factor computed anew with truth values put in for boolean atoms at places."""

    @abstractmethod
    def under(
        self, guard: Factor, factor: Factor, box: Mapping[int, tuple[int, int]], ranges: tuple[int, ...]
    ) -> Polynomial | None:
        """A factor computed anew where a guard holds that says what a quantity is; ``None`` if nothing changes."""

    def fresh_axes(self, count: int) -> range:
        """Axis numbers that occur nowhere else, later than all others: for bound variables that pose as axes."""
        self._level += 1
        first = _POSING + self._level * _LEVEL + _LEVEL // 2
        return range(first, first + count)

    def posing_axes(self, intervals: Iterable[tuple[int, int]], outer: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Axes for bound variables that pose as axes while what they bind is computed anew: one for each of the
        half-open intervals, later than the variables ``outer``, which what is computed may mention. (What is bound
        inside comes after what is outside: normal forms are equal only where axes are in one order.)

        The same intervals below the same variables give the same axes, and such an axis has one interval wherever it is
        met: what was computed at a place is the same when the place is come to on another way, and is found again."""
        level = max([(v - _POSING) // _LEVEL for v in outer if v >= _POSING], default=-1)
        posing = self._posing
        found: dict[int, tuple[int, int]] = {}
        for interval in intervals:
            level += 1
            found[_POSING + level * _LEVEL + posing.setdefault(interval, len(posing))] = interval
        self._level = max(level, self._level)
        return found

    def rebuilt(self) -> dict[Any, Polynomial]:
        """The terms that were computed anew since atoms were last joined, or ranges assumed: after that it may be
        simpler."""
        now = len(self.redirects), len(self.ranges.assumed)
        if self.memo.rebuilt_at != now:
            self.memo.rebuilt.clear()
            self.memo.rebuilt_at = now
        return self.memo.rebuilt

    def posed_interval(self, axis: int) -> tuple[int, int]:
        """The interval of an axis that poses."""
        return list(self._posing)[(axis - _POSING) % _LEVEL]

    @staticmethod
    def is_posing(axis: int) -> bool:
        """True if an axis is one of :meth:`posing_axes`."""
        return axis >= _POSING and (axis - _POSING) % _LEVEL < _LEVEL // 2

    def leaf(self, kind: str, name: Any, shape: Shape | None, facts: ValueFacts) -> int:
        """The atom of an input tensor (or of another source ``kind``); one coordinate per dimension."""
        number = self.leaves.numbers.get((kind, name))
        if number is None:
            number = self.leaves.numbers[kind, name] = len(self.atoms)
            arity = 1 if shape is None else len(shape)
            guards = frozenset((number,)) if facts.boolean else frozenset[int]()
            self.atoms.append(
                Atom(
                    number, "leaf", (kind, name), (), arity, facts, signature=((number, 1),), guards=guards, shape=shape
                )
            )
        return number

    def apply(
        self, op: str, attributes: tuple[Any, ...], arguments: tuple[Polynomial, ...], facts: ValueFacts
    ) -> tuple[int, Index]:
        """The atom of ``op(arguments)`` and the coordinates at which it has that value."""
        shape: list[Any] = []
        slots: list[Coordinate] = []
        for polynomial in arguments:
            shape.append(tuple((c, tuple((a, e) for a, e, _ in m)) for m, c in polynomial))
            for m, _ in polynomial:
                for _, _, index in m:
                    slots.extend(index)
        return self._unify((op, attributes, tuple(shape)), slots, op, attributes, arguments, (), facts)

    def summation(self, factors: Factors, ranges: tuple[int, ...], facts: ValueFacts) -> tuple[int, Index]:
        """The atom of the sum of ``factors`` over bound variables -1, -2, ... in ``0..ranges``; canonically named."""
        shape: list[Any] = []
        slots: list[Coordinate] = []
        for a, e, index in factors:
            bound: list[Any] = []
            for parts, offset in index:
                cut = sum(1 for v, _ in parts if v < 0)  # bound variables sort first
                bound.append(parts[:cut])
                slots.append(Coordinate(parts[cut:], offset))
            shape.append((a, e, tuple(bound)))
        polynomial: Polynomial = (Term(factors, 1),)
        return self._unify(("sum", ranges, tuple(shape)), slots, "sum", (), (polynomial,), ranges, facts)

    def _unify(
        self,
        key: Any,
        slots: list[Coordinate],
        op: str,
        attributes: tuple[Any, ...],
        arguments: tuple[Polynomial, ...],
        ranges: tuple[int, ...],
        facts: ValueFacts,
    ) -> tuple[int, Index]:
        self.effort.check()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket()
        for known, number in bucket.records:
            z = known.solve(slots)
            if z is not None:
                self.fired["atoms-of-slots"] += 1
                return number, z
        new = lattice(slots)
        joined: list[_Record] = []
        changed = True
        while changed:
            changed = False
            for record in bucket.records:
                if record not in joined and meet(record.coset, new):
                    new = span(new, record.coset)
                    joined.append(record)
                    changed = True
        number = self._create(new, op, attributes, arguments, ranges, facts)
        for record in joined:
            bucket.records.remove(record)
            z = new.solve(record.coset.coordinates())
            if z is None:  # the span contains both by construction
                raise AssertionError("joined coset does not contain its part")
            self.redirects[record.atom] = (number, z)
        bucket.records.append(_Record(new, number))
        z = new.solve(slots)
        if z is None:
            raise AssertionError("coset does not contain its own point")
        return number, z

    def _create(
        self,
        coset: Lattice,
        op: str,
        attributes: tuple[Any, ...],
        arguments: tuple[Polynomial, ...],
        ranges: tuple[int, ...],
        facts: ValueFacts,
    ) -> int:
        number = len(self.atoms)
        points = iter(coset.coordinates())
        inner: list[Polynomial] = []
        guards: set[int] = set()
        positional = False
        for polynomial in arguments:
            terms: list[Term] = []
            for m, c in polynomial:
                factors: list[Factor] = []
                for a, e, index in m:
                    guards |= self.atoms[a].guards
                    positional = positional or a == IOTA or self.atoms[a].positional
                    # a sum binds; to any other atom a bound variable of what it is in is a coordinate like others
                    axes = tuple(next(points) for _ in index)
                    factors.append(Factor(a, e, tuple(map(_refill, index, axes)) if op == "sum" else axes))
                terms.append(Term(tuple(factors), c))
            inner.append(tuple(terms))
        signature: tuple[tuple[int, Exponent], ...] = ((number, 1),)
        if op == "sum":
            signature = tuple(sorted((a, e) for a, e, _ in inner[0][0].monomial))
        if facts.boolean:
            guards.add(number)
        if op in _BINDERS or (op in ("less", "equal") and inner[0]):
            positional = False
        self.atoms.append(
            Atom(
                number,
                op,
                attributes,
                tuple(inner),
                len(coset.columns),
                facts,
                ranges,
                signature,
                frozenset(guards),
                positional=positional,
            )
        )
        return number

    def follow(self, factor: Factor) -> Factor:
        """The factor with a redirected atom replaced by its successor."""
        a, e, index = factor
        while a in self.redirects:
            a, z = self.redirects[a]
            replace = dict(enumerate(index))
            index = substitute_index(z, replace)
        return Factor(a, e, index)

    def input(self, name: str, shape: Shape, kind: Kind, source: str = "input", positive: bool = False) -> Polynomial:
        """The Polynomial of an input tensor over axes 0, 1, ... (one per dimension)."""
        number = self.leaf(source, name, shape, ValueFacts.of(kind, positive))
        index = tuple(fixed(0) if is_one(size) else variable(k) for k, size in enumerate(shape))
        return single(number, index)


def _refill(old: Coordinate, axes: Coordinate) -> Coordinate:
    """The bound part of ``old`` with its axis part and offset replaced by ``axes``."""
    cut = sum(1 for v, _ in old.parts if v < 0)
    return Coordinate(old.parts[:cut] + axes.parts, axes.offset)
