"""Powers, exponentials, logarithms, opaque pointwise functions and maxima of Polynomials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import floor, gcd, trunc

from tantamount.calculus import signs
from tantamount.calculus.affine import variable
from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.bits import bitwise
from tantamount.calculus.comparisons import comparison
from tantamount.calculus.infinities import (
    infinity,
    infinity_atom,
    is_negative_infinity,
    masked_by,
    split_infinity,
    unbounded,
)
from tantamount.calculus.moduli import modulo
from tantamount.calculus.monotone import with_sign_of
from tantamount.calculus.polynomials import (
    add,
    as_factors,
    constant,
    multiply,
    opened_sums,
    pinned,
    polynomial,
    prime_powers,
    product,
    scale,
    sum_over,
)
from tantamount.calculus.products import (
    exact,
    is_boolean,
    is_integer,
    is_nonnegative,
    is_positive,
    known_positive,
)
from tantamount.calculus.spread import is_spread
from tantamount.calculus.terms import (
    IOTA,
    ONE,
    ZERO,
    Factor,
    Polynomial,
    Ranges,
    Rational,
    Term,
    factors_of,
    single,
    sole_factor,
    sole_number,
)
from tantamount.errors import Unsupported
from tantamount.ops.functions import FITTING, FUNCTIONS, MODULI, ROUNDINGS
from tantamount.sizes.symbolic import is_size

__all__ = [
    "exponential",
    "function",
    "gated",
    "is_rounded",
    "logarithm",
    "maximum",
    "maximum_of",
    "maximum_over",
    "nonzero",
    "power",
    "set_of",
]

_INT64 = 62  # bits of a magnitude that no 64-bit integer lacks


def gated(store: Store, guard: Polynomial, x: Polynomial, box: Ranges = None) -> Polynomial:
    """``guard * x`` for a boolean guard. Infinities stay terms of their own, where ``exp`` finds them."""
    if unbounded(store, x):
        return add(store, *(multiply(store, guard, (term,), box) for term in x), box=box)
    return multiply(store, guard, x, box)


def nonzero(store: Store, x: Polynomial) -> bool:
    """True if x is known to be different from 0 wherever it is defined."""
    if not x:
        return False
    c, factors = as_factors(store, x)
    return bool(c) and (is_positive(store, factors) or all(known_positive(store, f) for f in factors))


def strictly_positive(store: Store, x: Polynomial) -> bool:
    """True if x is known to be > 0 wherever it is defined."""
    if not x:
        return False
    c, factors = as_factors(store, x)
    return c > 0 and is_positive(store, factors)


def nonnegative(store: Store, x: Polynomial) -> bool:
    """True if x is known to be >= 0 wherever it is defined."""
    return all(c > 0 and is_nonnegative(store, m) for m, c in x)


def power(store: Store, x: Polynomial, exponent: Rational, box: Ranges = None) -> Polynomial:
    """``x ** exponent``. ``0 ** e`` is 0 for e > 0; a negative power of 0 is undefined."""
    exponent = exact(exponent)
    if exponent == 0:
        return ONE
    if exponent == 1:
        return x
    if not x:
        if exponent > 0:
            return ZERO
        raise Unsupported("a negative power of zero")
    if unbounded(store, x):

        def at(sign: int) -> Rational | None:
            return 0 if exponent < 0 and (sign > 0 or exponent.denominator == 1) else None

        inverse = _where_infinite(store, x, at, lambda u: power(store, u, exponent, box), box)
        if inverse is None:
            raise Unsupported("a power of infinity")
        return inverse
    c, factors = as_factors(store, x, exponent)
    return product(store, exact(c), factors, box)


def exponential(store: Store, x: Polynomial, box: Ranges = None) -> Polynomial:
    """exp of a sum as a product: the coefficient of a term becomes the exponent of its atom. ``m (x + y)`` is a sum,
    too, for a scaled sum may have been written as one factor or term by term."""
    infinite = infinity_atom(store)
    infinities = tuple(term for term in x if unbounded(store, (term,)))
    x = add(store, infinities, opened_sums(store, tuple(term for term in x if term not in infinities)))
    x = tuple(part for term in x for part in _positions_apart(term))
    store.fired["exp-of-sums"] += len(x) > 1 or any(c != 1 for _, c in x)
    factors: list[Factor] = []
    others: list[Polynomial] = []
    for m, c in x:
        if any(a == infinite for a, _, _ in m):
            rest = masked_by(store, m)
            guard: Polynomial = () if rest is None else (Term(rest, 1),)
            if rest is None or not is_boolean(store, guard):
                raise Unsupported("exp of plus infinity")
            if c > 0:
                return _exponential_of_masked(store, x, box)
            store.fired["infinity"] += 1
            others.append(add(store, ONE, scale(guard, -1)))  # exp(-inf) = 0 where the guard holds, else exp(0) = 1
        elif unbounded(store, (Term(m, c),)):
            raise Unsupported("exp of an infinity inside a sum that is one factor")
        elif len(m) == 1 and m[0].exponent == 1 and store.atoms[m[0].atom].op == "log":
            argument = pinned(store, store.atoms[m[0].atom].arguments[0], dict(enumerate(m[0].at)))
            others.append(power(store, argument, c, box))
        else:
            a, index = store.apply("exp", (), ((Term(m, 1),),), ValueFacts(positive=True, nonnegative=True))
            factors.append(Factor(a, c, index))
    out = product(store, 1, tuple(factors), box)
    for other in others:
        out = multiply(store, out, other, box)
    return out


def _positions_apart(term: Term) -> tuple[Term, ...]:
    """``m (i - j + 1)`` as ``m i``, ``-m j`` and ``m``, in which a position alone is a factor."""
    m, c = term
    place = next((k for k, f in enumerate(m) if f.atom == IOTA and f.exponent == 1 and f.at[0].parts), None)
    if place is None:
        return (term,)
    (at,) = m[place].at
    rest = (*m[:place], *m[place + 1 :])
    if (len(at.parts) == 1 and not at.offset and at.parts[0][1] == 1) or any(f.atom == IOTA for f in rest):
        return (term,)
    out = [Term(tuple(sorted((*rest, Factor(IOTA, 1, (variable(v),))))), c * s) for v, s in at.parts]
    return (*out, Term(rest, c * at.offset)) if at.offset else tuple(out)


def _exponential_of_masked(store: Store, x: Polynomial, box: Ranges) -> Polynomial:
    """exp where x is plus infinity under a condition: infinite there, too."""
    split = split_infinity(store, x, box)
    if split is None or split.sign < 0:
        raise Unsupported("exp of plus infinity")
    store.fired["infinity"] += 1
    finite = gated(store, split.nowhere(store), exponential(store, split.finite, box), box)
    return add(store, finite, gated(store, split.where, infinity(store, 1), box), box=box)


def _where_infinite(
    store: Store,
    x: Polynomial,
    at: Callable[[int], Rational | None],
    of: Callable[[Polynomial], Polynomial],
    box: Ranges,
) -> Polynomial | None:
    """A function of x with the value ``at(sign)`` at an infinity, which is ``of`` a finite number; ``None`` if x does
    not come apart, or there is no such value."""
    split = split_infinity(store, x, box) if unbounded(store, x) else None
    limit = None if split is None else at(split.sign)
    if split is None or limit is None:
        return None
    store.fired["infinity"] += 1
    there = scale(split.where, limit)
    if split.where == ONE:
        return there
    return add(store, there, multiply(store, split.nowhere(store), of(split.finite), box), box=box)


def logarithm(store: Store, x: Polynomial, box: Ranges = None) -> Polynomial:
    """log of a product of positive factors as a sum; what is not known to be positive stays together."""
    if not x:
        raise Unsupported("log of zero")
    split = split_infinity(store, x, box) if unbounded(store, x) else None
    if split is not None and split.sign > 0 and split.where != ONE:
        store.fired["infinity"] += 1
        finite = gated(store, split.nowhere(store), logarithm(store, split.finite, box), box)
        return add(store, finite, gated(store, split.where, infinity(store, 1), box), box=box)
    c, factors = as_factors(store, x)
    store.fired["log-of-products"] += 1
    parts: list[Polynomial] = []
    rest: list[Factor] = []
    for a, e, index in factors:
        atom = store.atoms[a]
        if not known_positive(store, Factor(a, e, index)):
            rest.append(Factor(a, e, index))
        elif atom.op == "exp":
            parts.append(scale(pinned(store, atom.arguments[0], dict(enumerate(index))), e))
        else:
            parts.append(scale(_log_atom(store, single(a, index)), e))
    root = len(rest) == 1 and rest[0].exponent.denominator != 1  # of what is not negative: log(u^e) = e log(u)
    if c > 0 and root:
        (f,) = rest
        inside = single(f.atom, f.at)
        if store.atoms[f.atom].op == "polynomial":
            inside = pinned(store, store.atoms[f.atom].arguments[0], dict(enumerate(f.at)))
        parts.append(scale(_log_atom(store, inside), f.exponent))
    elif c < 0 or rest:
        parts.append(_log_atom(store, (Term(tuple(rest), 1 if c > 0 else -1),)))
    for p, k in prime_powers(store, abs(c)).items():
        parts.append(scale(_log_atom(store, constant(p)), k))
    return add(store, *parts, box=box)


def _log_atom(store: Store, argument: Polynomial) -> Polynomial:
    argument = polynomial(store, argument)
    a, index = store.apply("log", (), (argument,), ValueFacts())
    return single(a, index)


def _power_of(store: Store, x: Polynomial, y: Polynomial) -> Polynomial | None:
    """``x ** y`` as a product of x with itself, or a power of a positive number, if y is a number that is known; else
    ``exp(a) ** y`` as ``exp(a y)``, and ``x ** -y`` as ``1 / x ** y`` for a positive x."""
    exponent = sole_number(y)
    if not isinstance(exponent, int | Fraction):
        if is_size(exponent) or unbounded(store, x) or unbounded(store, y) or not strictly_positive(store, x):
            return None
        if len(x) == 1 and x[0].coefficient == 1 and all(store.atoms[f.atom].op == "exp" for f in x[0].monomial):
            return exponential(store, multiply(store, y, logarithm(store, x)))
        return power(store, function(store, "pow", (x, scale(y, -1))), -1) if as_factors(store, y)[0] < 0 else None
    whole = exponent >= 0 and exponent.denominator == 1
    return power(store, x, exponent) if whole or strictly_positive(store, x) else None


def function(store: Store, name: str, xs: tuple[Polynomial, ...]) -> Polynomial:
    """An opaque pointwise function, with what its declaration says: parity, values at whole numbers and at 0."""
    declared = FUNCTIONS[name]
    if name in MODULI:
        return modulo(store, MODULI[name], xs[0])
    if name in FITTING:
        return xs[0]
    if name == "abs":
        return _absolute(store, xs[0])
    if name == "isnan":  # of numbers and infinities it is not; where there is another value, records say so
        return ZERO
    if declared.limits is not None and unbounded(store, xs[0]) and len(xs) == 1:
        low, high = declared.limits
        known = _where_infinite(
            store, xs[0], lambda sign: low if sign < 0 else high, lambda x: function(store, name, (x,)), None
        )
        if known is not None:
            return known
    if declared.fixes_integers and is_integer(store, xs[0]):
        store.fired["declared-functions"] += 1
        return xs[0]
    if not any(xs) and declared.at_zero is not None and len(xs) == 1:
        store.fired["declared-functions"] += 1
        return constant(declared.at_zero)
    if name in ("floor", "trunc") and (number := sole_number(xs[0])) is not None and not is_size(number):
        store.fired["declared-functions"] += 1
        return constant(floor(number) if name == "floor" else trunc(number))
    if name == "sign":
        return _sign(store, xs[0])
    if name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        return bitwise(store, name, *xs)
    if name == "pow" and (raised := _power_of(store, *xs)) is not None:
        store.fired["powers"] += 1
        return raised
    if name == "integer_pow" and (value := _whole_power(*xs)) is not None:
        store.fired["declared-functions"] += 1
        return constant(value)
    if name == "gcd" and (divisor := _common_divisor(*xs)) is not None:
        store.fired["declared-functions"] += 1
        return divisor
    if name == "floor_divide" and (quotient := _quotient_everywhere(store, *xs)) is not None:
        store.fired["floors"] += 1
        return constant(quotient)
    sign = 1
    if (declared.odd or declared.even) and xs[0] and as_factors(store, xs[0])[0] < 0:
        store.fired["declared-functions"] += 1
        xs = (scale(xs[0], -1),)
        sign = -1 if declared.odd else 1
    if declared.commutative:
        xs = tuple(sorted(xs, key=repr))
    if name in ROUNDINGS.values() and is_rounded(store, name, xs[0]):
        store.fired["declared-functions"] += 1
        return scale(xs[0], sign)
    facts = ValueFacts(
        rounded=name if name in ROUNDINGS.values() else "",
        integer=declared.integer,
        positive=declared.keeps_sign and strictly_positive(store, xs[0]),
        nonnegative=declared.nonnegative or (declared.growing and declared.at_zero == 0 and nonnegative(store, xs[0])),
    )
    a, index = store.apply(name, (), xs, facts)
    return single(a, index, coefficient=sign)


def _absolute(store: Store, x: Polynomial) -> Polynomial:
    """The magnitude of x, plus infinity where x is an infinity."""
    split = split_infinity(store, x, None) if unbounded(store, x) else None
    if split is None:
        return power(store, power(store, x, 2), Fraction(1, 2))
    store.fired["infinity"] += 1
    there = gated(store, split.where, infinity(store, 1))
    return add(store, there, multiply(store, split.nowhere(store), _absolute(store, split.finite)))


def _sign(store: Store, x: Polynomial) -> Polynomial:
    """The sign of x: that of the simplest value that has it."""
    x = with_sign_of(store, x)
    if x:
        for negative in (False, True):
            if signs.decided(store, "less", x if negative else scale(x, -1), None) == 1:
                store.fired["declared-functions"] += 1
                return constant(-1 if negative else 1)
    negated = bool(x) and as_factors(store, x)[0] < 0
    a, index = store.apply("sign", (), (scale(x, -1) if negated else x,), ValueFacts(integer=True))
    return single(a, index, coefficient=-1 if negated else 1)


def _quotient_everywhere(store: Store, x: Polynomial, y: Polynomial) -> int | None:
    """``floor(x / y)`` for a number y, if it is the same wherever x lies: of a position in a row by its length."""
    number = sole_number(y)
    if number is None or is_size(number) or number <= 0:
        return None
    low, high = signs.enclosure(store, x)
    if isinstance(low.at, float) or isinstance(high.at, float):
        return None
    first, last = floor(low.at / Fraction(number)), floor(high.at / Fraction(number))
    return first if first == last else None


def is_rounded(store: Store, name: str, x: Polynomial) -> bool:
    """True if a rounding is known to leave something as it is: numbers, what was rounded or is given in that type."""
    number = sole_number(x)
    if number is not None and not is_size(number):
        return Fraction(float(number)) == number == float(FUNCTIONS[name].evaluate(float(number)))
    if len(x) != 1 or abs(x[0].coefficient) != 1 or len(x[0].monomial) != 1 or x[0].monomial[0].exponent != 1:
        return False
    return store.atoms[x[0].monomial[0].atom].facts.rounded == name


def _common_divisor(x: Polynomial, y: Polynomial) -> Polynomial | None:
    """The greatest common divisor of whole numbers that are not negative, where one is 0, or the other, or both are
    numbers."""
    if not x or x == y:
        return y
    if not y:
        return x
    a, b = sole_number(x), sole_number(y)
    return constant(gcd(a, b)) if isinstance(a, int) and isinstance(b, int) else None


def _whole_power(x: Polynomial, y: Polynomial) -> int | None:
    """The power of two known whole numbers, if an int64 holds it; of a negative exponent nothing is said."""
    base, exponent = sole_number(x), sole_number(y)
    if base is None or exponent is None or is_size(base) or is_size(exponent):
        return None
    if Fraction(base).denominator != 1 or Fraction(exponent).denominator != 1 or not 0 <= exponent <= _INT64:
        return None
    value = int(base) ** int(exponent)
    return value if value.bit_length() <= _INT64 else None


# ------------------------------------------------------------------------------------------------ maxima
def _elements(store: Store, x: Polynomial) -> Polynomial:
    """The set {x} as a formal sum of ``element`` atoms; the set of a maximum is the set it is the maximum of."""
    if is_negative_infinity(store, x):
        store.fired["infinity"] += 1
        return ZERO
    factor = sole_factor(x)
    if factor is not None and factor.exponent == 1 and store.atoms[factor.atom].op == "max":
        return pinned(store, store.atoms[factor.atom].arguments[0], dict(enumerate(factor.at)))
    a, index = store.apply("element", (), (x,), ValueFacts(integer=True))
    return single(a, index)


def set_of(store: Store, x: Polynomial, axes: Mapping[int, tuple[int, int]], box: Ranges = None) -> Polynomial:
    """The formal set of the values of x over some axes."""
    return sum_over(store, _elements(store, x), axes, box) if axes else _elements(store, x)


def maximum_of(store: Store, elements: Polynomial) -> Polynomial:
    """The maximum of a formal set: multiplicities do not matter, be they numbers or sizes."""
    while any(c != 1 or any(map(_is_count, m)) for m, c in elements):
        there = (m for m, _ in elements if all(f.at[0].offset > 0 for f in m if _is_count(f)))
        elements = polynomial(store, [Term(tuple(f for f in m if not _is_count(f)), 1) for m in there])
    if not elements:
        return infinity(store, -1)
    factor = sole_factor(elements)
    if factor is not None and store.atoms[factor.atom].op == "element":
        return pinned(store, store.atoms[factor.atom].arguments[0], dict(enumerate(factor.at)))
    members: list[Polynomial] = []
    for m, _ in elements:
        atom = store.atoms[m[0].atom]
        if atom.op == "sum":
            atom = store.atoms[atom.summand[0].atom]
        members.append(atom.arguments[0])
    boolean = all(is_boolean(store, x) for x in members)
    facts = ValueFacts(
        boolean=boolean,
        integer=all(is_integer(store, x) for x in members),
        positive=any(all(c > 0 and is_positive(store, m) for m, c in x) and bool(x) for x in members),
        nonnegative=boolean
        or any(all(c > 0 and is_positive(store, m) for m, c in x) for x in members)
        or _has_opposites(store, elements),
    )
    store.fired["maxima"] += 1
    a, index = store.apply("max", (), (elements,), facts)
    if boolean:
        store.memo.boolean_maxima.add(a)
    return single(a, index)


def _has_opposites(store: Store, elements: Polynomial) -> bool:
    """True if a formal set has, beside a value or all values of a row, the negated ones: then one is not negative."""
    seen: set[tuple[object, Polynomial]] = set()
    for m, _ in elements:
        atom, at, places = store.atoms[m[0].atom], m[0].at, ()
        if atom.op == "sum":
            if len(atom.summand) != 1:  # values under a condition, of which there may be none
                continue
            places = (atom.ranges, atom.summand[0].at)
            atom = store.atoms[atom.summand[0].atom]
        value = atom.arguments[0]
        if ((at, places), scale(value, -1)) in seen:
            return True
        seen.add(((at, places), value))
    return False


def _is_count(factor: Factor) -> bool:
    """True for a size as a factor: a sum over so many positions whose summand does not depend on them."""
    return factor.atom == IOTA and factor.exponent == 1 and not factor.at[0].parts


def _maximum_with_masked(
    store: Store, level: Rational, number: Polynomial, x: Polynomial, box: Ranges
) -> Polynomial | None:
    """``max(q, x)`` for a number q where x is an infinity under a condition: q there, or plus infinity."""
    split = split_infinity(store, x, box) if unbounded(store, x) else None
    if split is None or split.where == ONE:
        return None
    store.fired["infinity"] += 1
    there = scale(split.where, level) if split.sign < 0 else gated(store, split.where, infinity(store, 1), box)
    finite = maximum(store, number, split.finite, box)
    return add(store, there, multiply(store, split.nowhere(store), finite, box), box=box)


def maximum(store: Store, x: Polynomial, y: Polynomial, box: Ranges = None) -> Polynomial:
    """The greater of two Polynomials at every point: the maximum over the union of their sets."""
    if x == y:
        return x
    numbers = (sole_number(x), sole_number(y))
    if numbers[0] is not None and numbers[1] is not None:
        return x if numbers[0] >= numbers[1] else y
    for number, z, other in ((numbers[0], x, y), (numbers[1], y, x)):
        masked = _maximum_with_masked(store, number, z, other, box) if number is not None else None
        if masked is not None:
            return masked
    for z, other in ((x, y), (y, x)):
        if not z and (is_spread(store, other, box) or is_spread(store, scale(other, -1), box)):
            store.fired["variances"] += 1
            return other if is_spread(store, other, box) else z
    for z, other in ((x, y), (y, x)):  # max(0, -t) = max(0, t) - t: one of the two is kept
        if not z and not unbounded(store, other) and as_factors(store, other)[0] < 0:
            return add(store, maximum(store, (), scale(other, -1), box), other, box=box)
    return maximum_of(store, add(store, _elements(store, x), _elements(store, y), box=box))


def maximum_over(
    store: Store, cells: list[tuple[Polynomial, Mapping[int, tuple[int, int]]]], box: Ranges = None
) -> Polynomial:
    """The maximum of each Polynomial over its axes, over all of them."""
    if all(x and is_boolean(store, scale(x, -1)) for x, _ in cells):  # all: max(-b) = max(1 - b) - 1
        flipped = [(add(store, ONE, x), axes) for x, axes in cells]
        return add(store, maximum_over(store, flipped, box), constant(-1))
    if len(cells) == 1 and _holds_once(store, *cells[0]):
        return sum_over(store, cells[0][0], cells[0][1], box)
    parts = [sum_over(store, _elements(store, x), axes, box) for x, axes in cells]
    return maximum_of(store, add(store, *parts, box=box))


def _holds_once(store: Store, x: Polynomial, axes: Mapping[int, tuple[int, int]]) -> bool:
    """True if x is ``[t + s v + r == 0]`` with s other than 0 and a t that does not depend on v, the one axis: of no
    two v both hold, so that whether one of them does is how many do."""
    factor = sole_factor(x)
    guard = None if factor is None or factor.exponent != 1 else comparison(store, factor)
    moving = [v for v, (low, high) in axes.items() if is_size(low) or is_size(high) or high - low > 1]
    if guard is None or guard.op != "equal" or len(moving) != 1:
        return False
    (v,) = moving
    return bool(dict(guard.affine.parts).get(v)) and all(
        w != v for f in factors_of(guard.rest) for parts, _ in f.at for w, _ in parts
    )
