"""Size symbols of an ``fx-nodes/1`` file: their ranges, and the conditions under which it was captured."""

from __future__ import annotations

from keyword import iskeyword
from typing import Any

from tantamount.capture.fields import Fields, Place, shown
from tantamount.sizes.domain import LARGEST, Domain, SizeProblem, Symbol, parse_condition

__all__ = ["decode_domain", "encode_domain"]


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
        low = given.at("min").integer(given.values.get("min", 1), 1, LARGEST, "a size from 1 on")
        high = given.at("max").integer(given.values.get("max", LARGEST), low, LARGEST, f"a size from {low} on")
        hint = given.at("hint").integer(given.get("hint"), low, high, "a size in range")
        symbols.append(Symbol(name, hint, low, high))
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


def encode_domain(domain: Domain) -> dict[str, Any]:
    """The document of a domain."""
    table = {
        s.name: {"hint": s.hint, "min": s.low, **({} if s.high == LARGEST else {"max": s.high})} for s in domain.symbols
    }
    return {"symbols": table, "conditions": sorted(map(str, domain.conditions))}
