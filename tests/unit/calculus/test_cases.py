"""Identities of comparisons, maxima, signs and roundings: proved by cases, and never where a number makes a difference.

Every identity is a function of some numbers. With the right ones it is proved; with each of them one more or one less
it is proved only if both sides are equal on a grid of whole numbers, as NumPy computes them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.calculus.cases import never_zero
from tantamount.calculus.compare import equal
from tantamount.calculus.index_ranges import fits
from tantamount.calculus.inequalities import Row, Steps, impossible
from tantamount.effort import Effort
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor

GRID = np.array(list(itertools.product(range(-13, 14), range(-13, 14), range(-2, 3))))


class Symbols:
    """Operations on tensors of the calculus."""

    def __init__(self) -> None:
        self.w = Workbench()
        b = self.b = self.w.b
        self.x, self.y, self.z = (self.w.input(name, 3, dtype=DType.INT64) for name in "xyz")
        self.max, self.min, self.where = b.maximum, b.minimum, b.where
        self.add, self.sub, self.mul, self.less, self.equal = b.add, b.sub, b.mul, b.less, b.equal

    def floordiv(self, x: Tensor, n: int) -> Tensor:
        return self.b.function("floor_divide", x, self.b.number(n, DType.INT64), floating=False)

    def truncdiv(self, x: Tensor, n: int) -> Tensor:
        return self.b.cast(self.b.function("trunc", self.b.div(x, n)), DType.INT64)

    def abs(self, x: Tensor) -> Tensor:
        return self.b.function("abs", x, floating=False)

    def sign(self, x: Tensor) -> Tensor:
        return self.b.function("sign", x, floating=False)

    def number(self, n: int) -> Tensor:
        return self.b.full((3,), n, DType.INT64)


class Numbers:
    """The same on a grid of numbers."""

    x, y, z = GRID.T
    add, sub, mul, less, equal = np.add, np.subtract, np.multiply, np.less, np.equal
    max, min, where, abs, sign = np.maximum, np.minimum, np.where, np.abs, np.sign
    floordiv = np.floor_divide

    @staticmethod
    def truncdiv(x: Any, n: int) -> Any:
        return np.sign(x) * (np.abs(x) // n)

    @staticmethod
    def number(n: int) -> Any:
        return np.full(len(GRID), n)


Identity = Callable[..., tuple[Any, Any]]
IDENTITIES: dict[str, tuple[Identity, tuple[int, ...]]] = {
    "clamp of a clamp": (
        lambda o, a, b, c, d, e, f: (
            o.min(o.max(o.min(o.max(o.x, a), b), c), d), o.min(o.max(o.x, e), f)
        ), (0, 6, 2, 9, 2, 6),
    ),
    "absorption": (lambda o, a, b: (o.max(o.add(o.x, a), o.min(o.add(o.x, b), o.y)), o.add(o.x, 2)), (2, 2)),
    "median": (
        lambda o, a: (
            o.max(o.min(o.x, o.y), o.min(o.max(o.x, o.y), o.z)),
            o.sub(o.add(o.add(o.x, o.y), o.add(o.z, a)),
                  o.add(o.max(o.max(o.x, o.y), o.z), o.min(o.min(o.x, o.y), o.z))),
        ), (0,),
    ),
    "maximum by comparison": (lambda o, a: (o.where(o.less(o.x, o.add(o.y, a)), o.y, o.x), o.max(o.x, o.y)), (0,)),
    "less than a minimum": (
        lambda o, a, b: (
            o.where(o.less(o.add(o.x, a), o.min(o.y, o.z)), o.number(1), o.number(0)),
            o.where(o.less(o.add(o.x, b), o.y), o.where(o.less(o.x, o.z), o.number(1), o.number(0)), o.number(0)),
        ), (0, 0),
    ),
    "absolute value": (lambda o, a: (o.abs(o.add(o.x, a)), o.max(o.x, o.sub(o.number(0), o.x))), (0,)),
    "sign": (lambda o, a: (o.mul(o.sign(o.x), o.add(o.x, a)), o.abs(o.x)), (0,)),
    "floor of a floor": (lambda o, a, b, c: (o.floordiv(o.floordiv(o.x, a), b), o.floordiv(o.x, c)), (2, 3, 6)),
    "shifted floor": (lambda o, a, b, c: (o.floordiv(o.add(o.x, a), b), o.add(o.floordiv(o.x, 4), c)), (12, 4, 3)),
    "remainder of a remainder": (
        lambda o, a, b: (
            (lambda r: o.sub(r, o.mul(o.floordiv(r, b), b)))(o.sub(o.x, o.mul(o.floordiv(o.x, a), a))),
            o.sub(o.x, o.mul(o.floordiv(o.x, 3), 3)),
        ), (6, 3),
    ),
    "truncated is odd": (
        lambda o, a, b: (o.truncdiv(o.sub(o.number(0), o.x), a), o.sub(o.number(0), o.truncdiv(o.x, b))), (5, 5),
    ),
    "truncated is floor of what is not negative": (
        lambda o, a: (o.truncdiv(o.max(o.x, 0), a), o.floordiv(o.max(o.x, 0), 3)), (3,),
    ),
}  # fmt: skip


def _proved(identity: Identity, numbers: tuple[int, ...]) -> bool:
    symbols = Symbols()
    left, right = identity(symbols, *numbers)
    return equal(symbols.w.store, left.value, right.value) is None


def _holds(identity: Identity, numbers: tuple[int, ...]) -> bool:
    left, right = identity(Numbers, *numbers)
    return bool((left == right).all())


@pytest.mark.parametrize("name", IDENTITIES)
def test_an_identity_is_proved(name: str) -> None:
    identity, numbers = IDENTITIES[name]
    assert _holds(identity, numbers)
    assert _proved(identity, numbers)


@pytest.mark.parametrize("name", IDENTITIES)
def test_no_other_number_is_proved_unless_it_holds(name: str) -> None:
    identity, numbers = IDENTITIES[name]
    tried = 0
    for k, step in itertools.product(range(len(numbers)), (-1, 1)):
        changed = (*numbers[:k], numbers[k] + step, *numbers[k + 1 :])
        try:
            holds = _holds(identity, changed)
        except ZeroDivisionError:
            continue
        tried += not holds
        assert holds or not _proved(identity, changed), changed
    assert tried


def _row(strict: bool = False, constant: int = 0, **coefficients: int) -> Row:
    terms = [(((name, 1),), c) for name, c in coefficients.items()]
    return Row(tuple(sorted([*([((), constant)] if constant else []), *terms])), strict)  # type: ignore[arg-type]


def test_inequalities_without_a_solution() -> None:
    effort = Steps(Effort())
    between = [_row(x=2, constant=-1), _row(x=-2, constant=1)]  # 2x == 1
    assert impossible(between, {"x"}, effort)
    assert not impossible(between, set(), effort)
    cycle = [_row(x=1, y=-1), _row(y=1, z=-1), _row(z=1, x=-1, strict=True)]
    assert impossible(cycle, set(), effort)
    assert not impossible([_row(x=1, y=-1), _row(y=1, z=-1), _row(z=1, x=-1)], set(), effort)
    assert impossible([Row(((((("x", 2),)), -1),), True)], set(), effort)  # type: ignore[arg-type]  # -x^2 > 0
    assert not impossible([Row(((((("x", 1), ("y", 1))), -1),), True)], set(), effort)  # type: ignore[arg-type]


def test_inequalities_against_a_grid() -> None:
    """What is impossible has no solution among small whole numbers."""
    generator = np.random.default_rng(7)
    points = np.array(list(itertools.product(range(-4, 5), repeat=3)))
    found = 0
    for _ in range(150):
        table = generator.integers(-3, 4, (5, 4))
        rows = [_row(constant=int(r[3]), **{n: int(c) for n, c in zip("xyz", r[:3], strict=True) if c}) for r in table]
        if impossible(rows, {"x", "y", "z"}, Steps(Effort())):
            found += 1
            assert not ((points @ table[:, :3].T + table[:, 3]) >= 0).all(axis=1).any()
    assert found > 5


# ------------------------------------------------------------------------------------------------ ranges and divisors
def _polynomial(w: Workbench, x: Tensor) -> tuple[Any, Any]:
    """The one polynomial of a tensor, and its box."""
    ((box, found),) = x.value.pieces
    return found, box


RANGES: dict[str, tuple[Callable[[Symbols], Tensor], int, int]] = {  # a value, and the interval that it fills
    "clamped": (lambda o: o.min(o.max(o.x, 2), 5), 2, 5),
    "a remainder": (lambda o: o.sub(o.x, o.mul(o.floordiv(o.x, 3), 3)), 0, 2),
    "a remainder, shifted where it is odd": (
        lambda o: o.add(o.sub(o.x, o.mul(o.floordiv(o.x, 2), 2)), o.where(o.less(o.y, 0), 4, 2)), 2, 5,
    ),
    "a sign": (lambda o: o.add(o.sign(o.x), 1), 0, 2),
    "a difference of quotients": (lambda o: o.sub(o.floordiv(o.add(o.x, 5), 4), o.floordiv(o.x, 4)), 1, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_a_range_is_shown_and_no_smaller_one(name: str) -> None:
    value, low, high = RANGES[name]
    symbols = Symbols()
    x, box = _polynomial(symbols.w, value(symbols))
    store = symbols.w.store
    assert fits(store, x, low, high, box)
    assert not fits(store, x, low + 1, high, box)
    assert not fits(store, x, low, high - 1, box)


def test_what_is_never_zero() -> None:
    symbols = Symbols()
    o, store = symbols, symbols.w.store
    never = [o.max(o.x, 1), o.where(o.equal(o.x, 0), o.number(1), o.x), o.add(o.mul(o.floordiv(o.x, 3), 2), 1)]
    perhaps = [o.max(o.x, 0), o.where(o.equal(o.y, 0), o.number(1), o.x), o.add(o.mul(o.floordiv(o.x, 3), 2), 2)]
    for tensors, expected in ((never, True), (perhaps, False)):
        for tensor in tensors:
            x, box = _polynomial(symbols.w, tensor)
            assert never_zero(store, x, box) is expected, tensor


@pytest.mark.parametrize("right", [True, False])
def test_a_remainder_by_a_positive_number_that_is_not_known(right: bool) -> None:
    """rem(X + n, n) = rem(X, n) for X >= 0 and n > 0, and not for an X of any sign."""
    w = Workbench()
    x, m = w.input("x", 3), w.input("m", 3)
    n = w.b.add(w.b.function("abs", m), 1)
    left = w.b.function("abs", x) if right else x
    shifted, plain = (w.aten("aten.fmod.Tensor", y, n) for y in (w.b.add(left, n), left))
    assert (equal(w.store, shifted.value, plain.value) is None) is right
