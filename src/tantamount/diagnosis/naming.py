"""Names of tensors and numbers in explanations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tantamount.correspond.values import Box, cut
from tantamount.diagnosis.arguments import Slot, argument_at
from tantamount.diagnosis.edits import Edit, EditKind
from tantamount.diagnosis.hints import Hint
from tantamount.diagnosis.instead import instead
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import Part, ValueMatches
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.proof.outputs import ancestors

__all__ = [
    "LINES",
    "Account", "Names", "listed", "named", "number", "runs", "short", "shown", "some", "times",
]  # fmt: skip

_WHOSE = "the specification's "
_MOVED = 4  # operators between a constant and what reads it as a number
_DENOMINATOR = 4096  # of what is said as a fraction; beyond it a number is an epsilon or a constant with a point
_TINY = 4  # elements of a tensor that are printed
_RESHAPES = ("view", "_unsafe_view", "reshape")
_SHOWN = 8  # rows that are listed
LINES = 4  # of a difference: one for each place, of the first few


@dataclass(frozen=True)
class Account:
    """``specification`` (a node, or empty) and ``place`` are what is compared; ``kind`` as in a mismatch."""

    kind: str
    headline: str
    difference: str
    hint: Hint
    place: Place
    specification: str
    part: Part | None = None
    alone: bool = False  # the other ranks do well
    sure: bool = True  # it says why, not only where


class Names:
    """Names of nodes, parts and numbers for one edit: ``place`` is the node that is spoken of. ``job`` is what they are
    said of: what was executed may be the same at smaller shapes. ``real`` has the numbers that are written in programs
    and the sizes of meshes, which the job may have at a smaller form of it only."""

    def __init__(self, matches: ValueMatches, edit: Edit, job: Job | None = None) -> None:
        self.matches = matches
        self.edit = edit
        self.job = matches.job if job is None else job
        self.real = self.job if self.job.larger is None else self.job.larger
        self.place = edit.places[0]
        self.several = len({rank for rank, _ in edit.places}) if matches.job.mesh.world_size > 1 else 1

    def node(self, place: Place) -> Node:
        return self.matches.node(place)

    def impl(self, place: Place, where: bool = True) -> str:
        """``mm_1 (train.py:12)``, and the ranks if the others do well."""
        node = named(self.matches.graph(place), self.node(place).name)
        here = f" ({node.source})" if where and node.source is not None and node.source.file else ""
        ranks = sorted({rank for rank, _ in self.edit.places})
        on = f" on rank{'' if len(ranks) == 1 else 's'} {some(ranks)}" if self._one_rank() and place[0] in ranks else ""
        return f"{place[1]}{here}{on}"

    def _one_rank(self) -> bool:
        mesh = self.matches.job.mesh
        return mesh.world_size > 1 and self.several < mesh.world_size

    def spec(self, name: str) -> str:
        """A specification's node with its place."""
        node = named(self.matches.job.specification, name)
        return f"{name} ({node.source})" if node.source is not None and node.source.file else name

    def part(self, part: Part) -> str:
        """``cos[4:8, 0:6]`` without what is whole."""
        name, box = part
        whole = self.matches.replay.wanted(name)
        name = self.theirs(name)
        if box is None or whole is None:
            return name
        shape = whole.shape if len(whole.shape) == len(box) else tuple(n for n in whole.shape if n != 1)
        sizes = zip(box, shape, self._sizes_in_job(part[0], shape), strict=True)
        texts = [_positions(span, n, m) for span, n, m in sizes]
        while texts and texts[-1] == ":":
            texts.pop()
        return f"{name}[{', '.join(texts)}]" if texts else name

    def _sizes_in_job(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of a tensor in the job itself, where it has as many dimensions."""
        type_ = self.job.specification.by_name[name].type
        real = () if type_ is None else tuple(n for n in type_.shape if n != 1 or len(shape) == len(type_.shape))
        return real if len(real) == len(shape) else shape

    def number_in_job(self, slot: Slot, number: float) -> float | None:
        """A number that is needed at the place, as it is in the job itself; ``None`` where that is not known."""
        small, node = self.matches.job, self.node(self.place)
        if small is self.real:
            return number
        names = self.matches.with_number(node.target, slot, number)
        graph = self.real.specification
        theirs = [graph.by_name[name] for name in names if name in graph.by_name]
        found = {plain_number(graph, argument_at(one, slot)) for one in theirs}
        if names:
            return found.pop() if len(found) == 1 else None
        old, mine = self.matches.number_at(self.place, slot), self.own_number(slot)
        return None if not old or mine is None else mine if number == old else mine * number / old

    def own_number(self, slot: Slot) -> float | None:
        """The number at the place, as it is in the job itself; ``None`` where that is not known."""
        mesh, real = self.matches.job.mesh, self.real.mesh
        if self.matches.job is self.real:
            return self.matches.number_at(self.place, slot)
        rank = self.place[0] if mesh.names != real.names else real.rank(mesh.coordinates(self.place[0]))
        graph = self.real.implementation[rank]  # ranks at the first coordinates stay
        node = graph.by_name.get(self.place[1])
        return None if node is None else plain_number(graph, argument_at(node, slot))

    def theirs(self, name: str) -> str:
        """A tensor of the specification by its name, which says whose it is where the implementation has another of
        that name."""
        same = self.matches.job.inputs.get(name)
        alike = same is not None and same.name == name and not self._unlike(name)
        mine = any(name in graph.by_name for graph in self.matches.job.implementation)
        return f"{_WHOSE}{name}" if mine and not alike else name

    def _unlike(self, name: str) -> bool:
        """True if some rank holds no part of a tensor as its input of that name, but a summand, for one."""
        places = ((rank, name) for rank in range(len(self.matches.job.implementation)))
        return any(self.matches.aligned(place) is None for place in places if place in self.matches.class_of)

    def held(self, place: Place) -> str:
        """The part of a specification tensor that a place has, else its own name."""
        part = self.matches.aligned(place)
        return place[1] if part is None else self.part(part)

    def counterpart(self) -> str:
        """The specification's tensor that the changed value is, or the nearest by operator."""
        changed = self.edit.changes[self.place]
        found = self.matches.is_part(changed) or self.matches.share(self.place, changed)
        if found is not None:
            return found[0]
        nodes = [n for n in self.matches.job.specification.nodes if n.target == self.node(self.place).target]
        open_ = [n.name for n in nodes if n.name not in self.matches.matched]
        return next(iter(open_ or [n.name for n in nodes]), "")

    def made(
        self, kind: str, headline: str, difference: str, hint: Hint, spec: str, part: Part | None = None
    ) -> Account:
        text, more, what = (_once(one) for one in (headline, difference or headline, hint.text))
        return Account(kind, text, more, replace(hint, text=what), self.place, spec, part, self._one_rank())

    def _instead(self) -> Hint:
        """The change of one line that does what the edit does; none where none is found."""
        return instead(self.matches, self.edit, self.job)

    def _operand(self, place: Place, position: int, wanted: Part) -> Account:
        ref = list(references(self.node(place)))[position]
        given = (place[0], ref)
        head = f"{self.impl(place)} reads {self._content(given)} where {self._wanted(wanted, given)} is needed"
        rows: list[str] = []
        for (rank, name), part in self.edit.wanted.items() if self.edit.kind is EditKind.OPERAND else ():
            read = (rank, list(references(self.node((rank, name))))[position])
            rows.append(f"{name} reads {self._content(read)}, {self._wanted(part, read)} is needed")
        return self.made(
            "operand",
            head,
            "\n".join([*dict.fromkeys(rows)][:LINES]),
            self._instead(),
            self._reader(wanted[0], self.node(place).target),
        )

    def _content(self, place: Place) -> str:
        node = self.node(place)
        value = self.matches.value(place)
        if node.op == "constant" and value.size <= _TINY:
            return f"{value.tolist()} ({place[1]})"
        held = self.held(place)
        if self.matches.aligned(place) is None and node.op == "call":
            return f"{place[1]} ({self._chain(place)})"
        return held if held == place[1] else f"{place[1]} (which is {held})"

    def _chain(self, place: Place) -> str:
        """``select of view_as_real of polar``: how something is made of what has a counterpart."""
        texts: list[str] = []
        for _ in range(4):
            node = self.node(place)
            refs = list(references(node))
            if self.matches.aligned(place) is not None or not refs:
                texts.append(self.held(place))
                break
            numbers = [shown(a) for a in node.args if isinstance(a, (int, float)) and not isinstance(a, bool)]
            texts.append(f"{short(node.target)}{f'({chr(44).join(numbers)})' if numbers else ''}{self._sizes(node)}")
            place = (place[0], refs[0])
        return " of ".join(texts)

    def _sizes(self, node: Node) -> str:
        """The sizes that elements are rearranged to, of a node of the job itself: `` as 2 x 4 x 8``."""
        given = next((a for a in node.args if isinstance(a, tuple) and len(a) > 1), ())
        same = self.matches.job is self.job and all(isinstance(x, int) for x in given)
        return f" as {' x '.join(map(str, given))}" if given and same and short(node.target) in _RESHAPES else ""

    def _wanted(self, part: Part, given: Place) -> str:
        whole = self.matches.part(part, self.matches.value(given).shape)
        node = self.matches.job.specification.by_name[part[0]]
        if node.op == "constant" and whole is not None and whole.size <= _TINY:
            return f"{whole.tolist()} ({self.theirs(part[0])})"
        return self.part(part)

    def _reader(self, name: str, target: str) -> str:
        """The specification's node of an operator that reads a tensor."""
        graph = self.matches.job.specification
        users = graph.users.get(name, ())
        return next((user for user in users if graph.by_name[user].target == target), name)

    def axes(self, places: Sequence[Place]) -> list[str]:
        """The axes of the mesh along which the ranks of some places differ."""
        mesh = self.matches.job.mesh
        at = [mesh.coordinates(rank) for rank, _ in places]
        return [axis for axis, own in zip(mesh.names, zip(*at, strict=True), strict=True) if len(set(own)) > 1]

    def _ranks(self, ratio: Fraction, *, written: bool = True) -> str:
        """The mesh axis whose size a factor is: one that is ``written`` in a program, or one that values have, which
        may have been looked at on fewer ranks."""
        real, mesh = self.real.mesh.axes, self.matches.job.mesh
        for axis, size in real.items() if written else mesh.axes.items():
            if size > 1 and ratio in (size, Fraction(1, size)):
                what = f"a sum over {axis} where the mean is needed, or the other way round"
                many = "" if size == real.get(axis, size) else f" where it was looked at, and {real[axis]} in full"
                return f"{number(size)} is the size of {axis}{many}: {what}"
        return ""

    def _made_of(self, name: str, of: Part | None = None) -> str:
        """``silu of mm[:, 8:16]``: a tensor of the specification by what it is made of; the part of it that an operator
        element by element needs for its own part ``of``."""
        graph = self.matches.job.specification
        node = graph.by_name[name]
        refs = list(references(node))
        if node.op != "call" or not refs:
            return self.theirs(name)
        if node.target != "getitem":
            texts = [self._cut(ref, self._box(ref, of)) for ref in refs]
            what = f"{short(node.target)}{self._sizes(node)}"
            return f"{what} of {' and '.join(texts[:2])}" if len(refs) < 3 else self.theirs(name)
        return self._cut(name, self._box(name, of))

    def _box(self, name: str, of: Part | None) -> Box | None:
        whole, value = (
            (None, None) if of is None else (self.matches.replay.wanted(of[0]), self.matches.replay.wanted(name))
        )
        if of is None or whole is None or value is None or whole.shape != value.shape:
            return None
        return of[1] if of[1] is not None and len(of[1]) == value.ndim else None

    def _known(self, place: Place) -> bool:
        """True if a value has a counterpart, or is made, in a few steps, of one that has. What is wrong with others is
        wrong above."""
        for _ in range(4):
            refs = list(references(self.node(place)))
            if self.matches.aligned(place) is not None or not refs:
                return self.matches.aligned(place) is not None
            place = (place[0], refs[0])
        return False

    def _cut(self, name: str, box: Box | None = None) -> str:
        """A tensor, or a part of it, as the part of another one if it is cut out of it."""
        graph = self.matches.job.specification
        value = self.matches.replay.wanted(name)
        own = self.part((name, box))
        if value is None or not self.matches.cuts_whole(name):
            return own
        known = {n for n in ancestors(graph, name) if n != name}
        held = value if box is None else cut(value, box)
        parts = [p for p, f in self.matches.multiples(held) if p[0] in known and p[1] is not None and abs(f - 1) < 1e-6]
        return self.part(parts[-1]) if parts else own


def _positions(span: tuple[int, int], size: int, real: int) -> str:
    """The positions of a span, as large a part of the ``real`` size as it is of ``size``: ``8:16``, or ``...`` where
    that is no number of positions."""
    if span == (0, size):
        return ":"
    return "..." if any(x * real % size for x in span) else ":".join(str(x * real // size) for x in span)


def _once(text: str) -> str:
    """A text that says of a name once whose it is."""
    return text.replace(f"{_WHOSE}{_WHOSE}", _WHOSE)


def short(target: str) -> str:
    """``aten.mul.Tensor`` -> ``mul``; ``hlo.multiply`` -> ``multiply``."""
    parts = target.split(".")
    return parts[1] if len(parts) > 1 else target


def plain_number(graph: Graph, argument: Argument) -> float | None:
    """The number that an argument is, or that all elements of a recorded constant are."""
    for _ in range(_MOVED):
        if not isinstance(argument, Ref):
            if isinstance(argument, bool) or not isinstance(argument, (int, float)):
                return None
            return argument
        node = graph.by_name[argument.name]
        if node.op == "constant" and node.target in graph.constants:
            data = set(graph.constants[node.target].data)
            first = next(iter(data), None)
            return first if len(data) == 1 and isinstance(first, (int, float)) else None
        refs = list(references(node))
        if node.op != "call" or len(refs) != 1:
            return None
        argument = Ref(refs[0])
    return None


def named(graph: Graph, name: str) -> Node:
    """The node; for one of several results, the node that has them."""
    node = graph.by_name[name]
    while node.target == "getitem":
        node = graph.by_name[next(iter(references(node)))]
    return node


def number(x: float | Fraction) -> str:
    """A number as it is written, without a point if it can be."""
    if isinstance(x, Fraction):
        if x.denominator > _DENOMINATOR:
            return f"{float(x):.6g}"
        return str(x.numerator) if x.denominator == 1 else f"{x.numerator}/{x.denominator}"
    return str(int(x)) if float(x).is_integer() else f"{x:.6g}"


def shown(x: object) -> str:
    """An argument."""
    return number(x) if isinstance(x, (int, float)) else str(x)


def times(ratio: Fraction) -> str:
    """``2 times too large``."""
    if ratio < 0:
        return f"{times(-ratio)}, with the wrong sign" if ratio != -1 else "of the wrong sign"
    return f"{number(ratio)} times too large" if ratio >= 1 else f"{number(1 / ratio)} times too small"


def listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    if len(names) > LINES + 1:
        return f"{', '.join(names[:LINES])} and {len(names) - LINES} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"


def some(rows: Sequence[int]) -> str:
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


def runs(ops: Sequence[str]) -> list[str]:
    """Consecutive repetitions once."""
    out: list[str] = []
    for op in ops:
        if not out or out[-1] != op:
            out.append(op)
    return out
