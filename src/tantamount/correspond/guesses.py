"""The correspondence of two programs' inputs, guessed from names, shapes and order, for want of anything better."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tantamount.capture.job import Unresolved
from tantamount.correspond.suggest import suggest
from tantamount.ir.types import TensorType

__all__ = ["Guess", "guesses"]

_NUMBER = re.compile(r"\d+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Guess:
    """An input of the first program, the input of the second that it seems to be, and what speaks for it."""

    name: str
    other: str
    reason: str

    @property
    def relation(self) -> dict[str, str]:
        """The relation, as a job writes it."""
        return {"relation": f"rank(0, {json.dumps(self.other)})"}


def guesses(pair: Unresolved) -> tuple[Guess, ...]:
    """A guess for every input of the first program that has no relation yet and seems to have a counterpart: of the
    same name, of a name that ends alike, or, among inputs of one type of which both programs have as many, the one at
    the same position. Every input of the second program is taken once."""
    found: dict[str, Guess] = {}
    free = {node.name: node.type for node in pair.implementation[0].inputs if node.type is not None}
    taken = {other for name, relation in pair.listed.items() for other in _mentioned(name, relation)}
    free = {name: type_ for name, type_ in free.items() if name not in taken}
    wanted = {
        node.name: node.type
        for node in pair.specification.inputs
        if node.type is not None and node.name not in pair.listed
    }
    for proposal in suggest(pair):
        if proposal.tensor in free and free[proposal.tensor] == wanted[proposal.name]:
            found[proposal.name] = Guess(proposal.name, proposal.tensor, proposal.reason)
            del free[proposal.tensor]
    left = {name: type_ for name, type_ in wanted.items() if name not in found}
    return (*found.values(), *_by_position(left, free))


def _mentioned(name: str, relation: object) -> list[str]:
    """The inputs of the second program that a relation, as a job writes it, may speak of."""
    table: Mapping[str, object] = cast("Mapping[str, object]", relation) if isinstance(relation, Mapping) else {}
    text = json.dumps(relation, ensure_ascii=False).replace('\\"', '"')
    return [name, str(table.get("name", name)), *_QUOTED.findall(text)]


def _by_position(wanted: Mapping[str, TensorType], free: Mapping[str, TensorType]) -> list[Guess]:
    """Inputs of one type are paired in order, where both programs have as many of it in every layer."""
    out: list[Guess] = []
    kinds = dict.fromkeys((type_, _layer(name)) for name, type_ in wanted.items())
    for kind in kinds:
        here = [name for name, type_ in wanted.items() if (type_, _layer(name)) == kind]
        there = [name for name, type_ in free.items() if (type_, _layer(name)) == kind]
        if len(here) == len(there):
            why = "the only one of its type" if len(here) == 1 else "the same position among those of its type"
            out += [Guess(x, y, why) for x, y in zip(here, there, strict=True)]
    return out


def _layer(name: str) -> str:
    """The first number in a name: usually that of the layer."""
    numbers = _NUMBER.findall(name)
    return numbers[0] if numbers else ""
