"""Relations of models with a few layers as those of models with more of them.

Names of layers differ by a number: ``model.layers.2.mlp.weight``. Where all layers of a file, at least three, have the
same tensors of the same shapes, filled in the same way but for that number, so have those that the file lacks. As with
other sizes (:mod:`tantamount.correspond.lifting`) that is a reading of what was seen, which is printed; the theorem is
about models that are filled so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from tantamount.comparison.relation_files import GivenRelations
from tantamount.correspond.lifting import LEAST
from tantamount.correspond.numbering import Source
from tantamount.errors import UserError
from tantamount.ir.relation import RankTensor, with_tensors

__all__ = ["with_more_layers"]

_Item = TypeVar("_Item")
_ANY = "\0"  # stands for the number of a layer, and is part of no name


def with_more_layers(
    given: GivenRelations, first: Collection[str], second: Collection[str], checkpoint: Collection[str] = ()
) -> GivenRelations:
    """The relations with the layers that models with these parameters have beyond those of the file, and a note about
    each list of them. Tensors of the checkpoint are named by ``checkpoint``, or like those of a model. Raises
    :class:`UserError` where layers of the file are not alike, or are fewer than three."""
    sentences: list[str] = []
    while True:
        known = (checkpoint or (*first, *second), first, second)
        wanted = [
            (prefix, seen, count)
            for names, own in zip((given.checkpoint, given.first, given.second), known, strict=True)
            for prefix, seen in _lists(names).items()
            if (count := _lists(own).get(prefix, 0)) > seen
        ]
        if not wanted:
            return replace(given, notes=(*given.notes, *dict.fromkeys(sentences)))
        prefixes = {prefix for prefix, _, _ in wanted}
        grown = {  # lists inside of others come after these
            prefix: (seen, count)
            for prefix, seen, count in wanted
            if not any(prefix.startswith(other) for other in prefixes - {prefix})
        }
        sentences += [
            f"{prefix}{seen} to {prefix}{count - 1} are filled like the {seen} before them"
            for prefix, (seen, count) in grown.items()
        ]
        given = _grown(given, grown)


def _lists(names: Collection[str]) -> dict[str, int]:
    """The number of layers under every prefix of names that have a number after it."""
    found: dict[str, int] = {}
    for name in names:
        parts = name.split(".")
        for k, part in enumerate(parts):
            if k and part.isdecimal():
                prefix = ".".join(parts[:k]) + "."
                found[prefix] = max(found.get(prefix, 0), int(part) + 1)
    return found


def _grown(given: GivenRelations, grown: Mapping[str, tuple[int, int]]) -> GivenRelations:
    """The relations with more layers under some prefixes: from how many, to how many."""

    def numbered(name: str, number: str, instead: str) -> str:
        """The name with another number, if it is of the layer with this one."""
        for prefix in grown:
            start = prefix + number
            if name == start or name.startswith(start + "."):
                return prefix + instead + name[len(start) :]
        return name

    def of_layer(source: Source, number: str, instead: str) -> Source:
        def change(tensor: RankTensor) -> RankTensor:
            return replace(tensor, name=numbered(tensor.name or "", number, instead))

        expression = None if source.expression is None else with_tensors(source.expression, change)
        return Source(expression, source.factor, source.shift)

    def sources(table: Mapping[str, Source]) -> dict[str, Source]:
        found = dict(table)
        for prefix, (seen, count) in grown.items():
            layers = [{k: of_layer(s, str(n), _ANY) for k, s in _layer(table, prefix, n).items()} for n in range(seen)]
            for n in _further(given, prefix, layers, seen, count):
                found |= {f"{prefix}{n}{k}": of_layer(s, _ANY, str(n)) for k, s in layers[-1].items()}
        return found

    shapes = dict(given.checkpoint)
    for prefix, (seen, count) in grown.items():
        layers = [_layer(given.checkpoint, prefix, n) for n in range(seen)]
        for n in _further(given, prefix, layers, seen, count):
            shapes |= {f"{prefix}{n}{k}": shape for k, shape in layers[-1].items()}
    return replace(given, checkpoint=shapes, first=sources(given.first), second=sources(given.second))


def _layer(table: Mapping[str, _Item], prefix: str, number: int) -> dict[str, _Item]:
    """The items of one layer, by the rest of their names behind its number."""
    start = f"{prefix}{number}"
    return {name[len(start) :]: item for name, item in table.items() if name == start or name.startswith(start + ".")}


def _further(given: GivenRelations, prefix: str, layers: list[dict[str, _Item]], seen: int, count: int) -> range:
    """The numbers of the layers to be added, where all that were seen are alike."""
    if not any(layers):
        return range(0)
    if seen < LEAST or any(layer != layers[0] for layer in layers):
        raise UserError(
            "compare-relations", place=f"{given.path}: {prefix}",
            found=f"{seen} of {count} layers" + ("" if seen < LEAST else ", which are not filled alike"),
            needed=f"as many layers as the model has, or at least {LEAST} that are all filled alike",
        )  # fmt: skip
    return range(seen, count)
