"""Tensors of residues: what a real number is in exact arithmetic.

A real number x is a pair of residues, of x modulo two primes p and q = (p - 1) / 2, as in the probabilistic verifier of
Mirage (Wu et al., OSDI 2025): sums, products and quotients are taken in both, and ``exp(x) = g^(x mod q) mod p`` for g
of order q turns sums into products; what exp gives is known modulo p only. A rational function of the inputs (and of
exponentials of such functions) that is not 0 is not 0 on random residues either, but with a probability of at most its
degree over the size of the field (Schwartz 1980, Zippel 1979).

The primes are safe ones, p = 2 q + 1 with q = 7 modulo 8, and every prime below 20 is a square modulo both. Squares
then play the positive numbers: there are as many of them as of others, -1 is none, products and all roots of squares
are squares, ``exp`` gives squares, and small rationals are squares.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, reduce
from math import gcd, prod
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from tantamount.errors import Unsupported
from tantamount.ir.types import Shape
from tantamount.semantics.reference import Array

__all__ = [
    "FIELDS", "Degree", "Field", "Residues", "add", "contract", "exponential", "hashed", "hashed_rows", "keys",
    "multiply", "number", "of_integers", "power", "uniform",
]  # fmt: skip

_GENERATOR = 4  # a square, so of order q
_LIMB = 16  # bits
_TERMS = 1 << 15  # products of a limb and a residue that 62 bits can add up
_SMALL_LIMB = 11
_MORE_TERMS = 1 << 20
_HALF = 15  # bits: half of an exponent's
_SATURATED = 1 << 62  # no bound on a degree


class Field(NamedTuple):
    """The moduli."""

    p: int
    q: int


FIELDS = tuple(
    Field(p, (p - 1) // 2)
    for p in (
        2147024879, 2145341519, 2137043999, 2136629039, 2135316959, 2133331199, 2131232879, 2123563679,
        2116994879, 2081022719, 2059947119, 2059031519, 2056148639, 2049421919, 1983004799, 1982062319,
    )
)  # fmt: skip
"""A check takes two of them that its certificate decides, so that no coefficient can be written that vanishes there."""


@dataclass(frozen=True, slots=True)
class Degree:
    """Bounds on the degree of a tensor's elements as rational functions of the random residues, in which exponentials,
    roots and uninterpreted functions count as unknowns of their own. All have one denominator: the product of the
    elements of tensors that were inverted, each ``(exponent, degree of that product)`` in ``below`` by its number.
    ``above`` is that of the numerators, ``inner`` that of what the unknowns are functions of."""

    above: int = 0
    below: Mapping[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    inner: int = 0

    @property
    def denominator(self) -> int:
        return sum(exponent * cost for exponent, cost in self.below.values())

    @property
    def total(self) -> int:
        return min(max(self.above + self.denominator, self.inner), _SATURATED)

    def plus(self, other: Degree) -> Degree:
        """Of a sum: over the common denominator."""
        if self.below == other.below:
            return Degree(max(self.above, other.above), self.below, max(self.inner, other.inner))
        names = [*self.below, *(name for name in other.below if name not in self.below)]
        below = {name: max(self.below.get(name, (0, 0)), other.below.get(name, (0, 0))) for name in names}
        whole = sum(exponent * cost for exponent, cost in below.values())
        above = max(x.above + whole - x.denominator for x in (self, other))
        return Degree(above, below, max(self.inner, other.inner))

    def times(self, other: Degree) -> Degree:
        """Of a product."""
        below = dict(self.below)
        for name, (exponent, cost) in other.below.items():
            below[name] = (below.get(name, (0, 0))[0] + exponent, cost)
        return Degree(self.above + other.above, below, max(self.inner, other.inner))

    def raised(self, exponent: int, size: int) -> Degree:
        """Of a power of all elements of a tensor of that size."""
        if exponent >= 0:
            below = {name: (e * exponent, cost) for name, (e, cost) in self.below.items()}
            return Degree(self.above * exponent, below, self.inner)
        k = -exponent
        if self.above == 0:  # one over a product of what was inverted
            return Degree(k * self.denominator, {}, self.inner)
        above = k * (self.denominator + (size - 1) * self.above)
        return Degree(min(above, _SATURATED), {next(_NUMBERS): (k, size * self.above)}, self.inner)


_NUMBERS = itertools.count()


@dataclass(frozen=True, eq=False)
class Residues:
    """A tensor of exact numbers. ``modp`` and ``modq`` (``None``: not known) are int64 arrays of one shape; where
    ``undefined`` the number has no value; ``infinite`` is -1, 0 or 1. ``loose`` names the functions on the way here
    that were replaced by others, of which less is true than of the functions themselves."""

    modp: Array
    modq: Array | None
    undefined: Array
    infinite: Array
    loose: frozenset[str] = frozenset()
    degree: Degree = field(default_factory=Degree)

    @property
    def shape(self) -> Shape:
        return self.modp.shape

    @property
    def finite(self) -> Array:
        """A mask of the elements that are numbers."""
        return ~self.undefined & (self.infinite == 0)

    def each(self, change: Callable[[Array], Array]) -> Residues:
        """The same change of layout for all parts."""
        q = None if self.modq is None else change(self.modq)
        return replace(
            self, modp=change(self.modp), modq=q, undefined=change(self.undefined), infinite=change(self.infinite)
        )


def _plain(
    modp: Array, modq: Array | None, *like: Residues, degree: Degree, loose: frozenset[str] = frozenset()
) -> Residues:
    undefined = np.zeros(modp.shape, dtype=np.bool_)
    loose = loose.union(*(x.loose for x in like))
    return Residues(modp, modq, undefined, np.zeros(modp.shape, dtype=np.int8), loose, degree)


def _unknown_of(out: Residues, xs: Sequence[Residues]) -> Residues:
    """A value of degree 1 that depends on these."""
    return replace(out, degree=Degree(1, inner=max(x.degree.total for x in xs)))


# ---------------------------------------------------------------------------------------------- sources
def uniform(shape: Shape, generator: np.random.Generator, of: Field) -> Residues:
    """Independent random numbers."""
    p = np.asarray(generator.integers(0, of.p, shape), dtype=np.int64)
    return _plain(p, np.asarray(generator.integers(0, of.q, shape), dtype=np.int64), degree=Degree(1))


def of_integers(x: Array, of: Field) -> Residues:
    """Whole numbers."""
    whole = np.asarray(x, dtype=np.int64)
    return _plain(whole % of.p, whole % of.q, degree=Degree())


def number(values: Sequence[Fraction | float], shape: Shape, of: Field) -> Residues:
    """Rational numbers, and infinities. Raises :class:`Unsupported` for one whose denominator is 0 in the field."""
    parts = [_one(value, of) for value in values]
    p, q, infinite = (np.array(part, dtype=np.int64).reshape(shape) for part in zip(*parts, strict=True))
    undefined = np.zeros(shape, dtype=np.bool_)
    return Residues(p, q, undefined, infinite.astype(np.int8))


def _one(value: Fraction | float, of: Field) -> tuple[int, int, int]:
    if isinstance(value, float):  # an infinity: other floats are written as fractions
        return 0, 0, 1 if value > 0 else -1
    if gcd(value.denominator, of.p * of.q) > 1:
        raise Unsupported(f"the number {value}, whose denominator is 0 in the field")
    return (
        value.numerator * pow(value.denominator, -1, of.p) % of.p,
        value.numerator * pow(value.denominator, -1, of.q) % of.q,
        0,
    )


# ---------------------------------------------------------------------------------------------- arithmetic
def add(x: Residues, y: Residues, of: Field) -> Residues:
    """``x + y``; undefined where infinities of both signs meet."""
    q = None if x.modq is None or y.modq is None else (x.modq + y.modq) % of.q
    out = _plain((x.modp + y.modp) % of.p, q, x, y, degree=x.degree.plus(y.degree))
    undefined = x.undefined | y.undefined | (x.infinite * y.infinite < 0)
    infinite = np.where(x.infinite != 0, x.infinite, y.infinite)
    return replace(out, undefined=undefined, infinite=np.where(undefined, 0, infinite).astype(np.int8))


def multiply(x: Residues, y: Residues, of: Field) -> Residues:
    """``x y``; undefined where a factor is infinite and the sign of the other is not known."""
    q = None if x.modq is None or y.modq is None else x.modq * y.modq % of.q
    out = _plain(x.modp * y.modp % of.p, q, x, y, degree=x.degree.times(y.degree))
    sign_x, sign_y = _sign(x, of), _sign(y, of)
    unbounded = (x.infinite != 0) | (y.infinite != 0)
    infinite = np.where(unbounded, sign_x * sign_y, 0)
    undefined = x.undefined | y.undefined | (unbounded & (infinite == 0))
    return replace(out, undefined=undefined, infinite=np.where(undefined, 0, infinite).astype(np.int8))


def _sign(x: Residues, of: Field) -> Array:
    """1 or -1 where the sign is known: of infinities and of small whole numbers; else 0."""
    small = np.where((x.modp > 0) & (x.modp < 1 << 20), 1, np.where(x.modp > of.p - (1 << 20), -1, 0))
    return np.where(x.infinite != 0, x.infinite, np.where(x.degree.total == 0, small, 0))


def contract(operands: Sequence[tuple[Residues, tuple[int, ...]]], result: tuple[int, ...], of: Field) -> Residues:
    """Einstein summation, exactly."""
    xs = [x for x, _ in operands]
    labels = [labels for _, labels in operands]
    p = _contract([x.modp for x in xs], labels, result, of.p)
    qs = [x.modq for x in xs if x.modq is not None]
    q = _contract(qs, labels, result, of.q) if len(qs) == len(xs) else None
    degree = reduce(Degree.times, (x.degree for x in xs))
    out = _plain(p, q, *xs, degree=degree)
    if not any(x.undefined.any() or x.infinite.any() for x in xs):
        return out
    if len(xs) == 1 and not xs[0].undefined.any():  # a sum with infinities of one sign
        signs = {int(s) for s in np.unique(xs[0].infinite)} - {0}
        count = _counts([np.asarray(xs[0].infinite != 0)], labels, result)
        if len(signs) == 1:
            return replace(out, infinite=np.where(count > 0, signs.pop(), 0).astype(np.int8))
    bad = _counts([np.asarray(x.undefined | (x.infinite != 0)) for x in xs], labels, result)
    return replace(out, undefined=bad > 0)


def _counts(
    xs: Sequence[Array], labels: Sequence[tuple[int, ...]], result: tuple[int, ...], some: bool = False
) -> Array:
    """The number of terms of the sum that have a factor (``some``) that is marked."""
    total: Any = 0
    for k, x in enumerate(xs):
        marked = [x if j == k else np.ones_like(other) for j, other in enumerate(xs)]
        total = total + _einsum([np.asarray(m, dtype=np.int64) for m in marked], labels, result)
    return np.asarray(total)


def _einsum(xs: Sequence[Array], labels: Sequence[tuple[int, ...]], result: Sequence[int]) -> Array:
    names = {label: k for k, label in enumerate(dict.fromkeys(label for own in labels for label in own))}
    if len(names) > 52:
        raise Unsupported(f"a contraction with {len(names)} labels")
    given: list[Any] = []
    for x, own in zip(xs, labels, strict=True):
        given += [x, [names[label] for label in own]]
    return np.asarray(np.einsum(*given, [names[label] for label in result]))


def _contract(xs: Sequence[Array], labels: Sequence[tuple[int, ...]], result: tuple[int, ...], modulus: int) -> Array:
    """Two operands at a time: a label is summed once no other operand has it."""
    x, own = xs[0], labels[0]
    if len(xs) == 1:
        return _einsum([x], [own], result) % modulus
    for k in range(1, len(xs)):
        later = {*result}.union(*labels[k + 1 :])
        kept = tuple(dict.fromkeys(label for label in (*own, *labels[k]) if label in later))
        kept = result if k == len(xs) - 1 else kept
        x, own = _product(x, own, xs[k], labels[k], kept, modulus), kept
    return x


def _product(
    x: Array, own: tuple[int, ...], y: Array, other: tuple[int, ...], result: tuple[int, ...], modulus: int
) -> Array:
    sizes = {**dict(zip(own, x.shape, strict=True)), **dict(zip(other, y.shape, strict=True))}
    terms = prod(n for label, n in sizes.items() if label not in result)
    if terms > _MORE_TERMS:
        raise Unsupported(f"a sum of {terms} products in exact arithmetic")
    bits = _LIMB if terms <= _TERMS else _SMALL_LIMB
    total: Any = 0
    for shift in range(0, 31, bits):
        limb = (x >> shift) & ((1 << bits) - 1)
        partial = _einsum([limb, y], [own, other], result) % modulus
        total = (total + partial * ((1 << shift) % modulus)) % modulus
    return np.asarray(total)


# ---------------------------------------------------------------------------------------------- powers
def _raised(x: Array, exponent: int, modulus: int) -> Array:
    out, base = np.ones_like(x), x
    while exponent:
        if exponent & 1:
            out = out * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return out


def power(x: Residues, exponent: Fraction, of: Field) -> Residues:
    """``x ** exponent``. A root of a square is the one that is a square. The root of another number is that of its
    negative, so that it is still multiplicative, but no root: the result is loose."""
    p = _fractional(x.modp, exponent, of.p)
    if p is None:
        raise Unsupported(f"the power {exponent} in exact arithmetic")
    q = None if x.modq is None else _fractional(x.modq, exponent, of.q)
    undefined = x.undefined | (x.infinite != 0)
    loose: frozenset[str] = frozenset()
    if exponent < 0:
        undefined = undefined | (x.modp == 0)
        undefined = undefined if x.modq is None else undefined | (x.modq == 0)
    if exponent.denominator % 2 == 0 and bool(np.any(_raised(x.modp, (of.p - 1) // 2, of.p) == of.p - 1)):
        loose = frozenset({"root"})
    whole = x.degree.raised(exponent.numerator, prod(x.shape))
    out = _plain(p, q, x, degree=whole, loose=loose)
    if exponent.denominator > 1:
        out = _unknown_of(out, [x])
    gone = (x.infinite != 0) & ~x.undefined & (exponent < 0)  # 1 / infinity
    zero = np.where(gone, 0, out.modp)
    return replace(out, modp=zero, undefined=undefined & ~gone)


def _fractional(x: Array, exponent: Fraction, modulus: int) -> Array | None:
    """``x ** exponent`` modulo a prime that is 3 modulo 4; ``None`` if there is no such root."""
    twos, odd = 0, exponent.denominator
    while odd % 2 == 0:
        twos, odd = twos + 1, odd // 2
    if gcd(odd, modulus - 1) > 1:
        return None
    e = pow(odd, -1, modulus - 1) * exponent.numerator if odd > 1 else exponent.numerator
    for _ in range(twos):
        x = _raised(x, (modulus + 1) // 4, modulus)
    return _raised(x, e % (modulus - 1), modulus) if e else np.ones_like(x)


def exponential(x: Residues, of: Field, seed: int) -> Residues:
    """exp: a homomorphism where the exponent is known modulo q, an uninterpreted function elsewhere."""
    if x.modq is None:
        out = hashed("exp", [x], of, seed)
        # a power of the generator, so that it is a square, as exponentials are positive
        out = replace(out, modp=_of_generator(out.modp % of.q, of), modq=None, loose=out.loose | {"exp of exp"})
    else:
        out = _unknown_of(_plain(_of_generator(x.modq, of), None, x, degree=Degree(1)), [x])
    gone = x.infinite < 0
    undefined = x.undefined | (x.infinite > 0)
    return replace(out, modp=np.where(gone, 0, out.modp), undefined=undefined, infinite=np.zeros_like(x.infinite))


def _of_generator(exponent: Array, of: Field) -> Array:
    low, high = _powers(of)
    return low[exponent & ((1 << _HALF) - 1)] * high[exponent >> _HALF] % of.p


@cache
def _powers(of: Field) -> tuple[Array, Array]:
    """Powers of the generator: to every exponent of half the bits, and to those shifted by as many."""

    def table(base: int) -> Array:
        powers = [1]
        for _ in range((1 << _HALF) - 1):
            powers.append(powers[-1] * base % of.p)
        return np.array(powers, dtype=np.int64)

    return table(_GENERATOR), table(pow(_GENERATOR, 1 << _HALF, of.p))


# ---------------------------------------------------------------------------------------------- uninterpreted
def _mixed(x: Any, seed: int) -> Any:
    """splitmix64: a fixed permutation of 64 bits that looks random (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        z = np.asarray(x).astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % (1 << 64))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def keys(x: Residues, seed: int) -> Array:
    """Numbers below 2^53 in a random order of the field, infinities at its ends: a stand-in for the order of the
    reals."""
    order = (_mixed(x.modp, seed) >> np.uint64(12)).astype(np.int64)
    top = np.int64(1 << 52)
    return np.where(x.infinite == 0, order, np.where(x.infinite > 0, top, -1))


def hashed(name: str, xs: Sequence[Residues], of: Field, seed: int) -> Residues:
    """An uninterpreted function: equal arguments give equal values, and nothing else is known of it."""
    code = seed ^ crc32(name.encode())
    value = np.zeros(xs[0].shape, dtype=np.uint64)
    undefined = np.zeros(xs[0].shape, dtype=np.bool_)
    for k, x in enumerate(xs):
        value = _mixed(value ^ _mixed(x.modp, code + k), code)
        undefined = undefined | x.undefined | (x.infinite != 0)
    p = (value % np.uint64(of.p)).astype(np.int64)
    q = (_mixed(value, code + 77) % np.uint64(of.q)).astype(np.int64)
    out = _plain(p, q, *xs, degree=Degree(1), loose=frozenset({name}))
    return replace(_unknown_of(out, xs), undefined=undefined)


def hashed_rows(
    name: str, xs: Sequence[Residues | Array], attributes: object, results: Sequence[int], of: Field, seed: int
) -> tuple[Residues, ...]:
    """An uninterpreted function of rows: result k has ``results[k]`` elements, each another function of all that the
    operands have in the row."""
    code = seed ^ crc32(repr((name, attributes)).encode())
    known = [x if isinstance(x, Residues) else of_integers(x, of) for x in xs]
    total: Any = np.uint64(0)
    undefined: Any = np.False_
    for k, x in enumerate(known):
        element = np.where(x.infinite == 0, x.modp, of.p + x.infinite.astype(np.int64))
        places = _mixed(np.arange(x.shape[-1]), code + k)
        with np.errstate(over="ignore"):
            total = _mixed(total + _mixed(element ^ places.astype(np.int64), code + k).sum(axis=-1), code)
        undefined = undefined | x.undefined.any(axis=-1)
    out: list[Residues] = []
    for k, size in enumerate(results):
        own = _mixed(total[..., np.newaxis] ^ _mixed(np.arange(size), code + 1000 + k), code)
        p = (own % np.uint64(of.p)).astype(np.int64)
        q = (_mixed(own, code + 77) % np.uint64(of.q)).astype(np.int64)
        made = _unknown_of(_plain(p, q, *known, degree=Degree(1), loose=frozenset({name})), known)
        out.append(replace(made, undefined=np.broadcast_to(np.asarray(undefined)[..., np.newaxis], p.shape)))
    return tuple(out)
