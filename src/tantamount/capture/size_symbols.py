"""Size symbols of an ``fx-nodes/1`` file: their ranges, and the conditions under which it was captured."""

from __future__ import annotations

from dataclasses import replace
from keyword import iskeyword
from typing import Any

from tantamount.capture.fields import Fields, Place, shown
from tantamount.sizes.domain import LARGEST, Domain, SizeProblem, Symbol, parse_condition, symbol_of

__all__ = ["decode_domain", "encode_domain", "narrowed"]

_FURTHEST = 1 << 31  # below 0


def decode_domain(value: object, place: Place) -> Domain:
    """``{"symbols": {"S": {"hint": 606, "min": 2, "max": 4096}}, "conditions": ["S % 2 == 0"]}``."""
    fields = Fields.of(value, place, ("symbols", "conditions"), ("symbols",))
    outer = fields.at("symbols")
    symbols: list[Symbol] = []
    for name, entry in outer.table(fields.get("symbols"), "a table of size symbols").items():
        where = outer.at(shown(name))
        if not name.isidentifier() or iskeyword(name) or len(name) > 100:
            raise where.wrong(shown(name), "a name such as B", code="size")
        given = Fields.of(entry, where, ("hint", "min", "max"), ("hint",))
        low, high = _range(given)
        hint = given.at("hint").integer(given.get("hint"), low, high, "a size in range")
        symbols.append(symbol_of(name, hint, low, high))
    place.limits.check("dimensions", len(symbols), place.text, "size symbols")
    domain = Domain(tuple(symbols))
    listed = fields.at("conditions")
    conditions = listed.list(fields.values.get("conditions", []), "a list of conditions")
    place.limits.check("nodes", len(conditions), place.text, "conditions")
    try:
        found = [parse_condition(listed.string(text), domain) for text in conditions]
    except SizeProblem as problem:
        raise listed.wrong(str(problem), "a comparison of expressions over the size symbols", code="size") from None
    domain = Domain(domain.symbols, tuple(dict.fromkeys(c for c in found if c is not None)))
    if not domain.contains(domain.hints):
        raise fields.place.wrong("hints that violate the conditions", "sizes that satisfy all", code="size")
    return domain


def _range(given: Fields) -> tuple[int, int]:
    """The least and the greatest value of a symbol: sizes are 1 or more, other whole numbers say what they are."""
    low = given.at("min").integer(given.values.get("min", 1), -_FURTHEST, LARGEST, "a whole number")
    high = given.at("max").integer(given.values.get("max", LARGEST), low, LARGEST, f"a whole number from {low} on")
    return low, high


def narrowed(domain: Domain, value: object, place: Place) -> Domain:
    """The sizes of a job whose table ``[symbols]`` says ranges: ``{"S": {"min": 2, "max": 4096}}``."""
    found = {s.label: s for s in domain.symbols}
    for label, entry in place.table(value, "a table of ranges such as S = { min = 2, max = 64 }").items():
        where = place.at(shown(label))
        if label not in found:
            names = ", ".join(sorted(found)) or "none"
            raise where.wrong(shown(label), f"a size symbol of the graphs: {names}", code="size")
        mine = found[label]
        low, high = _range(Fields.of(entry, where, ("min", "max")))
        low, high = max(low + mine.shift, mine.low), min(high + mine.shift, mine.high)
        if low > high:
            raise where.wrong("a range without a value", f"numbers that satisfy {mine}", code="size")
        found[label] = replace(mine, hint=min(max(mine.hint, low), high), low=low, high=high)
    narrow = Domain(tuple(found[s.label] for s in domain.symbols), domain.conditions)
    if not narrow.contains(narrow.hints):
        raise place.wrong(
            "ranges whose nearest values violate the conditions", f"ranges that fit {domain}", code="size"
        )
    return narrow.reduced()


def encode_domain(domain: Domain) -> dict[str, Any]:
    """The document of a domain. A number that may be 0 keeps the range that it was declared with, and what a program
    asks for beyond is a condition: programs that ask for other ranges of one number still speak of one symbol."""
    table: dict[str, dict[str, int]] = {}
    conditions = [str(condition) for condition in domain.conditions]
    for s in domain.symbols:
        low = s.low - s.shift
        if s.shift and low > 0:
            conditions.append(f"{s.label} >= {low}")
            low = 1 - s.shift
        high = {} if s.high >= LARGEST else {"max": s.high - s.shift}
        table[s.label] = {"hint": s.hint - s.shift, "min": low, **high}
    return {"symbols": table, "conditions": sorted(conditions)}
