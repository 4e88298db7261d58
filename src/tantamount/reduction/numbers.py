"""Numbers that programs compute with and that are functions of sizes: ``1 / sqrt(head_dim)``, ``1 / numel``, bounds of
a vocabulary shard.

A number that equals a function of sizes must go with them, or a program that writes ``0.0721687836`` where the other
has the size 192 would be broken by the reduction. A *plain* number (0.125, 16) may be a function of a size, or may
be just that: then every size of which it might be a function stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, isfinite, sqrt

from tantamount.reduction.literals import Number
from tantamount.sizes.traced import (
    HUGE,
    Polynomial,
    SizeFact,
    constant,
    evaluate,
    plus,
)

__all__ = ["Reading", "plain", "readings", "rewritten"]

_ROUNDING = 1e-7  # a literal may be the float32 nearest to the function's value
_PLAIN = 32  # whole numbers up to this one are plain,
_DIGITS = 4  # and fractions with at most so many significant digits

_ROOTED = 8192  # roots are taken of sizes up to this one


def _inverse_root(n: float) -> float:
    return 1 / sqrt(n)


_ROOTS = (sqrt, _inverse_root)
_FUNCTIONS: tuple[Callable[[float], float], ...] = (
    lambda n: n,
    lambda n: 1 / n,
    _inverse_root,
    sqrt,
    lambda n: 2 / n,
    lambda n: n - 1,
    lambda n: 1 / (n - 1),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """A number as ``sign * function(size)``, where ``size`` is a polynomial."""

    number: Number
    sign: int
    function: int
    size: Polynomial

    def at(self, sizes: Mapping[int, int]) -> Number:
        """The number at other sizes, of the same type as the original."""
        value = self.sign * _FUNCTIONS[self.function](evaluate(self.size, sizes))
        return round(value) if isinstance(self.number, int) else float(value)


def readings(
    numbers: Iterable[Number],
    sizes: Iterable[int],
    products: Iterable[Polynomial],
    values: Sequence[int],
    ranks: int,
) -> tuple[list[Reading], list[SizeFact]]:
    """Each number as a function of sizes, and the facts about sizes that this needs. ``sizes`` are variables, which
    have ``values`` in the job; ``products`` and their inverses count where no single size does. All sizes of which a
    number is the same function become one; where the function is not clear, they stay."""
    at = dict(enumerate(values))
    single = {(((v,), 1),): values[v] for v in sizes}
    several = {p: evaluate(p, at) for p in products if len(p) != 1 or len(p[0][0]) > 1}
    found: list[Reading] = []
    facts: list[SizeFact] = []
    for number in numbers:
        if isinstance(number, bool) or not isfinite(number) or not 0 < abs(number) < HUGE:
            continue
        here = _readings(number, single) or _multiple(number, single, ranks) or _readings(number, several, 2)
        if plain(number) or len({reading.function for reading in here}) > 1:
            facts += [("==", plus(r.size, constant(-evaluate(r.size, at)))) for r in here]
        else:
            found += here[:1]
            facts += [("==", plus(r.size, here[0].size, -1)) for r in here[1:]]
    return found, facts


def _readings(number: Number, sizes: Mapping[Polynomial, int], functions: int = len(_FUNCTIONS)) -> list[Reading]:
    sign, size = (-1 if number < 0 else 1), abs(number)
    out: list[Reading] = []
    for k, function in enumerate(_FUNCTIONS[:functions]):
        for p, n in sizes.items():
            if function in _ROOTS and n > _ROOTED:
                continue
            value = function(n)
            if value == size if float(size).is_integer() else isclose(value, size, rel_tol=_ROUNDING):
                out.append(Reading(number, sign, k, p))
        if out and k == 0:  # a size is that size
            break
    return out


def _multiple(number: Number, sizes: Mapping[Polynomial, int], ranks: int) -> list[Reading]:
    """A whole number as the smallest multiple of a size: where a rank's shard begins or ends."""
    if not isinstance(number, int):
        return []
    factors = {p: abs(number) // n for p, n in sizes.items() if abs(number) % n == 0 and 1 < abs(number) // n <= ranks}
    least = min(factors.values(), default=0)
    sign = -1 if number < 0 else 1
    return [Reading(number, sign, 0, tuple((m, c * least) for m, c in p)) for p, k in factors.items() if k == least]


def plain(number: Number) -> bool:
    """True if a number may well be just that, and no function of a size."""
    if float(number).is_integer():
        return abs(number) <= _PLAIN
    return len(f"{abs(number):.15e}".split("e")[0].replace(".", "").rstrip("0")) <= _DIGITS


def rewritten(found: Iterable[Reading], sizes: Mapping[int, int]) -> dict[str, Number]:
    """The new value of every number, by its ``repr``."""
    return {repr(reading.number): reading.at(sizes) for reading in found}
