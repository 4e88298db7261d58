"""Knowledge about terms: signs, places where the specification must be defined for its outputs to be finite, and
conditions that follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tantamount.ops.functions import FUNCTIONS, POSITIONS_IN_A_ROW
from tantamount.smt.arithmetic import add
from tantamount.smt.terms import Condition, Element, Exact, Table, Term, bottom_up, children, conditions_of

__all__ = ["Knowledge", "conditions_in", "required"]

_THROUGH = frozenset({"sin", "cos", "tanh", "erf", "atan", "asinh", "abs", "pi_times"})  # of a NaN they are NaN
_FINITE = frozenset({"abs", "pi_times"})  # of an infinity they are infinite


def required(elements: Iterable[Element], *, infinities: bool = True) -> dict[Condition, None]:
    """Conditions that hold wherever all elements are finite, as PyTorch computes them (with ``infinities`` false:
    wherever none is NaN): an infinity stays one in sums and products, a NaN in more; behind a choice, a maximum, a
    comparison or a function of a row nothing is said."""
    found: dict[Condition, None] = {}
    pending: list[tuple[Term, bool]] = [(x, infinities) for x in elements if type(x) is Term and x.partial]
    seen = set(pending)

    def visit(x: object, strict: bool) -> None:
        if type(x) is Term and x.partial and (x, strict) not in seen:
            seen.add((x, strict))
            pending.append((x, strict))

    while pending:
        term, strict = pending.pop()
        if term.op == "prod" and any(base.boolean for base, _ in term.args):
            continue  # a choice, written as a product
        for condition in conditions_of(term):
            kind = condition.kind
            if kind == "positive" and not strict:  # at 0 there is an infinity
                found[Condition("nonnegative", condition.term)] = None
            elif kind == "nonnegative" or (strict and kind in ("nonzero", "positive")):
                found[condition] = None
        if term.op == "prod":
            for base, exponent in term.args:
                visit(base, strict and exponent > 0)
        elif term.op == "sum" or term.op == "log":
            for child in children(term):
                visit(child, strict)
        elif term.op == "cut":
            visit(term.args[0], strict)
        elif term.op == "exp":
            visit(term.args[0], False)
        elif term.op == "fn" and term.args[0] in _THROUGH:
            visit(term.args[1], strict and term.args[0] in _FINITE)
    return found


def conditions_in(x: Element) -> dict[Condition, None]:
    """Every condition under which an element, with all that it is made of, is defined."""
    found: dict[Condition, None] = {}
    if type(x) is Term and x.partial:
        pending, seen = [x], {x}
        while pending:
            term = pending.pop()
            for condition in conditions_of(term):
                found[condition] = None
            for child in children(term):
                if child.partial and child not in seen:
                    seen.add(child)
                    pending.append(child)
    return found


@dataclass
class Knowledge:
    """The assumptions (about the specification), and what follows from them by signs. ``sign`` is 2 of what is
    positive, 1 of what is not negative, else 0."""

    table: Table
    assumed: Mapping[Condition, str]
    _signs: dict[Term, int] = field(default_factory=dict[Term, int])

    def holds(self, condition: Condition, more: Mapping[Condition, None] | None = None) -> bool:
        """True if a condition is assumed (or one of ``more``), or follows by signs."""
        if condition in self.assumed or (more is not None and condition in more):
            return True
        x = condition.term
        if condition.kind == "nonnegative":
            return self.sign(x) > 0 or (more is not None and Condition("positive", x) in more)
        if condition.kind == "positive":
            return self.sign(x) == 2 or (
                Condition("nonzero", x) in self.assumed
                and (self.sign(x) == 1 or Condition("nonnegative", x) in self.assumed)
            )
        if condition.kind == "nonzero":
            return self.sign(x) == 2 or Condition("positive", x) in self.assumed or self.negative(x)
        if condition.kind == "finite":
            return any(type(one) is not Term or not one.infinite for one in x.args)
        if condition.kind == "range":
            return self._in_range(x, condition.size)
        return condition.kind == "defined" and self._defined(x)

    @cached_property
    def ranges(self) -> Mapping[Term, int]:
        """The terms that are assumed to be indices, with the least size that they index."""
        found: dict[Term, int] = {}
        for condition in self.assumed:
            if condition.kind == "range":
                found[condition.term] = min(condition.size, found.get(condition.term, condition.size))
        return found

    def negative(self, x: Term) -> bool:
        """True if a term is below 0 wherever it is defined."""
        opposite = add(self.table, [(-1, x)])
        return type(opposite) is Term and self.sign(opposite) == 2

    def _in_range(self, x: Term, size: int) -> bool:
        if x.boolean:
            return size >= 2
        if x.op == "row" and x.args[0] in POSITIONS_IN_A_ROW:
            return len(x.args[4][0]) <= size
        if x.op == "ite":
            return all(
                self.holds(Condition("range", one, size)) if type(one) is Term else 0 <= one < size
                for one in x.args[1:]
            )
        return self.ranges.get(x, size + 1) <= size

    def _defined(self, x: Term) -> bool:
        name, *operands = x.args
        last = operands[-1]
        if name == "floor_divide":
            return self.holds(Condition("nonzero", last)) if type(last) is Term else last != 0
        if name == "integer_pow":
            return self.sign_of(last) > 0
        if name == "pow":
            return self.sign_of(operands[0]) == 2
        return False

    def sign_of(self, x: Element) -> int:
        """The sign of a number or a term."""
        return self.sign(x) if type(x) is Term else 2 if x > 0 else int(x == 0)  # type: ignore[operator]

    def sign(self, x: Term) -> int:
        """2 if a term is positive wherever it is defined, 1 if it is not negative, else 0."""
        return bottom_up(x, self._signs, lambda term: max(self._sign(term), self._assumed(term)))

    def _assumed(self, x: Term) -> int:
        if Condition("positive", x) in self.assumed:
            return 2
        return int(Condition("nonnegative", x) in self.assumed)

    def _sign(self, x: Term) -> int:
        if x.op in ("exp", "num"):
            return 2
        if x.op == "cut":
            return self.sign(x.args[0])
        if x.op == "sum":
            constant, pairs = x.args
            signs = [self.sign(term) if c > 0 else 0 for term, c in pairs]
            if constant < 0 or not all(signs):
                return int(x.boolean)
            return 2 if constant > 0 or 2 in signs else 1
        if x.op == "prod":
            return min(self._sign_of_power(base, exponent) for base, exponent in x.args)
        if x.op == "max":
            return max(self.sign_of(one) for one in x.args)
        if x.op == "ite" and not x.infinite:
            return min(self.sign_of(one) for one in x.args[1:])
        if x.op == "fn":
            return int(FUNCTIONS[x.args[0]].nonnegative)
        if x.op == "row":
            return int(x.args[0] in POSITIONS_IN_A_ROW)
        return int(x.boolean)

    def _sign_of_power(self, base: Term, exponent: Exact) -> int:
        own = self.sign(base)
        if own == 2:
            return 2
        whole = isinstance(exponent, int)
        if exponent < 0 and (own or not whole or exponent % 2 == 0):
            return 2
        if Condition("nonzero", base) in self.assumed and (own or (whole and exponent % 2 == 0)):
            return 2
        return int(bool(own) or not whole or exponent % 2 == 0)
