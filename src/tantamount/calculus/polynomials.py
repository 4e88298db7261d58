"""Polynomials: sums of monomials. Addition, products, boxing of a sum as one factor.

Products are not distributed over sums: a sum of several terms becomes one ``polynomial`` factor after what its terms
share was pulled out. ``rebuild`` distributes on demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import isqrt, prod

from tantamount.calculus.affine import Coordinate, Index, content, coordinate, variable
from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.products import (
    affine_part,
    exact,
    is_boolean,
    is_integer,
    is_nonnegative,
    is_positive,
    known_nonnegative,
    leading_sign,
    monomial,
    size_term,
    substitute_factors,
)
from tantamount.calculus.sums import close, merge, signature
from tantamount.calculus.terms import (
    IOTA,
    ZERO,
    Exponent,
    Factor,
    Factors,
    Flat,
    Monomial,
    Polynomial,
    Ranges,
    Rational,
    Term,
    factors_of,
    single,
)
from tantamount.errors import Unsupported
from tantamount.sizes.symbolic import is_size, rational, whole, whole_part

__all__ = [
    "add",
    "as_factors",
    "constant",
    "iota",
    "polynomial",
    "multiply",
    "opened_sums",
    "pinned",
    "scale",
    "sum_over",
]


def constant(value: Rational) -> Polynomial:
    """The Polynomial with this value everywhere."""
    if is_size(value):
        return (size_term([(value, 1)]),) if value else ZERO
    return (Term((), exact(value)),) if value else ZERO


def iota(c: Coordinate) -> Polynomial:
    """The Polynomial whose value is an affine map of the axes."""
    return affine_polynomial(dict(c.parts), c.offset) if c.parts else constant(c.offset)


def affine_polynomial(parts: Mapping[int, Rational], offset: Rational) -> Polynomial:
    """``offset + sum(q * variable)``: one iota atom with primitive strides; its coefficient is the positive content;
    the integer part of the offset lives in the index, so that shifted positions are the same atom at an offset."""
    parts = {v: q for v, q in parts.items() if q}
    if not parts:
        return constant(offset)
    g = content(list(parts.values()))
    start = whole_part(rational(offset) / g)
    c = coordinate({v: whole(q / g) for v, q in parts.items()}, start)
    rest = exact(offset - g * start)
    head: Term = Term((Factor(IOTA, 1, (c,)),), exact(g))
    return tuple(sorted((*constant(rest), head), key=term_key)) if rest else (head,)


def term_key(term: Term) -> tuple[object, ...]:
    m, c = term
    return (tuple((a, e) for a, e, _ in m), c, tuple(index for _, _, index in m))


def polynomial(store: Store, terms: Iterable[Term], box: Ranges = None) -> Polynomial:
    """The canonical Polynomial of normalised monomials: equal ones added, lone ``polynomial`` factors opened, partial
    sums merged."""
    store.effort.check()
    total: dict[Monomial, Rational] = {}
    pending = list(terms)
    affine = False
    while pending:
        m, c = pending.pop()
        if len(m) == 1 and m[0].exponent == 1:
            atom = store.atoms[m[0].atom]
            if atom.op == "polynomial":
                replace = dict(enumerate(m[0].at))
                for inner, d in atom.arguments[0]:
                    pending.append(monomial(store, exact(c * d), substitute_factors(inner, replace)))
                continue
        affine = affine or bool(m and m[-1].atom == IOTA)
        value = total.get(m, 0) + c
        if value:
            total[m] = value
        else:
            total.pop(m, None)
    if affine:
        _normalise_affine(total)
    if len(total) > 1:
        _merge_partial_sums(store, total, box)
        collapsed = _collapsed(store, total)
        if collapsed is not None:
            store.fired["fractions"] += 1
            return polynomial(store, collapsed, box)
    return tuple(sorted((Term(m, exact(c)) for m, c in total.items()), key=term_key))


def _collapsed(store: Store, total: Mapping[Monomial, Rational]) -> list[Term] | None:
    """``u - b/(a + b) (u - v) = a/(a + b) u + b/(a + b) v``: open a difference over a denominator where parts of
    it and other terms together are one term again. Two results of attention, to different keys, are merged so."""
    if len(total) > store.effort.bounds.opened_terms:
        if any(_is_denominator(store, f) for m in total for f in m):
            store.effort.hit("opened_terms", len(total))
        return None
    for m, c in total.items():
        if not any(_is_denominator(store, f) for f in m):
            continue
        parts = _opened(store, Term(m, c))
        if len(parts) < 2 or store.effort.exceeds("opened_terms", len(parts)):
            continue
        whole = [Term(n, d) for n, d in total.items() if n != m]
        opened = [part for term in whole for part in _opened(store, term)]
        for others in (whole, opened) if len(opened) > len(whole) else (whole,):
            found = _with_parts(store, others, parts)
            if found is not None:
                return found
    return None


def _with_parts(store: Store, terms: Sequence[Term], parts: Sequence[Term]) -> list[Term] | None:
    """The sum of terms and parts, where some of them together are one term again; ``None`` if none are."""
    others, left = list(terms), list(parts)
    under = {part: _unsummed(store, part) for part in parts if any(_is_denominator(store, f) for f in part.monomial)}
    for k, other in enumerate(others):
        of = _unsummed(store, other)
        fitting = [part for part in left if part in under and _may_fit(of, under[part])]
        fitting = [part for part in fitting if _ratio(store, other, part) is not None]
        # all of them together first: what is taken off may be the sum of several, of keys that are no one range
        for group in ([fitting] if len(fitting) > 1 else []) + [[part] for part in fitting]:
            one = _together(store, other, group)
            if one is not None:
                others[k] = one
                left = [part for part in left if part not in group]
                break
    return [*others, *left] if len(left) < len(parts) else None


def _unsummed(store: Store, term: Term) -> dict[tuple[int, Index], Exponent] | None:
    """The factors of a term that are no sums, with their exponents; ``None`` where numbers are among them, or roots of
    one term, which multiplying takes apart."""
    found: dict[tuple[int, Index], Exponent] = {}
    for factor in term.monomial:
        a, e, index = store.follow(factor) if store.redirects else factor
        atom = store.atoms[a]
        if a == IOTA or (atom.op == "polynomial" and len(atom.arguments[0]) == 1):
            return None
        if atom.op not in ("sum", "polynomial") and atom.attributes[:1] != ("prime",):
            found[a, index] = found.get((a, index), 0) + e
    return {key: e for key, e in found.items() if e}


def _may_fit(x: dict[tuple[int, Index], Exponent] | None, y: dict[tuple[int, Index], Exponent] | None) -> bool:
    """False if :func:`_ratio` of two terms with these factors is ``None``: what is no sum does not cancel."""
    return x is None or y is None or x == y


def opened_sums(store: Store, x: Polynomial) -> Polynomial:
    """The same polynomial with ``m x + m y`` for every term ``m (x + y)``, and products of sums multiplied out, each as
    far as that does not become too many terms. (Term by term, so that what is opened does not depend on what was
    written as one factor.)"""
    parts: list[Term] = []
    pending = list(x)
    opened = False
    while pending:
        term = pending.pop()
        sums = [f for f in term.monomial if f.exponent == 1 and _is_opened(store, f)]
        count = prod(len(store.atoms[f.atom].arguments[0]) for f in sums)
        based = any(store.atoms[f.atom].op == "polynomial" and _is_of_logarithms(store, f) for f in term.monomial)
        if not sums or based or store.effort.exceeds("exponent_terms", count):
            parts.append(term)
            continue
        opened = True
        rest = tuple(f for f in term.monomial if f is not sums[0])
        replace = dict(enumerate(sums[0].at))
        for m, c in store.atoms[sums[0].atom].arguments[0]:
            pending.append(monomial(store, exact(term.coefficient * c), (*rest, *substitute_factors(m, replace))))
    if not opened:
        return x
    store.fired["opened-exponents"] += 1
    return polynomial(store, parts)


def _is_of_logarithms(store: Store, factor: Factor) -> bool:
    """True for a sum of logarithms of numbers: the power of another number, which is read as such (``exponents``)."""
    terms = store.atoms[factor.atom].arguments[0]
    return all(len(m) == 1 and store.atoms[m[0].atom].op == "log" and not m[0].at for m, _ in terms)


def _is_opened(store: Store, factor: Factor) -> bool:
    """True for a sum of terms; guards, which are such, stay whole."""
    atom = store.atoms[factor.atom]
    return atom.op == "polynomial" and not atom.facts.boolean


def _opened(store: Store, term: Term) -> list[Term]:
    """A product of sums as a sum, as far as it has not too many terms."""
    done: list[Term] = []
    pending = [term]
    while pending:
        m, c = pending.pop()
        opened = next((f for f in m if f.exponent == 1 and store.atoms[f.atom].op == "polynomial"), None)
        if opened is None or len(pending) + len(done) > store.effort.bounds.opened_terms:
            done.append(Term(m, c))
            continue
        rest = tuple(f for f in m if f is not opened)
        replace = dict(enumerate(opened.at))
        for n, d in store.atoms[opened.atom].arguments[0]:
            pending.append(monomial(store, exact(c * d), (*rest, *substitute_factors(n, replace))))
    return done


def _ratio(store: Store, x: Term, y: Term) -> Term | None:
    """``y / x`` if y is x times something over a denominator that x does not have; ``None`` otherwise."""
    inverse = tuple(Factor(a, -e, index) for a, e, index in x.monomial)
    if any(store.atoms[a].facts.boolean for a, _, _ in x.monomial):
        return None
    ratio, quotient = monomial(store, exact(Fraction(y.coefficient) / Fraction(x.coefficient)), (*y.monomial, *inverse))
    if not quotient or not any(_is_denominator(store, f) for f in ratio):
        return None
    if any(
        store.atoms[a].op not in ("sum", "polynomial") or (e < 0 and Factor(a, e, index) not in y.monomial)
        for a, e, index in ratio
    ):
        return None  # only sums can be one term together; and nothing may stand below that did not in y
    return Term(ratio, quotient)


def _together(store: Store, x: Term, ys: Sequence[Term]) -> Term | None:
    """``x + y + ...`` if that is one term, where every y is x times something over a denominator that x does not
    have."""
    ratios = [ratio for y in ys if (ratio := _ratio(store, x, y)) is not None]
    if len(ratios) < len(ys):
        return None
    c, factors = as_factors(store, (Term((), 1), *sorted(ratios, key=term_key)))
    m, value = monomial(store, exact(Fraction(x.coefficient) * c), (*x.monomial, *factors))
    boxed = {
        f.atom for f in factors if f.exponent > 0 and store.atoms[f.atom].op == "polynomial"
    }  # a sum that is not one term ...
    return (
        None if any(f.atom in boxed and f.exponent > 0 for f in m) else Term(m, value)
    )  # ... must be what stands below in x


def _normalise_affine(total: dict[Monomial, Rational]) -> None:
    parts: dict[int, Rational] = {}
    offset: Rational = total.pop((), 0)
    for m in [m for m in total if m[-1].atom == IOTA]:
        found = affine_part(m, total[m])
        if found is None:
            continue
        del total[m]
        strides, start = found
        offset += start
        for v, s in strides:
            parts[v] = parts.get(v, 0) + s
    total.update(affine_polynomial(parts, offset))


def _merge_partial_sums(store: Store, total: dict[Monomial, Rational], box: Ranges) -> None:
    groups: dict[object, list[Monomial]] = {}
    for m in total:
        if m:
            groups.setdefault(signature(store, m), []).append(m)
    for members in groups.values():
        if len(members) < 2:
            continue
        members = [m for m in members if m in total]  # merging another group may have cancelled some
        old = tuple(Term(m, total[m]) for m in members)
        new = _merged(store, old, box)
        if len(new) == len(old) and set(new) == set(old):
            continue
        for m in members:
            del total[m]
        for m, c in new:
            value = total.get(m, 0) + c
            if value:
                total[m] = value
            else:
                total.pop(m, None)


def _merged(store: Store, terms: Polynomial, box: Ranges) -> list[Term]:
    """:func:`merge`, remembered: a residual stream meets the same terms at every step."""
    if isinstance(box, Mapping) or (box is not None and not isinstance(box, tuple)):
        return merge(store, terms, box)
    memo = store.memo.merged
    key = (terms, box, len(store.ranges.of_atoms))
    found = memo.get(key)
    if found is None or any(f.atom in store.redirects for f in factors_of(tuple(found))):
        found = memo[key] = merge(store, terms, box)
    return found


def add(store: Store, *polynomials: Polynomial, box: Ranges = None) -> Polynomial:
    """The sum. ``box`` bounds the axes, for what guards may conclude."""
    live = [x for x in polynomials if x]
    if len(live) < 2:
        return live[0] if live else ZERO
    return polynomial(store, (t for x in live for t in x), box)


def scale(x: Polynomial, q: Rational) -> Polynomial:
    """``q * x``."""
    return tuple(Term(m, exact(c * q)) for m, c in x) if q else ZERO


def pinned(store: Store, x: Polynomial, replace: Mapping[int, Coordinate], box: Ranges = None) -> Polynomial:
    """The Polynomial with axes replaced by affine maps, normalised again. Where that fixes a position that counts as a
    number, the atom is computed anew from its arguments."""
    changed = False
    out: list[Term] = []
    for m, c in x:
        factors = substitute_factors(m, replace)
        changed = changed or factors != m
        if any(store.atoms[f.atom].positional and _fixed(old, f) for old, f in zip(m, factors, strict=True)):
            store.fired["computed-anew"] += 1
            out.extend(store.at_fixed_positions((Term(factors, c),)))
        else:
            out.append(monomial(store, c, factors))
    return polynomial(store, out, box) if changed else x


def _fixed(old: Factor, new: Factor) -> bool:
    """True if a coordinate became a constant."""
    return any(a.parts and not b.parts for a, b in zip(old.at, new.at, strict=True))


def multiply(store: Store, x: Polynomial, y: Polynomial, box: Ranges = None) -> Polynomial:
    """The product; each operand of several terms is one factor."""
    if not x or not y:
        return ZERO
    for number, other in ((x, y), (y, x)):
        if len(number) == 1 and not number[0].monomial:
            _check_digits(store, number[0].coefficient, other[0].coefficient)
            return scale(other, number[0].coefficient)
    c, f = as_factors(store, x)
    d, g = as_factors(store, y)
    _check_digits(store, c, d)
    return product(store, exact(c * d), (*f, *g), box)


def _check_digits(store: Store, *numbers: Rational, power: int = 1) -> None:
    """Refuse a power of a product of numbers that has too many binary digits to be written down."""
    bits = power * sum(c.numerator.bit_length() + c.denominator.bit_length() for c in numbers)
    if bits > store.effort.bounds.number_bits and store.effort.exceeds("number_bits", bits):
        raise Unsupported(f"a number of {bits} binary digits (limit-number-bits)")


def product(store: Store, coefficient: Rational, factors: Factors, box: Ranges = None) -> Polynomial:
    """One product of factors as a Polynomial, with booleans used to simplify the other factors."""
    m, c = monomial(store, coefficient, factors)
    if not c:
        return ZERO
    simplified = store.absorb(m, c, box)
    return polynomial(store, (Term(m, c),), box) if simplified is None else simplified


def as_factors(store: Store, x: Polynomial, exponent: Exponent = 1) -> tuple[Rational, Factors]:
    """``x ** exponent`` as a coefficient and factors. What all terms share is pulled out of a sum. Zero is the
    coefficient 0 without factors; it has no negative powers (``Unsupported``).

    (c f)^p = c^p f^p holds for integer p; for other p only parts that are never negative may leave the base."""
    m: Monomial
    if not x:
        m, c = (), 0
    elif len(x) == 1:
        m, c = x[0]
    else:
        c, m, inner = _split_content(store, x)
        m = (*m, _lin_atom(store, inner))
    if exponent == 1:
        return c, m
    store.fired["powers"] += 1
    if not c:  # also a sum that cancelled once what its terms share was pulled out
        if exponent < 0:
            raise Unsupported("a negative power of zero")
        return 0, ()
    if exponent.denominator == 1:
        if c not in (1, -1):
            _check_digits(store, c, power=abs(int(exponent)))
        return Fraction(c) ** int(exponent), tuple(Factor(a, e * exponent, index) for a, e, index in m)
    outside: list[Factor] = []
    inside: list[Factor] = []
    for a, e, index in m:
        if known_nonnegative(store, Factor(a, e, index)) or e.denominator > 1:
            outside.append(Factor(a, e * exponent, index))
        elif e.numerator % 2 == 0:  # (x^2k)^p = (x^2)^(k p): sqrt(x x) is |x|, not x
            b, _, where = _lin_atom(store, single(a, index, exponent=2))
            outside.append(Factor(b, Fraction(e) / 2 * exponent, where))
        else:
            inside.append(Factor(a, e, index))
    sign = 1 if c > 0 else -1
    if len(inside) == 1 and sign == 1:  # an odd power has the sign of its base
        a, e, index = inside.pop()
        outside.append(Factor(a, e * exponent, index))
    elif inside or sign < 0:
        rest, value = monomial(store, sign, inside)
        a, _, index = _lin_atom(store, (Term(rest, value),))
        outside.append(Factor(a, exponent, index))
    outside.extend(_root(store, abs(c), exponent))
    return 1, tuple(outside)


def _root(store: Store, c: Rational, exponent: Exponent) -> list[Factor]:
    """``c ** exponent`` of a positive rational as powers of primes; ``monomial`` takes whole powers out again."""
    out: list[Factor] = []
    for p, k in prime_powers(store, c).items():
        out.append(Factor(store.leaf("prime", p, (), ValueFacts(positive=True)), Fraction(k) * exponent, ()))
    return out


def prime_powers(store: Store, c: Rational) -> dict[int, int]:
    """A positive rational as a product of powers of primes (a large unfactored rest counts as one base)."""
    out: dict[int, int] = {}
    most = store.effort.bounds.prime_divisor
    for n, sign in ((c.numerator, 1), (c.denominator, -1)):
        p = 2
        while n > 1 and p <= most:
            if p * p > n:
                p = n
            while n % p == 0:
                out[p] = out.get(p, 0) + sign
                n //= p
            p += 1 if p == 2 else 2
        if n > 1:
            store.effort.hit("prime_divisor", isqrt(n))
            out[n] = out.get(n, 0) + sign
    return out


def _split_content(store: Store, x: Polynomial) -> tuple[Rational, Monomial, Polynomial]:
    """``x = c * shared * inner``: c the content (with the sign of the first terms), shared the factors of every term,
    and the denominators of any: 1 + a/b = (b + a)/b."""
    g: Rational = exact(content([c for _, c in x]))
    if leading_sign(x) < 0:
        g = -g
    shared: dict[tuple[int, Index], Exponent] | None = None
    below: dict[tuple[int, Index], Exponent] = {}
    for m, _ in x:
        here = {(a, index): e for a, e, index in m if e > 0 or not store.atoms[a].facts.boolean}
        shared = here if shared is None else {key: min(e, here[key]) for key, e in shared.items() if key in here}
        for a, e, index in m:
            if _is_denominator(store, Factor(a, e, index)):
                below[a, index] = min(e, below.get((a, index), 0))
    store.fired["fractions"] += bool(below)
    shared = {**(shared or {}), **below}
    pulled: Monomial = ()
    if shared:
        pulled = tuple(sorted(Factor(a, e, index) for (a, index), e in shared.items()))
        booleans = [f for f in pulled if store.atoms[f.atom].facts.boolean]
        inverse = tuple(Factor(a, -e, index) for a, e, index in pulled if not store.atoms[a].facts.boolean)
        inner = polynomial(
            store,
            [monomial(store, exact(c / Fraction(g)), (*(f for f in m if f not in booleans), *inverse)) for m, c in x],
        )
        if len(inner) < 2:  # what is left merged into one term
            (m, c) = inner[0] if inner else Term((), 0)
            return exact(g * c), pulled, (Term(m, 1),)
        return g, pulled, inner
    return g, (), x if g == 1 else scale(x, Fraction(1) / g)


def _is_denominator(store: Store, factor: Factor) -> bool:
    """True if a factor is a whole negative power of a sum that is never negative, such as those of exponentials.

    What it is in is undefined where the sum is 0, so that a fraction may be extended by it. (It is left where it is in
    other sums: nothing is gained there.)"""
    a, e, _ = factor
    return (
        e < 0 and e.denominator == 1 and store.atoms[a].op in ("sum", "polynomial") and store.atoms[a].facts.nonnegative
    )


def _lin_atom(store: Store, inner: Polynomial) -> Factor:
    nonnegative = all(c > 0 and is_nonnegative(store, m) for m, c in inner)
    facts = ValueFacts(
        positive=nonnegative and any(is_positive(store, m) for m, _ in inner),
        nonnegative=nonnegative or is_boolean(store, inner),
        integer=is_integer(store, inner),
        boolean=is_boolean(store, inner),
    )
    number, index = store.apply("polynomial", (), (inner,), facts)
    return Factor(number, 1, index)


def sum_over(store: Store, x: Polynomial, axes: Mapping[int, tuple[int, int]], box: Ranges = None) -> Polynomial:
    """The Polynomial summed over some axes, each over its half-open interval."""
    ranges = tuple(high - low for low, high in axes.values())
    replace: dict[int, Coordinate] = {axis: variable(-1 - j, 1, low) for j, (axis, (low, _)) in enumerate(axes.items())}
    terms: list[Term] = []
    for m, c in x:
        terms.extend(close(store, Flat(c, substitute_factors(m, replace), ranges), box))
    return polynomial(store, terms, box)
