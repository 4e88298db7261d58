"""Accounts of operators that have other numbers among their arguments than the specification's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest

from tantamount.diagnosis.hints import NO_HINT, Hint, put
from tantamount.diagnosis.naming import Account, Names, number, short
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import Part
from tantamount.errors import TantamountError
from tantamount.ir.graph import Node, references
from tantamount.proof.outputs import ancestors
from tantamount.semantics.reference import Array

__all__ = ["Attributes"]


class Attributes(Names):
    """An account of the numbers above the place of an edit, and what becomes of the outputs with others."""

    def _attribute(self, wanted: Part) -> Account | None:
        """Operators with other numbers than the only ones of their kind in the specification."""
        above = self.matches.replay.above([self.place])
        graph = self.matches.job.specification
        theirs = [graph.by_name[name] for name in ancestors(graph, wanted[0])]
        mine = Counter((rank, self.node((rank, name)).target) for rank, name in above)
        found: list[Account] = []
        instead: dict[Place, Node] = {}
        for place in self.matches.replay.order:
            node = self.node(place)
            if place not in above or mine[place[0], node.target] != 1:
                continue
            same = [n for n in theirs if n.op == "call" and n.target == node.target]
            if len(same) == 1:
                one = self._literals_differ(place, same[0])
                if one is not None:
                    found.append(one)
                    instead[place] = _with_numbers(node, same[0])
        right = bool(found) and self._repairs(instead)
        if not right:  # more may be wrong: then what is right by these numbers alone is said
            found = [one for one in found if self._lands(one.place, instead[one.place])]
            found = found if found and self._harmless({one.place: instead[one.place] for one in found}) else []
        if not right and not any(list(references(self.node(one.place))) for one in found):
            return None
        # what is computed from nothing says how much there is, the others what is done with it
        first = next((one for one in found if list(references(self.node(one.place)))), found[0])
        rest = list(dict.fromkeys(one.headline for one in found if one.headline != first.headline))
        texts = list(dict.fromkeys(one.hint.text for one in (first, *found)))
        both = "; ".join([first.headline, *rest[:2]])
        return replace(
            first,
            headline=both,
            difference="\n".join([first.headline, *rest]),
            hint=Hint("; ".join(texts), {one: put(node) for one, node in instead.items()}) if right else NO_HINT,
        )

    def _makes_right(self, changes: Mapping[Place, Array]) -> bool:
        """True if all outputs are right once these places have other values."""
        try:
            return not any(self.matches.replay.wrong(self._outputs(), changes).values())
        except TantamountError:
            return False

    def _outputs(self) -> list[str]:
        """The outputs that can be compared."""
        outputs = self.matches.job.outputs
        return [name for name, one in outputs.items() if one.placements is not None or one.expression is not None]

    def _repairs(self, instead: Mapping[Place, Node]) -> bool:
        """True if the output is right once these nodes stand in the place of those of the implementation."""
        try:
            return not any(self.matches.replay.wrong(self._outputs(), instead=instead).values())
        except TantamountError:
            return False

    def _harmless(self, instead: Mapping[Place, Node]) -> bool:
        """True if no output that is right is wrong once these nodes stand in the place of those of the
        implementation."""
        try:
            before = self.matches.replay.wrong(self._outputs())
            right = [name for name, count in before.items() if not count]
            return not right or not any(self.matches.replay.wrong(right, instead=instead).values())
        except TantamountError:
            return False

    def _lands(self, place: Place, node: Node) -> bool:
        """True if another node there would compute a tensor of the specification."""
        value = self.matches.replay.computed(place, node)
        return value is not None and value.size > 1 and self.matches.is_part(value) is not None

    def _literals_differ(self, place: Place, theirs: Node) -> Account | None:
        mine = self.node(place)
        here = self.place
        self.place = place
        try:
            return self._numbers(mine, theirs)
        finally:
            self.place = here

    def _numbers(self, mine: Node, theirs: Node) -> Account | None:
        place = self.place
        for a, b in zip(mine.args, theirs.args, strict=False):
            if isinstance(a, (int, float)) and isinstance(b, (int, float)) and a != b and not isinstance(a, bool):
                what = f"{number(a)} in {short(mine.target)} where the specification has {number(b)}"
                head = f"{self.impl(place)} has {what}"
                hint = Hint(f"{number(b)} instead of {number(a)} in {place[1]}")
                return self.made("attribute", head, "", hint, theirs.name)
        for key in mine.kwargs.keys() & theirs.kwargs.keys():
            a, b = mine.kwargs[key], theirs.kwargs[key]
            if isinstance(a, (int, float, str)) and type(a) is type(b) and a != b:
                head = f"{self.impl(place)} has {key} = {a} where the specification has {b}"
                return self.made("attribute", head, "", Hint(f"{key} = {b} in {place[1]}"), theirs.name)
        return None


def _with_numbers(mine: Node, theirs: Node) -> Node:
    """A node with the numbers of another one."""
    args = tuple(
        b if isinstance(a, (int, float)) and isinstance(b, (int, float)) else a
        for a, b in zip_longest(mine.args, theirs.args[: len(mine.args)])
    )
    kwargs = {
        key: theirs.kwargs[key] if isinstance(a, (int, float, str)) and type(theirs.kwargs.get(key)) is type(a) else a
        for key, a in mine.kwargs.items()
    }
    return replace(mine, args=args, kwargs=kwargs)
