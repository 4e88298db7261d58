"""The difference of two normal forms in words."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from math import prod

from tantamount.calculus.affine import Coordinate, variable
from tantamount.calculus.atoms import Atom, Store
from tantamount.calculus.moduli import without_remainders
from tantamount.calculus.polynomials import pinned
from tantamount.calculus.printing import axis_names, show_coordinate, show_number, show_polynomial
from tantamount.calculus.products import substitute_factors
from tantamount.calculus.terms import IOTA, Factor, Polynomial, Rational, Term, single

__all__ = ["Finding", "describe"]

_READABLE = 60  # characters of a formula in a sentence
_NAMED = 3  # inputs that are named where it is longer


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference of two normal forms. ``kind`` is ``factor``, ``range``, ``offset``, ``operand``, ``missing``,
    ``extra``, ``constant``, ``exponent``, ``wrapped`` or ``different``; ``term`` is the specification's term (or atom)
    in which the difference lies."""

    kind: str
    text: str
    specification: str
    implementation: str
    atom: int | None = None
    term: Term | None = None


def describe(store: Store, x: Polynomial, y: Polynomial, axes: int) -> Finding:
    """The most telling difference of the implementation's polynomial ``y`` from the specification's ``x``."""
    one, other = without_remainders(store, x), without_remainders(store, y)
    if one == other and (one != x or other != y):
        side = "the implementation" if one == x else "the specification" if other == y else "each side"
        text = f"{side} wraps around, at the end of an integer type of 8 or 16 bits, where the other does not"
        walk = _Walk(store, axis_names(axes))
        return walk.found("wrapped", text, x, y, None, x[0] if x else None)
    return _Walk(store, axis_names(axes)).polynomials(x, y, None, 0)


class _Walk:
    def __init__(self, store: Store, names: dict[int, str]) -> None:
        self.store = store
        self.names = names

    def show(self, x: Polynomial) -> str:
        return show_polynomial(self.store, x, self.names)

    def said(self, x: Polynomial, what: str) -> str:
        """A polynomial in a sentence, as the ``term`` or ``factor`` that it is: what would be too long to read there is
        left to the equations, but for what it is made of."""
        text = self.show(x)
        return f"the {what} {text}" if len(text) <= _READABLE else f"a {what} in {self._made_of(x)}"

    def _made_of(self, x: Polynomial) -> str:
        """The names of the first inputs in a polynomial."""
        found: dict[str, None] = {}
        seen: set[int] = set()
        pending = [f.atom for m, _ in x for f in m][::-1]
        while pending and len(found) <= _NAMED:
            number = pending.pop()
            if number in seen:
                continue
            seen.add(number)
            atom = self.store.atoms[number]
            if atom.op == "leaf" and atom.number != IOTA and "input" in str(atom.attributes[0]):
                found[show_polynomial(self.store, single(atom.number, ()), self.names)] = None
            pending += [f.atom for argument in atom.arguments for m, _ in argument for f in m][::-1]
        names = list(found)[:_NAMED]
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "numbers"

    def found(
        self, kind: str, text: str, x: Polynomial, y: Polynomial, inside: int | None, term: Term | None = None
    ) -> Finding:
        return Finding(kind, text, self.show(x), self.show(y), inside, term)

    def polynomials(self, x: Polynomial, y: Polynomial, inside: int | None, depth: int) -> Finding:
        """``inside`` is the specification's atom whose argument is compared."""
        common = set(x) & set(y)
        left = tuple(t for t in x if t not in common)
        right = tuple(t for t in y if t not in common)
        # which terms there are matters first, where they are read second: a layout may be right and different
        by_kind: dict[object, list[Term]] = {}
        for term in right:
            by_kind.setdefault(_kind(term), []).append(term)
        paired = [(s, by_kind[_kind(s)].pop(0)) for s in left if by_kind.get(_kind(s))]
        scaled = [(s, t) for s, t in paired if s[1] != t[1]]
        if len(paired) == len(left) == len(right) and left:
            if not scaled:
                return self.terms(*paired[0], inside, depth)
            ratios = {Fraction(t[1]) / Fraction(s[1]) for s, t in paired}
            if len(ratios) == 1:
                s, t = paired[0]
                return self._factor(ratios.pop(), (s[0], s[1], t[1]), left, right, inside)
        if scaled:
            (m, c), (_, d) = scaled[0]
            if not m:
                text = f"the constant is {show_number(d)} where {show_number(c)} is wanted"
                return self.found("constant", text, x, y, inside, Term(m, c))
            return self._factor(Fraction(d) / Fraction(c), (m, c, d), (Term(m, c),), (Term(m, d),), inside)
        same = {id(s) for s, _ in paired}
        others = {id(t) for _, t in paired}
        left = tuple(t for t in left if id(t) not in same) or left
        right = tuple(t for t in right if id(t) not in others) or right
        if not left and right:
            return self.found(
                "extra",
                f"the implementation adds {self.said(right, 'term')}, which the specification does not have",
                x,
                y,
                inside,
            )
        if left and not right:
            return self.found("missing", f"the implementation lacks {self.said(left, 'term')}", x, y, inside, left[0])
        pair = self._pair(left, right)
        if pair is None:
            return self.found("different", "the two sides share no term", x, y, inside, left[0] if left else None)
        return self.terms(pair[0], pair[1], inside, depth)

    def _factor(
        self,
        ratio: Fraction,
        scaled: tuple[object, Rational, Rational],
        x: Polynomial,
        y: Polynomial,
        inside: int | None,
    ) -> Finding:
        m, c = x[0]
        mean = self._mean(m, c, scaled[2])
        short = all(self.store.atoms[f[0]].op == "leaf" for f in m) and len(m) <= 3
        if not m:
            text = f"the constant is {show_number(scaled[2])} where {show_number(c)} is wanted"
        elif ratio == -1:
            text = "the sign is wrong"
        else:
            what = f"the term {self.show((Term(m, 1),))}" if short and len(x) == 1 else "the implementation's value"
            how = (
                f"{show_number(ratio)} times too large"
                if abs(ratio) >= 1
                else f"{show_number(1 / ratio)} times too small"
            )
            text = f"{what} is {how}"
        return self.found("factor" if m else "constant", mean or text, x, y, inside, x[0])

    def _mean(self, m: tuple[Factor, ...], c: Rational, d: Rational) -> str:
        """``sum / n`` over n elements is a mean; k/n of it is a sum of k means."""
        if len(m) != 1 or self.store.atoms[m[0].atom].op != "sum" or m[0].exponent != 1:
            return ""
        count = prod(self.store.atoms[m[0].atom].ranges)
        parts = Fraction(d) * count
        if Fraction(c) * count != 1 or parts.denominator != 1 or parts <= 1 or count % parts.numerator:
            return ""
        k = parts.numerator
        return (
            f"the implementation's value is the sum of {k} means (over {count // k} elements each) where the mean over "
            f"all {count} is wanted: {k} times too large"
        )

    def _pair(self, left: Polynomial, right: Polynomial) -> tuple[Term, Term] | None:
        """The two terms that have most in common."""
        best: tuple[int, Term, Term] | None = None
        for s in left:
            for t in right:
                score = 4 * len(set(s[0]) & set(t[0])) + 2 * len({f[0] for f in s[0]} & {f[0] for f in t[0]})
                score += len({self._op(f) for f in s[0]} & {self._op(f) for f in t[0]}) + (s[1] == t[1])
                if best is None or score > best[0]:
                    best = (score, s, t)
        return None if best is None else (best[1], best[2])

    def _op(self, factor: Factor) -> str:
        return self.store.atoms[factor[0]].op

    def terms(self, s: Term, t: Term, inside: int | None, depth: int) -> Finding:
        x: Polynomial = (s,)
        y: Polynomial = (t,)
        common = set(s[0]) & set(t[0])
        left = [f for f in s[0] if f not in common]
        right = [f for f in t[0] if f not in common]
        for f in left:
            for g in right:
                if f[0] == g[0] and f[1] != g[1]:
                    is_where = f"{show_number(g[1])} where {show_number(f[1])} is wanted"
                    text = f"the exponent of {self.said((Term((f,), 1),), 'factor')} is {is_where}"
                    if self._op(f) == "exp":
                        ratio = Fraction(g[1]) / Fraction(f[1])
                        how = (
                            f"{show_number(ratio)} times too large"
                            if abs(ratio) >= 1
                            else f"{show_number(1 / ratio)} times too small"
                        )
                        text = f"the argument of exp is {how}: coefficient {is_where}"
                    return self.found("exponent", text, x, y, inside, s)
        for f in left:
            for g in right:
                if f[0] == g[0]:
                    return self._offset(f, g, x, y, inside, s)
        for f in left:
            for g in right:
                alike = self._op(f) == self._op(g) and f[1] == g[1]
                if alike and not self.store.effort.exceeds("mismatch_depth", depth + 1):
                    deeper = self.atoms(f, g, depth + 1)
                    if deeper is not None:
                        return deeper
        leaves = [(f, g) for f in left for g in right if self._op(f) == self._op(g) == "leaf"]
        if leaves:
            return self._operand(*leaves[0], x, y, inside, s)
        if left and not right:
            text = f"{self.said((Term(tuple(left), 1),), 'factor')} is missing"
            return self.found("missing", text, x, y, inside, s)
        if right and not left:
            extra: Polynomial = (Term(tuple(right), 1),)
            formula = self.show(extra)
            what = formula if len(formula) <= 2 * _READABLE else f"in {self._made_of(extra)}"
            return self.found("extra", f"there is an extra factor {what}", x, y, inside, s)
        wanted, given = (self.show((Term(tuple(side), 1),)) for side in (left, right))
        text = f"{wanted} is wanted, the implementation has {given}"
        if max(len(wanted), len(given)) > _READABLE:
            text = f"the implementation has another expression in {self._made_of((Term(tuple(right), 1),))}"
        return self.found("different", text, x, y, inside, s)

    def _offset(self, f: Factor, g: Factor, x: Polynomial, y: Polynomial, inside: int | None, term: Term) -> Finding:
        for k, (a, b) in enumerate(zip(f[2], g[2], strict=True)):
            if a != b:
                what = self._name(f)
                if a[0] == b[0]:
                    off = f"positions of {what} along dimension {k} are off by {b[1] - a[1]}"
                    text = f"{off}: {self._at(b)} where {self._at(a)} is wanted"
                elif max(len(self._at(one)) for one in (a, b)) > _READABLE:
                    text = f"{what} is read at other positions along dimension {k}"
                else:
                    text = f"{what} is read at {self._at(b)} along dimension {k} where {self._at(a)} is wanted"
                return self.found("offset", text, x, y, inside, term)
        return self.found("offset", "positions differ", x, y, inside, term)

    def _at(self, c: Coordinate) -> str:
        return show_coordinate(c, self.names)

    def _name(self, f: Factor) -> str:
        atom = self.store.atoms[f[0]]
        if f[0] == IOTA:
            return "a position"
        if atom.op == "leaf" and atom.attributes[0] == "table":
            return _recorded(*atom.attributes[1])
        if atom.op == "leaf":
            return show_polynomial(self.store, single(f.atom, ()), self.names)
        return f"the {atom.op}" if atom.op != "polynomial" else "a sum"

    def _operand(self, f: Factor, g: Factor, x: Polynomial, y: Polynomial, inside: int | None, term: Term) -> Finding:
        wanted, given = self._name(f), self._name(g)
        if wanted == given:  # of two tensors of one name, nobody would know which is which
            wanted, given = f"the specification's {wanted}", f"the implementation's {given}"
        text = f"{given} stands where {wanted} is wanted"
        return self.found("operand", text, x, y, inside, term)

    def atoms(self, f: Factor, g: Factor, depth: int) -> Finding | None:
        """The difference inside two atoms of one operator."""
        a, b = self.store.atoms[f[0]], self.store.atoms[g[0]]
        if a.op == "leaf":
            return None
        if a.op == "sum":
            return self._sums(a, b, f, g, depth)
        if a.op == b.op and len(a.arguments) == len(b.arguments):
            if a.attributes != b.attributes:
                return self._attributes(f, g)
            for p, q in zip(a.arguments, b.arguments, strict=True):
                left = pinned(self.store, p, dict(enumerate(f[2])))
                right = pinned(self.store, q, dict(enumerate(g[2])))
                if left != right:
                    return self.polynomials(left, right, a.number, depth)
        return None

    def _attributes(self, f: Factor, g: Factor) -> Finding:
        """The first attribute in which two functions of one name differ."""
        a, b = (self.store.atoms[h[0]] for h in (f, g))
        pairs = zip_longest(a.attributes, b.attributes, fillvalue="nothing")
        wanted, given = next((p, q) for p, q in pairs if type(p) is not type(q) or p != q)
        text = f"{a.op} has {_brief(given)} where {_brief(wanted)} is wanted"
        return self.found("operand", text, (Term((f,), 1),), (Term((g,), 1),), a.number, Term((f,), 1))

    def _sums(self, a: Atom, b: Atom, f: Factor, g: Factor, depth: int) -> Finding | None:
        x: Polynomial = (Term((f,), 1),)
        y: Polynomial = (Term((g,), 1),)
        if a.signature == b.signature:
            if a.ranges != b.ranges:
                what = "maximum" if self._of_elements(a) else "sum"
                runs = f"the {what} runs over {_ranges(b.ranges)} where {_ranges(a.ranges)} is wanted"
                text = f"{runs}: part of the range is never added"
                if prod(b.ranges) > prod(a.ranges):
                    what = "maximum" if self._of_elements(a) else "sum"
                text = f"the {what} runs over {_ranges(b.ranges)} where {_ranges(a.ranges)} is wanted"
                return self.found("range", text, x, y, a.number, Term((f,), 1))
            return self.found(
                "offset",
                "the same sum over other positions (another shard, order or layout)",
                x,
                y,
                a.number,
                Term((f,), 1),
            )
        left, right = self._opened(a, f), self._opened(b, g)
        return self.terms(Term(left, 1), Term(right, 1), a.number, depth)

    def _of_elements(self, atom: Atom) -> bool:
        """True if a formal sum is the set that a maximum is taken of."""
        return any(self.store.atoms[a].op == "element" for a, _, _ in atom.summand)

    def _opened(self, atom: Atom, f: Factor) -> tuple[Factor, ...]:
        replace: dict[int, Coordinate] = dict(enumerate(f[2]))
        for j in range(len(atom.ranges)):
            named = (1 << 28) + j
            self.names.setdefault(named, "abcdefgh"[j % 8])
            replace[-1 - j] = variable(named)
        return substitute_factors(atom.summand, replace)


def _recorded(shape: tuple[int, ...], numbers: tuple[Fraction | int | float, ...]) -> str:
    """A recorded tensor by its shape and its first numbers: it has no name of its own."""
    first = ", ".join(f"{float(x):.4g}" for x in numbers[:_NAMED])
    return f"a recorded tensor {list(shape)} ({first}{', ...' if len(numbers) > _NAMED else ''})"


def _brief(attribute: object) -> str:
    """An attribute in a sentence."""
    text = str(attribute)
    return text if len(text) <= _READABLE else f"{text[: _READABLE - 3]}..."


def _kind(term: Term) -> object:
    """A term without its coefficient and without where it is read."""
    return tuple((a, e) for a, e, _ in term[0])


def _ranges(ranges: tuple[int, ...]) -> str:
    return " x ".join(map(str, ranges)) + (" element" if ranges == (1,) else " elements")
