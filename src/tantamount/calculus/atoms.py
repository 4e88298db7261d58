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

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tantamount.calculus.affine import Coordinate, Index, Lattice, lattice, meet, span, substitute_index, variable
from tantamount.effort import Effort
from tantamount.ir.types import Kind, Shape

__all__ = [
    "Atom",
    "Exponent",
    "Facts",
    "Factor",
    "Factors",
    "IOTA",
    "Polynomial",
    "Monomial",
    "Rational",
    "Store",
    "Term",
]

Rational = Fraction | int
Exponent = Rational
Factor = tuple[int, Exponent, Index]  # atom[index] ** exponent
Monomial = tuple[Factor, ...]  # sorted, one entry per (atom, index)
Factors = tuple[Factor, ...]  # not normalised
Term = tuple[Monomial, Rational]  # coefficient * product
Polynomial = tuple[Term, ...]  # sorted sum of terms with distinct monomials and non-zero coefficients

# operators whose arguments are formal or bound: fixing a coordinate does not simplify them by itself
_BINDERS = frozenset({"sum", "max", "element", "pair", "fact", "place"})
IOTA = 0  # the atom whose value is its one coordinate


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of every value of an atom. ``positive`` means > 0."""

    positive: bool = False
    nonnegative: bool = False
    integer: bool = False
    boolean: bool = False


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
    facts: Facts
    ranges: tuple[int, ...] = ()
    signature: tuple[tuple[int, Exponent], ...] = ()
    guards: frozenset[int] = frozenset()
    shape: Shape | None = None
    positional: bool = False  # its value depends on positions as numbers: at a fixed position it is another expression


@dataclass(slots=True)
class _Bucket:
    records: list[tuple[Lattice, int]] = field(default_factory=list[tuple[Lattice, int]])


class Store:
    """The table of atoms of one proof. Nothing is ever removed; ``redirects`` maps a joined atom to its successor.

    ``effort`` bounds every search in it; ``left`` is what is left for the comparison that is going on (``None``: none
    is), ``nested`` how many sums inside sums it compares cell by cell."""

    def __init__(self, effort: Effort | None = None) -> None:
        self.effort = effort if effort is not None else Effort()
        self.left: int | None = None
        self.nested = 0
        self.atoms: list[Atom] = []
        self.redirects: dict[int, tuple[int, Index]] = {}
        self._buckets: dict[Any, _Bucket] = {}
        self._leaves: dict[Any, int] = {}
        self.index_facts: dict[int, list[tuple[tuple[tuple[int, int], ...], int, int]]] = {}
        self.caches: dict[str, dict[Any, Any]] = {}
        self._axes = 1 << 20
        self.leaf("iota", "iota", None, Facts(integer=True))

    def __getitem__(self, number: int) -> Atom:
        return self.atoms[number]

    def cache(self, name: str) -> dict[Any, Any]:
        """A memo table that lives as long as the store."""
        return self.caches.setdefault(name, {})

    def fresh_axes(self, count: int) -> range:
        """Axis numbers that occur nowhere else: for bound variables that pose as axes while a factor is rebuilt."""
        first = self._axes
        self._axes += count
        return range(first, self._axes)

    def leaf(self, kind: str, name: Any, shape: Shape | None, facts: Facts) -> int:
        """The atom of an input tensor (or of another source ``kind``); one coordinate per dimension."""
        number = self._leaves.get((kind, name))
        if number is None:
            number = self._leaves[kind, name] = len(self.atoms)
            arity = 1 if shape is None else len(shape)
            guards = frozenset((number,)) if facts.boolean else frozenset[int]()
            self.atoms.append(
                Atom(
                    number, "leaf", (kind, name), (), arity, facts, signature=((number, 1),), guards=guards, shape=shape
                )
            )
        return number

    def apply(
        self, op: str, attributes: tuple[Any, ...], arguments: tuple[Polynomial, ...], facts: Facts
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

    def summation(self, factors: Factors, ranges: tuple[int, ...], facts: Facts) -> tuple[int, Index]:
        """The atom of the sum of ``factors`` over bound variables -1, -2, ... in ``0..ranges``; canonically named."""
        shape: list[Any] = []
        slots: list[Coordinate] = []
        for a, e, index in factors:
            bound: list[Any] = []
            for parts, offset in index:
                cut = sum(1 for v, _ in parts if v < 0)  # bound variables sort first
                bound.append(parts[:cut])
                slots.append((parts[cut:], offset))
            shape.append((a, e, tuple(bound)))
        polynomial: Polynomial = ((factors, 1),)
        return self._unify(("sum", ranges, tuple(shape)), slots, "sum", (), (polynomial,), ranges, facts)

    def _unify(
        self,
        key: Any,
        slots: list[Coordinate],
        op: str,
        attributes: tuple[Any, ...],
        arguments: tuple[Polynomial, ...],
        ranges: tuple[int, ...],
        facts: Facts,
    ) -> tuple[int, Index]:
        self.effort.check()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket()
        for known, number in bucket.records:
            z = known.solve(slots)
            if z is not None:
                return number, z
        new = lattice(slots)
        joined: list[tuple[Lattice, int]] = []
        changed = True
        while changed:
            changed = False
            for record in bucket.records:
                if record not in joined and meet(record[0], new):
                    new = span(new, record[0])
                    joined.append(record)
                    changed = True
        number = self._create(new, op, attributes, arguments, ranges, facts)
        for record in joined:
            bucket.records.remove(record)
            old, before = record[1], record[0]
            z = new.solve(before.coordinates())
            if z is None:  # the span contains both by construction
                raise AssertionError("joined coset does not contain its part")
            self.redirects[old] = (number, z)
        bucket.records.append((new, number))
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
        facts: Facts,
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
                    factors.append((a, e, tuple(_refill(old, next(points)) for old in index)))
                terms.append((tuple(factors), c))
            inner.append(tuple(terms))
        signature: tuple[tuple[int, Exponent], ...] = ((number, 1),)
        if op == "sum":
            signature = tuple(sorted((a, e) for a, e, _ in inner[0][0][0]))
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
        return (a, e, index)

    def input(self, name: str, shape: Shape, kind: Kind, source: str = "input", positive: bool = False) -> Polynomial:
        """The Polynomial of an input tensor over axes 0, 1, ... (one per dimension)."""
        facts = Facts(
            positive=positive,
            integer=kind in (Kind.INT, Kind.BOOL),
            boolean=kind is Kind.BOOL,
            nonnegative=positive or kind is Kind.BOOL,
        )
        number = self.leaf(source, name, shape, facts)
        index = tuple(variable(k) if size != 1 else ((), 0) for k, size in enumerate(shape))
        return ((((number, 1, index),), 1),)


def _refill(old: Coordinate, axes: Coordinate) -> Coordinate:
    """The bound part of ``old`` with its axis part and offset replaced by ``axes``."""
    cut = sum(1 for v, _ in old[0] if v < 0)
    return (old[0][:cut] + axes[0], axes[1])
