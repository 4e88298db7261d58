"""Kinds: sets of values that an element without a finite value may have, and the kinds that functions make of them.

A kind is a set of ``nan``, ``+inf``, ``-inf`` and ``0``: the element is one of these, and the form does not say so. The
reciprocal of what is ``+inf|-inf`` is ``0``, which plus the same ``0`` is 0 again; the logarithm of 0 is ``-inf``, a
product of that with an unknown number ``nan|+inf|-inf``. Three kinds are no sets:

==========  ==========================================================================================================
``masked``  the element is minus infinity: the maximum of a row that is masked; further maxima take it as such
``fails``   there is no number, and none is computed from it: a whole number divided by 0, or one that is converted
            to an integer type that does not hold it, of which C says nothing
``soft``    it may be anything: an infinity went into what may give another number (``tanh(1 / x)``, a comparison)
==========  ==========================================================================================================

The sign of a zero is not known, so 1 / 0 is of both signs. Kinds that are neither soft nor contain 0 are strong: the
program has no finite value there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations, product

__all__ = [
    "ALL_SOFT", "ANYTHING", "BLURRED", "BOUNDED", "CONVERTED", "EXPONENTIAL", "EXTREME", "FAILS", "INF", "KEEPS_ZERO",
    "KINDS", "LOGARITHM", "MASKED", "MINUS", "NAN", "NOT_PLUS", "PLUS", "POLE", "POWER", "PRODUCT", "PRODUCT_OF",
    "PRODUCT_WITH_ZERO", "RECIPROCAL", "SAME", "SOFT", "SUM", "SUM_WITH_FINITE", "UNBOUNDED", "all_zero", "both",
    "is_strong", "sum_of", "Values", "values_of",
]  # fmt: skip

_CLASSES = _NAN, _PLUS, _MINUS, _ZERO = ("nan", "+inf", "-inf", "0")
Values = frozenset[str]


def _name(values: Iterable[str]) -> str:
    found = set(values)
    return "|".join(v for v in _CLASSES if v in found)


_VALUES: Mapping[str, Values] = {
    _name(values): frozenset(values) for n in range(1, 5) for values in combinations(_CLASSES, n)
}  # of the kinds that are sets
MASKED, FAILS, SOFT = "masked", "fails", "soft"
NAN, PLUS, MINUS = _NAN, _PLUS, _MINUS
POLE = _name((_PLUS, _MINUS))
INF = _name((_NAN, _PLUS, _MINUS))
KINDS = (*_VALUES, MASKED, FAILS, SOFT)


def values_of(kind: str) -> Values | None:
    """The values that an element of a kind may be; ``None``: anything, or nothing that is a number."""
    return frozenset((_MINUS,)) if kind == MASKED else _VALUES.get(kind)


def _lifted(images: Mapping[str, str | None]) -> Mapping[str, str]:
    """A map from every kind to the one that it becomes under a function, of which it is said what each value becomes
    (``None``: anything)."""
    out: dict[str, str] = {FAILS: FAILS, SOFT: SOFT}
    for kind in (*_VALUES, MASKED):
        found = [images[v] for v in values_of(kind) or ()]
        out[kind] = SOFT if None in found else _name(v for image in found if image for v in image.split("|"))
    return out


# What a kind becomes. The operand that is not named is any number, or an infinity, or NaN.
SAME = {kind: kind for kind in KINDS}
ANYTHING = dict.fromkeys(KINDS, SOFT)
ALL_SOFT = {kind: FAILS if kind == FAILS else SOFT for kind in KINDS}
SUM = _lifted({_NAN: _NAN, _PLUS: "nan|+inf", _MINUS: "nan|-inf", _ZERO: None})
SUM_WITH_FINITE = _lifted({_NAN: _NAN, _PLUS: _PLUS, _MINUS: _MINUS, _ZERO: None})
PRODUCT = _lifted({_NAN: _NAN, _PLUS: INF, _MINUS: INF, _ZERO: "nan|0"})
PRODUCT_OF = {  # with a number: of unknown sign, positive, negative
    0: _lifted({_NAN: _NAN, _PLUS: INF, _MINUS: INF, _ZERO: _ZERO}),
    1: _lifted({_NAN: _NAN, _PLUS: _PLUS, _MINUS: _MINUS, _ZERO: _ZERO}),
    -1: _lifted({_NAN: _NAN, _PLUS: _MINUS, _MINUS: _PLUS, _ZERO: _ZERO}),
}
PRODUCT_WITH_ZERO = _lifted({_NAN: _NAN, _PLUS: _NAN, _MINUS: _NAN, _ZERO: _ZERO})
POWER = _lifted({_NAN: _NAN, _PLUS: _PLUS, _MINUS: INF, _ZERO: _ZERO})  # a positive one
RECIPROCAL = {  # a negative power, of a whole exponent or of another
    True: _lifted({_NAN: _NAN, _PLUS: _ZERO, _MINUS: _ZERO, _ZERO: POLE}),
    False: _lifted({_NAN: _NAN, _PLUS: _ZERO, _MINUS: "nan|0", _ZERO: POLE}),
}
EXPONENTIAL = _lifted({_NAN: _NAN, _PLUS: _PLUS, _MINUS: _ZERO, _ZERO: None})
LOGARITHM = _lifted({_NAN: _NAN, _PLUS: _PLUS, _MINUS: _NAN, _ZERO: _MINUS})
EXTREME = _lifted({_NAN: _NAN, _PLUS: "nan|+inf", _MINUS: None, _ZERO: None})  # the greatest of several
KEEPS_ZERO = _lifted({_NAN: _NAN, _PLUS: None, _MINUS: None, _ZERO: _ZERO})  # a function that is 0 at 0
BOUNDED = _lifted({_NAN: _NAN, _PLUS: None, _MINUS: None, _ZERO: None})
UNBOUNDED = {  # odd functions that are infinite at infinities, and |x|
    False: _lifted({_NAN: _NAN, _PLUS: _PLUS, _MINUS: _MINUS, _ZERO: _ZERO}),
    True: _lifted({_NAN: _NAN, _PLUS: _PLUS, _MINUS: _PLUS, _ZERO: _ZERO}),
}
_SUMS: Mapping[tuple[str, str], str] = {
    (_PLUS, _PLUS): _PLUS, (_MINUS, _MINUS): _MINUS, (_ZERO, _ZERO): _ZERO,
    (_PLUS, _ZERO): _PLUS, (_ZERO, _PLUS): _PLUS, (_MINUS, _ZERO): _MINUS, (_ZERO, _MINUS): _MINUS,
}  # fmt: skip


def sum_of(x: str, y: str) -> str:
    """The kind of the sum of two elements of which both kinds are known."""
    if FAILS in (x, y):
        return FAILS
    a, b = values_of(x), values_of(y)
    if a is None or b is None:
        known = a if a is not None else b
        return SOFT if known is None else SUM[_name(known)]
    return _name(_SUMS.get(pair, _NAN) for pair in product(a, b))


def is_strong(kind: str) -> bool:
    """True if the program has no finite value where an element is of this kind."""
    values = values_of(kind)
    return kind == FAILS or (values is not None and _ZERO not in values)


NOT_PLUS = _lifted(
    {_NAN: _NAN, _PLUS: None, _MINUS: _MINUS, _ZERO: _ZERO}
)  # where plus infinity may be taken otherwise
BLURRED = {  # where it is not known which of NaN and the infinities
    kind: FAILS if kind == FAILS else INF if is_strong(kind) else SOFT for kind in KINDS
}
CONVERTED = {  # to an integer
    kind: kind if kind in (FAILS, SOFT, _ZERO) else FAILS if is_strong(kind) else SOFT for kind in KINDS
}


def all_zero(kind: str, *, or_undefined: bool) -> bool:
    """True if an element of this kind is 0, or (``or_undefined``) has no finite value."""
    values = values_of(kind)
    return values is not None and (or_undefined or values == frozenset((_ZERO,)))


def both(kinds: Iterable[str]) -> str:
    """The kind that says all that is known of an element that is of all of these kinds."""
    given = dict.fromkeys(kinds)
    if FAILS in given:
        return FAILS
    known = [values for kind in given if (values := values_of(kind)) is not None]
    if not known:
        return SOFT
    left = set(_CLASSES)
    for values in known:
        left &= values
    if MASKED in given and left:
        return MASKED
    return _name(left) or NAN  # no value: it never happens, or what is NaN was taken for another
