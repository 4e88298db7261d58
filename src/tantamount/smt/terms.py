"""Elements of tensors as exact numbers or as hash-consed terms, lightly normalised: equal pointers, equal functions.

    sum    const + sum of coefficient * term      flattened, ordered, equal terms collected
    prod   product of base ** exponent            flattened, ordered, equal bases collected
    max    the maximum of a set                   flattened, ordered, each once
    exp    of a sum: a product of exps, so that a maximum that is subtracted inside can be divided by outside
    ite, pos (x > 0), zero (x == 0)               booleans are the numbers 0 and 1
    fn, row                                       functions that nothing is known of but their names
    cut    its argument, of which sums are not part: long sums of sums would grow with the depth of a program

Products are not multiplied out: that is the solver's work. A rewrite that forgets where something was undefined
(``x / x``, ``x - x``, ``0 * x``) enters the condition into :attr:`Table.lost`. This shares no code with ``calculus``:
the point is to be wrong, if at all, in other places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isinf, isnan
from typing import Any, TypeVar, Union, final

from tantamount.errors import Unsupported

__all__ = [
    "Condition",
    "Element",
    "Exact",
    "Table",
    "Term",
    "bottom_up",
    "children",
    "conditions_of",
    "domain_of",
    "exact_number",
    "variables_of",
    "whole",
]

V = TypeVar("V")

Exact = Union[int, Fraction]
PARTIAL = frozenset({"pow", "floor_divide", "integer_pow", "erfinv"})  # functions that are not defined everywhere


@final
class Term:
    """A node of the graph of terms: made by :class:`Table` only, once for equal operators and arguments. ``number``
    counts them; ``integer``: its values are whole numbers, ``boolean``: 0 or 1; ``partial``: it may be undefined;
    ``infinite``: a choice one side of which is an infinity."""

    __slots__ = ("args", "boolean", "infinite", "integer", "number", "op", "partial")

    def __init__(
        self, op: str, args: tuple[Any, ...], number: int, integer: bool, boolean: bool, infinite: bool
    ) -> None:
        self.op = op
        self.args = args
        self.number = number
        self.integer = integer
        self.boolean = boolean
        self.infinite = infinite
        self.partial = False

    def __repr__(self) -> str:
        return f"{self.op}#{self.number}"


Element = Union[int, Fraction, float, Term]  # a float is an infinity


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition under which something is defined: ``term`` is ``nonzero``, ``nonnegative``, ``positive``, ``finite``
    (a maximum, not over infinities alone), ``range`` (``0 <= term < size``), ``defined`` (a function, at its operands)
    or ``never``."""

    kind: str
    term: Term
    size: int = 0


def bottom_up(term: Term, known: dict[Term, V], compute: Callable[[Term], V]) -> V:
    """``compute`` of a term, after that of all terms that it is made of; ``known`` keeps what was computed."""
    pending = [term]
    while pending:
        one = pending[-1]
        missing = [child for child in children(one) if child not in known]
        if missing:
            pending += missing
            continue
        pending.pop()
        if one not in known:
            known[one] = compute(one)
    return known[term]


def children(term: Term) -> Iterator[Term]:
    """The terms that a term is directly made of."""
    if term.op == "sum":
        for one, _ in term.args[1]:
            yield one
    elif term.op == "prod":
        for one, _ in term.args:
            yield one
    elif term.op == "row":  # name, attributes, number of the result, place in it, operands
        for row in term.args[4]:
            for one in row:
                if type(one) is Term:
                    yield one
    else:
        for one in term.args:
            if type(one) is Term:
                yield one


def _is_partial(term: Term) -> bool:
    if term.op == "sum":
        return any(one.partial for one, _ in term.args[1])
    if term.op == "prod":
        return any(one.partial or (e != 1 and bool(domain_of(one, e))) for one, e in term.args)
    return term.op != "var" and (any(one.partial for one in children(term)) or any(True for _ in conditions_of(term)))


def conditions_of(term: Term) -> Iterator[Condition]:
    """The conditions under which a term is defined where those that it is made of are."""
    if term.op == "prod":
        for base, exponent in term.args:
            kind = domain_of(base, exponent)
            if kind:
                yield Condition(kind, base)
    elif term.op == "log" and type(term.args[0]) is Term:
        yield Condition("positive", term.args[0])
    elif term.op == "undefined":
        yield Condition("never", term)
    elif term.op == "max" and any(type(one) is Term and one.infinite for one in term.args):
        yield Condition("finite", term)
    elif term.op == "fn" and (term.args[0] in PARTIAL or term.args[0].startswith("fit_")):
        yield Condition("defined", term)


def domain_of(base: Term, exponent: Exact) -> str:
    """The kind of condition under which a power is defined; empty if it always is."""
    whole_ = type(exponent) is int
    if (whole_ and exponent > 0) or base.op in ("exp", "num"):
        return ""
    if whole_:
        return "nonzero" if exponent else ""
    return "positive" if exponent < 0 else "nonnegative"


def exact_number(value: Any) -> Element:
    """A number as an element: booleans are 0 and 1, whole fractions integers. Raises :class:`Unsupported` of a NaN."""
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else value
    if isinstance(value, float):
        if isnan(value):
            raise Unsupported("a constant that is not a number")
        return value if isinf(value) else exact_number(Fraction(value))
    return int(value)


def whole(value: Exact) -> Exact:
    """The number, as an integer if it is one."""
    return value.numerator if type(value) is Fraction and value.denominator == 1 else value


class Table:
    """The terms of both programs. ``lost`` has the conditions that rewrites forgot since it was last emptied, with the
    site where that was (filled in by who knows it)."""

    def __init__(self) -> None:
        self._table: dict[tuple[str, tuple[Any, ...]], Term] = {}
        self.contents: dict[Term, tuple[Exact, tuple[tuple[Term, Exact], ...], Element]] = {}
        self._undefined = 0
        self._dropped: set[Term] = set()  # of which all conditions are in lost, or were taken out
        self.lost: dict[Condition, str] = {}

    def __len__(self) -> int:
        return len(self._table)

    def make(self, op: str, *args: Any, integer: bool = False, boolean: bool = False, infinite: bool = False) -> Term:
        """The term of this operator and arguments, which are in normal form already."""
        key = (op, args)
        found = self._table.get(key)
        if found is None:
            found = Term(op, args, len(self._table), integer or boolean, boolean, infinite)
            found.partial = _is_partial(found)
            self._table[key] = found
        return found

    def variable(self, name: object, *, integer: bool = False, boolean: bool = False) -> Term:
        """A free number; the same for the same name."""
        return self.make("var", name, integer=integer, boolean=boolean)

    def cut(self, x: Term) -> Term:
        """``x`` as one summand."""
        return self.make("cut", x, integer=x.integer, boolean=x.boolean)

    def undefined(self) -> Term:
        """A value that is undefined here; equal to no other."""
        self._undefined += 1
        return self.make("undefined", self._undefined)

    def forgive(self) -> None:
        """Nothing was lost so far."""
        self._dropped.clear()
        self.lost.clear()

    def lose(self, x: Element) -> None:
        """A rewrite drops ``x``: the conditions under which it is defined still hold of the result."""
        if type(x) is Term and x.partial:
            pending = [x]
            while pending:
                one = pending.pop()
                if one in self._dropped:
                    continue
                self._dropped.add(one)
                for condition in conditions_of(one):
                    self.lost.setdefault(condition, "")
                pending += [child for child in children(one) if child.partial]


def variables_of(term: Term) -> set[Term]:
    """The variables that a term is made of."""
    pending, seen = [term], {term}
    while pending:
        for child in children(pending.pop()):
            if child not in seen:
                seen.add(child)
                pending.append(child)
    return {one for one in seen if one.op == "var"}
