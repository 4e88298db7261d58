"""For which sizes a program was captured: its size symbols, their ranges, and the conditions on them.

Sizes in files are text, ``"2*B*S"`` or ``"S//2"``: polynomials over the symbols with whole coefficients; a division
must come out even wherever the conditions hold. Conditions are comparisons of two such, or ``"S % 2 == 0"``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import Any

from tantamount.errors import Unsupported
from tantamount.sizes.polynomials import Polynomial, evaluate
from tantamount.sizes.symbolic import Condition, Space, holds, is_size, rational, simplified, symbol

__all__ = [
    "Domain", "LARGEST", "NO_SIZES", "SizeProblem", "Symbol", "implied", "multiples", "parse_condition",
    "parse_size", "ranges_of", "shown_sizes", "symbol_of",
]  # fmt: skip

LARGEST = 1 << 62  # no tensor has more elements than that
_LONGEST = 1000  # characters of one expression


class SizeProblem(Exception):
    """A size or condition that cannot be read; the text is one clause."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size symbol: whole numbers from ``low`` (1 or more) to ``high``; ``hint`` is what it was at capture.

    A number that may be 0 or negative is a symbol, too: of K from -2 on there is the symbol ``(K + 3)``, which is what
    is proved about, and K is 3 less than it. ``label`` is K, ``shift`` is 3."""

    name: str
    hint: int
    low: int = 1
    high: int = LARGEST

    @property
    def label(self) -> str:
        """The name that files and users have for the size."""
        return _spelled(self.name)[0]

    @property
    def shift(self) -> int:
        """The number by which the symbol is greater than the number that files and users mean."""
        return _spelled(self.name)[1]

    def __str__(self) -> str:
        low, high = self.low - self.shift, self.high - self.shift
        return f"{self.label} >= {low}" if self.high >= LARGEST else f"{low} <= {self.label} <= {high}"


def symbol_of(label: str, hint: int, low: int, high: int) -> Symbol:
    """The symbol of a number from ``low`` to ``high``, any whole numbers."""
    if low >= 1:
        return Symbol(label, hint, low, high)
    shift = 1 - low
    return Symbol(f"({label} + {shift})", hint + shift, 1, high + shift)


def _spelled(name: str) -> tuple[str, int]:
    """``(K + 3)`` as K and 3."""
    if not name.startswith("("):
        return name, 0
    label, shift = name[1:-1].split(" + ")
    return label, int(shift)


def shown_sizes(values: Mapping[str, int]) -> str:
    """Values of symbols as users know them: ``B = 2, K = 0``."""
    spelled = [(*_spelled(name), value) for name, value in values.items()]
    return ", ".join(f"{label} = {value - shift}" for label, shift, value in spelled)


@dataclass(frozen=True)
class Domain:
    """Symbols and the conditions that hold of them."""

    symbols: tuple[Symbol, ...] = ()
    conditions: tuple[Condition, ...] = ()

    @property
    def hints(self) -> dict[str, int]:
        """The sizes at capture."""
        return {s.name: s.hint for s in self.symbols}

    def contains(self, values: Mapping[str, int]) -> bool:
        """True if sizes are in the ranges and satisfy the conditions."""
        return all(s.low <= values[s.name] <= s.high for s in self.symbols) and all(
            holds(condition, values) for condition in self.conditions
        )

    def __str__(self) -> str:
        return ", ".join(map(str, (*self.symbols, *self.conditions)))

    def reduced(self) -> Domain:
        """The same sizes, said without what follows from the rest: bounds of single symbols are their ranges."""
        steps = multiples(self)
        found: list[Symbol] = []
        for s in self.symbols:
            low, high, before = s.low, s.high, 0
            while low != before:  # up to the first value that no condition on this symbol alone excludes
                before, step = low, steps.get(s.name, 1)
                low = -(-low // step) * step
                for bound, value in _bounds(self, s.name):
                    low = max(low, value) if bound == "low" else low + 1 if bound == "not" and low == value else low
                    high = min(high, value) if bound == "high" else high
            found.append(replace(s, low=low, high=high))
        kept = list(self.conditions)
        for condition in self.conditions:
            others = [c for c in kept if c != condition]
            if implied(Domain(tuple(found), tuple(others)), condition):
                kept = others
        return Domain(tuple(found), tuple(kept))

    def joined(self, other: Domain) -> Domain:
        """The sizes in both. Raises :class:`SizeProblem` if a symbol has two hints."""
        found = {s.name: s for s in self.symbols}
        labels = {s.label: s for s in self.symbols}
        for s in other.symbols:
            least = [1 - one.shift for one in (labels.get(s.label, s), s)]
            if least[0] != least[1]:
                raise SizeProblem(f"{s.label} is from {least[0]} on in one program and from {least[1]} on in another")
            mine = found.get(s.name, s)
            if mine.hint != s.hint:
                raise SizeProblem(f"{s.name} is {mine.hint} in one program and {s.hint} in another")
            found[s.name] = replace(s, low=max(mine.low, s.low), high=min(mine.high, s.high))
        conditions = tuple(dict.fromkeys((*self.conditions, *other.conditions)))
        return Domain(tuple(found[name] for name in sorted(found)), conditions).reduced()


NO_SIZES = Domain()  # of a program without size symbols


def implied(domain: Domain, condition: Condition) -> bool:
    """True if a condition is seen to hold on a domain without a solver: one of its own, whole numbers by divisibility
    of single symbols, and signs where every symbol is its lowest value and more."""
    kind, polynomial = condition
    if condition in domain.conditions:
        return True
    if kind == "whole":
        steps = multiples(domain)
        new = Space({s.name: 1 for s in domain.symbols})
        value = evaluate(polynomial, {name: steps.get(name, 1) * new.symbols[name] for name in new.symbols})
        return value.is_formally_whole if is_size(value) else Fraction(value).denominator == 1
    if kind == "zero":
        return False
    if any(e < 0 for m, _ in polynomial for _, e in m):
        return False
    negated = tuple((m, -c) for m, c in polynomial)
    if kind == "nonzero":
        return _least(domain, polynomial, strict=True) or _least(domain, negated, strict=True)
    return _least(domain, polynomial, strict=kind == "positive")


def ranges_of(domain: Domain) -> tuple[Condition, ...]:
    """The ranges of the symbols as conditions."""
    found: list[Condition] = []
    for s in domain.symbols:
        name = ((s.name, 1),)
        found.append(Condition("nonnegative", (((), -s.low), (name, 1))))
        found.append(Condition("nonnegative", (((), s.high), (name, -1))))
    return tuple(found)


def _least(domain: Domain, polynomial: Polynomial, *, strict: bool) -> bool:
    """True if ``p > 0`` (or ``>= 0``): with every symbol as ``low + more`` or, where that does not help,
    ``high - less``, no coefficient is negative."""
    names = {name for m, _ in polynomial for name, _ in m}
    symbols = [s for s in domain.symbols if s.name in names]
    more = Space({s.name: 1 for s in symbols})
    steps = multiples(domain)
    for bits in range(1 << min(len(symbols), 4)):
        values: dict[str, Any] = {}
        for k, s in enumerate(symbols):
            step = steps.get(s.name, 1)
            low = -(-s.low // step) * step
            values[s.name] = s.high - more.symbols[s.name] if bits >> k & 1 else low + more.symbols[s.name]
        value = evaluate(polynomial, values)
        terms: tuple[Any, ...] = value.polynomial if is_size(value) else (((), value),) if value else ()
        if all(c >= 0 for _, c in terms) and (not strict or any(not m for m, _ in terms)):
            return True
    return False


def _bounds(domain: Domain, name: str) -> Iterator[tuple[str, int]]:
    """The bounds and excluded values of one symbol, from conditions such as ``S >= 4``, ``S <= 4``, ``S != 4``."""
    for kind, polynomial in domain.conditions:
        terms = dict(polynomial)
        offset = Fraction(terms.pop((), 0))
        c = Fraction(terms.pop(((name, 1),), 0))
        if terms or not c or kind not in ("positive", "nonnegative", "nonzero"):
            continue
        at = -offset / c
        if kind == "nonzero":
            if at.denominator == 1:
                yield "not", int(at)
        elif c > 0:
            yield "low", floor(at) + 1 if kind == "positive" else ceil(at)
        else:
            yield "high", ceil(at) - 1 if kind == "positive" else floor(at)


def multiples(domain: Domain) -> dict[str, int]:
    """The numbers that symbols are known to be multiples of."""
    found: dict[str, int] = {}
    for kind, polynomial in domain.conditions:
        if kind == "whole" and len(polynomial) == 1 and len(polynomial[0][0]) == 1 and polynomial[0][0][0][1] == 1:
            c = Fraction(polynomial[0][1])
            name = polynomial[0][0][0][0]
            found[name] = max(found.get(name, 1), c.denominator)
    return found


# ---------------------------------------------------------------------------------------------- as text
def parse_size(text: str, domain: Domain) -> Any:
    """The number or size that an expression over the symbols is. Raises :class:`SizeProblem`."""
    value = _value(_tree(text), domain, text)
    if not is_size(value) and Fraction(value).denominator != 1:
        raise SizeProblem(f"{text}, which is no whole number")
    return value


def parse_condition(text: str, domain: Domain) -> Condition | None:
    """A comparison of two expressions; ``None`` if it holds of any sizes. Raises :class:`SizeProblem`."""
    tree = _tree(text)
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
        raise SizeProblem(f"{text}, which is no comparison of two")
    left, right, op = tree.left, tree.comparators[0], tree.ops[0]
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and isinstance(op, ast.Eq):
        divisor = _value(left.right, domain, text)
        if is_size(divisor) or divisor < 1 or _value(right, domain, text) != 0:
            raise SizeProblem(f"{text}, where only expression % number == 0 is understood")
        return simplified("whole", _polynomial(_value(left.left, domain, text) / rational(divisor)))
    a, b = _value(left, domain, text), _value(right, domain, text)
    for kind, sign, operator in (
        ("zero", 1, ast.Eq),
        ("nonzero", 1, ast.NotEq),
        ("positive", 1, ast.Gt),
        ("nonnegative", 1, ast.GtE),
        ("positive", -1, ast.Lt),
        ("nonnegative", -1, ast.LtE),
    ):
        if isinstance(op, operator):
            difference = _polynomial(sign * (a - b))
            found = simplified(kind, difference)
            if found is None and not holds(Condition(kind, difference), {}):
                raise SizeProblem(f"{text}, which no sizes satisfy")
            return found
    raise SizeProblem(f"the comparison in {text}")


def _tree(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise SizeProblem("an expression that is too long")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SizeProblem(f"{text[:60]!r}, which is no expression") from None


def _polynomial(value: Any) -> Polynomial:
    return value.polynomial if is_size(value) else (((), value),) if value else ()


def _value(tree: ast.expr, domain: Domain, text: str) -> Any:
    """The value of a syntax tree of numbers, symbols and arithmetic: nothing is run."""
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return tree.value
    if isinstance(tree, ast.Name):
        declared = {s.label: s for s in domain.symbols}
        if tree.id not in declared:
            raise SizeProblem(f"the symbol {tree.id} in {text!r}, which is not declared")
        found = declared[tree.id]
        return symbol(found.name, found.hint) - found.shift
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_value(tree.operand, domain, text)
    if isinstance(tree, ast.BinOp):
        a, b = _value(tree.left, domain, text), _value(tree.right, domain, text)
        try:
            if isinstance(tree.op, ast.Add):
                return a + b
            if isinstance(tree.op, ast.Sub):
                return a - b
            if isinstance(tree.op, ast.Mult):
                return a * b
            if isinstance(tree.op, ast.Pow) and isinstance(b, int) and 0 <= b <= 8:
                return a**b
            if isinstance(tree.op, (ast.FloorDiv, ast.Div)) and b != 0:
                return _even_quotient(a, b, domain, text)
        except Unsupported as problem:
            raise SizeProblem(f"{problem.reason} in {text!r}") from None
    raise SizeProblem(f"{text!r}, which is not made of symbols, numbers, +, -, * and //")


def _even_quotient(a: Any, b: Any, domain: Domain, text: str) -> Any:
    value = rational(a) / rational(b)
    needed = simplified("whole", _polynomial(value))
    if needed is not None and not implied(domain, needed):
        raise SizeProblem(f"{text!r}, where {needed} does not follow from the conditions")
    return value if is_size(value) or value.denominator != 1 else int(value)
