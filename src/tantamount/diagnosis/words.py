"""The repair in words: a sentence that says what is wrong, how the two sides differ, and what would do."""

from __future__ import annotations

from fractions import Fraction

from tantamount.diagnosis.naming import SCALES, Account, listed, number, short, shown, times
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.search import Repair
from tantamount.diagnosis.value_matches import given
from tantamount.diagnosis.values import Values
from tantamount.ir.graph import references

__all__ = ["account"]


def account(repair: Repair) -> Account:
    """What a repair says about the bug."""
    return _Words(repair.land, repair.edit, repair.c).account()


class _Words(Values):
    def account(self) -> Account:
        kind = self.edit.kind
        if kind in ("reduce", "average", "maximum"):
            return self._reduction()
        if kind == "bypass":
            return self._bypass()
        if kind == "literal":
            return self._literal()
        if kind == "scale":
            return self._scale()
        if kind == "operand":
            return self._operand(self.place, self.edit.position, self.edit.wanted[self.place])
        return self.value()

    def _reduction(self) -> Account:
        spec = self.counterpart()
        what, short_, holds = _REDUCTIONS[self.edit.kind]
        used = self._used(self.place)
        if self.edit.axis:
            axis = self.edit.axis
            head = (
                f"a {what} over {axis} is missing after {self.impl(self.place)}: "
                f"every rank holds {holds} of the specification's {spec}, and {used} it as if it were the whole"
            )
            text = f'{self.place[1]} is Partial("{short_}") over {axis} of {self.spec(spec)}'
            hint = f"all_reduce{'' if short_ == 'sum' else f' ({short_})'} {self.place[1]} over {axis}"
            if short_ == "sum":
                hint = f"all_reduce, or reduce_scatter, {self.place[1]} over {axis}"
            return self.made("unreduced", head, text, hint, spec)
        names = [n for _, n in self.edit.places if self.land.origin[0, n] == self.land.origin[self.place]]
        head = (
            f"a {what} is missing: each of {listed(names)} holds {holds} of the specification's {spec}, "
            f"and {used} {self.place[1]} as if it were the whole"
        )
        text = f"{what}({', '.join(names)}) is the specification's {self.spec(spec)}"
        over = "" if short_ == "sum" else f" ({short_})"
        hint = f"combine {listed(names)} first: all_reduce over the ranks that hold them{over}"
        return self.made("unreduced", head, text, hint, spec)

    def _used(self, place: Place) -> str:
        users = self.land.graph(place).users.get(place[1], ())
        return f"{users[0]} uses" if users else "the output takes"

    def _bypass(self) -> Account:
        node = self.node(self.place)
        spec = self.counterpart()
        name, also = self.impl(self.place), self._others()
        given = next((a for a in node.args if isinstance(a, (int, float)) and not isinstance(a, bool)), None)
        without = f"without {self.place[1]} the two sides agree"
        op = short(node.target)
        rest = [ref for k, ref in enumerate(references(node)) if k != self.edit.position]
        if given is not None and SCALES.match(node.target):
            verb, ratio = ("divides", "small") if "div" in node.target else ("multiplies", "large")
            again = self._again(node.target, given)
            read = list(references(node))[self.edit.position]
            what = f" {read}" if again.startswith("and") else ""
            head = (
                f"{name}{also} {verb}{what} by {number(given)} {again}: it comes out {number(given)} times too {ratio}"
            )
            return self.made("factor", head, without, f"leave out {self.place[1]}{also}", spec)
        if op in ("add", "sub") and (rest or given is not None):
            what = rest[0] if rest else number(given or 0)
            adders = [p[1] for p in self.land.replay.order if p in self.land.cone and self._adds(p, what, given)]
            head = f"{name} {'adds' if op == 'add' else 'subtracts'} {what} once too often"
            if len(adders) > 1 and op == "add":
                head = f"{what} is added {len(adders)} times, by {listed(adders)}: {name} must not"
            hint = f"add {what} once: on one rank, or after the sum over ranks"
            return self.made("extra", head, without, hint, spec)
        head = f"{name}{also} applies {op}, and the specification does not"
        return self.made("extra", head, without, f"leave out {self.place[1]}{also}", spec)

    def _adds(self, place: Place, what: str, given: float | None) -> bool:
        node = self.node(place)
        if short(node.target) not in ("add", "addmm"):
            return False
        numbers = [a for a in node.args if isinstance(a, (int, float)) and not isinstance(a, bool)]
        return what in references(node) or (given is not None and given in numbers)

    def _again(self, target: str, given: float) -> str:
        """Where else the implementation does the same: after it, or before."""
        below = self.land.replay.below([self.place]) - {self.place}
        above = self.land.replay.above([self.place]) - {self.place}
        for word, places in (("and then again in", below), ("again, after", above)):
            for place in sorted(places):
                node = self.node(place)
                if node.target == target and given in [a for a in node.args if isinstance(a, (int, float))]:
                    return f"{word} {place[1]}"
        return "once too often"

    def _others(self) -> str:
        names = list(dict.fromkeys(name for _, name in self.edit.places))[1:]
        return f" (and {listed(names)})" if names else ""

    def _literal(self) -> Account:
        node = self.node(self.place)
        old, new = given(node, self.edit.slot), self.edit.number
        verb = _VERBS.get(short(node.target), f"has in {short(node.target)}")
        if isinstance(self.edit.slot, str):
            verb = f"has {self.edit.slot} ="
        head = f"{self.impl(self.place)}{self._others()} {verb} {shown(old)} where {number(new)} is needed"
        rest = ""
        if old and new and SCALES.match(node.target):
            ratio = Fraction(str(new)) / Fraction(str(old))
            if "div" in node.target:
                ratio = 1 / ratio
            head += f": the result is {times(1 / ratio)}"
            rest = self._ranks(ratio)
        operator = self.land.literals(node.target, self.edit.slot)
        if new in operator:
            rest += (
                f"; the specification has {number(new)} there" if rest else f"the specification has {number(new)} there"
            )
        return self.made(
            "factor" if SCALES.match(node.target) else "attribute",
            head,
            rest,
            f"{number(new)} instead of {shown(old)} in {self.place[1]}{self._others()}",
            self.counterpart(),
        )

    def _scale(self) -> Account:
        ratio = Fraction(self.edit.number).limit_denominator(4096)
        head = f"{self.impl(self.place)} is {times(1 / ratio)}"
        text = self._ranks(ratio)
        return self.made("factor", head + (f": {text}" if text else ""), text, "", self.counterpart())


_REDUCTIONS = {
    "reduce": ("sum", "sum", "one summand"),
    "average": ("mean", "avg", "the mean over its own share"),
    "maximum": ("maximum", "max", "the maximum over its own share"),
}
_VERBS = {
    "div": "divides by", "mul": "multiplies by", "add": "adds", "sub": "subtracts", "lt": "keeps what is below",
    "le": "keeps what is at most", "gt": "keeps what is above", "ge": "keeps what is at least",
    "pow": "has the exponent",
}  # fmt: skip
