"""Small sizes for which all facts hold.

Equations are used up first: one that is linear in a variable gives that variable in terms of others (sizes are
positive, so a common factor may be cancelled). The sizes of the job satisfy everything, and from there the variables
that are left are made small one after the other, as small as facts allow, until nothing changes. Sizes that differ stay
different.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from math import gcd

from tantamount.effort import Effort
from tantamount.sizes.traced import (
    Polynomial,
    SizeFact,
    evaluate,
    plus,
    times,
    variables,
)

__all__ = ["ENOUGH", "drawn", "moved", "solve"]

ENOUGH = 1 << 20  # elements of all tensors together: few enough to execute at once


def solve(
    facts: Iterable[SizeFact],
    prices: Mapping[Polynomial, int],
    values: Mapping[int, int],
    taken: Iterable[int],
    effort: Effort | None = None,
) -> dict[int, int]:
    """The new value of every variable of ``facts`` and ``prices``, small in the sum of ``prices`` (with their numbers
    of occurrences). ``values`` are those of the job; different ones stay different, and none becomes one of
    ``taken``."""
    effort = effort if effort is not None else Effort()
    facts = [fact for fact in facts if not _obvious(fact)]
    names = sorted({v for p in (*(p for _, p in facts), *prices) for v in variables(p)})
    here = {v: values[v] for v in names}
    groups: dict[int, list[int]] = {}
    for v in names:
        groups.setdefault(values[v], []).append(v)
    ties: list[SizeFact] = [("==", (((a,), 1), ((b,), -1))) for group in groups.values() for a, b in pairwise(group)]
    best = _search([*facts, *ties], prices, taken, here, effort).descend(here)
    loose = _search(facts, prices, taken, here, effort)
    return best if loose.price(best) <= ENOUGH else loose.loosened(best)


def moved(
    facts: Iterable[SizeFact],
    prices: Mapping[Polynomial, int],
    values: Mapping[int, int],
    first: Mapping[int, int],
    taken: Collection[int],
    effort: Effort,
) -> dict[int, int] | None:
    """The value of every variable if those of ``first`` have other ones and no more changes than must: sizes that were
    different may become equal. ``None`` if facts do not allow that. What is still too large to execute is then made
    small."""
    facts = [fact for fact in facts if not _obvious(fact)]
    names = sorted({*first, *(v for p in (*(p for _, p in facts), *prices) for v in variables(p))})
    here = {v: values[v] for v in names}
    search = _search(facts, prices, taken, here, effort, frozenset(first))
    new = next(
        (found for at in _nearby(search, here, first) if (found := search.values_of(at)) and search.fits(found)), None
    )
    if new is None:
        return None
    if search.price(new) <= ENOUGH:
        return new
    still: list[SizeFact] = [("==", (((), -n), ((v,), 1))) for v, n in first.items()]
    return solve([*facts, *still], prices, new, set(taken) - set(new.values()), effort)


def _nearby(search: _Search, here: Mapping[int, int], first: Mapping[int, int]) -> Iterator[dict[int, int]]:
    """Values of the variables that nothing decides: as they are but for ``first``; those that were what one of these
    was as that one is now (heads that are as many as ranks); and one more of them smaller."""
    at = {**{v: here[v] for v in search.free}, **first}
    yield at
    alike = {**at, **{v: n for one, n in first.items() for v in search.free if here[v] == here[one]}}
    yield alike
    for v in search.free:
        if v not in first:
            yield from (
                {**other, v: n}
                for n in _candidates(here[v], search.effort.bounds.reduced_draws)
                for other in (at, alike)
            )


def drawn(
    facts: Iterable[SizeFact],
    prices: Mapping[Polynomial, int],
    values: Mapping[int, int],
    new: Callable[[int], int],
    most: int,
    effort: Effort,
) -> dict[int, int]:
    """The value of every variable if those that nothing else decides become ``new`` of what they were, as far as facts
    allow that and the sum of ``prices`` stays below ``most``. Different sizes may become equal; those that are equal
    change together."""
    facts = [fact for fact in facts if not _obvious(fact)]
    names = sorted({v for p in (*(p for _, p in facts), *prices) for v in variables(p)})
    search = _search(facts, prices, (), {v: values[v] for v in names}, effort)
    groups: dict[int, list[int]] = {}
    for v in search.free:
        groups.setdefault(values[v], []).append(v)
    # From small sizes: what is drawn for one then does not forbid what is drawn for the next.
    best = search.descend({v: values[v] for v in names}, list(groups.values()))
    for old, group in groups.items():
        for _ in range(effort.bounds.reduced_draws):
            trial = search.values_of({**{v: best[v] for v in search.free}, **dict.fromkeys(group, new(old))})
            if trial is not None and search.fits(trial) and search.price(trial) <= most:
                best = trial
                break
        else:
            effort.hit("reduced_draws")
    return best


def _search(
    facts: Sequence[SizeFact],
    prices: Mapping[Polynomial, int],
    taken: Iterable[int],
    values: Mapping[int, int],
    effort: Effort,
    given: Collection[int] = (),
) -> _Search:
    solved = _triangular([p for kind, p in facts if kind == "=="], values, given)
    dependent = {s.variable for s in solved}
    free = [v for v in values if v not in dependent]
    return _Search(facts, prices, frozenset(taken), values, solved, free, effort)


def _obvious(fact: SizeFact) -> bool:
    """True if a fact follows from sizes being positive."""
    kind, p = fact
    signs = {c > 0 for _, c in p}
    return (kind == ">=" and signs == {True}) or (kind == "!=" and len(signs) == 1)


# ---------------------------------------------------------------------------------------------- equations
@dataclass(frozen=True, slots=True)
class _Solved:
    """``variable = numerator / denominator``"""

    variable: int
    numerator: Polynomial
    denominator: Polynomial


_Choice = tuple[tuple[bool, bool, int, int], _Solved]


def _triangular(
    equations: Sequence[Polynomial], values: Mapping[int, int], given: Collection[int] = ()
) -> list[_Solved]:
    """The equations, each solved for a variable that later ones do not have (none of ``given``). What is not linear in
    any is left out: it remains a condition."""
    found: list[_Solved] = []
    best = cache(partial(_best, values=values, given=given))
    tidied = cache(_cancelled)
    open_ = _tidy(equations, tidied)
    while open_:
        choice = max(filter(None, map(best, open_)), key=lambda one: one[0], default=None)
        if choice is None:
            break
        found.append(choice[1])
        open_ = _tidy((_substituted(p, choice[1]) for p in open_), tidied)
    return found


def _tidy(equations: Iterable[Polynomial], tidied: Callable[[Polynomial], Polynomial]) -> list[Polynomial]:
    return list(dict.fromkeys(p for p in map(tidied, equations) if p))


def _best(p: Polynomial, values: Mapping[int, int], given: Collection[int]) -> _Choice | None:
    """The first of the best ways to solve p == 0."""
    some = (one for one in _choices(p, values) if one[1].variable not in given)
    return max(some, key=lambda one: one[0], default=None)


def _choices(p: Polynomial, values: Mapping[int, int]) -> Iterator[_Choice]:
    """Ways to solve p == 0 for a variable, with a preference: whole numbers, then few divisors, then large ones."""
    for v in variables(p):
        if any(m.count(v) > 1 for m, _ in p):
            continue
        factor = tuple(sorted((tuple(u for u in m if u != v), c) for m, c in p if v in m))
        rest = tuple((m, c) for m, c in p if v not in m)
        if len(factor) == 1:
            whole = factor[0][0] == () and abs(factor[0][1]) == 1
            yield (whole, factor[0][0] == (), values[v], v), _Solved(v, plus((), rest, -1), factor)


def _substituted(p: Polynomial, solved: _Solved) -> Polynomial:
    """p times a power of the denominator, with the variable replaced."""
    v = solved.variable
    degree = max((m.count(v) for m, _ in p), default=0)
    if not degree:
        return p
    total: Polynomial = ()
    for m, c in p:
        k = m.count(v)
        term: Polynomial = ((tuple(u for u in m if u != v), c),)
        for _ in range(k):
            term = times(term, solved.numerator)
        for _ in range(degree - k):
            term = times(term, solved.denominator)
        total = plus(total, term)
    return total


def _cancelled(p: Polynomial) -> Polynomial:
    """Without the factors that all terms share."""
    if not p:
        return p
    common = list(p[0][0])
    for m, _ in p[1:]:
        common = [v for k, v in enumerate(common) if common[:k].count(v) < m.count(v)]
    out: list[tuple[tuple[int, ...], int]] = []
    divisor = gcd(*(c for _, c in p))
    for m, c in p:
        rest = list(m)
        for v in common:
            rest.remove(v)
        out.append((tuple(rest), c // divisor))
    return tuple(sorted(out))


# ---------------------------------------------------------------------------------------------- descent
@dataclass(frozen=True)
class _Search:
    facts: Sequence[SizeFact]
    prices: Mapping[Polynomial, int]
    taken: frozenset[int]
    values: Mapping[int, int]
    solved: Sequence[_Solved]
    free: Sequence[int]
    effort: Effort

    def values_of(self, at: Mapping[int, int]) -> dict[int, int] | None:
        """The value of every variable from those of the free ones; ``None`` if one is not whole."""
        out = dict(at)
        for s in reversed(self.solved):
            value, rest = divmod(evaluate(s.numerator, out), evaluate(s.denominator, out) or 1)
            if rest or value < 2:
                return None
            out[s.variable] = value
        return out

    def complete(self, at: Mapping[int, int]) -> dict[int, int] | None:
        """The same; ``None`` also if a value is taken."""
        out = self.values_of(at)
        if out is None:
            return None
        before: dict[int, int] = {}
        for v, n in out.items():
            old = self.values[v]
            if before.setdefault(n, old) != old or (n != old and n in self.taken):
                return None
        return out

    def fits(self, at: Mapping[int, int]) -> bool:
        for kind, p in self.facts:
            value = evaluate(p, at)
            if not (value == 0 if kind == "==" else value != 0 if kind == "!=" else value >= 0):
                return False
        return True

    def price(self, at: Mapping[int, int]) -> int:
        return sum(evaluate(p, at) * count for p, count in self.prices.items())

    def descend(self, best: dict[int, int], moves: Sequence[Sequence[int]] = (), stop: int = 0) -> dict[int, int]:
        """Variables made small one after the other (or those of one of ``moves`` together), until nothing changes or
        the price is at most ``stop``."""
        moves = moves or [[v] for v in self.free]
        for _ in range(self.effort.bounds.reduced_sweeps):
            self.effort.check()
            before, price = best, self.price(best)
            for move in sorted(moves, key=lambda move: (-self._gain(move, before, price), move)):
                if price > stop:
                    old = max(best[v] for v in move)
                    self.effort.exceeds("reduced_trials", old)
                    best = self._moved(best, move, _candidates(old, self.effort.bounds.reduced_trials))
                    price = self.price(best)
            if best == before:
                return best
        self.effort.hit("reduced_sweeps")
        return best

    def loosened(self, best: dict[int, int]) -> dict[int, int]:
        """Variables of one value were one. What of them is free moves together, then alone as far as is needed; then
        comes together again where that costs nothing: all of them, or those that can (a slice that ends in the middle
        of an axis, where as many positions are a coincidence)."""
        groups: dict[int, list[int]] = {}
        for v in self.free:
            groups.setdefault(self.values[v], []).append(v)
        together = list(groups.values())
        best = self.descend(best, together)
        best = self.descend(best, stop=ENOUGH)
        bound = max(ENOUGH, self.price(best)) * 5 // 4
        for move in together:
            values = sorted({best[v] for v in move})
            trial = self._moved(best, move, values)
            if trial is not best and self.price(trial) <= bound:
                best = trial
                continue
            for n in values:
                for other in values:
                    some = [v for v in move if best[v] == other]
                    trial = self._moved(best, some, [n]) if some and other != n else best
                    best = trial if self.price(trial) <= bound else best
        return best

    def _moved(self, best: dict[int, int], move: Sequence[int], candidates: Iterable[int]) -> dict[int, int]:
        """The first candidate for the variables of ``move`` that fits."""
        at = {v: best[v] for v in self.free}
        for candidate in candidates:
            trial = self.complete({**at, **dict.fromkeys(move, candidate)})
            if trial is not None and self.fits(trial):
                return trial
        return best

    def _gain(self, move: Sequence[int], best: Mapping[int, int], price: int) -> int:
        """The price that an eighth of some sizes saves, if other sizes followed without rounding."""
        return price - self.price({**best, **{v: best[v] // 8 for v in move}})


def _candidates(old: int, trials: int) -> Iterator[int]:
    """Smaller values: all below ``trials``, then halves. Primes first: products of different sizes then stay different,
    too."""
    small = range(2, min(old, trials))
    primes = frozenset(n for n in small if all(n % k for k in range(2, int(n**0.5) + 1)))
    yield from (n for n in small if n in primes)
    yield from (n for n in small if n not in primes)
    shift = max(0, old.bit_length() - trials.bit_length())
    yield from (old >> k for k in range(shift, 0, -1) if old >> k >= trials)
