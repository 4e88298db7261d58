"""Sizes with wanted properties: of a domain, outside of what is covered, small or generic. z3 decides, if it is
installed (``pip install tantamount[smt]``); without it, only what can be tried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any, cast

from tantamount.effort import Effort
from tantamount.sizes.domain import Domain, multiples
from tantamount.sizes.polynomials import Polynomial
from tantamount.sizes.symbolic import Condition, holds

__all__ = ["Region", "find_sizes", "generic_sizes", "small_sizes", "varied_sizes"]

Region = Sequence[Condition]  # sizes at which all of these hold
_GENERIC = (5, 11, 23, 47, 97, 197, 397, 797, 1597, 3203)  # primes, each more than twice the one before
_LARGEST_PRIME = 1 << 20
_SMALL = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 24, 32, 48, 64)


@dataclass(frozen=True)
class Found:
    """Sizes, or whether there are none (``None``: not known)."""

    sizes: Mapping[str, int] | None
    none: bool = False


def _prime_above(n: int) -> int:
    """The least prime that is not less; the number itself where none is near enough to be looked for."""
    if n > _LARGEST_PRIME:
        return n
    return next(p for p in itertools.count(n) if all(p % d for d in range(2, isqrt(p) + 1)))


def generic_sizes(domain: Domain, effort: Effort | None = None) -> dict[str, int]:
    """Sizes of the domain that depend on nothing but its ranges and conditions, and of which none divides another or is
    a sum of others if that can be: a proof there rests on few coincidences. The hints if none of those tried fit."""
    symbols = sorted(domain.symbols, key=lambda s: s.name)
    steps = multiples(domain)
    effort = effort if effort is not None else Effort()
    for tried, order in enumerate(itertools.permutations(_GENERIC[: len(symbols)]), 1):
        if effort.exceeds("generic_sizes", tried):
            break
        values: dict[str, int] = {}
        for s, prime in zip(symbols, order, strict=False):
            step = steps.get(s.name, 1)
            least = -(-s.low // step)
            values[s.name] = step * (prime if least == 1 else _prime_above(2 * least + prime))
        if len(values) == len(symbols) and domain.contains(values):
            return {s.name: values[s.name] for s in domain.symbols}
    return domain.hints


def small_sizes(domain: Domain, effort: Effort | None = None) -> Iterator[dict[str, int]]:
    """Sizes of the domain, small ones first and those that differ from each other before those that do not."""
    names = [s.name for s in domain.symbols]
    choices = [[n for n in _SMALL if s.low <= n <= s.high] or [s.low, s.hint] for s in domain.symbols]
    effort = effort if effort is not None else Effort()
    effort.exceeds("tried_sizes", prod(map(len, choices)))
    most = effort.bounds.tried_sizes
    few = next((k for k in range(len(_SMALL), 1, -1) if prod(len(found[:k]) for found in choices) <= most), 1)
    points = itertools.islice(itertools.product(*(found[:few] for found in choices)), most)  # no symbol stays behind
    fitting = (values for point in points if domain.contains(values := dict(zip(names, point, strict=True))))
    yield from sorted(fitting, key=lambda v: (len(set(v.values())) < len(v), max(v.values()), tuple(v.values())))


def varied_sizes(domain: Domain, count: int, effort: Effort | None = None) -> list[dict[str, int]]:
    """Some small sizes that have as few sizes in common as possible. The first of them has as many symbols as can be
    above their least values, where offsets are 0 and loops run once: programs that differ may be equal there."""
    left = list(small_sizes(domain, effort))
    lowest = {(s.name, s.low) for s in domain.symbols}
    chosen: list[dict[str, int]] = []
    while left and len(chosen) < count:
        used = {(name, value) for values in chosen for name, value in values.items()} if chosen else lowest
        best = min(left, key=lambda values: sum(item in used for item in values.items()))
        chosen.append(best)
        left.remove(best)
    return chosen


def find_sizes(
    domain: Domain, covered: Sequence[Region], effort: Effort | None = None, near: Mapping[str, int] | None = None
) -> Found:
    """Sizes of the domain outside all covered regions, as many as can be as they are ``near`` (default: at capture),
    so that nothing coincides by chance. ``effort`` (default: normal) bounds what is tried for that."""
    effort = effort if effort is not None else Effort()
    try:
        import z3  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        return _tried(domain, covered, effort)
    found = _solved(cast("Any", z3), domain, covered, effort, domain.hints if near is None else near)
    return _tried(domain, covered, effort) if found.sizes is None and not found.none else found


def _inside(region: Region, values: Mapping[str, int]) -> bool:
    return all(holds(condition, values) for condition in region)


def _tried(domain: Domain, covered: Sequence[Region], effort: Effort) -> Found:
    for values in small_sizes(domain, effort):
        if not any(_inside(region, values) for region in covered):
            return Found(values)
    return Found(None)


def _solved(z3: Any, domain: Domain, covered: Sequence[Region], effort: Effort, near: Mapping[str, int]) -> Found:
    solver = z3.SimpleSolver()  # the other one tries to write ranges of 2^62 as bits first
    solver.set("rlimit", effort.bounds.solver_steps)  # steps, not seconds: answers repeat
    if (left := effort.left()) is not None:
        solver.set("timeout", max(1, round(1000 * left)))
    symbols = {s.name: z3.Int(s.name) for s in domain.symbols}
    for s in domain.symbols:
        solver.add(symbols[s.name] >= s.low, symbols[s.name] <= s.high)
    for condition in domain.conditions:
        solver.add(_formula(z3, condition, symbols))
    for region in covered:
        solver.add(z3.Or(*(z3.Not(_formula(z3, condition, symbols)) for condition in region)))
    answer = solver.check()
    if answer == z3.unknown:
        effort.check()
        effort.hit("solver_steps")
    if answer != z3.sat:
        return Found(None, answer == z3.unsat)
    for s in domain.symbols:
        solver.push()
        solver.add(symbols[s.name] == near[s.name])
        if solver.check() != z3.sat:
            solver.pop()
    if solver.check() != z3.sat:
        return Found(None)
    model = solver.model()
    values = {name: int(model.eval(x, model_completion=True).as_long()) for name, x in symbols.items()}
    if not domain.contains(values) or any(_inside(region, values) for region in covered):
        return Found(None)  # a solver is not believed either
    return Found(values)


def _formula(z3: Any, condition: Condition, symbols: Mapping[str, Any]) -> Any:
    kind, polynomial = condition
    value, divisor = _cleared(polynomial, symbols)
    if kind == "whole":
        return value % divisor == 0
    return {"zero": value == 0, "nonzero": value != 0, "positive": value > 0, "nonnegative": value >= 0}[kind]


def _cleared(polynomial: Polynomial, symbols: Mapping[str, Any]) -> tuple[Any, Any]:
    """Numerator and denominator; the denominator is positive."""
    divisor: Any = 1
    for m, c in polynomial:
        divisor = divisor * c.denominator
        for name, e in m:
            divisor = divisor * symbols[name] ** -e if e < 0 else divisor
    value: Any = 0
    for k, (m, c) in enumerate(polynomial):
        term: Any = c.numerator
        for name, e in m:
            for _ in range(max(e, 0)):
                term = term * symbols[name]
        for j, (n, d) in enumerate(polynomial):
            if j != k:
                term = term * d.denominator
                for name, e in n:
                    term = term * symbols[name] ** -e if e < 0 else term
        value = value + term
    return value, divisor
