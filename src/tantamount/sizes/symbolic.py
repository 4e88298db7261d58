"""Sizes that are not numbers: polynomials over size symbols that behave as integers, and remember what was asked.

A :class:`Size` takes the place of an ``int``. It is a polynomial with rational coefficients (negative powers of symbols
may occur, as in ``1 / (B S)``) and the number that it is at one choice of the symbols, its *hint*. Arithmetic is exact
on polynomials. What has a truth value (a comparison, a remainder, ``if size``) is answered for the hint, and the answer
is noted in the :class:`Space` as a *condition*. So whatever a program computes with such sizes, it computes for all
sizes that satisfy the conditions: the same way is taken. (Concolic execution; Godefroid, Klarlund and Sen, *DART*.)

A ``Size`` is no ``int`` and cannot become one (``range``, ``math.gcd``, list indices raise :class:`Unsupported`), so
that nothing is concluded from the hint alone. It hashes as the polynomial: that tables tell apart two polynomials which
are one number at some sizes is argued to be harmless in docs/design/symbolic-sizes.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, NamedTuple, TypeGuard, cast
from zlib import crc32

from tantamount.errors import InternalError, Unsupported
from tantamount.sizes.polynomials import (
    Polynomial,
    Powers,
    Rational,
    collected,
    content,
    evaluate,
    exact,
    plus,
    product_of_powers,
    quotient,
    show,
    times,
)

__all__ = [
    "Condition", "Size", "Space", "alike", "common_divisor", "divided_evenly", "factored", "holds", "is_integer",
    "is_number", "is_one", "is_size", "never_below", "rational", "same", "simplified", "substituted", "symbol",
    "taken_out", "whole", "whole_part",
]  # fmt: skip


class Condition(NamedTuple):
    """A condition on a polynomial: ``kind`` is ``zero``, ``nonzero``, ``positive``, ``nonnegative`` or ``whole``."""

    kind: str
    polynomial: Polynomial

    def __str__(self) -> str:
        return _shown(self)


class Space:
    """The symbols of one run, where they are (``hints``), and the conditions noted so far with the place of each.
    Symbols are sizes: whole numbers from 1 on. ``given`` are conditions that hold of all sizes that are asked about."""

    def __init__(self, hints: Mapping[str, int], given: Iterable[Condition] = ()) -> None:
        self.hints = dict(hints)
        self.given = tuple(given)
        self.conditions: dict[Condition, str] = {}
        self.place = ""
        self.symbols: dict[str, int] = {name: symbol(name, hint, self) for name, hint in hints.items()}

    def at(self, polynomial: Polynomial) -> Any:
        """A polynomial in the symbols as a size of this run, or the number that it is."""
        return _made(polynomial, evaluate(polynomial, self.hints), self)

    def write(self, name: str, polynomial: Polynomial) -> None:
        """Let a symbol be a polynomial in others, which it is at the hints: noted, and what follows is for such
        sizes."""
        self.note("zero", plus(polynomial, ((((name, 1),), 1),), -1))
        self.symbols[name] = self.at(polynomial)

    def note(self, kind: str, polynomial: Polynomial) -> None:
        """Remember that something holds, unless it holds of any symbols at all."""
        found = simplified(kind, polynomial)
        if found is not None:
            self.conditions.setdefault(found, self.place)


class Size:
    """A size; see the module. ``space`` is ``None`` for a size that was only read: nothing is noted then."""

    __slots__ = ("_hash", "hint", "polynomial", "space")

    def __init__(self, polynomial: Polynomial, hint: Rational, space: Space | None) -> None:
        self.polynomial = polynomial
        self.hint = hint
        self.space = space
        self._hash: int | None = None

    # -- arithmetic
    def _with(self, other: object, sign: int = 1) -> Any:
        """``self + sign * other``"""
        found = self._operand(other)
        if found is None:
            return NotImplemented
        polynomial, hint = found
        return _made(plus(self.polynomial, polynomial, sign), self.hint + sign * hint, self.space)

    def _operand(self, other: object) -> tuple[Polynomial, Rational] | None:
        if isinstance(other, Size):
            if other.space is not self.space:
                raise InternalError("sizes of two runs meet")
            return other.polynomial, other.hint
        if isinstance(other, (int, Fraction)):
            return (((), other),) if other else (), other
        return None

    def __add__(self, other: object) -> Any:
        return self._with(other)

    __radd__ = __add__

    def __sub__(self, other: object) -> Any:
        return self._with(other, -1)

    def __rsub__(self, other: object) -> Any:
        return (-self)._with(other)

    def __neg__(self) -> Size:
        return Size(tuple((m, -c) for m, c in self.polynomial), -self.hint, self.space)

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Size:
        return -self if self < 0 else self

    def __mul__(self, other: object) -> Any:
        found = self._operand(other)
        if found is None:
            return NotImplemented
        polynomial, hint = found
        return _made(times(self.polynomial, polynomial), self.hint * hint, self.space)

    __rmul__ = __mul__

    def __pow__(self, exponent: object) -> Any:
        if not isinstance(exponent, int):
            return NotImplemented
        if exponent < 0:
            return 1 / self**-exponent
        return reduce(lambda x, _: x * self, range(exponent), cast("Any", 1))

    def __truediv__(self, other: object) -> Any:
        found = self._operand(other)
        if found is None:
            return NotImplemented
        polynomial, hint = found
        result = quotient(self.polynomial, polynomial)
        if result is None:
            raise Unsupported(f"the quotient of {self} by {other}")
        return _made(result, Fraction(self.hint) / hint, self.space)

    def __rtruediv__(self, other: object) -> Any:
        return NotImplemented if not isinstance(other, (int, Fraction)) else self._lifted(other).__truediv__(self)

    def _lifted(self, other: Rational) -> Size:
        return Size((((), other),) if other else (), other, self.space)

    def __divmod__(self, other: object) -> Any:
        if isinstance(other, Size):
            return _divided(self, other)
        return _divided(self, self._lifted(other)) if isinstance(other, (int, Fraction)) else NotImplemented

    def __rdivmod__(self, other: object) -> Any:
        return _divided(self._lifted(other), self) if isinstance(other, (int, Fraction)) else NotImplemented

    def __floordiv__(self, other: object) -> Any:
        found = self.__divmod__(other)
        return found if found is NotImplemented else found[0]

    def __rfloordiv__(self, other: object) -> Any:
        found = self.__rdivmod__(other)
        return found if found is NotImplemented else found[0]

    def __mod__(self, other: object) -> Any:
        found = self.__divmod__(other)
        return found if found is NotImplemented else found[1]

    def __rmod__(self, other: object) -> Any:
        found = self.__rdivmod__(other)
        return found if found is NotImplemented else found[1]

    def __floor__(self) -> Any:
        if self.is_formally_whole:
            return self
        scale = math.lcm(*(c.denominator for _, c in self.polynomial))
        return _divided(self * scale, self._lifted(scale))[0]

    def __ceil__(self) -> Any:
        return -math.floor(-self)

    # -- numbers.Rational, as far as whole numbers go
    @property
    def is_formally_whole(self) -> bool:
        """True if the value is a whole number whatever the symbols are."""
        return all(c.denominator == 1 and all(e > 0 for _, e in m) for m, c in self.polynomial)

    @property
    def denominator(self) -> int:
        """1 for a whole number; a size that is none is not supported."""
        if not self.is_formally_whole:
            if self.hint.denominator != 1:
                raise Unsupported(f"the fraction {self}")
            self._note("whole", self.polynomial)
        return 1

    @property
    def numerator(self) -> Size:
        """Itself, for a whole number."""
        _ = self.denominator
        return self

    # -- what is asked
    def _note(self, kind: str, polynomial: Polynomial) -> None:
        if self.space is not None:
            self.space.note(kind, polynomial)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, float) and math.isfinite(other):
            other = Fraction(other)
        found = self._operand(other)
        if found is None:
            return False
        difference = plus(self.polynomial, found[0], -1)
        equal = self.hint == found[1]
        self._note("zero" if equal else "nonzero", difference)
        return equal

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        """The same in every run and process, since the order of a set decides which comparisons are noted. No two
        numbers of a polynomial hash alike by design (``hash(-1) == hash(-2)``): then they would be compared."""
        if self._hash is None:
            terms = ((tuple((_named(name), 2 * e + 1) for name, e in m), 2 * c + 1) for m, c in self.polynomial)
            self._hash = hash((self.space is None, *terms))
        return self._hash

    def _below(self, other: object, strict: bool) -> Any:
        """``self < other``, or ``self <= other``"""
        if isinstance(other, float) and math.isfinite(other):
            other = Fraction(other)
        found = self._operand(other)
        if found is None:
            return NotImplemented
        polynomial, hint = found
        answer = self.hint < hint if strict else self.hint <= hint
        difference = plus(polynomial, self.polynomial, -1)  # other - self
        if answer:
            self._note("positive" if strict else "nonnegative", difference)
        else:
            self._note("nonnegative" if strict else "positive", tuple((m, -c) for m, c in difference))
        return answer

    def __lt__(self, other: object) -> Any:
        return self._below(other, True)

    def __le__(self, other: object) -> Any:
        return self._below(other, False)

    def __gt__(self, other: object) -> Any:
        found = self._below(other, False)
        return found if found is NotImplemented else not found

    def __ge__(self, other: object) -> Any:
        found = self._below(other, True)
        return found if found is NotImplemented else not found

    def __bool__(self) -> bool:
        self._note("nonzero" if self.hint else "zero", self.polynomial)
        return bool(self.hint)

    # -- never a plain number
    def __index__(self) -> int:
        raise Unsupported(f"the size {self} where a number is needed")

    __int__ = __trunc__ = __index__

    def __float__(self) -> float:
        raise Unsupported(f"the size {self} where a number is needed")

    def at_hint(self, polynomial: Polynomial) -> Any:
        """A polynomial in symbols of this size as a size of the same run."""
        if self.space is None:
            raise InternalError("a size that was only read")
        return _made(polynomial, evaluate(polynomial, self.space.hints), self.space)

    def __repr__(self) -> str:
        return show(self.polynomial)


# ---------------------------------------------------------------------------------------------- polynomials
@lru_cache(maxsize=1024)
def _named(name: str) -> int:
    """A number for a symbol, the same in every process (hashes of text are not)."""
    return crc32(name.encode())


def _made(polynomial: Polynomial, hint: Rational, space: Space | None) -> Any:
    """A size, or the number that it is whatever the symbols are."""
    if not polynomial:
        return 0
    if len(polynomial) == 1 and not polynomial[0][0]:
        return exact(polynomial[0][1])
    return Size(polynomial, exact(hint), space)


def _divided(a: Size, b: Size) -> tuple[Any, Any]:
    """Quotient and remainder of whole numbers, b > 0.

    What b divides whatever the symbols are is divided. What is left, R, is k b + rest at the hint: the quotient is k
    more as long as ``0 <= R - k b < b``; of a number b it may also be (R - rest) / b, as long as that is whole."""
    if a.hint.denominator != 1 or b.hint.denominator != 1 or b.hint <= 0:
        raise Unsupported(f"{a} divided by {b}")
    space = a.space
    a._note("whole", a.polynomial)  # pyright: ignore[reportPrivateUsage]
    a._note("whole", b.polynomial)  # pyright: ignore[reportPrivateUsage]
    divisible, left = _multiple(a.polynomial, b.polynomial)
    if not left:
        return _made(divisible, Fraction(a.hint) / b.hint, space), 0
    plain = not any(m for m, _ in left) and not any(m for m, _ in b.polynomial)  # then what is left is a number
    rest_hint = left[0][1] if plain else a.hint - _at(divisible, a, b) * b.hint
    count, rest = divmod(rest_hint, b.hint)
    number = b.polynomial[0][1] if len(b.polynomial) == 1 and not b.polynomial[0][0] else None
    if number is not None and any(m for m, _ in left):
        whole = tuple((m, exact(Fraction(c) / number)) for m, c in plus(left, (((), rest),) if rest else (), -1))
        a._note("whole", whole)  # pyright: ignore[reportPrivateUsage]
        return _made(plus(divisible, whole), Fraction(a.hint - rest) / b.hint, space), rest
    remainder = _made(plus(left, b.polynomial, -count), rest, space)
    if remainder < 0 or remainder >= b:
        raise InternalError(f"{a} divided by {b}")
    return _made(plus(divisible, (((), count),) if count else ()), (a.hint - rest) // b.hint, space), remainder


def _multiple(p: Polynomial, q: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Whole x and y with ``p = x q + y`` whatever the symbols are; y is what no such x was found for."""
    divisible: Polynomial = ()
    left: Polynomial = ()
    for term in p:
        part = quotient((term,), q)
        if part is not None and Size(part, 0, None).is_formally_whole:
            divisible = plus(divisible, part)
        else:
            left = plus(left, (term,))
    if left and len(q) > 1:
        part = quotient(left, q)
        if part is not None and Size(part, 0, None).is_formally_whole:
            divisible, left = plus(divisible, part), ()
    return divisible, left


def _at(part: Polynomial, a: Size, b: Size) -> Rational:
    """The hint of a polynomial in the symbols of two sizes."""
    space = a.space or b.space
    if not any(m for m, _ in part):
        return part[0][1] if part else 0
    if space is None:
        raise Unsupported(f"{a} divided by {b}, which need not come out even")
    return evaluate(part, space.hints)


def holds(condition: Condition, values: Mapping[str, int]) -> bool:
    """True if a condition holds at some sizes."""
    value = Fraction(evaluate(condition.polynomial, values))
    return {
        "zero": value == 0,
        "nonzero": value != 0,
        "positive": value > 0,
        "nonnegative": value >= 0,
        "whole": value.denominator == 1,
    }[condition.kind]


def simplified(kind: str, polynomial: Polynomial) -> Condition | None:
    """The condition without a positive factor; ``None`` if it is about no symbol."""
    if kind == "whole":
        kept = collected({m: c if any(e < 0 for _, e in m) else c % 1 for m, c in polynomial})
        return Condition(kind, kept) if kept else None
    if not any(m for m, _ in polynomial):
        return None
    out = content(polynomial)[2]
    if not any(m for m, _ in out):
        return None
    if kind in ("zero", "nonzero") and out[-1][1] < 0:
        out = tuple((m, -c) for m, c in out)
    return Condition(kind, out)


# ---------------------------------------------------------------------------------------------- what others use
def symbol(name: str, hint: int, space: Space | None = None) -> int:
    """The size of that name. (It is no ``int``, but stands wherever one does; types say ``int``.)"""
    return cast("int", Size((((((name, 1),), 1)),), hint, space))


def is_size(value: object) -> bool:
    """True if a number is one that depends on symbols."""
    return type(value) is Size


def same(a: Any, b: Any) -> bool:
    """True if two numbers are equal, which is noted where it is not so whatever the symbols are.

    ``False`` claims nothing, and notes nothing: for choices where both answers are right, and equality only makes
    for shorter forms. (``==`` claims that two numbers differ, too.)"""
    if type(a) is not Size and type(b) is not Size:
        return a == b
    size, other = (a, b) if type(a) is Size else (b, a)
    hint = other.hint if type(other) is Size else other
    return size.hint == hint and size == other


def is_one(value: Any) -> bool:
    """True if a number is 1, as :func:`same` has it: ``False`` claims nothing. So in one run a size is either taken for
    1 everywhere, which is noted, or nowhere, and then what follows holds where it is 1, too."""
    return same(value, 1)


def alike(a: Iterable[Any], b: Iterable[Any]) -> bool:
    """True if two sequences have the same numbers, as :func:`same` has it: ``False`` claims nothing."""
    left, right = tuple(a), tuple(b)
    if left is right:
        return True
    if len(left) != len(right):
        return False
    for x, y in zip(left, right, strict=True):
        if type(x) is int and type(y) is int:  # most of all questions
            if x != y:
                return False
        elif not same(x, y):
            return False
    return True


def _polynomial_of(value: Any) -> Polynomial:
    return value.polynomial if type(value) is Size else (((), value),) if value else ()


def divided_evenly(a: Any, b: Any) -> Any:
    """``a // b`` if that comes out even (noted, unless it does whatever the symbols are), else ``None``, which claims
    nothing."""
    if type(a) is not Size and type(b) is not Size:
        return None if a % b else a // b
    found = quotient(_polynomial_of(a), _polynomial_of(b))
    if found is not None and Size(found, 0, None).is_formally_whole:
        return (a if type(a) is Size else b).at_hint(found)
    left, right = (x.hint if type(x) is Size else x for x in (a, b))
    return None if left % right else a // b


def taken_out(a: Any, b: Any) -> tuple[Any, Any]:
    """Whole q and r with ``a = q * b + r`` whatever the symbols are, one of the two being a size. Nothing is noted."""
    q, r = _multiple(_polynomial_of(a), _polynomial_of(b))
    some = a if type(a) is Size else b
    return some.at_hint(q), some.at_hint(r)


def never_below(a: Any, b: Any) -> bool:
    """True if ``a >= b`` whatever the symbols are, which are 1 or more: no coefficient of the difference is negative
    but the constant one, which the others outweigh. ``False`` claims nothing, and nothing is noted."""
    difference = plus(_polynomial_of(a), _polynomial_of(b), -1)
    return all(c > 0 and all(e > 0 for _, e in m) for m, c in difference if m) and sum(c for _, c in difference) >= 0


def is_number(value: object) -> TypeGuard[int]:
    """An integer that is no boolean, known or symbolic."""
    return (isinstance(value, int) and not isinstance(value, bool)) or type(value) is Size


def is_integer(value: object) -> TypeGuard[int]:
    """An integer (or a boolean), known or symbolic. A half of a size is one where it comes out even."""
    if type(value) is not Size:
        return isinstance(value, int)
    fraction = value.hint.denominator > 1 or any(e < 0 for m, _ in value.polynomial for _, e in m)
    return not fraction and value.denominator == 1


def rational(value: Any) -> Any:
    """A number as one whose quotients are exact."""
    return value if type(value) is Size else Fraction(value)


def whole(value: Any) -> int:
    """A rational that is a whole number as an integer."""
    return cast("int", value) if type(value) is Size else int(value)


def whole_part(value: Any) -> Any:
    """A whole number below a rational, such that what is left is less than 1 or has no term that is whole."""
    if type(value) is not Size:
        return math.floor(value)
    kept = ((m, math.floor(c)) for m, c in value.polynomial if all(e > 0 for _, e in m))
    terms = tuple((m, c) for m, c in kept if c)
    return value.at_hint(terms)


def common_divisor(a: Any, b: Any) -> int:
    """A common divisor of two integers; the greatest one, if they are numbers."""
    if type(a) is not Size and type(b) is not Size:
        return math.gcd(a, b)
    return math.gcd(_content(a), _content(b))


def _content(value: Any) -> int:
    """A number that divides an integer, whatever the symbols are."""
    if type(value) is not Size:
        return value
    return math.gcd(*(int(c) for _, c in value.polynomial)) if value.is_formally_whole else 1


def factored(powers: Iterable[tuple[Any, int]]) -> tuple[Rational, tuple[tuple[Any, int], ...]]:
    """A product of powers of sizes as a number and powers ``(size, power)``, one of each power, sorted. Sums above and
    below the line that divide one another are divided."""
    coefficient: Rational = 1
    common: Powers = ()
    above: Polynomial = (((), 1),)
    below: list[Polynomial] = []
    sample: Size | None = None
    for size, e in powers:
        sample = cast("Size", size)
        if e < 0 and not sample:
            raise Unsupported("a negative power of zero")
        c, m, rest = content(sample.polynomial)
        coefficient *= Fraction(c) ** e
        common = product_of_powers(common, tuple((name, k * e) for name, k in m))
        for _ in range(abs(e) if len(rest) > 1 else 0):
            if e > 0:
                above = times(above, rest)
            else:
                below.append(rest)
    if sample is None:
        return 1, ()
    left: Polynomial = (((), 1),)
    for divisor in below:
        whole_quotient, inverse_quotient = quotient(above, divisor), quotient(divisor, above)
        if whole_quotient is not None:
            above = whole_quotient
        elif inverse_quotient is not None:
            above, left = (((), 1),), times(left, inverse_quotient)
        else:
            left = times(left, divisor)
    products: dict[int, Polynomial] = {}
    for name, e in common:
        products[e] = times(products.get(e, (((), 1),)), (((((name, 1),), 1)),))
    for e, more in ((1, above), (-1, left)):
        if any(m for m, _ in more):
            products[e] = times(products.get(e, (((), 1),)), more)
        else:
            coefficient *= Fraction(more[0][1]) ** e
    return exact(coefficient), tuple((sample.at_hint(p), e) for e, p in sorted(products.items()))


def substituted(value: Any, values: Mapping[str, int]) -> Any:
    """A size at other symbols or at numbers; any other value as it is."""
    return evaluate(value.polynomial, values) if type(value) is Size else value


# ---------------------------------------------------------------------------------------------- as text
def _shown(condition: Condition) -> str:
    kind, p = condition
    if kind == "whole":
        scale = math.lcm(*(c.denominator for _, c in p))
        names = {name for m, _ in p for name, _ in m}
        lift = tuple(sorted((n, -low) for n in names if (low := min(dict(m).get(n, 0) for m, _ in p)) < 0))
        divisor = show(((lift, scale),))
        divisor = divisor if scale == 1 or not lift else f"({divisor})"
        return f"{_bracketed(times(p, ((lift, scale),)))} % {divisor} == 0"
    sign = {"zero": "==", "nonzero": "!=", "positive": ">", "nonnegative": ">="}[kind]
    right: Polynomial = ()
    left = p
    if any(c > 0 for m, c in p if m):  # constants and what is negative to the right
        left = tuple((m, c) for m, c in p if m and c > 0)
        right = tuple((m, -c) for m, c in p if not m or c < 0)
    else:
        right = tuple((m, -c) for m, c in p if m)
        left = tuple((m, c) for m, c in p if not m)
        if len(right) == 1:  # 8 > S reads S < 8
            left, right = right, left
            sign = {">": "<", ">=": "<="}.get(sign, sign)
    if sign == ">" and len(right) == 1 and not right[0][0] and all(c.denominator == 1 for _, c in left):
        right, sign = plus(right, (((), 1),)), ">="
    elif sign == ">" and not right:
        right, sign = (((), 1),), ">="
    return f"{show(left)} {sign} {show(right)}"


def _bracketed(p: Polynomial) -> str:
    return show(p) if len(p) == 1 else f"({show(p)})"
