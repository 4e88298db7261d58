"""The conditions of a proof for all sizes varied from run to run ("S != 2" here, "S != 2, S >= 3" there).

A size hashed as its address. Sets of sizes had an order of their own in every run, so sorting them compared others, and
what is compared is noted.
"""

from __future__ import annotations

from fractions import Fraction
from zlib import crc32

from tantamount.calculus.forms import factorisation
from tantamount.sizes.symbolic import Space


def _conditions() -> list[str]:
    space = Space({"B": 3, "S": 24})
    b, s = space.symbols["B"], space.symbols["S"]
    assert factorisation([(b, s), (b, s, 1), (b * s,)]) == (b, s)
    return [str(condition) for condition in space.conditions]


def test_the_conditions_of_a_set_of_sizes_repeat() -> None:
    kept: list[Space] = []
    found = {tuple(_conditions()) for k in range(50) if kept.extend(Space({"S": n}) for n in range(1, k)) is None}
    assert len(found) == 1


def test_a_size_hashes_the_same_in_every_run_and_process() -> None:
    one, other = Space({"S": 24}), Space({"S": 8})
    assert hash(one.symbols["S"]) == hash(other.symbols["S"]) == hash((False, (((crc32(b"S"), 3),), 3)))


def test_keys_that_differ_are_told_apart_without_a_comparison() -> None:
    space = Space({"S": 24})
    s = space.symbols["S"]
    keys = {-s, -2 * s, s - 1, s - 2, Fraction(1) / s, Fraction(1) / s**2}
    assert len(keys) == 6
    assert not space.conditions
