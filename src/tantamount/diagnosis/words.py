"""The repair in words: a sentence that says what is wrong, how the two sides differ, and what would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np

from tantamount.diagnosis.arguments import argument_at
from tantamount.diagnosis.collectives import REDUCTIONS, reducing, reduction_at
from tantamount.diagnosis.exchanges import sending
from tantamount.diagnosis.hints import (
    NO_HINT,
    Hint,
    Line,
    named_so,
    other_number,
    passed_on,
    reading,
    reduced,
    shared,
    summed,
)
from tantamount.diagnosis.instead import ranks, reordered
from tantamount.diagnosis.naming import Account, listed, number, short, shown, times
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.values import Values
from tantamount.ir.graph import Node, Ref, references
from tantamount.ops.facts import Facts

__all__ = ["Words"]


class Words(Values):
    """The account of a change, kind by kind: a sentence, how the two sides differ, and what would do."""

    def sum(self) -> Account:
        """The account of a sum over ranks that is missing."""
        return self._reduction("sum", "sum", "one summand")

    def mean(self) -> Account:
        """The account of a mean over ranks that is missing."""
        return self._reduction("mean", "avg", "the mean over its own share")

    def maximum(self) -> Account:
        """The account of a maximum over ranks that is missing."""
        return self._reduction("maximum", "max", "the maximum over its own share")

    def total(self) -> Account:
        """The account of a sum over ranks that is missing, of what the specification computes in another way."""
        axis = self.edit.axis
        text = f"{self._used(self.place)} it as if it were the whole"
        head = f"a sum over {axis} is missing after {self.impl(self.place)}: every rank holds its own share, and {text}"
        lines = dict.fromkeys(self.edit.places, reduced("sum", axis.split(" and ")))
        hint = Hint(f"all_reduce {self.place[1]} over {axis}", lines)
        return self.made("unreduced", head, "", hint, self.counterpart())

    def peer(self) -> Account:
        """The account of what another rank has and should have been sent."""
        rank = self.place[0]
        given = (rank, list(references(self.node(self.place)))[self.edit.position])
        mesh, axis = self.matches.job.mesh, self.edit.axis
        at, k = mesh.coordinates(rank), mesh.names.index(axis)
        other = mesh.rank((*at[:k], (at[k] + int(self.edit.number)) % mesh.sizes[k], *at[k + 1 :]))
        wanted = self.edit.wanted[self.place]
        head = f"{self.impl(self.place)}: rank {rank} reads {self._content(given)} where {self.part(wanted)} is needed"
        head += f", which rank {other} has: it is not sent along {axis}, or to another rank"
        return self.made("offset", head, "", NO_HINT, self.counterpart(), wanted)

    def order(self) -> Account:
        """The account of operands that are read in the wrong order."""
        refs = list(references(self.node(self.place)))
        needed, read = (", ".join(refs[k] for k in some) for some in (self.edit.order, range(len(refs))))
        joins = "concat" in self.matches.facts(self.place).moves
        verb = "joins" if joins else "reads"
        head = f"{self.impl(self.place)}{self._others()} {verb} {read} in the wrong order: {needed} is needed"
        lines = {
            place: reading({k: list(references(self.node(place)))[j] for k, j in enumerate(self.edit.order)})
            for place in self.edit.places
        }
        where = f"{self.place[1]}{self._others()}{ranks(self.matches, self.edit)}"
        hint = Hint(f"{needed} instead of {read} in {where}", lines)
        return self.made("operand", head, "", hint, self.counterpart())

    def unread(self) -> Account:
        """The account of an operand that should be a tensor which nothing reads."""
        read, needed = list(references(self.node(self.place)))[self.edit.position], self.edit.target
        where = f"{self.place[1]}{self._others()}{ranks(self.matches, self.edit)}"
        head = f"{self.impl(self.place)}{self._others()} reads {read} where {needed} is needed, which nothing reads"
        lines = dict.fromkeys(self.edit.places, reading({self.edit.position: needed}))
        return self.made("operand", head, "", Hint(f"{needed} instead of {read} in {where}", lines), self.counterpart())

    def exchange(self) -> Account:
        """The account of two messages that are sent in the wrong order."""
        received, sent = self.edit.places, self.matches.replay.messages.sent
        posts = [post for place in received if (post := sending(self.matches, place)) is not None]
        lines: dict[Place, Line] = {}
        for k in range(0, len(posts), 2):
            mine, theirs = (sent[place][1] for place in received[k : k + 2])
            lines |= {posts[k]: reading({0: theirs}), posts[k + 1]: reading({0: mine})}
        (one, other), (mine, theirs) = posts[:2], (sent[place][1] for place in received[:2])
        rank, to = one[0], received[0][0]
        spec, self.place = self.counterpart(), one
        more = " (and so on other ranks)" if len(posts) > 2 else ""
        head = f"{self.impl(one)} sends {mine} and {other[1]} sends {theirs} from rank {rank} to rank {to}{more}"
        head += ", in the wrong order: each is needed in place of the other"
        by = listed([place[1] for place in received[:2]])
        text = f"rank {to} receives them by {by}: to take each for the other there would do as well"
        on = f"rank {rank}{more}"
        return self.made(
            "operand", head, text, Hint(f"send {theirs} by {one[1]} and {mine} by {other[1]} on {on}", lines), spec
        )

    def block(self) -> Account:
        """The account of another block that should be cut out."""
        return self.beside("", None) or self.made(
            "offset", f"{self.impl(self.place)} cuts out the wrong block", "", NO_HINT, self.counterpart()
        )

    def operand(self) -> Account:
        """The account of an operand that should be another part of its tensor."""
        return self._operand(self.place, self.edit.position, self.edit.wanted[self.place])

    def _reduction(self, what: str, short_: str, holds: str) -> Account:
        total = np.asarray(self.edit.changes[self.place])
        composed = short_ == "max" and self.matches.is_part(total) is None  # a softmax in steps of its own
        spec = "" if composed else self.counterpart()
        used = self._used(self.place)
        if self.edit.axis:
            axis = self.edit.axis
            of = f" of the specification's {spec}" if spec else ""
            head = (
                f"a {what} over {axis} is missing after {self.impl(self.place)}: "
                f"every rank holds {holds}{of}, and {used} it as if it were the whole"
            )
            text = f'{self.place[1]} is Partial("{short_}") over {axis} of {self.spec(spec)}' if spec else ""
            do = "all_reduce, or reduce_scatter," if short_ == "sum" else f"all_reduce ({short_})"
            line = reduced(short_, axis.split(" and "))
            hint = Hint(f"{do} {self.place[1]} over {axis}", dict.fromkeys(self.edit.places, line))
            return self.made("unreduced", head, text, hint, spec)
        names = [n for _, n in self.edit.places if self.matches.origin[0, n] == self.matches.origin[self.place]]
        head = (
            f"a {what} is missing: each of {listed(names)} holds {holds} of the specification's {spec}, "
            f"and {used} {self.place[1]} as if it were the whole"
        )
        text = f"{what}({', '.join(names)}) is the specification's {self.spec(spec)}"
        over = "" if short_ == "sum" else f" ({short_})"
        lines = {
            place: summed([n for _, n in members], 1 / len(members) if short_ == "avg" else 1.0)
            for _, groups in self.matches.groups(self.c)
            for members in groups
            for place in members
            if short_ != "max"
        }
        hint = Hint(f"combine {listed(names)} first: all_reduce over the ranks that hold them{over}", lines)
        return self.made("unreduced", head, text, hint, spec)

    def reduction(self) -> Account:
        """The account of a collective that reduces in another way, or over other ranks, than is needed."""
        mine = reduction_at(self.matches, self.place)
        axes = tuple(self.edit.axis.split(" and "))
        how, other = "" if mine is None else REDUCTIONS[mine.how], REDUCTIONS[self.edit.target]
        over = "one rank alone" if mine is None or not mine.axes else listed(mine.axes)
        given = "" if mine is None else mine.how
        line = dict.fromkeys(self.edit.places, reducing(self.edit.target, axes))
        where = f"{self.place[1]}{ranks(self.matches, self.edit)}"
        head = f"{self.impl(self.place)} takes the {how} over {over} where the {other} over {listed(axes)} is needed"
        same = mine is not None and set(mine.axes) == set(axes)
        text = f"{self.edit.target} instead of {given}" if same else f"over {listed(axes)} instead of over {over}"
        kind, rest = "operation" if same else "range", ""
        if same and {given, self.edit.target} == {"sum", "avg"}:
            size = prod(self.real.mesh.axes[axis] for axis in axes)
            kind, rest = "factor", f"{size} is the size of {listed(axes)}"
            head += f": it comes out {size} times too {'large' if given == 'sum' else 'small'}"
        return self.made(kind, head, rest, Hint(f"{text} in {where}", line), self.counterpart())

    def _used(self, place: Place) -> str:
        users = self.matches.graph(place).users.get(place[1], ())
        alone = [user for user in users if not self.matches.facts((place[0], user)).collective]
        return f"{[*alone, *users][0]} uses" if users else "the output takes"

    def bypass(self) -> Account:
        """The account of an operator, or its number, that should not be there."""
        node = self.node(self.place)
        spec = self.counterpart()
        name, also = self.impl(self.place), self._others()
        facts = self.matches.facts(self.place)
        read = list(references(node))[self.edit.position]
        slot = next(iter(self.matches.slots(self.place)), None)
        given, small = (
            (None, None) if slot is None else (self.own_number(slot), self.matches.number_at(self.place, slot))
        )
        without = f"without {self.place[1]} the two sides agree"
        op = short(node.target)
        left = {place: passed_on(list(references(self.node(place)))[self.edit.position]) for place in self.edit.places}
        out = Hint(f"leave out {self.place[1]}{also}{ranks(self.matches, self.edit)}", left)
        if given is not None and facts.scale is not None:
            divides = _divides(facts, small)
            verb, ratio = ("divides", "small") if divides else ("multiplies", "large")
            much = given
            if 0 < abs(given) < 1:
                much, ratio = 1 / given, "large" if divides else "small"
            again = self._again(facts.scale)
            what = f" {read}" if again.startswith("and") else ""
            head = (
                f"{name}{also} {verb}{what} by {number(given)} {again}: it comes out {number(much)} times too {ratio}"
            )
            return self.made("factor", head, without, out, spec)
        if facts.adds and facts.combination.get(read) == 1:
            rest, factor = next((x, c) for x, c in facts.combination.items() if x != read)
            what = rest or number(abs(factor))
            rank = self.place[0]
            near = [self.place, (rank, read)]  # of a number: every layer adds its own
            cone = [p for p in self.matches.replay.order if p in (self.matches.cone if rest else near) and p[0] == rank]
            adders = [p[1] for p in cone if self._adds(p, rest, factor)]
            head = f"{name} {'adds' if factor > 0 else 'subtracts'} {what} once too often"
            if len(adders) > 1 and factor > 0:
                head = f"{what} is added {len(adders)} times, by {listed(adders)}: {name} must not"
            hint = out
            if len(adders) > 1 or self._one_rank():
                done = "added once, or after the sum over ranks" if factor > 0 else "subtracted once"
                hint = replace(out, text=f"{out.text}: {what} is to be {done}")
            return self.made("extra", head, without, hint, spec)
        order = reordered(self.matches, self.edit)
        if order:
            needed = order.text.partition(" instead of ")[0]
            head = f"{name} reads its operands in the wrong order: {needed} is needed"
            return self.made("operand", head, "", order, spec)
        head = f"{name}{also} applies {op}, and the specification does not"
        return self.made("extra", head, without, out, spec)

    def _adds(self, place: Place, what: str, factor: Fraction) -> bool:
        """True if a place adds a tensor (by name) or, where there is no name, a number."""
        facts = self.matches.facts(place)
        if not what:
            return facts.combination.get("") == factor
        return facts.sums and facts.reduction == "" and any(what in names for names in facts.linear)

    def _again(self, scale: Fraction) -> str:
        """A clause on the place, after it or before, where the implementation multiplies by the same number again."""
        below = self.matches.replay.below([self.place]) - {self.place}
        above = self.matches.replay.above([self.place]) - {self.place}
        for word, places in (("and then again in", below), ("again, after", above)):
            for place in sorted(places):
                if self.matches.facts(place).scale == scale:
                    return f"{word} {place[1]}{f' on rank {place[0]}' if place[1] == self.place[1] else ''}"
        return "once too often"

    def _others(self) -> str:
        names = list(dict.fromkeys(name for _, name in self.edit.places))[1:]
        return f" (and {listed(names)})" if names else ""

    def literal(self) -> Account:
        """The account of another number."""
        node = self.node(self.place)
        slot = self.edit.slot
        old, new = self.own_number(slot), self.number_in_job(slot, self.edit.number)
        written = self._written(node)
        if old is None or new is None:
            old, reader = self.matches.number_at(self.place, slot) if old is None else old, self.place
            spec = self.counterpart()
            head = f"{self.impl(reader)}{self._others()} has {shown(old)} in {short(node.target)}"
            if written is not None:
                self.place, head = written, f"{self.impl(written)} is {shown(old)}, in {self.impl(reader)},"
            return self.made("attribute", f"{head} where another number is needed", "", NO_HINT, spec)
        lines = dict.fromkeys(self.edit.places, other_number(slot, new))
        if written is not None:
            reader, self.place = self.place, written
            head = f"{self.impl(written)} is {shown(old)} where {number(new)} is needed, in {self.impl(reader)}"
            why = self._ranks(Fraction(str(new)) / Fraction(str(old))) if old and new else ""
            head += f": {why}" if why else ""
            hint = Hint(f"{number(new)} instead of {shown(old)} in {written[1]}{ranks(self.matches, self.edit)}", lines)
            self.place = reader
            spec = self.counterpart()
            self.place = written
            return self.made("attribute", head, "", hint, spec)
        facts = self.matches.facts(self.place)
        small = self.matches.number_at(self.place, slot)
        verb = _verb(facts, small)
        does = f"{verb} {shown(old)}" if verb else f"has {shown(old)} in {short(node.target)}"
        if isinstance(self.edit.slot, str):
            does = f"has {self.edit.slot} = {shown(old)}"
        head = f"{self.impl(self.place)}{self._others()} {does} where {number(new)} is needed"
        rest = ""
        scales = facts.scale is not None
        if old and new and scales:
            ratio = Fraction(str(new)) / Fraction(str(old))
            if _divides(facts, small):
                ratio = 1 / ratio
            head += f": the result is {times(1 / ratio)}"
            rest = self._ranks(ratio)
        where = ranks(self.matches, self.edit)
        if self.edit.number in self.matches.literals(node.target, self.edit.slot):
            rest += (
                f"; the specification has {number(new)} there" if rest else f"the specification has {number(new)} there"
            )
        return self.made(
            "factor" if scales else "attribute",
            head,
            rest,
            Hint(f"{number(new)} instead of {shown(old)} in {self.place[1]}{self._others()}{where}", lines),
            self.counterpart(),
        )

    def once(self) -> Account:
        """The account of what every rank adds before a sum over ranks, so that it is added as often."""
        axes = self.edit.axis.split(" and ")
        mesh = self.matches.job.mesh
        count, real = (prod(one.axes[axis] for axis in axes) for one in (mesh, self.real.mesh))
        ref = list(references(self.node(self.place)))[self.edit.position]
        what = self._describe((self.place[0], ref))
        head = f"{self.impl(self.place)} adds {what} on every rank, before the sum over {self.edit.axis}: it is added "
        head += f"{real} times"
        line = shared(self.edit.position, 1 / count)
        hint = Hint(f"add {ref} once, after the sum over {self.edit.axis}", dict.fromkeys(self.edit.places, line))
        total = np.sum(np.stack([self.edit.changes[place] for place in self._members()]), axis=0)
        part = self.matches.is_part(np.asarray(total))
        return self.made("extra", head, "", hint, self.counterpart() if part is None else part[0])

    def _members(self) -> Sequence[Place]:
        """The places whose values are added up, of those of the edit: the ones with the first."""
        for axis, groups in self.matches.groups(self.c):
            for members in groups if axis == self.edit.axis else ():
                if self.place in members:
                    return members
        return (self.place,)

    def function(self) -> Account:
        """The account of another function than is needed."""
        node = self.node(self.place)
        refs, one, other = listed(list(references(node))), short(node.target), short(self.edit.target)
        head = f"{self.impl(self.place)}{self._others()} applies {one} to {refs} where {other} is needed"
        name = f"{self.place[1]}{self._others()}{ranks(self.matches, self.edit)}"
        hint = Hint(f"{other} instead of {one} in {name}", dict.fromkeys(self.edit.places, named_so(self.edit.target)))
        return self.made("operation", head, "", hint, self.counterpart())

    def _written(self, node: Node) -> Place | None:
        """The constant that a number is written in, if the number is no argument and nothing else reads it."""
        argument = argument_at(node, self.edit.slot)
        if not isinstance(argument, Ref) or len({name for _, name in self.edit.places}) > 1:
            return None
        place, reader = (self.place[0], argument.name), self.place[1]
        while self.node(place).op == "call" or self.node(place).target == "hlo.constant":
            if self.matches.graph(place).users.get(place[1], ()) != (reader,) or place[1] == reader:
                return None
            refs = list(references(self.node(place)))
            if not refs:
                return place
            if len(refs) > 1 or not self.matches.facts(place).layout:
                return None
            place, reader = (place[0], refs[0]), place[1]
        return None

    def scale(self) -> Account:
        """The account of a reduction with another factor."""
        ratio = Fraction(self.edit.number).limit_denominator(4096)
        head = f"{self.impl(self.place)} is {times(1 / ratio)}"
        text = self._ranks(ratio, written=False)
        return self.made("factor", head + (f": {text}" if text else ""), text, NO_HINT, self.counterpart())


_COMPARED = {"below": "keeps what is below", "at most": "keeps what is at most", "above": "keeps what is above",
             "at least": "keeps what is at least"}  # fmt: skip


def _divides(facts: Facts, given: float | None) -> bool:
    """True if the number that a factor is written with divides."""
    scale = facts.scale
    return bool(given) and scale is not None and _near(scale, 1 / (given or 1)) and not _near(scale, given or 1)


def _near(x: Fraction, y: float) -> bool:
    return abs(float(x) - y) <= 1e-9 * abs(y)


def _verb(facts: Facts, given: float | None) -> str:
    """The verb for what an operator does with the number that it is given; empty where there is none."""
    if facts.scale is not None:
        return "divides by" if _divides(facts, given) else "multiplies by"
    added = facts.combination.get("")
    if added is not None:
        return "subtracts" if given and _near(added, -given) else "adds"
    if facts.exponent is not None:
        return "has the exponent"
    return _COMPARED.get(facts.comparison, "")
