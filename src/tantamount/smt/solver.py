"""Questions to z3: are two terms equal for all values of their variables, does a condition hold?

What both programs have computed before is opaque at first: a free number. Functions, exponentials and roots are opaque
or uninterpreted always; a quotient is a number whose product with the divisor is what is divided where the divisor is
not 0. So there are more cases than the programs have, and "no counterexample" holds for them all. A counterexample of
z3 proves nothing: it is an answer of ``None``. Questions that are equal up to the names of variables are asked once.
Effort is counted in z3's own steps (``rlimit``), so that answers repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, cast

from tantamount.effort import Effort
from tantamount.errors import UserError
from tantamount.smt.knowledge import Knowledge
from tantamount.smt.terms import Condition, Element, Term, children, variables_of

__all__ = ["Solver", "Tally", "load_z3"]

_LARGEST_POWER = 64  # numerator and denominator of an exponent that is written as a product
_DIGITS = 12  # of an irrational number in an answer


def load_z3() -> Any:
    """The solver's module. Raises :class:`UserError` where it is not installed."""
    try:
        import z3  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise UserError(
            "smt-missing", place="--engine smt", found="an environment without z3", needed="the solver z3",
            hint="pip install 'tantamount[smt]'",
        ) from None  # fmt: skip
    return cast(Any, z3)


@dataclass
class Tally:
    """Questions by how they were settled: ``solver`` (of these ``renamed`` were asked before, with other names), and
    those that were not."""

    solver: int = 0
    renamed: int = 0
    undecided: int = 0


@dataclass
class Solver:
    """Asks z3, and remembers. ``effort`` bounds steps, terms and time."""

    z3: Any
    knowledge: Knowledge
    effort: Effort
    tally: Tally = field(default_factory=Tally)
    equalities: Sequence[tuple[Element, Element]] = ()
    _known: dict[object, bool | None] = field(default_factory=dict[object, "bool | None"])

    def equal(self, a: Element, b: Element, settled: Collection[Term]) -> bool | None:
        """True if two elements are equal wherever both are defined; ``None`` if that was not shown. ``settled`` are
        terms that may be opaque at first: elements of tensors that both programs have."""
        found: bool | None = None
        for below in (settled, frozenset[Term]()):
            mine = self._below(b, below)
            common = self._below(a, mine) & mine
            found = self._asked(("equal", a, b), lambda x, common=common: x in common and not x.integer)
            if found is not None:
                break
        if found is None:
            found = self._asked(("equal", a, b), lambda x: False)
        if found:
            self.tally.solver += 1
        else:
            self.tally.undecided += 1
        return found

    @property
    def questions(self) -> int:
        """The number of different questions."""
        return len(self._known)

    def holds(self, condition: Condition) -> bool:
        """True if a condition follows from what is assumed."""
        if condition.kind not in _FORMULAS:
            return False
        return self._asked((condition.kind, condition.term, condition.size), lambda x: False) is True

    def model(self, conditions: Sequence[Element]) -> Mapping[Term, Fraction] | bool | None:
        """Values of variables at which all conditions (numbers that are not 0) hold, each rounded; ``True`` if they
        hold whatever these are, ``False`` if they never do, ``None`` if that is not known. What z3 takes for a function
        of its own is more than what there is: "never" holds all the same, values need not do."""
        z3 = self.z3
        if any(type(one) is not Term and not one for one in conditions):
            return False
        translation = _Translation(z3, self.knowledge, lambda x: False)
        formulas = [translation.of(one) != 0 for one in conditions if type(one) is Term]
        if not formulas:
            return True
        solver = self._solver()
        solver.add(*formulas, *translation.facts)
        try:
            answer = solver.check()
        except z3.Z3Exception:  # out of memory
            answer = z3.unknown
        if answer == z3.unknown:
            self.effort.hit("smt_steps")
        if answer != z3.sat:
            return False if answer == z3.unsat else None
        found, model = dict[Term, Fraction](), solver.model()
        for term, value in translation.known.items():
            if term.op == "var":
                number = model.eval(value, model_completion=True)
                if z3.is_algebraic_value(number):
                    number = number.approx(_DIGITS)
                found[term] = Fraction(str(number.as_fraction()))
        return found

    def _solver(self) -> Any:
        """A solver that takes no more steps and time than there are."""
        solver = self.z3.Solver()
        solver.set("rlimit", self.effort.bounds.smt_steps)
        left = self.effort.left()
        if left is not None:
            solver.set("timeout", max(1, round(1000 * left)))
        return solver

    def _below(self, x: Element, ends: Collection[Term]) -> frozenset[Term]:
        """The terms that a term is made of, down to the terms ``ends``, without itself; nothing of one that is too
        large."""
        if type(x) is not Term:
            return frozenset()
        start = x.args[1][0][0] if x.op == "sum" and len(x.args[1]) == 1 else x  # of a multiple, what it is one of
        pending, seen = [x], {x}
        while pending:
            one = pending.pop()
            if one in ends and one is not start:
                continue
            for child in children(one):
                if child not in seen:
                    seen.add(child)
                    pending.append(child)
            if len(seen) > self.effort.bounds.smt_terms:
                return frozenset()
        return frozenset(seen - {x, start})

    def _asked(self, question: tuple[str, Element, Any], opaque: Callable[[Term], bool]) -> bool | None:
        kind, a, b = question
        found = self._key(kind, a, b, opaque)
        if found is None:
            return None
        if found in self._known:
            self.tally.renamed += kind == "equal" and self._known[found] is True
            return self._known[found]
        self.effort.check()
        if max(_monomials(x, opaque) for x in (a, b) if type(x) is Term) > self.effort.bounds.smt_terms:
            self.effort.hit("smt_terms")
            self._known[found] = None
            return None
        if self.effort.exceeds("smt_questions", len(self._known) + 1):
            return None
        translation = _Translation(self.z3, self.knowledge, opaque)
        if kind == "equal":
            left, right = translation.of(a), translation.of(b)
            answer = True if self._expanded(left - right) else self._solve(translation, left != right)
        else:
            formula = translation.condition(Condition(kind, cast(Term, a), b))
            answer = self._solve(translation, self.z3.Not(formula))
        self._known[found] = answer
        return answer

    def _expanded(self, difference: Any) -> bool:
        """True if a difference vanishes when products are multiplied out."""
        z3 = self.z3
        try:
            done = z3.simplify(difference, som=True, max_steps=self.effort.bounds.smt_steps)
        except z3.Z3Exception:  # too many steps
            return False
        return bool(z3.is_rational_value(done) and done.as_fraction() == 0)

    def _solve(self, translation: _Translation, negated: Any) -> bool | None:
        z3 = self.z3
        solver = self._solver()
        solver.add(negated)
        for a, b in self.equalities:
            solver.add(translation.of(a) == translation.of(b))
        for condition in self.knowledge.assumed:
            if condition.kind in _FORMULAS and translation.concerns(condition):
                solver.add(translation.condition(condition))
        solver.add(*translation.facts)
        try:
            answer = solver.check()
        except z3.Z3Exception:  # out of memory
            answer = z3.unknown
        if answer == z3.unknown:
            self.effort.check()
            self.effort.hit("smt_steps")
        return True if answer == z3.unsat else None

    def _key(self, kind: str, a: Element, b: Any, opaque: Callable[[Term], bool]) -> object:
        """The question without names: what it is made of in the order in which it is met, with all that is known of
        each; ``None`` if it is too large."""
        numbers: dict[Term, int] = {}
        rows: list[object] = []

        def visit(term: Term) -> int:
            pending = [term]
            while pending:
                one = pending[-1]
                if one in numbers:
                    pending.pop()
                    continue
                cut = opaque(one)
                below = [] if cut else [c for c in children(one) if c not in numbers]
                if below:
                    pending += reversed(below)
                    continue
                pending.pop()
                numbers[one] = len(numbers)
                rows.append(self._row(one, numbers, cut))
                if len(rows) > self.effort.bounds.smt_terms:
                    raise _TooLarge
            return numbers[term]

        try:
            roots = tuple(visit(x) if type(x) is Term else ("number", x) for x in (a, b))
        except _TooLarge:
            self.effort.hit("smt_terms", len(rows))
            return None
        named = tuple(numbers) if self.equalities else ()  # which speak of single variables: then names matter
        return (kind, roots, tuple(rows), named)

    def _row(self, term: Term, numbers: Mapping[Term, int], opaque: bool) -> object:
        known = tuple(
            (kind, Condition(kind, term) in self.knowledge.assumed) for kind in ("nonzero", "nonnegative", "positive")
        )
        ranges = self.knowledge.ranges.get(term)
        knowing = self.knowledge
        facts = (term.integer, term.boolean, knowing.sign(term), knowing.negative(term), known, ranges)
        if opaque or term.op in ("var", "undefined"):
            return ("free", facts)
        inner: list[object] = []
        if term.op == "sum":
            inner = [term.args[0], *((numbers[x], c) for x, c in term.args[1])]
        elif term.op == "prod":
            inner = [(numbers[x], e, type(e) is int) for x, e in term.args]
        elif term.op == "row":
            rows = tuple(tuple(numbers[x] if type(x) is Term else ("number", x) for x in row) for row in term.args[4])
            inner = [*term.args[:4], rows]
        else:
            inner = [numbers[x] if type(x) is Term else ("number", x) for x in term.args]
        return (term.op, tuple(inner), facts)


def _monomials(x: Term, opaque: Callable[[Term], bool]) -> float:
    """The number of monomials, or more, of a term whose products are multiplied out; a choice counts as one."""
    known: dict[Term, float] = {}
    pending = [x]
    while pending:
        term = pending[-1]
        inner = () if opaque(term) or term.op not in ("sum", "prod", "cut") else tuple(children(term))
        missing = [one for one in inner if one not in known]
        if missing:
            pending += missing
            continue
        pending.pop()
        if not inner:
            known[term] = 1.0
        elif term.op == "sum":
            known[term] = 1.0 + sum(known[one] for one, _ in term.args[1])
        elif term.op == "cut":
            known[term] = known[term.args[0]]
        else:
            count = 1.0
            for base, exponent in term.args:  # roots and divisors are numbers of their own
                times = int(exponent) if type(exponent) is int and exponent > 0 else 0
                count = min(count * known[base] ** min(times, 16), 1e12)
            known[term] = count
    return known[x]


class _TooLarge(Exception):
    """A question of too many terms."""


class _Translation:
    """Terms as real numbers of z3. ``facts`` hold of the numbers that stand for what z3 does not know."""

    def __init__(self, z3: Any, knowledge: Knowledge, opaque: Callable[[Term], bool]) -> None:
        self.z3 = z3
        self.knowledge = knowledge
        self.opaque = opaque
        self.known: dict[Term, Any] = {}
        self.facts: list[Any] = []
        self._powers: dict[tuple[Term, int | Fraction], Any] = {}

    def concerns(self, condition: Condition) -> bool:
        """True if what a condition is about is part of the question. Of the range of an index that is enough of its
        variables: where a label is ignored, another one is read, and it is this one whose range is known."""
        if condition.term in self.known:
            return True
        return condition.kind == "range" and all(one in self.known for one in variables_of(condition.term))

    def of(self, x: Element) -> Any:
        """The value of an element."""
        if type(x) is not Term:
            return self.number(cast("int | Fraction", x))
        known = self.known
        pending = [x]
        while pending:
            term = pending[-1]
            if term in known:
                pending.pop()
                continue
            below = () if self.opaque(term) else tuple(self._needed(term))
            missing = [one for one in below if one not in known]
            if missing:
                pending += missing
                continue
            pending.pop()
            known[term] = self._term(term)
        return known[x]

    def _needed(self, term: Term) -> Iterator[Term]:
        if term.op == "var" or term.op == "undefined":
            return iter(())
        return children(term)

    def number(self, value: int | Fraction) -> Any:
        """A rational number."""
        return self.z3.RealVal(str(value))

    def _free(self, term: Term) -> Any:
        z3 = self.z3
        if term.integer:
            value = z3.ToReal(z3.Int(f"i{term.number}"))
            if term.boolean:
                self.facts += [value >= 0, value <= 1]
        else:
            value = z3.Real(f"x{term.number}")
        return self._signed(term, value)

    def _signed(self, term: Term, value: Any) -> Any:
        sign = self.knowledge.sign(term)
        if sign:
            self.facts.append(value > 0 if sign == 2 else value >= 0)
        return value

    def _term(self, term: Term) -> Any:
        if self.opaque(term):
            return self._free(term)
        if term.op == "sum":
            parts = [self.known[x] if c == 1 else self.number(c) * self.known[x] for x, c in term.args[1]]
            if term.args[0]:
                parts.append(self.number(term.args[0]))
            return self.z3.Sum(*parts) if len(parts) > 1 else parts[0]
        if term.op == "prod":
            return self._product(term)
        if term.op == "cut":
            return self.known[term.args[0]]
        rule: Callable[[Term], Any] | None = {
            "ite": self._choice, "pos": self._positive, "zero": self._zero, "max": self._maximum, "fn": self._function,
            "exp": self._unary, "log": self._unary, "row": self._rows,
        }.get(term.op)  # fmt: skip
        return self._free(term) if rule is None else rule(term)

    def _product(self, term: Term) -> Any:
        guards: list[Any] = []
        factors: list[Any] = []
        for base, exponent in term.args:
            if base.boolean and exponent == 1:
                guards.append(self.known[base] != 0)
            else:
                factors.append(self._power(base, exponent))
        value = self.z3.Product(*factors) if len(factors) > 1 else factors[0] if factors else self.number(1)
        return self.z3.If(self.z3.And(*guards), value, self.number(0)) if guards else value

    def _power(self, base: Term, exponent: int | Fraction) -> Any:
        found = self._powers.get((base, exponent))
        if found is None:
            found = self._powers[base, exponent] = self._power_of(base, exponent)
        return found

    def _power_of(self, base: Term, exponent: int | Fraction) -> Any:
        value = self.known[base]
        n = Fraction(exponent)
        if max(n.denominator, abs(n.numerator)) > _LARGEST_POWER:  # 0.1 as a float has a denominator of 17 digits
            real = self.z3.RealSort()
            value = self.z3.Function(f"power_{n}", real, real)(value)
            if self.knowledge.sign(base) == 2:
                self.facts.append(value > 0)
            return value
        if n.denominator > 1:
            root = self.z3.Real(f"r{base.number}_{n.denominator}")
            power = self.z3.Product(*[root] * n.denominator)
            known = self.knowledge.sign(base) or any(
                Condition(kind, base) in self.knowledge.assumed for kind in ("positive", "nonnegative")
            )
            fact = self.z3.And(power == value, root >= 0)
            self.facts.append(fact if known else self.z3.Implies(value >= 0, fact))
            if self.knowledge.sign(base) == 2:
                self.facts.append(root > 0)
            value = root
        if n < 0:
            inverse = self.z3.Real(f"d{base.number}_{n.denominator}")
            fact = inverse * value == 1
            nonzero = self.knowledge.holds(Condition("positive" if n.denominator > 1 else "nonzero", base))
            self.facts.append(fact if nonzero else self.z3.Implies(value != 0, fact))
            if self.knowledge.sign(base) == 2:
                self.facts.append(inverse > 0)
            value = inverse
        times = abs(n.numerator)
        return self.z3.Product(*[value] * times) if times > 1 else value

    def _choice(self, term: Term) -> Any:
        if term.infinite:
            return self._free(term)
        condition, x, y = (self.of(one) for one in term.args)
        return self.z3.If(condition != 0, x, y)

    def _positive(self, term: Term) -> Any:
        return self.z3.If(self.known[term.args[0]] > 0, self.number(1), self.number(0))

    def _zero(self, term: Term) -> Any:
        return self.z3.If(self.known[term.args[0]] == 0, self.number(1), self.number(0))

    def _maximum(self, term: Term) -> Any:
        if any(type(x) is Term and x.infinite for x in term.args):
            return self._free(term)
        value = self.z3.Real(f"m{term.number}")
        items = [self.of(x) for x in term.args]
        self.facts += [value >= item for item in items]
        self.facts.append(self.z3.Or(*(value == item for item in items)))
        return value

    def _unary(self, term: Term) -> Any:
        return self._apply(term.op, [self.of(term.args[0])], term)

    def _function(self, term: Term) -> Any:
        return self._apply(f"fn_{term.args[0]}", [self.of(x) for x in term.args[1:]], term)

    def _rows(self, term: Term) -> Any:
        name, key, j, k, rows = term.args[:5]
        return self._apply(f"row_{name}_{key}_{j}_{k}", [self.of(x) for row in rows for x in row], term)

    def _apply(self, name: str, operands: Sequence[Any], term: Term) -> Any:
        z3 = self.z3
        sort = z3.RealSort()
        function = z3.Function(f"{name}/{len(operands)}", *[sort] * len(operands), sort)
        value = function(*operands)
        if term.integer:
            self.facts.append(z3.IsInt(value))
        return self._signed(term, value)

    def condition(self, condition: Condition) -> Any:
        """A condition of :data:`_FORMULAS` as a formula."""
        return _FORMULAS[condition.kind](self.z3, self.of(condition.term), condition.size)


_FORMULAS: Mapping[str, Callable[[Any, Any, int], Any]] = {
    "nonzero": lambda z3, value, size: value != 0,
    "nonnegative": lambda z3, value, size: value >= 0,
    "positive": lambda z3, value, size: value > 0,
    "range": lambda z3, value, size: z3.And(value >= 0, value <= size - 1),
}
