"""The repair in words: a sentence that says what is wrong, how the two sides differ, and what would do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tantamount.ir.graph import Graph, Node, references
from tantamount.ops.functionalized import unwrapped
from tantamount.refine.outputs import ancestors
from tantamount.refine.repair.landscape import Part, summable
from tantamount.refine.repair.relate import addend, region, rows_along, unreached
from tantamount.refine.repair.replay import Place
from tantamount.refine.repair.search import Repair

__all__ = ["Account", "account"]

_SCALES = re.compile(r"aten\.(mul|div|true_divide)\b")
_TINY = 4  # elements of a tensor that are printed
_SHOWN = 8  # rows that are listed


@dataclass(frozen=True)
class Account:
    """``specification`` (a node, or empty) and ``place`` are what is compared; ``kind`` as in a mismatch."""

    kind: str
    headline: str
    difference: str
    hint: str
    place: Place
    specification: str
    part: Part | None = None


def account(repair: Repair) -> Account:
    """What a repair says about the bug."""
    return _Words(repair).account()


class _Words:
    def __init__(self, repair: Repair) -> None:
        self.repair = repair
        self.edit = repair.edit
        self.land = repair.land
        self.place = repair.edit.places[0]
        self.several = len({rank for rank, _ in repair.edit.places}) if self.land.job.mesh.world_size > 1 else 1

    def account(self) -> Account:
        kind = self.edit.kind
        if kind in ("reduce", "average"):
            return self._reduction()
        if kind == "bypass":
            return self._bypass()
        if kind == "literal":
            return self._literal()
        if kind == "scale":
            return self._scale()
        if kind == "operand":
            return self._operand(self.place, self.edit.position, self.edit.wanted[self.place])
        return self._value()

    # -- names
    def node(self, place: Place) -> Node:
        return self.land.node(place)

    def impl(self, place: Place, where: bool = True) -> str:
        """``mm_1 (train.py:12)``, and the rank if the others do well."""
        node = _named(self.land.graph(place), self.node(place).name)
        here = f" ({node.source})" if where and node.source is not None and node.source.file else ""
        on = f" on rank {place[0]}" if self._one_rank() else ""
        return f"{place[1]}{here}{on}"

    def _one_rank(self) -> bool:
        mesh = self.land.job.mesh
        return mesh.world_size > 1 and self.several < mesh.world_size

    def spec(self, name: str) -> str:
        """A specification's node with its place."""
        node = _named(self.land.job.specification, name)
        return f"{name} ({node.source})" if node.source is not None and node.source.file else name

    def part(self, part: Part) -> str:
        """``cos[4:8, 0:6]`` without what is whole."""
        name, box = part
        whole = self.land.replay.wanted(name)
        if box is None or whole is None:
            return name
        shape = whole.shape if len(whole.shape) == len(box) else tuple(n for n in whole.shape if n != 1)
        texts = [":" if (low, high) == (0, n) else f"{low}:{high}" for (low, high), n in zip(box, shape, strict=True)]
        while texts and texts[-1] == ":":
            texts.pop()
        return f"{name}[{', '.join(texts)}]" if texts else name

    def held(self, place: Place) -> str:
        """What a place has, in the specification's terms if it can be said so."""
        part = self.land.aligned(place)
        return place[1] if part is None else self.part(part)

    def counterpart(self) -> str:
        """The specification's tensor that the changed value is, or the nearest by operator."""
        found = self.land.is_part(self.edit.changes[self.place])
        if found is not None:
            return found[0]
        nodes = [n for n in self.land.job.specification.nodes if n.target == self.node(self.place).target]
        open_ = [n.name for n in nodes if n.name not in self.land.matched]
        return next(iter(open_ or [n.name for n in nodes]), "")

    def made(
        self, kind: str, headline: str, difference: str, hint: str, spec: str, part: Part | None = None
    ) -> Account:
        return Account(kind, headline, difference or headline, hint, self.place, spec, part)

    # -- kinds
    def _reduction(self) -> Account:
        spec = self.counterpart()
        average = self.edit.kind == "average"
        what = "mean" if average else "sum"
        holds = "the mean over its own share" if average else "one summand"
        used = self._used(self.place)
        if self.edit.axis:
            axis = self.edit.axis
            head = (
                f"a {what} over {axis} is missing after {self.impl(self.place)}: "
                f"every rank holds {holds} of the specification's {spec}, and {used} it as if it were the whole"
            )
            text = f'{self.place[1]} is Partial("{"avg" if average else "sum"}") over {axis} of {self.spec(spec)}'
            hint = f"all_reduce{' (avg)' if average else ', or reduce_scatter,'} {self.place[1]} over {axis}"
            return self.made("unreduced", head, text, hint, spec)
        names = [n for _, n in self.edit.places if self.land.origin[0, n] == self.land.origin[self.place]]
        head = (
            f"a {what} is missing: each of {_listed(names)} holds {holds} of the specification's {spec}, "
            f"and {used} {self.place[1]} as if it were the whole"
        )
        text = f"{what}({', '.join(names)}) is the specification's {self.spec(spec)}"
        hint = f"combine {_listed(names)} first: all_reduce over the ranks that hold them{' (avg)' if average else ''}"
        return self.made("unreduced", head, text, hint, spec)

    def _used(self, place: Place) -> str:
        users = self.land.graph(place).users.get(place[1], ())
        return f"{users[0]} uses" if users else "the output takes"

    def _bypass(self) -> Account:
        node = self.node(self.place)
        spec = self.counterpart()
        name = self.impl(self.place)
        number = next((a for a in node.args if isinstance(a, (int, float)) and not isinstance(a, bool)), None)
        refs = list(references(node))
        also = self._others()
        if number is not None and _SCALES.match(node.target):
            verb, ratio = ("divides", "small") if "div" in node.target else ("multiplies", "large")
            again = self._again(node.target, number)
            head = (
                f"{name}{also} {verb} by {_number(number)} {again}: the result is {_number(number)} times too {ratio}"
            )
            return self.made(
                "factor", head, f"without {self.place[1]} the two sides agree", f"leave out {self.place[1]}{also}", spec
            )
        op = _short(node.target)
        rest = [ref for k, ref in enumerate(refs) if k != self.edit.position]
        if op in ("add", "sub") and (rest or number is not None):
            what = rest[0] if rest else _number(number or 0)
            often = (
                self._added(what)
                if rest
                else sum(1 for p in self.land.classes for q in p.places if self._adds(q, number))
            )
            head = f"{name} adds {what} once too often{f': it is added {often} times in all' if often > 1 else ''}"
            return self.made(
                "extra",
                head,
                f"without {self.place[1]} the two sides agree",
                f"add {what} once: on one rank, or after the sum over ranks",
                spec,
            )
        head = f"{name}{also} applies {op}, and the specification does not"
        return self.made(
            "extra", head, f"without {self.place[1]} the two sides agree", f"leave out {self.place[1]}{also}", spec
        )

    def _adds(self, place: Place, number: float | None) -> bool:
        node = self.node(place)
        return _short(node.target) == "add" and number in [a for a in node.args if isinstance(a, (int, float))]

    def _added(self, name: str) -> int:
        return sum(
            1
            for c in self.land.classes
            for p in c.places
            if name in references(self.node(p)) and _short(self.node(p).target) in ("add", "addmm")
        )

    def _again(self, target: str, number: float) -> str:
        """Whether the implementation does the same before."""
        above = self.land.replay.above([self.place]) - {self.place}
        for rank, name in sorted(above):
            node = self.node((rank, name))
            if node.target == target and number in [a for a in node.args if isinstance(a, (int, float))]:
                return f"again (after {name})"
        return "once too often"

    def _others(self) -> str:
        names = list(dict.fromkeys(name for _, name in self.edit.places))[1:]
        return f" (and {_listed(names)})" if names else ""

    def _literal(self) -> Account:
        node = self.node(self.place)
        old, new = node.args[self.edit.position], self.edit.number
        verb = _VERBS.get(_short(node.target), f"has in {_short(node.target)}")
        head = f"{self.impl(self.place)}{self._others()} {verb} {_shown(old)} where {_number(new)} is needed"
        rest = ""
        if isinstance(old, (int, float)) and old and new and _SCALES.match(node.target):
            ratio = Fraction(str(new)) / Fraction(str(old))
            if "div" in node.target:
                ratio = 1 / ratio
            head += f": the result is {_times(1 / ratio)}"
            rest = self._ranks(ratio)
        operator = self.land.literals(node.target, self.edit.position)
        if new in operator:
            rest += (
                f"; the specification has {_number(new)} there"
                if rest
                else f"the specification has {_number(new)} there"
            )
        return self.made(
            "factor" if _SCALES.match(node.target) else "attribute",
            head,
            rest,
            f"{_number(new)} instead of {_shown(old)} in {self.place[1]}{self._others()}",
            self.counterpart(),
        )

    def _ranks(self, ratio: Fraction) -> str:
        """The mesh axis whose size a factor is."""
        mesh = self.land.job.mesh
        for axis, size in zip(mesh.names, mesh.sizes, strict=True):
            if size > 1 and ratio in (size, Fraction(1, size)):
                return f"{_number(size)} is the size of {axis}: a sum over {axis} where the mean is needed, or the other way round"
        return ""

    def _scale(self) -> Account:
        ratio = Fraction(self.edit.number).limit_denominator(4096)
        head = f"{self.impl(self.place)} is {_times(1 / ratio)}"
        text = self._ranks(ratio)
        return self.made("factor", head + (f": {text}" if text else ""), text, "", self.counterpart())

    def _operand(self, place: Place, position: int, wanted: Part) -> Account:
        ref = list(references(self.node(place)))[position]
        given = (place[0], ref)
        head = f"{self.impl(place)} reads {self._content(given)} where {self._wanted(wanted, given)} is needed"
        rows = [
            f"{name} reads {self.held((rank, list(references(self.node((rank, name))))[position]))}, {self.part(part)} is needed"
            for (rank, name), part in list(self.edit.wanted.items())[:4]
            if self.edit.kind == "operand"
        ]
        return self.made(
            "operand",
            head,
            "\n".join(rows),
            f"give {place[1]} {self.part(wanted)}",
            self._reader(wanted[0], self.node(place).target),
        )

    def _reader(self, name: str, target: str) -> str:
        """The specification's node of an operator that reads a tensor."""
        graph = self.land.job.specification
        users = graph.users.get(name, ())
        return next((user for user in users if graph.by_name[user].target == target), name)

    def _content(self, place: Place) -> str:
        node = self.node(place)
        value = self.land.value(place)
        if node.op == "constant" and value.size <= _TINY:
            return f"{place[1]} = {value.tolist()}"
        held = self.held(place)
        if self.land.aligned(place) is None and node.op == "call":
            return f"{place[1]} ({self._chain(place)})"
        return held if held == place[1] else f"{place[1]} (which is {held})"

    def _chain(self, place: Place) -> str:
        """``select of view_as_real of polar``: how something is made of what has a counterpart."""
        texts: list[str] = []
        for _ in range(4):
            node = self.node(place)
            refs = list(references(node))
            if self.land.aligned(place) is not None or not refs:
                texts.append(self.held(place))
                break
            numbers = [_shown(a) for a in node.args if isinstance(a, (int, float)) and not isinstance(a, bool)]
            texts.append(f"{_short(node.target)}{f'({chr(44).join(numbers)})' if numbers else ''}")
            place = (place[0], refs[0])
        return " of ".join(texts)

    def _wanted(self, part: Part, given: Place) -> str:
        whole = self.land.part(part, self.land.value(given).shape)
        node = self.land.job.specification.by_name[part[0]]
        if node.op == "constant" and whole is not None and whole.size <= _TINY:
            return f"{whole.tolist()} ({part[0]})"
        return self.part(part)

    # -- another value is needed
    def _value(self) -> Account:
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
        return [*found[:4], self._upstream, *found[4:]] if not self.land.frontier(self.repair.c) else found

    def _rows_of_places(self) -> str:
        """What the first places have, and what they need."""
        return "\n".join(
            f"{name} has {self.held((rank, name))}, {self.part(part)} is needed"
            for (rank, name), part in list(self.edit.wanted.items())[:4]
        )

    def _missing(self, aligned: Part, wanted: Part) -> Account:
        """Something that the specification does to a tensor is not done."""
        graph = self.land.job.specification
        if _short(graph.by_name[wanted[0]].target) in ("add", "sub", "sum"):
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
        ops = _runs([_short(n.target) for n in between if _short(n.target) not in _QUIET])
        origin = self.land.whole_origin
        more = sorted((origin[wanted[0]] - origin[aligned[0]]) & self.land.unused)
        others = {ref for n in between for ref in references(n)} - {n.name for n in between} - {aligned[0]}
        beside = [ref for ref in sorted(others) if ref not in self.land.matched and graph.by_name[ref].op != "input"]
        unused = (
            f" ({_listed(more)} {'is' if len(more) == 1 else 'are'} never used)"
            if more
            else f" (with {_listed(beside[:2])})"
            if beside
            else ""
        )
        each = list(dict.fromkeys(name for _, name in self.edit.places))
        head = f"the implementation uses {_listed(each)} as {'it is' if len(each) == 1 else 'they are'}: {' -> '.join(ops) or 'what the specification does to it'}{unused} is missing"
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
                head = f"{self.impl(self.place)} is {_times(ratio)}" + (f": {text}" if text else "")
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
            head = f"{name} puts {what}s in the wrong places: {what} {at} of {self.place[1]} is {what} {found.held[at]} of {found.tensor}, {found.wanted[at]} is needed"
        else:
            head = f"{name} has the wrong {what}s of {found.tensor}: {_some(found.held)} where {_some(found.wanted)} are needed"
        text = f"{what}s of {found.tensor}: {_some(found.held)} are there, {_some(found.wanted)} are needed"
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
        head = f"{self.impl(self.place)} reads {self._content(given)} where the specification reads {want}"
        text = f"the specification's {self.spec(wanted[0])} reads {want}"
        return self.made("operand", head, text, f"give {self.place[1]} what {want} is", wanted[0])

    def _by_window(self) -> Account | None:
        """The operands are parts of the right tensors, but not the parts that belong together."""
        from tantamount.refine.repair.edits import edits_of

        target = self.edit.changes[self.place]
        for edit in edits_of(self.land, self.repair.c, ("operand",)):
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
                "constant", f"{name} is {_number(abs(found.constant))} {more}, everywhere", "", "", wanted[0], wanted
            )
        names = [n for _, n in found.places]
        what = _listed([self._describe(place) for place in found.places])
        ratio = Fraction(found.factor).limit_denominator(4096)
        if ratio == 1:
            users = [
                u
                for u in self.land.graph(found.places[0]).users.get(names[0], ())
                if (found.places[0][0], u) not in self.land.replay.above([self.place])
            ]
            elsewhere = f" ({names[0]} goes into {_listed(list(users))} only)" if users else ""
            head = f"{name} lacks a summand: {what} is never added to it{elsewhere}"
            hint = f"add {_listed(names)} before {self.place[1]} is used: a sum over the ranks that hold them comes too early, or is missing"
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
            head = f"{name} has {what} {'once' if ratio == -1 else f'{_number(-ratio)} times'} too often: {often}"
            hint = (
                f"add {_listed(names)} once, after the sum over ranks"
                if count > 1
                else f"leave {_listed(names)} out of the sum (is the process group right?)"
            )
            return self.made(
                "extra", head, f"{self.place[1]} - {' - '.join(names)} is {self.part(wanted)}", hint, wanted[0], wanted
            )
        head = f"{name} has {what} with the wrong weight: {_number(abs(ratio))} times it {'is missing' if ratio > 0 else 'is too much'}"
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
            names, op = _listed(list(dict.fromkeys(n for _, n in distinct))), _short(target)
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
            for ref, want in zip(references(mine), references(like), strict=False):
                part = self.land.aligned((place[0], ref))
                if part is not None and part[0] != want and not self.land.follows(want, part[0]):
                    self.place = place
                    head = f"{self.impl(place)} applies {_short(mine.target)} to {self.part(part)} where the specification applies it to {want}"
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
                head = f"{self.impl(place)} has {_number(a)} in {_short(mine.target)} where the specification has {_number(b)}"
                return self.made(
                    "attribute", head, "", f"{_number(b)} instead of {_number(a)} in {place[1]}", theirs.name
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
        head = f"{self.impl(self.place)} is computed without {_listed(texts)}, which the specification's {wanted[0]} depends on"
        hint = f"{_listed([part[0] for part in parts])}: replicate, or gather before, or add what the other ranks make of the rest"
        return self.made(
            "range",
            head,
            f"nothing that {self.place[1]} is computed from reads {_listed(texts)}",
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
        head = f"{self.impl(self.place)} differs from {self.part(wanted)} at {what} {_some(rows)} only"
        return self.made("different", head, "", "", wanted[0], wanted)


_VERBS = {
    "div": "divides by", "mul": "multiplies by", "add": "adds", "sub": "subtracts", "lt": "keeps what is below",
    "le": "keeps what is at most", "gt": "keeps what is above", "ge": "keeps what is at least", "pow": "has the exponent",
}  # fmt: skip
_QUIET = {
    "view",
    "expand",
    "unsqueeze",
    "clone",
    "_unsafe_view",
    "permute",
    "transpose",
    "t",
    "detach",
    "squeeze",
    "_to_copy",
    "alias",
}


def _short(target: str) -> str:
    """``aten.mul.Tensor`` -> ``mul``."""
    parts = target.split(".")
    return parts[1] if len(parts) > 2 else target


def _named(graph: Graph, name: str) -> Node:
    node = graph.by_name[name]
    while node.target == "getitem":
        node = graph.by_name[next(iter(references(node)))]
    return node


def _number(x: float | Fraction) -> str:
    if isinstance(x, Fraction):
        return str(x.numerator) if x.denominator == 1 else f"{x.numerator}/{x.denominator}"
    return str(int(x)) if float(x).is_integer() else f"{x:.6g}"


def _shown(x: object) -> str:
    return _number(x) if isinstance(x, (int, float)) else str(x)


def _times(ratio: Fraction) -> str:
    if ratio < 0:
        return f"{_times(-ratio)}, with the wrong sign" if ratio != -1 else "of the wrong sign"
    return f"{_number(ratio)} times too large" if ratio >= 1 else f"{_number(1 / ratio)} times too small"


def _listed(names: Sequence[str]) -> str:
    if len(names) > 5:
        return f"{', '.join(names[:4])} and {len(names) - 4} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"


def _some(rows: Sequence[int]) -> str:
    """``0-3, 8``."""
    texts: list[str] = []
    for low, high in _intervals(rows):
        texts.append(str(low) if low == high else f"{low}-{high}" if high > low + 1 else f"{low}, {high}")
    return ", ".join(texts[:_SHOWN]) + (", ..." if len(texts) > _SHOWN else "")


def _intervals(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    start: int | None = None
    last = 0
    for k in rows:
        if start is not None and k == last + 1:
            last = k
            continue
        if start is not None:
            yield start, last
        start = last = k
    if start is not None:
        yield start, last


def _runs(ops: Sequence[str]) -> list[str]:
    """Consecutive repetitions once."""
    out: list[str] = []
    for op in ops:
        if not out or out[-1] != op:
            out.append(op)
    return out
