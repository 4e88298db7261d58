"""Accounts of a tensor that should have another value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tantamount.correspond.values import close, summable
from tantamount.diagnosis.attributes import Attributes
from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.edits import Edit, EditKind, layouts
from tantamount.diagnosis.hints import NO_HINT, Hint, Line, added, applying, like, reduced, summed
from tantamount.diagnosis.locate import whole_reads
from tantamount.diagnosis.naming import LINES, Account, listed, named, number, runs, short, some
from tantamount.diagnosis.operands import operands
from tantamount.diagnosis.relate import Rows, addend, known_rows, rows_along, unreached
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import Part, ValueMatches
from tantamount.ir.graph import Node, references
from tantamount.ir.job import Job
from tantamount.ops.functionalized import unwrapped
from tantamount.proof.outputs import ancestors
from tantamount.semantics.reference import Array

__all__ = ["Values"]

_SPELLED = 80  # characters of an expression in a sentence


class Values(Attributes):
    """An account of an edit that gives a class other values."""

    def __init__(self, matches: ValueMatches, edit: Edit, c: Class, job: Job | None = None) -> None:
        super().__init__(matches, edit, job)
        self.c = c

    def value(self) -> Account:
        """The account of a tensor that should have another value."""
        wanted = self.edit.wanted[self.place]
        aligned = self.matches.aligned(self.place)
        node = self.node(self.place)
        if node.op == "input" and aligned is not None and aligned[0] == wanted[0]:
            rank, name = self.place
            head = f"input {name}: rank {rank} holds {self.part(aligned)} where {self.part(wanted)} is needed"
            return self.made("operand", head, self._rows_of_places(), NO_HINT, wanted[0], wanted)
        if node.op == "input" and not (aligned is not None and self.matches.follows(wanted[0], aligned[0])):
            unused = f": the implementation never reads {self.theirs(wanted[0])}" * (wanted[0] in self.matches.unused)
            own = f"the implementation's {self.place[1]}" if self.place[1] == wanted[0] else self.impl(self.place)
            head = f"{own} stands where {self.part(wanted)} is needed{unused}"
            return self.made("operand", head, self._rows_of_places(), self._instead(), wanted[0], wanted)
        if (
            aligned is not None
            and self.matches.follows(wanted[0], aligned[0])
            and not self._same(aligned[0], wanted[0])
            and not (self.matches.cuts(self.place) and (aligned[1] != wanted[1] or self.matches.cuts_whole(wanted[0])))
        ):
            return self._missing(aligned, wanted)
        if aligned is not None and aligned == wanted:
            head = f"{self.impl(self.place)} is not quite the specification's {self.part(wanted)}: a small number, an "
            head += "epsilon maybe, is another one"
            return replace(self.made("different", head, "", NO_HINT, wanted[0], wanted), sure=False)
        if aligned is not None:
            better = self._by_window()
            if better is not None:
                return better
            head = f"{self.impl(self.place)} takes {self.part(aligned)} where {self.part(wanted)} is needed"
            return self.made("offset", head, self._rows_of_places(), self._instead(), wanted[0], wanted)
        for attempt in self._attempts():
            found = attempt(wanted)
            if found is not None:
                return found
        head = f"{self.impl(self.place)} is not the specification's {self.part(wanted)}"
        return replace(self.made("different", head, "", NO_HINT, wanted[0], wanted), sure=False)

    def _attempts(self) -> list[Callable[[Part], Account | None]]:
        """Ways to account for a value that no tensor of the specification has, the most telling first."""
        found = [self._beside, self._rows, self._addend, self._summands]
        found += [self._operator, self._by_operand, self._attribute]
        found += [self._unreached]
        return [*found[:4], self._attribute, *found[4:]] if not self.matches.frontier(self.c) else found

    def _rows_of_places(self) -> str:
        """One line for each of the first places: the part that it has, and the one that it needs."""

        def has(place: Place) -> str:
            held = self.matches.aligned(place)
            return "no part of a tensor of the specification" if held is None else self.part(held)

        rows = (f"{at[1]} has {has(at)}, {self.part(part)} is needed" for at, part in self.edit.wanted.items())
        return "\n".join([*dict.fromkeys(rows)][:LINES])

    def _same(self, name: str, other: str) -> bool:
        """True if two tensors of the specification are equal."""
        one, two = self.matches.replay.wanted(name), self.matches.replay.wanted(other)
        return one is not None and two is not None and close(one, two)

    def _missing(self, aligned: Part, wanted: Part) -> Account:
        """Something that the specification does to a tensor is not done; or it is, and another tensor is read."""
        there = self._instead() if self.matches.facts(self.place).layout else NO_HINT
        if there and there.text.partition(" instead of ")[0] in self.matches.graph(self.place).by_name:
            head = f"{self.impl(self.place)} takes {self.part(aligned)} where {self.part(wanted)} is needed"
            return self.made("operand", head, self._rows_of_places(), there, wanted[0], wanted)
        graph = self.matches.job.specification
        facts = self.matches.whole_facts(wanted[0])
        if facts.adds or facts.reduction == "sum":
            found = self._addend(wanted)
            if found is not None:
                return found
        between = [
            n
            for n in graph.nodes
            if n.name in set(ancestors(graph, wanted[0]))
            and n.op == "call"
            and n.target != "getitem"
            and (n.name == wanted[0] or self.matches.follows(wanted[0], n.name))
            and self.matches.follows(n.name, aligned[0])
        ]
        ops = runs([short(n.target) for n in between if not self.matches.whole_facts(n.name).view])
        if between and not ops:  # the same elements under other sizes: nothing is done to them
            head = f"{self.impl(self.place)} takes {self.part(aligned)} where {self.part(wanted)} is needed"
            return self.made("offset", head, self._rows_of_places(), self._instead(), wanted[0], wanted)
        origin = self.matches.whole_origin
        pairs = [(self.matches.aligned(place), part) for place, part in self.edit.wanted.items()]
        more = sorted(
            {x for one, part in pairs if one is not None for x in origin[part[0]] - origin[one[0]]}
            & self.matches.unused
        )
        others = {ref for n in between for ref in references(n)} - {n.name for n in between} - {aligned[0]}
        beside = [ref for ref in sorted(others) if ref not in self.matches.matched and graph.by_name[ref].op != "input"]
        unused = ""
        if more:
            unused = f" ({listed(more)} {'is' if len(more) == 1 else 'are'} never used)"
        elif beside:
            unused = f" with {self._spelled(beside[0], _SPELLED)}"
        each = list(dict.fromkeys(name for _, name in self.edit.places))
        applied = self._applied(between, aligned[0])
        self.place = self._last(self.place)
        if len(each) == 1:
            each = [self.place[1]]
        what = f"{' -> '.join(ops) or 'what the specification does to it'}{unused}"
        how = "it is" if len(each) == 1 else "they are"
        head = f"the implementation uses {listed(each)} as {how}: {what} is missing"
        first = next((n for n in between if n.source is not None and n.source.file), None)
        rows = [
            f"{self.part(part)} is needed in place of {self.held((rank, name))}"
            for (rank, name), part in list(self.edit.wanted.items())[:LINES]
        ]
        at = f", as the specification does at {first.source}" if first is not None else ""
        return self.made(
            "missing",
            head,
            "\n".join(rows),
            Hint(f"apply {' -> '.join(ops)} first{at}", applied) if ops and not beside else NO_HINT,
            between[0].name if between else wanted[0],
        )

    def _applied(self, between: Sequence[Node], of: str) -> Mapping[Place, Line] | None:
        """The lines that apply operators of the specification to the places of the edit, parts of ``of``; ``None``
        where they read something of which a rank has no part."""
        names = {node.name for node in between}
        others = {ref for node in between for ref in references(node)} - names - {of}
        below = self.matches.replay.below(self.edit.places)
        found: dict[Place, Line] = {}
        for place in self.edit.places:
            part = self.matches.aligned(place)
            if part is None or part[0] != of:
                return None
            inputs = {ref: self.matches.job.inputs[ref].name for ref in others & set(self.matches.job.inputs)}
            held = {ref: name for ref, name in inputs.items() if name in self.matches.graph(place).by_name}
            for other in self.matches.replay.order if others else ():
                has = self.matches.aligned(other) if other[0] == place[0] and other not in below else None
                if has is not None and has[0] in others:
                    held.setdefault(has[0], other[1])
            if others - set(held):
                return None
            found[place] = applying(between, of, held)
        return found

    def _beside(self, wanted: Part) -> Account | None:
        """Another block of the same tensor is what is needed: of a buffer of several tensors, the one beside it."""
        return self.beside(wanted[0], wanted)

    def beside(self, specification: str, wanted: Part | None) -> Account | None:
        """The account of another block that is to be cut out; ``None`` where that is not what makes the change."""
        node = self.node(self.place)
        hint = self._instead() if self.matches.facts(self.place).piece and node.target != "getitem" else NO_HINT
        where = re.match(r"(\d+:\d+) instead of (\d+:\d+) along dimension (\d+)", hint.text)
        if where is None:
            return None
        needed, taken = (":, " * int(where[3]) + at for at in where.groups()[:2])
        whole = next(iter(references(node)))
        head = f"{self.impl(self.place)} takes {whole}[{taken}] where {whole}[{needed}] is needed"
        text = "" if wanted is None else f"{whole}[{needed}] is {self.part(wanted)}"
        return self.made("offset", head, text, hint, specification or self.counterpart(), wanted)

    def _rows(self, wanted: Part) -> Account | None:
        target = self.matches.part(wanted, self.matches.value(self.place).shape)
        sources = [wanted[0], *reversed(list(ancestors(self.matches.job.specification, wanted[0])))]
        found = None if target is None else rows_along(self.matches, self.matches.value(self.place), target, sources)
        if found is None:
            return None
        plane = self.matches.value(self.place).ndim == 2
        what = "row" if found.dim == 0 else "column" if plane else "slice"
        along = f" along dimension {found.dim}" if what == "slice" else ""
        theirs = f"the specification's {found.tensor}"
        extra = [row for row in dict.fromkeys(found.held) if row not in found.wanted]
        lacking = [row for row in dict.fromkeys(found.wanted) if row not in found.held]
        end, became = self.place, ""
        if extra and lacking:
            self.place, became = self._overwrites(found, extra, lacking)
            name = self.impl(self.place)
            need = "is" if len(lacking) == 1 else "are"
            rows = f"{what}s {some(extra)}{along} of {theirs}"
            head = f"{name} {became or 'takes'}{': ' if became else ' '}{rows} where {some(lacking)} {need} needed"
        elif sorted(found.held) == sorted(found.wanted):
            self.place = self._arranger()
            name = self.impl(self.place)
            at = next(k for k, (a, b) in enumerate(zip(found.held, found.wanted, strict=True)) if a != b)
            held = f"{what} {at}{along} of {end[1]} is {what} {found.held[at]} of {theirs}"
            head = f"{name} puts {what}s in the wrong places: {held}, where {what} {found.wanted[at]} is needed"
        else:
            self.place = self._arranger()
            name = self.impl(self.place)
            head = f"{name} has {what}s {some(found.held)}{along} of {theirs}, {some(found.wanted)} are needed"
        text = f"{what}s of {theirs}{along}: {some(found.held)} are there, {some(found.wanted)} are needed"
        return self.made("offset", head, text, self._instead(), wanted[0], wanted)

    def _overwrites(self, found: Rows, extra: Sequence[int], lacking: Sequence[int]) -> tuple[Place, str]:
        """The first operator above that puts a wrong row where a needed one was, and what it does."""
        whole = self.matches.replay.wanted(found.tensor)
        above = self.matches.replay.above([self.place])
        for place in self.matches.replay.order if whole is not None else ():
            value = self.matches.value(place)
            if (
                place not in above
                or value.shape != self.matches.value(self.place).shape
                or self.node(place).op != "call"
            ):
                continue
            for operand in self.matches.replay.operands[place]:
                before = self.matches.value(operand)
                if before.shape != value.shape or whole is None:
                    continue
                old, new = known_rows(whole, before, found.dim), known_rows(whole, value, found.dim)
                lost = [(a, b) for a, b in zip(old, new, strict=True) if a in lacking and b in extra]
                if lost:
                    return place, f"overwrites row {lost[0][0]} with row {lost[0][1]}"
        return self._arranger(), ""

    def _arranger(self) -> Place:
        """The operator that decides on positions: the place itself, or one just above it."""
        pending = [self.place]
        for _ in range(4):
            for place in pending:
                if self.matches.facts(place).places:
                    return place
            pending = [
                o for place in pending for o in self.matches.replay.operands[place] if self.matches.aligned(o) is None
            ]
        return self.place

    def _operator(self, wanted: Part) -> Account | None:
        """Another operator is applied to the very operands of the specification's."""
        mine, theirs = self.node(self.place), self.matches.job.specification.by_name[wanted[0]]
        ours, reads = list(references(mine)), list(references(theirs))
        one, other = short(unwrapped(mine.target, mine.args)), short(unwrapped(theirs.target, theirs.args))
        if mine.op != "call" or theirs.op != "call" or one == other or len(ours) != len(reads) or not ours:
            return None
        for ref, read in zip(ours, reads, strict=True):
            if not any(part[0] == read for part in self.matches.parts_at((self.place[0], ref))):
                return None
        head = f"{self.impl(self.place)} applies {one} to {listed(ours)} where the specification applies {other}"
        text = f"the specification's {self.spec(wanted[0])} is {other}({', '.join(reads)})"
        lines = dict.fromkeys(self.edit.places, like(theirs))
        hint = Hint(f"{other} instead of {one} in {self.place[1]}", lines)
        return self.made("operation", head, text, hint, wanted[0], wanted)

    def _by_operand(self, wanted: Part) -> Account | None:
        """The specification's operator is the same; one operand is another tensor, or another part."""
        graph = self.matches.job.specification
        mine, theirs = named(self.matches.graph(self.place), self.place[1]), named(graph, wanted[0])
        if (
            mine.op != "call"
            or theirs.op != "call"
            or unwrapped(mine.target, mine.args) != unwrapped(theirs.target, theirs.args)
        ):
            return None
        ours, reads = list(references(mine)), list(references(theirs))
        if len(ours) != len(reads):
            return None
        wrong: list[tuple[int, str]] = []
        for k, (ref, want) in enumerate(zip(ours, reads, strict=True)):
            given = (self.place[0], ref)
            part = self.matches.aligned(given)
            right = any(p[0] == want for p in self.matches.parts_at(given))
            apart = part is None or not (self.matches.follows(want, part[0]) or self.matches.follows(part[0], want))
            apart = apart or ref in ours[:k] or ref in ours[k + 1 :]  # read twice: no step is missing, or too many
            if not right and apart:
                wrong.append((k, want))
        if len(wrong) != 1:
            return self._by_window()
        k, want = wrong[0]
        given = (self.place[0], ours[k])
        earlier = self._chosen(k, want)
        if earlier is not None:
            self.edit, self.place = earlier, earlier.places[0]
            reads_ = next(iter(references(self.node(self.place))), "")
            head = f"{self.impl(self.place)} takes {self._content((self.place[0], reads_))}"
            part = earlier.wanted[self.place]
            made_of = whole_reads(graph, graph.by_name[part[0]])
            needed = self.theirs(made_of[0]) if made_of else self.part(part)
            head += f" where {needed} is needed"
            source = self._added_up(self.place)
            if source is not None:
                self.place = source
                head = f"{self._content(source)} is added up over ranks where summands of {needed} are needed"
                return self.made("operand", head, "", NO_HINT, part[0], part)
            found = self.made("operand", head, "", self._instead(), part[0], part)
            return replace(found, sure=not reads_ or self._known((self.place[0], reads_)))
        needed = self._made_of(want, wanted)
        head = f"{self.impl(self.place)} reads {self._content(given)} where {needed} is needed"
        text = f"the specification's {self.spec(wanted[0])} reads {self._made_of(want)}"
        found = self.made("operand", head, text, self._instead(), wanted[0])
        return replace(found, sure=self._known(given))

    def _added_up(self, place: Place) -> Place | None:
        """The place of the summand that a sum over ranks makes the value of a place of; ``None`` if nothing does."""
        added = False
        for _ in range(self.matches.effort.bounds.repair_chain):
            facts = self.matches.facts(place)
            read = [one for one in self.matches.replay.operands[place] if one[0] == place[0]]
            passes = facts.collective == "sum" or (
                facts.layout and (not added or facts.moves == frozenset({"reshape"}))
            )
            if len(read) != 1 or not passes:
                break
            added = added or facts.collective == "sum"
            place = read[0]
        return place if added and self.node(place).op == "call" else None

    def _chosen(self, position: int, want: str) -> Edit | None:
        """The change of values where a wrong operand was chosen: of the first node above from which its elements only
        moved to be that operand, and nothing else. ``None`` if the operand itself is where it is chosen."""
        calls = [(rank, named(self.matches.graph((rank, name)), name)) for rank, name in self.edit.places]
        read = [(rank, list(references(node))) for rank, node in calls]
        if any(position >= len(refs) for _, refs in read):
            return None
        places = tuple((rank, refs[position]) for rank, refs in read)
        found: Edit | None = None
        for _ in range(self.matches.effort.bounds.repair_chain):
            refs = list(references(self.node(places[0])))
            if len({name for _, name in places}) > 1 or self.node(places[0]).op != "call" or len(refs) != 1:
                break
            users = self.matches.graph(places[0]).users.get(places[0][1], ())
            if len(users) != 1 or not self.matches.facts(places[0]).layout:
                break
            edit = self._given(places, want)
            if edit is None:
                break
            found = edit
            above = whole_reads(self.matches.job.specification, self.matches.job.specification.by_name[want])
            if len(above) != 1 or not self.matches.whole_facts(want).layout:
                break
            places, want = tuple((rank, refs[0]) for rank, _ in places), above[0]
        else:
            self.matches.effort.hit("repair_chain")
        return found

    def _given(self, places: tuple[Place, ...], want: str) -> Edit | None:
        """The change that gives places parts of a tensor, such that the changed values become what they should be."""
        whole = self.matches.replay.wanted(want)
        for rows in layouts(self.matches, places, whole) if whole is not None else ():
            chosen = {place: row for place, row in zip(places, rows, strict=True) if row is not None}
            wanted: dict[Place, Part] = {place: (want, row[0]) for place, row in chosen.items()}
            held = {place: self.matches.part_at(place, part) for place, part in wanted.items()}
            changes = {place: value for place, value in held.items() if value is not None}
            if len(changes) == len(places) and self.matches.replay.gives(changes, self.edit.changes):
                return Edit(EditKind.VALUE, places, changes, wanted)
        return None

    def _by_window(self) -> Account | None:
        """The operands are parts of the right tensors, but not the parts that belong together."""
        target = self.edit.changes[self.place]
        for edit in operands(self.matches, self.c):
            value = edit.changes.get(self.place)
            if value is not None and value.shape == target.shape and np.allclose(value, target, rtol=1e-9, atol=1e-12):
                return self._operand(self.place, edit.position, edit.wanted[self.place])
        return None

    def _addend(self, wanted: Part) -> Account | None:
        target = self.matches.part_at(self.place, wanted)
        found = None if target is None else addend(self.matches, self.place, target)
        if found is None:
            return None
        name = self.impl(self.place)
        if found.constant is not None:
            more = "too small" if found.constant > 0 else "too large"
            return self.made(
                "constant",
                f"{name} is {number(abs(found.constant))} {more}, everywhere",
                "",
                NO_HINT,
                wanted[0],
                wanted,
            )
        names = [n for _, n in found.places]
        what = listed([self._describe(place) for place in found.places])
        ratio = Fraction(found.factor).limit_denominator(4096)
        end = self.place[1]
        if ratio == 1:
            return self._lacks(wanted, found.places)
        line = added(names, float(ratio))
        lines = dict.fromkeys(self.edit.places, line) if len({rank for rank, _ in found.places}) == 1 else None
        above = self.matches.replay.above([self.place])
        everywhere = [
            p
            for p in self.matches.replay.order
            if p in above and names[0] in references(self.node(p)) and self.matches.facts(p).sums
        ]
        if ratio == -1 and found.places[0] not in above:
            self.place = self._last(self.place)
            head = f"{self.impl(self.place)} lacks a summand: {what} is never subtracted from it"
            text = f"{end} - {' - '.join(names)} is the specification's {self.part(wanted)}"
            hint = Hint(f"subtract {listed(names)} from {self.place[1]}", lines)
            return self.made("missing", head, text, hint, wanted[0], wanted)
        if ratio < 0 and ratio.denominator == 1:
            ranks = {p[0] for p in everywhere}
            summed = self.matches.job.mesh.world_size == 1 or abs(ratio) + 1 == len(everywhere)
            adders = everywhere if summed else [p for p in everywhere if p[0] == min(ranks)]
            if len(adders) > 1:
                each = list(dict.fromkeys(self.impl(p) for p in adders))
                by = f"{each[0]} adds it on every rank" if len(each) == 1 else f"{listed(each)} each add it"
                head = f"{name} has {what} {len(adders)} times: {by}"
                hint = Hint(f"add {listed(names)} once, after the sum over ranks", lines)
                self.place = adders[0]
            else:
                head = f"{name} also adds {what}, which the specification does not"
                hint = Hint(f"leave {listed(names)} out of the sum (is it the right process group?)", lines)
                hint = hint if everywhere else NO_HINT
            text = f"{end} - {' - '.join(names)} is the specification's {self.part(wanted)}"
            return self.made("extra", head, text, hint, wanted[0], wanted)
        off = "is missing" if ratio > 0 else "is too much"
        much = f": {number(abs(ratio))} times it {off}" if ratio.denominator <= 64 else ""  # else the data decides it
        head = f"{name} has {what} with the wrong weight{much}"
        return self.made("factor", head, "", NO_HINT, wanted[0], wanted)

    def _spelled(self, name: str, most: int) -> str:
        """A tensor of the specification without a counterpart, as an expression in others, of ``most`` characters; else
        its name."""
        graph = self.matches.job.specification

        def one(ref: str, depth: int) -> str:
            node = graph.by_name[ref]
            refs = list(references(node))
            value = self.matches.replay.wanted(ref)
            if node.op == "constant" and value is not None and value.size <= 8:
                return str([round(float(x), 4) for x in value.reshape(-1)]).replace(".0,", ",").replace(".0]", "]")
            if depth == 0 or node.op != "call" or not refs:
                return ref
            if self.matches.whole_facts(ref).view:
                return one(refs[0], depth)
            return f"{short(node.target)}({', '.join(one(r, depth - 1) for r in refs)})"

        return next((text for depth in (3, 2, 1) if len(text := one(name, depth)) <= most), self.theirs(name))

    def _lacks(self, wanted: Part, places: Sequence[Place]) -> Account:
        """Something is never added to the place."""
        name, names = self.impl(self.place), list(dict.fromkeys(n for _, n in places))
        what = listed(list(dict.fromkeys(self._describe(place) for place in places)))
        over = len(names) < len(places)
        what = f"the sum of {what} over the ranks" if over else what
        lines = None if over else dict.fromkeys(self.edit.places, added(names, 1.0))
        graph, above = self.matches.graph(places[0]), self.matches.replay.above([self.place])
        users = [u for u in graph.users.get(names[0], ()) if (places[0][0], u) not in above]
        text = f"{self.place[1]} + {' + '.join(names)} is the specification's {self.part(wanted)}"
        c = self.matches.class_of.get(places[0])
        operands = self.matches.replay.operands[self.place]
        twin = next((o for o in operands if c is not None and self.matches.class_of.get(o) == c), None)
        total = next((o for o in operands if o != twin), None)
        if twin is not None and names == [twin[1]]:  # the same on other ranks
            axes = listed(self.axes([twin, *places]))
            head = f"{name} adds its own rank's {twin[1]} alone, where the sum over {axes} is needed"
            hint = Hint(f"all_reduce {twin[1]} over {axes} before {self.place[1]}", None)
            return self.made("missing", head, text, hint, wanted[0], wanted)
        if twin is not None and total is not None and users and len(places) == 1:
            head = (
                f"{twin[1]} and {names[0]} are added after the sum {self.impl(total)}, each to one copy only: "
                f"{self.place[1]} lacks {names[0]}, and {listed(users)} lacks {twin[1]}"
            )
            hint = Hint(f"add {twin[1]} and {names[0]} before the sum over ranks", lines)
            return self.made("missing", head, text, hint, wanted[0], wanted)
        elsewhere = f" ({names[0]} goes into {listed(users)} only)" if users else ""
        self.place = self._last(self.place)
        name = self.impl(self.place)
        hint = Hint(f"add {'the sum over the ranks of ' if over else ''}{listed(names)} to {self.place[1]}", lines)
        head = f"{name} lacks a summand: {what} is never added to it{elsewhere}"
        return self.made("missing", head, text, hint, wanted[0], wanted)

    def _last(self, place: Place) -> Place:
        """The last node that elements only move to from a place, and nowhere else: what is missing is missing there."""
        for _ in range(self.matches.effort.bounds.repair_chain):
            users = self.matches.graph(place).users.get(place[1], ())
            below = (place[0], users[0]) if len(users) == 1 else place
            refs = list(references(self.node(below)))
            alone = len(refs) == 1 and below != place and self.node(place).op == "call"
            if not alone or not (self.matches.facts(below).layout or self.matches.facts(below).view):
                break
            place = below
        else:
            self.matches.effort.hit("repair_chain")
        return place

    def _describe(self, place: Place) -> str:
        part = self.matches.aligned(place)
        node = self.node(place)
        if node.op == "input" or part is None or self.part(part) == place[1]:
            return f"{place[1]}" if node.source is None or not node.source.file else f"{place[1]} ({node.source})"
        return f"{place[1]} (which is the specification's {self.part(part)})"

    def _summands(self, wanted: Part) -> Account | None:
        """An operator that is no linear map is applied to summands, before they are added."""
        above = self.matches.replay.above([self.place])
        graph = self.matches.job.specification
        groups: dict[object, list[Place]] = {}
        for place in self.matches.replay.order:
            if place in above and self.node(place).op == "call" and self.matches.value(place).size:
                operand = (place[0], next(iter(references(self.node(place))), ""))
                key = (self.node(place).target, self.matches.value(place).shape, operand[1] if self.several > 1 else "")
                if operand[1] and self.matches.value(operand).dtype.kind == "f":
                    groups.setdefault(key, []).append(operand if operand[1] else place)
                    groups.setdefault(("of", *key), []).append(place)
        for key, read in groups.items():
            if isinstance(key, tuple) and key[0] == "of":
                continue
            distinct = list(dict.fromkeys(read))
            values = [self.matches.value(operand) for operand in distinct]
            whole = self.matches.is_part(np.sum(np.stack(values), axis=0)) if summable(values) else None
            places = groups["of", *key] if isinstance(key, tuple) else []
            target = self.node(places[0]).target
            if whole is not None and any(len(self.matches.replay.above([p]) & {*places}) > 1 for p in places):
                continue  # what one waits for cannot be added to what comes of it
            if whole is not None and any(part[0] == whole[0] for v in values for part, _ in self.matches.multiples(v)):
                continue  # multiples of it are no summands
            if whole is None or self.matches.is_part(np.sum(np.stack([self.matches.value(p) for p in places]), axis=0)):
                continue
            if all(self.matches.aligned(p) is not None for p in places):
                continue  # what comes of them is right
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
            total: Array = np.asarray(np.sum(np.stack(values), axis=0))
            right = self._makes_right(dict.fromkeys(distinct, total))
            each = list(dict.fromkeys(n for _, n in distinct))
            line = reduced("sum", ()) if len({rank for rank, _ in distinct}) > 1 else summed(each)
            hint = Hint(f"add up {names} (all_reduce) before {op}", dict.fromkeys(distinct, line))
            return self.made("unreduced", head, text, hint if right else NO_HINT, name)
        return None

    def _unreached(self, wanted: Part) -> Account | None:
        """Part of an input never gets there."""
        parts = unreached(self.matches, self.place, wanted)
        if not parts:
            return None
        texts = [self.part(part) for part in parts]
        without = f"without {listed(texts)}, which the specification's {wanted[0]} depends on"
        head = f"{self.impl(self.place)} is computed {without}{self._zero()}"
        return self.made(
            "range",
            head,
            f"nothing that {self.place[1]} is computed from reads {listed(texts)}",
            NO_HINT,
            wanted[0],
            wanted,
        )

    def _zero(self) -> str:
        """A clause on the zeros that the place is added to or joined with; empty if there are none."""
        for place in self.matches.replay.order:
            facts = self.matches.facts(place)
            if place not in self.matches.replay.below([self.place]) or not (
                facts.adds or facts.moves & {"concat", "stack"}
            ):
                continue
            for operand in self.matches.replay.operands[place]:
                value = self.matches.value(operand)
                if value.size and value.dtype.kind == "f" and not value.any():
                    return f": it is added to {operand[1]}, which is 0"
        return ""
