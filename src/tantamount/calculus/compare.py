"""Equality of forms, and where one form lies inside another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from tantamount.calculus.affine import Coordinate, Index, coordinate, fixed, substitute, variable
from tantamount.calculus.answers import EQUAL, Answer, Different, Undecided, undecided
from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.expand import equal_polynomials
from tantamount.calculus.forms import Box, Form, aligned, intersect, pin
from tantamount.calculus.polynomials import pinned
from tantamount.calculus.rebuild import refresh
from tantamount.calculus.terms import Polynomial
from tantamount.calculus.unfold import unfolded
from tantamount.errors import Unsupported
from tantamount.limits import COMPARISON
from tantamount.sizes.symbolic import is_one

__all__ = ["Difference", "equal", "fingerprint", "locate", "solve"]


class Difference(NamedTuple):
    """A box of the common axes on which two forms have different Polynomials, and what is known of these: different
    normal forms, or undecided."""

    box: Box
    left: Polynomial
    right: Polynomial
    sizes: tuple[int, ...]
    answer: Different | Undecided

    def __bool__(self) -> NoReturn:
        raise TypeError("a difference has no truth value: compare it with None")


def equal(store: Store, f: Form, g: Form, *, expand: bool = True) -> Difference | None:
    """``None`` if the two forms of one shape are the same function; otherwise the first place where that was not shown.

    A difference of forms is not yet a difference of functions. With ``expand``, products are multiplied out before two
    Polynomials are said to differ; without, all that is not equal as it stands is undecided."""
    if f.pieces == g.pieces and f.dims == g.dims:
        return None
    f, g = aligned(store, [f, g])
    sizes = f.sizes
    for box, x in f.pieces:
        for other, y in g.pieces:
            cell = intersect(box, other)
            if cell is None:
                continue
            try:
                a, b = (pin(store, cell, side, sizes) for side in (x, y))
                if a != b and store.redirects:
                    a, b = refresh(store, a), refresh(store, b)
            except Unsupported as problem:  # at single positions: the logarithm of 0 at one of them
                return Difference(cell, x, y, sizes, Undecided(reason=problem.reason))
            if a == b:
                continue
            answer = _with_effort(store, a, b, cell) if expand else Undecided(reason="products were not multiplied out")
            if isinstance(answer, (Different, Undecided)):
                return Difference(cell, a, b, sizes, answer)
    return None


def _with_effort(store: Store, a: Polynomial, b: Polynomial, cell: Box) -> Answer:
    """With leaves put back that stand for what was computed, and products multiplied out."""
    before = store.effort.counts()
    further = list(unfolded(store, a, b))
    if any(x == y for x, y in further):
        return EQUAL
    cut_off = Undecided(store.effort.since(before, COMPARISON))
    answers: list[Answer] = []
    for x, y in [(a, b), *further]:
        answer = equal_polynomials(store, x, y, cell)
        if answer.proved:
            return answer
        answers.append(answer)
    open_ = [answer for answer in answers if isinstance(answer, Undecided)]
    return undecided([*open_, cut_off]) if open_ or cut_off.hits else answers[-1]


def fingerprint(store: Store, form: Form) -> frozenset[object]:
    """The coefficient, atoms and exponents of each term: equal for two forms of one function, whatever their boxes."""
    return frozenset((c, tuple(sorted((a, e) for a, e, _ in m))) for _, x in form.pieces for m, c in x)


def locate(store: Store, whole: Form, part: Form, *, unique: bool = False) -> list[tuple[Box, Index]] | None:
    """The place of ``part`` in ``whole``: for every piece of ``part`` its box and the affine map from its axes to the
    index of ``whole`` (one coordinate per dimension) at which ``whole`` has the same value. ``None`` if some piece has
    no place, or if the value alone does not determine the place. With ``unique`` also ``None`` if there are several
    places."""
    found: list[tuple[Box, Index]] = []
    for box, y in part.pieces:
        places = (p for source, x in whole.pieces if (p := _place(store, whole, source, x, box, y, unique)) is not None)
        place = next(places, None)
        if place is None or (unique and next(places, None) is not None):
            return None
        found.append((box, place))
    return found


def _place(
    store: Store, whole: Form, source: Box, x: Polynomial, box: Box, y: Polynomial, determined: bool
) -> Index | None:
    solution = solve(store, source, x, box, y, determined=determined)
    if solution is None:
        return None
    return tuple(substitute(whole.coordinate(d), solution) for d in range(len(whole.dims)))


def solve(
    store: Store,
    source: Box,
    x: Polynomial,
    box: Box,
    y: Polynomial,
    *,
    anywhere: bool = False,
    determined: bool = False,
) -> dict[int, Coordinate] | None:
    """The axes of ``source`` as affine maps of those of ``box`` under which the Polynomial x becomes y there.

    ``None`` if there are none, or if the values alone do not determine them (``anywhere``: then any place will do;
    otherwise equal Polynomials are taken to be at equal axes, unless ``determined``)."""
    free = [v for v, (low, high) in enumerate(source) if not is_one(high - low)]
    if (
        x == y
        and not determined
        and len(source) == len(box)
        and all(b[0] >= s[0] and b[1] <= s[1] for b, s in zip(box, source, strict=True))
    ):
        return {v: variable(v) for v in range(len(source))}
    store.apply("place", (), (y,), ValueFacts())  # known before x, so that what x joins includes it
    a, at_whole = store.apply("place", (), (x,), ValueFacts())
    b, at_part = store.apply("place", (), (y,), ValueFacts())
    if a != b:
        return None
    solution: dict[int, Coordinate] = {v: fixed(low) for v, (low, high) in enumerate(source) if is_one(high - low)}
    for left, right in zip(at_whole, at_part, strict=True):
        digits = _digits(left, right, source, box)
        if digits is None:
            return None
        for v, c in digits.items():
            if solution.setdefault(v, c) != c:
                return None
    if anywhere:
        for v in free:
            solution.setdefault(v, fixed(source[v][0]))
    if any(v not in solution for v in free):
        return None
    for v, c in solution.items():
        low, high = _span(c, box)
        if low < source[v][0] or high >= source[v][1]:
            return None
    if pinned(store, x, solution) != y:
        return None
    return solution


def _span(c: Coordinate, box: Sequence[tuple[int, int]]) -> tuple[int, int]:
    low = high = c.offset
    for v, s in c.parts:
        a, b = box[v][0] * s, (box[v][1] - 1) * s
        low, high = low + min(a, b), high + max(a, b)
    return low, high


def _digits(left: Coordinate, right: Coordinate, source: Box, box: Box) -> dict[int, Coordinate] | None:
    """Solve ``left = right`` for the variables of ``left``, as digits of a mixed-radix number: coarsest stride
    first."""
    out: dict[int, Coordinate] = {}
    parts = dict(right.parts)
    rest = right.offset - left.offset
    for v, s in sorted(left.parts, key=lambda p: -abs(p[1])):
        mine = {w: t // s for w, t in parts.items() if t % s == 0}
        others = {w: t for w, t in parts.items() if w not in mine}
        smaller = [p for p in left.parts if abs(p[1]) < abs(s)]
        low = sum(min(t * source[w][0], t * (source[w][1] - 1)) for w, t in smaller)
        q = rest // s if not smaller else (rest - low) // s if s > 0 else rest // s
        out[v] = coordinate(mine, q)
        parts = others
        rest -= q * s
    return out if not parts and rest == 0 else None
