"""What is said of a tensor that should have another value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tantamount.ir.graph import Node, references
from tantamount.ops.functionalized import unwrapped
from tantamount.refine.outputs import ancestors
from tantamount.refine.repair.classes import Class
from tantamount.refine.repair.edits import Edit, edits_of
from tantamount.refine.repair.landscape import Landscape, Part, summable
from tantamount.refine.repair.naming import QUIET, Account, Names, listed, number, runs, short, some, times
from tantamount.refine.repair.relate import addend, region, rows_along, unreached
from tantamount.refine.repair.replay import Place

__all__ = ["Values"]


class Values(Names):
    """An account of an edit of kind ``value`` of a class."""

    def __init__(self, land: Landscape, edit: Edit, c: Class) -> None:
        super().__init__(land, edit)
        self.c = c

    def value(self) -> Account:
        wanted = self.edit.wanted[self.place]
        aligned = self.land.aligned(self.place)
        node = self.node(self.place)
        if node.op == "input" and not (aligned is not None and self.land.follows(wanted[0], aligned[0])):
            unused = f": the implementation never reads {wanted[0]}" if wanted[0] in self.land.unused else ""
            head = f"{self.impl(self.place)} stands where {self.part(wanted)} is needed{unused}"
            return self.made(
                "operand", head, self._rows_of_places(), f"read {self.part(wanted)} there", wanted[0], wanted
            )
        if aligned is not None and aligned[0] != wanted[0] and self.land.follows(wanted[0], aligned[0]):
            return self._missing(aligned, wanted)
        if aligned is not None:
            better = self._by_window()
            if better is not None:
                return better
            head = f"{self.impl(self.place)} takes {self.part(aligned)} where {self.part(wanted)} is needed"
            return self.made(
                "offset", head, self._rows_of_places(), f"use {self.part(wanted)} there", wanted[0], wanted
            )
        for attempt in self._attempts():
            found = attempt(wanted)
            if found is not None:
                return found
        head = f"{self.impl(self.place)} is not the specification's {self.part(wanted)}"
        return self.made("different", head, "", "", wanted[0], wanted)

    def _attempts(self) -> list[Callable[[Part], Account | None]]:
        """What may be said of a value that no tensor of the specification has, the most telling first."""
        found = [self._factor, self._rows, self._addend, self._summands, self._by_operand, self._attribute]
        found += [self._unreached, self._region]
        return [*found[:4], self._upstream, *found[4:]] if not self.land.frontier(self.c) else found

    def _rows_of_places(self) -> str:
        """What the first places have, and what they need."""
        return "\n".join(
            f"{name} has {self.held((rank, name))}, {self.part(part)} is needed"
            for (rank, name), part in list(self.edit.wanted.items())[:4]
        )

    def _missing(self, aligned: Part, wanted: Part) -> Account:
        """Something that the specification does to a tensor is not done."""
        graph = self.land.job.specification
        if short(graph.by_name[wanted[0]].target) in ("add", "sub", "sum"):
            found = self._addend(wanted)
            if found is not None:
                return found
        between = [
            n
            for n in graph.nodes
            if n.name in set(ancestors(graph, wanted[0]))
            and n.op == "call"
            and n.target != "getitem"
            and (n.name == wanted[0] or self.land.follows(wanted[0], n.name))
            and self.land.follows(n.name, aligned[0])
        ]
        ops = runs([short(n.target) for n in between if short(n.target) not in QUIET])
        origin = self.land.whole_origin
        pairs = [(self.land.aligned(place), part) for place, part in self.edit.wanted.items()]
        more = sorted(
            {x for one, part in pairs if one is not None for x in origin[part[0]] - origin[one[0]]} & self.land.unused
        )
        others = {ref for n in between for ref in references(n)} - {n.name for n in between} - {aligned[0]}
        beside = [ref for ref in sorted(others) if ref not in self.land.matched and graph.by_name[ref].op != "input"]
        unused = ""
        if more:
            unused = f" ({listed(more)} {'is' if len(more) == 1 else 'are'} never used)"
        elif beside:
            roots = [name for name in ancestors(graph, beside[0]) if graph.by_name[name].op != "call"]
            unused = f" with {beside[0]}{f', made of {listed(roots)},' if roots else ''}"
        each = list(dict.fromkeys(name for _, name in self.edit.places))
        what = f"{' -> '.join(ops) or 'what the specification does to it'}{unused}"
        how = "it is" if len(each) == 1 else "they are"
        head = f"the implementation uses {listed(each)} as {how}: {what} is missing"
        first = next((n for n in between if n.source is not None and n.source.file), None)
        rows = [
            f"{self.part(part)} is needed in place of {self.held((rank, name))}"
            for (rank, name), part in list(self.edit.wanted.items())[:4]
        ]
        at = f", as the specification does at {first.source}" if first is not None else ""
        return self.made(
            "missing",
            head,
            "\n".join(rows),
            f"apply {' -> '.join(ops)} first{at}" if ops else "",
            between[0].name if between else wanted[0],
        )

    def _factor(self, wanted: Part) -> Account | None:
        for part, factor in self.land.multiples(self.land.value(self.place)):
            if part == wanted and abs(factor - 1) > 1e-6:
                ratio = Fraction(factor).limit_denominator(4096)
                text = self._ranks(1 / ratio if ratio else ratio)
                head = f"{self.impl(self.place)} is {times(ratio)}" + (f": {text}" if text else "")
                return self.made("factor", head, "", "", wanted[0], wanted)
        return None

    def _rows(self, wanted: Part) -> Account | None:
        target = self.land.part(wanted, self.land.value(self.place).shape)
        graph = self.land.job.specification
        sources = [wanted[0], *(name for name in reversed(list(ancestors(graph, wanted[0]))))]
        found = None if target is None else rows_along(self.land, self.land.value(self.place), target, sources)
        if found is None:
            return None
        what = (
            "row"
            if found.dim == 0
            else "column"
            if found.dim == 1 and self.land.value(self.place).ndim == 2
            else f"slice along dimension {found.dim}"
        )
        name = self._arranger()
        if sorted(found.held) == sorted(found.wanted):
            at = next(k for k, (a, b) in enumerate(zip(found.held, found.wanted, strict=True)) if a != b)
            held = f"{what} {at} of {self.place[1]} is {what} {found.held[at]} of the specification's {found.tensor}"
            head = f"{name} puts {what}s in the wrong places: {held}, where {what} {found.wanted[at]} is needed"
        else:
            rows = f"{some(found.held)} where {some(found.wanted)} are needed"
            head = f"{name} has the wrong {what}s of {found.tensor}: {rows}"
        text = f"{what}s of {found.tensor}: {some(found.held)} are there, {some(found.wanted)} are needed"
        return self.made(
            "offset",
            head,
            text,
            f"check the positions (indices, offsets, order of parts) that {name} writes or reads",
            wanted[0],
            wanted,
        )

    def _arranger(self) -> str:
        """The operator that decides on positions: the place itself, or one just above it."""
        pending = [self.place]
        for _ in range(4):
            for place in pending:
                if re.search(r"index_add|index_put|scatter|index|gather|cat", self.node(place).target):
                    return self.impl(place)
            pending = [o for place in pending for o in self.land.replay.operands[place] if self.land.aligned(o) is None]
        return self.impl(self.place)

    def _by_operand(self, wanted: Part) -> Account | None:
        """The specification's operator is the same; one operand is another tensor, or another part."""
        graph = self.land.job.specification
        mine, theirs = self.node(self.place), graph.by_name[wanted[0]]
        if mine.op != "call" or unwrapped(mine.target, mine.args) != unwrapped(theirs.target, theirs.args):
            return None
        ours, reads = list(references(mine)), list(references(theirs))
        if len(ours) != len(reads):
            return None
        wrong: list[tuple[int, str]] = []
        for k, (ref, want) in enumerate(zip(ours, reads, strict=True)):
            given = (self.place[0], ref)
            part = self.land.aligned(given)
            right = any(p[0] == want and abs(f - 1) < 1e-6 for p, f in self.land.multiples(self.land.value(given)))
            apart = part is None or not (self.land.follows(want, part[0]) or self.land.follows(part[0], want))
            if not right and apart:
                wrong.append((k, want))
        if len(wrong) != 1:
            return self._by_window()
        k, want = wrong[0]
        given = (self.place[0], ours[k])
        needed = self._made_of(want)
        head = f"{self.impl(self.place)} reads {self._content(given)} where {needed} is needed"
        text = f"the specification's {self.spec(wanted[0])} reads {needed}"
        return self.made("operand", head, text, f"give {self.place[1]} {needed}", wanted[0])

    def _by_window(self) -> Account | None:
        """The operands are parts of the right tensors, but not the parts that belong together."""
        target = self.edit.changes[self.place]
        for edit in edits_of(self.land, self.c, ("operand",)):
            value = edit.changes.get(self.place)
            if value is not None and value.shape == target.shape and np.allclose(value, target, rtol=1e-9, atol=1e-12):
                return self._operand(self.place, edit.position, edit.wanted[self.place])
        return None

    def _addend(self, wanted: Part) -> Account | None:
        target = self.land.part(wanted, self.land.value(self.place).shape)
        found = None if target is None else addend(self.land, self.place, target)
        if found is None:
            return None
        name = self.impl(self.place)
        if found.constant is not None:
            more = "too small" if found.constant > 0 else "too large"
            return self.made(
                "constant", f"{name} is {number(abs(found.constant))} {more}, everywhere", "", "", wanted[0], wanted
            )
        names = [n for _, n in found.places]
        what = listed([self._describe(place) for place in found.places])
        ratio = Fraction(found.factor).limit_denominator(4096)
        if ratio == 1:
            users = [
                u
                for u in self.land.graph(found.places[0]).users.get(names[0], ())
                if (found.places[0][0], u) not in self.land.replay.above([self.place])
            ]
            elsewhere = f" ({names[0]} goes into {listed(list(users))} only)" if users else ""
            head = f"{name} lacks a summand: {what} is never added to it{elsewhere}"
            hint = (
                f"add {listed(names)} before {self.place[1]} is used: "
                "a sum over the ranks that hold them comes too early, or is missing"
            )
            return self.made(
                "missing",
                head,
                f"{self.place[1]} + {' + '.join(names)} is {self.part(wanted)}",
                hint,
                wanted[0],
                wanted,
            )
        if ratio == -1 or (ratio < 0 and ratio.denominator == 1):
            count = sum(
                1
                for c in self.land.classes
                for p in c.places
                if p in self.land.replay.above([self.place]) and names[0] in references(self.node(p))
            )
            often = f"it is added {count} times" if count > 1 else "the specification does not add it"
            head = f"{name} has {what} {'once' if ratio == -1 else f'{number(-ratio)} times'} too often: {often}"
            hint = (
                f"add {listed(names)} once, after the sum over ranks"
                if count > 1
                else f"leave {listed(names)} out of the sum (is the process group right?)"
            )
            return self.made(
                "extra", head, f"{self.place[1]} - {' - '.join(names)} is {self.part(wanted)}", hint, wanted[0], wanted
            )
        off = "is missing" if ratio > 0 else "is too much"
        head = f"{name} has {what} with the wrong weight: {number(abs(ratio))} times it {off}"
        return self.made("factor", head, "", "", wanted[0], wanted)

    def _describe(self, place: Place) -> str:
        part = self.land.aligned(place)
        node = self.node(place)
        if node.op == "input" or part is None:
            return f"{place[1]}" if node.source is None or not node.source.file else f"{place[1]} ({node.source})"
        return f"{place[1]} (which is {self.part(part)})"

    def _summands(self, wanted: Part) -> Account | None:
        """An operator that is no linear map is applied to summands, before they are added."""
        above = self.land.replay.above([self.place])
        graph = self.land.job.specification
        groups: dict[object, list[Place]] = {}
        for place in self.land.replay.order:
            if place in above and self.node(place).op == "call" and self.land.value(place).size:
                operand = (place[0], next(iter(references(self.node(place))), ""))
                key = (self.node(place).target, self.land.value(place).shape, operand[1] if self.several > 1 else "")
                if operand[1] and self.land.value(operand).dtype.kind == "f":
                    groups.setdefault(key, []).append(operand if operand[1] else place)
                    groups.setdefault(("of", *key), []).append(place)
        for key, operands in groups.items():
            if isinstance(key, tuple) and key[0] == "of":
                continue
            distinct = list(dict.fromkeys(operands))
            values = [self.land.value(operand) for operand in distinct]
            whole = self.land.is_part(np.sum(np.stack(values), axis=0)) if summable(values) else None
            places = groups["of", *key] if isinstance(key, tuple) else []
            target = self.node(places[0]).target
            if whole is None or self.land.is_part(np.sum(np.stack([self.land.value(p) for p in places]), axis=0)):
                continue
            name = next((u for u in graph.users.get(whole[0], ()) if graph.by_name[u].target == target), None)
            if name is None:
                continue
            self.place = places[0]
            names, op = listed(list(dict.fromkeys(n for _, n in distinct))), short(target)
            head = (
                f"{self.impl(self.place)} applies {op} to one summand of {whole[0]}: {names} must be added up first "
                f"(all_reduce), for {op} of a summand is no summand of {op}"
            )
            text = f"the specification's {self.spec(name)} applies {op} to the sum, {whole[0]}"
            return self.made("unreduced", head, text, f"add up {names} (all_reduce) before {op}", name)
        return None

    def _upstream(self, wanted: Part) -> Account | None:
        """The first operator above whose operands are other tensors than those of the specification's operator."""
        above = self.land.replay.above([self.place]) - {self.place}
        graph = self.land.job.specification
        open_ = [
            n for n in graph.nodes if n.name in set(ancestors(graph, wanted[0])) and n.name not in self.land.matched
        ]
        for c in self.land.classes:
            place = next((p for p in c.places if p in above), None)
            if place is None or not self.land.frontier(c):
                continue
            mine = self.node(place)
            like = next((n for n in open_ if n.target == mine.target), None)
            if like is None:
                continue
            found = self._literals_differ(place, like)
            if found is not None:
                return found
            if short(mine.target) in QUIET:
                continue
            for ref, want in zip(references(mine), references(like), strict=False):
                part = self.land.aligned((place[0], ref))
                if part is not None and part[0] != want and not self.land.follows(want, part[0]):
                    self.place = place
                    what = f"{self.part(part)} where the specification applies it to {want}"
                    head = f"{self.impl(place)} applies {short(mine.target)} to {what}"
                    return self.made(
                        "operand",
                        head,
                        f"{ref} is {self.part(part)}, a part of {want} is needed",
                        f"check how {ref} is cut out: its parts are in another order than {want}'s",
                        like.name,
                    )
        return None

    def _attribute(self, wanted: Part) -> Account | None:
        """Operators with other numbers than the only ones of their kind in the specification."""
        above = self.land.replay.above([self.place])
        graph = self.land.job.specification
        theirs = [graph.by_name[name] for name in ancestors(graph, wanted[0])]
        found: list[Account] = []
        for place in self.land.replay.order:
            node = self.node(place)
            same = [n for n in theirs if n.op == "call" and n.target == node.target]
            mine = [p for p in above if self.node(p).target == node.target and p[0] == place[0]]
            if place in above and len(same) == len(mine) == 1:
                one = self._literals_differ(place, same[0])
                found += [] if one is None else [one]
        if not found:
            return None
        # what is computed from nothing says how much there is, the others what is done with it
        first = next((one for one in found if list(references(self.node(one.place)))), found[0])
        rest = [one.headline for one in found if one is not first]
        return replace(first, difference="\n".join([first.headline, *rest]))

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
                return self.made(
                    "attribute", head, "", f"{number(b)} instead of {number(a)} in {place[1]}", theirs.name
                )
        for key in mine.kwargs.keys() & theirs.kwargs.keys():
            a, b = mine.kwargs[key], theirs.kwargs[key]
            if isinstance(a, (int, float, str)) and type(a) is type(b) and a != b:
                head = f"{self.impl(place)} has {key} = {a} where the specification has {b}"
                return self.made("attribute", head, "", f"{key} = {b} in {place[1]}", theirs.name)
        return None

    def _unreached(self, wanted: Part) -> Account | None:
        """Part of an input never gets there."""
        parts = unreached(self.land, self.place, wanted)
        if not parts:
            return None
        texts = [self.part(part) for part in parts]
        without = f"without {listed(texts)}, which the specification's {wanted[0]} depends on"
        head = f"{self.impl(self.place)} is computed {without}"
        inputs = listed([part[0] for part in parts])
        hint = f"replicate {inputs}, or gather before, or add what the other ranks make of the rest"
        return self.made(
            "range",
            head,
            f"nothing that {self.place[1]} is computed from reads {listed(texts)}",
            hint,
            wanted[0],
            wanted,
        )

    def _region(self, wanted: Part) -> Account | None:
        target = self.land.part(wanted, self.land.value(self.place).shape)
        value = self.land.value(self.place)
        found = None if target is None or value.dtype.kind != "f" else region(value, target)
        if found is None:
            return None
        ((dim, rows),) = found.items()
        what = "rows" if dim == 0 else f"indices along dimension {dim}"
        head = f"{self.impl(self.place)} differs from {self.part(wanted)} at {what} {some(rows)} only"
        return self.made("different", head, "", "", wanted[0], wanted)
