"""Tensors of the implementation found again, by their values, as parts and multiples of the specification's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np

from tantamount.correspond.values import Box, Parts, cut, parted_as, totals, windows
from tantamount.diagnosis.arguments import Slot, number_of
from tantamount.diagnosis.calls import Calls
from tantamount.diagnosis.classes import Class, Origin, classes_of, origins, target_of
from tantamount.diagnosis.replay import Place, Replay
from tantamount.ir.graph import Graph, Node
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Partial
from tantamount.ops.facts import Facts
from tantamount.proof.outputs import ancestors
from tantamount.semantics.reference import Array

__all__ = ["Part", "ValueMatches"]

Part = tuple[str, "Box | None"]  # a tensor of the specification, and which block of it (``None``: the whole)

_FEW = 8  # elements: of fewer the same ones are found by chance, of numbers that are drawn from a few
_EXACT = 1e-9  # relative to a number: what is so near a fraction of small numbers is one, hardly by chance


_NO_PARTS = Parts[Part]()


class ValueMatches:
    """Everything above one output: ``cone`` in the implementation, ``wholes`` in the specification, by classes
    (``everything``: the classes of all of the implementation; ``used``: what any output depends on; ``time``: when each
    place is computed)."""

    def __init__(self, replay: Replay, output: str) -> None:
        self.replay = replay
        self.output = output
        self.job = replay.job
        self.calls = Calls(replay)
        self.effort = replay.allowed
        graph = self.job.specification
        self.end = end = next(o.node for o in graph.outputs if o.name == output)
        self.ends = frozenset(replay.output_places(output))
        above = ancestors(graph, end)
        self.cone = replay.above(replay.output_places(output))
        self.used = replay.above(place for name in self.job.outputs for place in replay.output_places(name))
        shapes = {
            (rank, node.name): value.shape
            for rank, one in enumerate(self.job.implementation)
            for node in one.nodes
            if not self.calls.is_source((rank, node.name)) and (value := replay.held((rank, node.name))) is not None
        }
        times = replay.messages.times(self.job) if replay.messages.sent else None
        self.time = times or replay.position
        self.everything = classes_of(self.job.implementation, shapes, self.cuts, times)
        self.classes = [c for c in self.everything if any(place in self.cone for place in c.places)]
        whole = {
            (0, node.name): value.shape
            for node in graph.nodes
            if node.name in above and (value := replay.wanted(node.name)) is not None
        }
        self._aligned: dict[Place, Part | None] = {}
        self._summands: dict[Class, str | None] = {}
        self._sorted: dict[int, Parts[str]] = {}
        self._lines: dict[str, list[set[str]]] = {}
        self._parts: dict[tuple[tuple[int, ...], str], Parts[Part]] = {}
        self._multiples: dict[tuple[tuple[int, ...], str], dict[int, Sequence[tuple[Part, float]]]] = {}
        self.wholes = classes_of([graph], whole, lambda place: self.cuts_whole(place[1]))
        self.origin = origins(self.job, replay)
        self.whole_origin = self.calls.whole_origins
        used = frozenset[str]().union(*(self.origin[place] for place in replay.output_places(output)))
        self.unused = self.whole_origin[end] - used  # inputs that matter to the specification alone

    def node(self, place: Place) -> Node:
        """The implementation's node."""
        return self.job.implementation[place[0]].by_name[place[1]]

    def graph(self, place: Place) -> Graph:
        """The graph of its rank."""
        return self.job.implementation[place[0]]

    def value(self, place: Place) -> Array:
        """The value that a rank holds; an empty array for several results."""
        value = self.replay.held(place)
        return np.zeros(0) if value is None else value

    def target(self, place: Place) -> str:
        """The operator."""
        return target_of(self.graph(place), self.node(place))

    def _known(self, value: Array) -> Parts[Part]:
        """The parts of specification tensors that have the shape and kind of a tensor of the implementation."""
        alike = value.shape, value.dtype.kind
        if alike in self._held and alike not in self._parts:
            self._parts[alike] = self._parts_of(*alike)
        return self._parts.get(alike, _NO_PARTS)

    def _parts_of(self, shape: tuple[int, ...], kind: str) -> Parts[Part]:
        here: list[tuple[Part, Array]] = []
        size = prod(shape)
        seen: dict[tuple[int, ...], tuple[int, ...] | None] = {}  # by the shape of a whole: as which it has parts
        for name in (name for c in self.wholes for _, name in c.places):
            whole = self.replay.wanted(name)
            if whole is None or whole.dtype.kind != kind or whole.size % size:
                continue
            if whole.shape not in seen:
                seen[whole.shape] = parted_as(self.effort, whole, (shape, *self.seen_as.get(shape, ())))
            if (one := seen[whole.shape]) is not None:
                here += [((name, box), part.reshape(shape)) for box, part in windows(self.effort, whole, one)]
        found = Parts[Part]()
        found.add_all(here)
        return found

    @cached_property
    def _held(self) -> Mapping[tuple[tuple[int, ...], str], Mapping[int, Array]]:
        """All values of the implementation above the output, by shape and kind, and by identity."""
        found: dict[tuple[tuple[int, ...], str], dict[int, Array]] = {}
        for place in (place for c in self.classes for place in c.places):
            value = self.value(place)
            if value.size:
                found.setdefault((value.shape, value.dtype.kind), {})[id(value)] = value
        return found

    @cached_property
    def order(self) -> Mapping[str, int]:
        """The position of every node of the specification."""
        return {node.name: k for k, node in enumerate(self.job.specification.nodes)}

    @cached_property
    def seen_as(self) -> Mapping[tuple[int, ...], Sequence[tuple[int, ...]]]:
        """Under the shapes of values the others under which the same elements are seen, in the same order, those of
        most dimensions first: a shard that is laid out in a row, in a buffer of several, is a shard of a matrix."""
        linked: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
        for place in (c.first for c in self.classes if self.node(c.first).op == "call"):
            moved = self.facts(place).layout and self.facts(place).moves <= {"reshape", "squeeze"}
            for operand in self.replay.operands[place] if moved else ():
                one, other = self.value(operand).shape, self.value(place).shape
                if one != other and prod(one) == prod(other):
                    both = linked.get(one, {one}) | linked.get(other, {other})
                    linked |= dict.fromkeys(both, both)
        return {shape: sorted(others - {shape}, key=lambda one: (-len(one), one)) for shape, others in linked.items()}

    def multiples(self, value: Array) -> Iterator[tuple[Part, float]]:
        """The parts of specification tensors that a tensor is a multiple of, and which multiple it is."""
        alike = value.shape, value.dtype.kind
        held = self._held.get(alike, {})
        if id(value) not in held:
            return self._known(value).multiples(value)
        if alike not in self._multiples:  # together they cost less
            found = self._known(value).multiples_of_all([*held.values()])
            self._multiples[alike] = dict(zip(held, map(tuple, found), strict=True))
        return iter(self._multiples[alike][id(value)])

    def is_part(self, value: Array) -> Part | None:
        """The first part of a specification tensor that has these values, if they are not all 0: zeros say nothing."""
        return _equal(self.multiples(value))

    def parts_of_all(self, values: Sequence[Array]) -> list[Part | None]:
        """:meth:`is_part` of each of several values, at the cost of about one for each shape."""
        found: list[Part | None] = [None] * len(values)
        alike: dict[tuple[tuple[int, ...], str], list[int]] = {}
        for k, value in enumerate(values):
            alike.setdefault((value.shape, value.dtype.kind), []).append(k)
        for numbers in alike.values():
            some = [values[k] for k in numbers]
            for k, multiples in zip(numbers, self._known(some[0]).multiples_of_all(some), strict=True):
                found[k] = _equal(multiples)
        return found

    def aligned(self, place: Place) -> Part | None:
        """The first part of a specification tensor that a rank's value is, or its share of."""
        if place not in self._aligned:
            self._aligned[place] = self.is_part(self.value(place)) or self.share(place)
        return self._aligned[place]

    def parts_at(self, place: Place) -> Iterator[Part]:
        """The parts of specification tensors that a rank's value is, or its share of."""
        factors = (1.0, self.times(place))
        return (part for part, factor in self.multiples(self.value(place)) if round(factor, 6) in factors)

    def times(self, place: Place) -> float:
        """The number of times that a part of a specification tensor is there in what a rank should have: 1, but among
        the shares of a mean, if what the rank has is no part as it is."""
        shared = self._may_be_share(place) and self._has_shares and self.is_part(self.value(place)) is None
        return self.averaged[place] if shared else 1.0

    @cached_property
    def _has_shares(self) -> bool:
        return any(self.share(place) is not None for place in self.averaged if self.value(place).size > 1)

    def part_at(self, place: Place, part: Part, shape: tuple[int, ...] | None = None) -> Array | None:
        """The values that a place has that holds a part, or its share of it."""
        value = self.part(part, self.value(place).shape if shape is None else shape)
        return value if value is None or value.dtype.kind != "f" else np.asarray(value * self.times(place))

    def elsewhere(self, place: Place) -> frozenset[str]:
        """The tensors of the specification of which the same line has parts on all other ranks, if these are several:
        ranks that run one program have parts of one tensor there."""
        if place[1] not in self._lines:
            line = [(rank, place[1]) for rank in range(len(self.job.implementation))]
            there = len(line) > 2 and all(one in self.class_of for one in line)
            alike = there and len({(self.target(one), self.value(one).shape) for one in line}) == 1
            self._lines[place[1]] = [{name for name, _ in self.parts_at(one)} for one in line] if alike else []
        others = [names for rank, names in enumerate(self._lines[place[1]]) if rank != place[0]]
        return frozenset(others[0].intersection(*others[1:])) if others else frozenset()

    def rearranged(self, place: Place) -> str | None:
        """The first tensor of the specification that has the elements of a value, in whatever order: programs that
        nobody wrote for each other keep heads and positions in orders of their own. On several ranks none: there parts
        are in the order of the whole."""
        value = self.value(place)
        if self.job.mesh.world_size > 1 or value.dtype.kind != "f" or value.size < _FEW:
            return None
        if value.size not in self._sorted:
            known = self._sorted[value.size] = Parts[str]()
            for c in self.wholes:
                for _, name in c.places:
                    whole = self.replay.wanted(name)
                    if whole is not None and whole.dtype.kind == "f" and whole.size == value.size:
                        known.add(name, np.sort(whole, axis=None))
        return next(self._sorted[value.size].equal(np.sort(value, axis=None)), None)

    @cached_property
    def reordered(self) -> frozenset[str]:
        """The specification's tensors of which the implementation has the elements, in whatever order."""
        found = (self.rearranged(place) for c in self.classes for place in c.places if self.aligned(place) is None)
        return frozenset(name for name in found if name is not None)

    @cached_property
    def averaged(self) -> Mapping[Place, float]:
        """The numbers of ranks over which what is computed from a value is averaged below, one mean after the other."""
        found: dict[Place, float] = {}
        for place in reversed(self.replay.order if self._means else ()):
            mine = float(len(self.replay.partners.get(place, (place,)))) if place in self._means else 1.0
            times = mine * max((found.get(reader, 1.0) for reader in self.replay.readers.get(place, ())), default=1.0)
            if times != 1.0:
                found[place] = times
        return found

    @cached_property
    def _means(self) -> frozenset[Place]:
        """The collectives that average."""
        found = self._calls_that(lambda facts: bool(facts.collective))
        return frozenset(p for p in found if self.facts(p).collective == "mean" or "avg" in self.node(p).args)

    @cached_property
    def _lost(self) -> Origin:
        """The inputs that everything that is averaged over ranks is computed from: those of the loss."""
        operands = (operand for place in self._means for operand in self.replay.operands[place])
        found = [self.origin[one] for one in operands]
        return found[0].intersection(*found[1:]) if found else frozenset()

    @cached_property
    def _told(self) -> frozenset[Place]:
        """The values that outputs depend on in other ways than through a mean over ranks."""
        found: set[Place] = set()
        pending = [place for name in self.job.outputs for place in self.replay.output_places(name)]
        while pending:
            place = pending.pop()
            if place not in found:
                found.add(place)
                pending.extend(() if place in self._means else self.depends(place))
        return frozenset(found)

    def depends(self, place: Place) -> tuple[Place, ...]:
        """The places that a value is computed from: of what is a view of one operand, that one alone. A copy into a
        tensor reads nothing of what was there before."""
        facts, operands = self.facts(place), self.replay.operands[place]
        if len(operands) < 2 or not facts.view or facts.collective or len(facts.moved) != 1:
            return operands
        return tuple(one for one in operands if one[1] in facts.moved)

    def share(self, place: Place, value: Array | None = None) -> Part | None:
        """The part of a specification tensor that a value is a rank's share of: the mean over ranks that is taken below
        makes it right, for the loss of each is the mean over its own part of the batch. A value that an output depends
        on in another way is none, nor one that is not computed from all that every such mean is: a parameter, before
        the loss."""
        if not self._may_be_share(place):
            return None
        multiples = self.multiples(self.value(place) if value is None else value)
        return next((part for part, factor in multiples if round(factor, 6) == self.averaged[place]), None)

    def _may_be_share(self, place: Place) -> bool:
        return place in self.averaged and place not in self._told and self._lost <= self.origin[place]

    @cached_property
    def matched(self) -> set[str]:
        """The specification's tensors of which the implementation has parts."""
        found: set[str] = set()
        for c in self.classes:
            for place in c.places:
                first = self.aligned(place)
                if first is not None:  # of other tensors only if they are the same as a whole: parts may be by chance
                    found.add(first[0])
                    same = (part for part, factor in self.multiples(self.value(place)) if abs(factor - 1) < 1e-6)
                    found.update(name for name, box in same if box is None)
        return found

    @cached_property
    def matched_parts(self) -> frozenset[Part]:
        """The parts of the specification's tensors that values of the implementation are."""
        return frozenset(part for c in self.classes for place in c.places if (part := self.aligned(place)) is not None)

    def groups(self, c: Class) -> Iterator[tuple[str, Sequence[Sequence[Place]]]]:
        """Members that may belong together, by mesh axes, few first; without a mesh, those with one origin."""
        mesh = self.job.mesh
        if mesh.world_size == 1:
            siblings: dict[Origin, list[Place]] = {}
            for place in c.places:
                siblings.setdefault(self.origin[place], []).append(place)
            yield "", list(siblings.values())
            return
        names = sorted({name for _, name in c.places})
        held = set(c.places)
        for some, instances in self._instances.items():
            rows: list[list[Place]] = []
            for ranks in instances:
                rows += [[(r, n) for r in ranks] for n in names if all((r, n) in held for r in ranks)]
            yield " and ".join(some), rows

    @cached_property
    def _instances(self) -> Mapping[tuple[str, ...], Sequence[tuple[int, ...]]]:
        """The ranks of every group that spans some axes of the mesh, by these axes, few first."""
        mesh = self.job.mesh
        axes = [name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size > 1]
        return {some: _instances(mesh, some) for n in range(1, len(axes) + 1) for some in combinations(axes, n)}

    @cached_property
    def drawn(self) -> set[Place]:
        """The values that are made of random numbers."""
        return self.replay.below(found) if (found := self._calls_that(lambda facts: facts.random)) else set()

    @cached_property
    def reduced_later(self) -> set[Place]:
        """The values that something further down reduces over ranks."""
        reductions = self._calls_that(lambda facts: bool(facts.collective) and facts.sums)
        operands = {operand for place in reductions for operand in self.replay.operands[place]}
        return self.replay.above(operands) if operands else set()

    def _calls_that(self, chosen: Callable[[Facts], bool]) -> list[Place]:
        return [p for p in self.replay.operands if self.node(p).op == "call" and chosen(self.facts(p))]

    @cached_property
    def led(self) -> Mapping[Place, Sequence[Sequence[Place]]]:
        """The groups of members that may be added up, under the first place of each, in the order of mesh axes."""
        found: dict[Place, list[Sequence[Place]]] = {}
        along = {" and ".join(some) for some in self._instances if not self._added or frozenset(some) in self._added}
        for c in dict.fromkeys(self.class_of.values()):
            for axes, groups in self.groups(c):
                for members in groups if axes in along or not axes else ():
                    found.setdefault(members[0], []).append(members)
        return found

    @cached_property
    def _added(self) -> frozenset[frozenset[str]]:
        """The axes along which something is added up, by the program or by whoever takes an output of which ranks hold
        summands, and several of these at once."""
        mesh, found = self.job.mesh, set[frozenset[str]]()
        for place, members in self.replay.partners.items():
            if self.facts(place).collective and self.facts(place).sums:
                digits = zip(
                    mesh.names, zip(*(mesh.coordinates(rank) for rank, _ in members), strict=True), strict=True
                )
                found.add(frozenset(name for name, some in digits if len(set(some)) > 1))
        long = {name for name, size in mesh.axes.items() if size > 1}
        for expected in self.job.outputs.values():
            placed = zip(mesh.names, expected.placements or (), strict=False)
            found.add(frozenset(name for name, one in placed if isinstance(one, Partial)) & long)
        for one in list(found):
            found |= {one | other for other in found}
        return frozenset(found - {frozenset()})

    def summands(self, c: Class) -> str | None:
        """The specification's tensor that the members of a class are summands of, or shares of a mean, on all ranks."""
        if c not in self._summands:
            self._summands[c] = None
            floats = self.value(c.first).dtype.kind == "f"
            along = [groups for _, groups in self.groups(c) if groups] if floats else []
            for name, groups in zip(self._summed_by([groups[0] for groups in along]), along, strict=True):
                if name is not None and None not in self._summed_by(groups[1:]):
                    self._summands[c] = name
                    break
        return self._summands[c]

    def _summed_by(self, groups: Sequence[Sequence[Place]]) -> list[str | None]:
        """The specification's tensors of which the values of each group are summands of one part, or shares of a mean;
        ``None`` of a group that is none."""
        sums = totals([[self.value(place) for place in members] for members in groups])
        some = [(k, total) for k, total in enumerate(sums) if total is not None and total.dtype.kind == "f"]
        means = [total / len(groups[k]) for k, total in some]
        parts = zip(self.parts_of_all([total for _, total in some]), self.parts_of_all(means), strict=True)
        found: list[str | None] = [None] * len(groups)
        for (k, total), (whole, mean) in zip(some, parts, strict=True):
            part = whole or mean or self.share(groups[k][0], total)
            found[k] = None if part is None else part[0]
        return found

    @cached_property
    def summed(self) -> set[str]:
        """The specification's tensors of which the implementation has summands."""
        return {name for c in self.classes if (name := self.summands(c)) is not None}

    @cached_property
    def wrong_ranks(self) -> frozenset[int]:
        """The ranks at which the output is wrong."""
        return self.replay.wrong_ranks(self.output)

    @cached_property
    def class_of(self) -> Mapping[Place, Class]:
        """The class of a node with one result."""
        return {place: c for c in self.classes for place in c.places}

    def unmatched(self, c: Class) -> bool:
        """True where some member above the output is no part of any tensor of the specification."""
        return any(self.aligned(place) is None for place in c.places if place in self.cone)

    def frontier(self, c: Class) -> bool:
        """True where a class is unmatched though what it is computed from is not: parts, summands, or no inputs."""
        if not self.unmatched(c) or self.summands(c) is not None:
            return False
        operands = {operand for place in c.places if place in self.cone for operand in self.replay.operands[place]}
        known = [(operand, self.class_of[operand]) for operand in operands if operand in self.class_of]
        return all(self.aligned(operand) is not None or self.summands(one) is not None for operand, one in known)

    @cached_property
    def ratios(self) -> list[float]:
        """The numbers by which the output is a multiple of what it should be, as far as its parts are where the
        specification's are; of a single number, what it is divided by what it should be."""
        end = next(o.node for o in self.job.specification.outputs if o.name == self.output)
        whole = self.replay.wanted(end)
        found: dict[float, None] = {}
        for place in self.replay.output_places(self.output) if whole is not None and whole.dtype.kind == "f" else ():
            value = self.value(place)
            if whole is None or value.dtype.kind != "f" or not value.size:
                continue
            factors = [factor for part, factor in self.multiples(value) if part[0] == end]
            if value.size == whole.size == 1 and whole.any():
                factors = [float(value.reshape(-1)[0] / whole.reshape(-1)[0])]
            for factor in filter(np.isfinite, factors[:1]):
                ratio = Fraction(factor).limit_denominator(4096)
                if ratio not in (0, 1) and abs(float(ratio) / factor - 1) < _EXACT:
                    found[float(ratio)] = None
        return list(found)

    def literals(self, target: str, slot: Slot) -> list[int | float]:
        """The numbers that the specification has there among the arguments of an operator."""
        nodes = [node for node in self.job.specification.nodes if node.target == target]
        numbers = dict.fromkeys(number_of(node, slot, self.calls.whole_number) for node in nodes)
        return [*self.effort.first("repair_numbers", [x for x in numbers if x is not None])]

    def other_number(self, place: Place) -> bool:
        """True if a node computes with a number that the specification has nowhere in that operator, but others."""
        if self.node(place).op != "call":
            return False
        target, added = self.node(place).target, bool(self.facts(place).combination)
        for slot in self.slots(place):
            known, number = self.literals(target, slot), self.number_at(place, slot)
            if known and number not in known and (added or isinstance(number, float)):  # no size, and no position
                return True
        return False

    def with_number(self, target: str, slot: Slot, number: float) -> list[str]:
        """The specification's calls of an operator that have a number there."""
        nodes = [node for node in self.job.specification.nodes if node.target == target]
        return [node.name for node in nodes if number_of(node, slot, self.calls.whole_number) == number]

    # -- what is known of operators
    def facts(self, place: Place) -> Facts:
        """The facts of the operator that computes a value: see :meth:`Calls.facts`."""
        return self.calls.facts(place)

    def whole_facts(self, name: str) -> Facts:
        """As :meth:`facts`, of a node of the specification."""
        return self.calls.whole_facts(name)

    def says_nothing(self, place: Place) -> bool:
        """True where no input decides a value."""
        return self.calls.says_nothing(place)

    @cached_property
    def summands_as_stated(self) -> frozenset[Place]:
        """The inputs of the implementation that are summands, as the job says: no whole in their stead mends anything,
        but another input may, which is not used."""
        return frozenset(
            (rank, relation.name)
            for relation in self.job.inputs.values()
            if any(isinstance(placed, Partial) for placed in relation.placements or ())
            for rank in range(len(self.job.implementation))
        )

    def chooses(self, place: Place) -> bool:
        """True where positions are chosen: by an input's relation, or by an operator that moves elements only."""
        return self.node(place).op == "input" or self.facts(place).chooses

    def slots(self, place: Place) -> list[Slot]:
        """The arguments of a node that are numbers, or tensors of one number that no input decides."""
        node = self.node(place)
        return [slot for slot in (*range(len(node.args)), *node.kwargs) if self.number_at(place, slot) is not None]

    def number_at(self, place: Place, slot: Slot) -> int | float | None:
        """The number that a node has there."""
        return number_of(self.node(place), slot, lambda name: self.calls.known_number((place[0], name)))

    def part(self, part: Part, shape: tuple[int, ...]) -> Array | None:
        """The values of a part."""
        whole = self.replay.wanted(part[0])
        if whole is None:
            return None
        if part[1] is not None and len(part[1]) == whole.ndim:
            held = cut(whole, part[1])
            return held.reshape(shape) if held.size == prod(shape) else None
        return next((value for box, value in windows(self.effort, whole, shape) if box == part[1]), None)

    def cuts(self, place: Place) -> bool:
        """True where a node does nothing but cut a part out of a tensor, or pick one of several results."""
        return self.node(place).target == "getitem" or self.facts(place).piece

    def cuts_whole(self, name: str) -> bool:
        """As :meth:`cuts`, of a node of the specification."""
        return self.job.specification.by_name[name].target == "getitem" or self.whole_facts(name).piece

    def counts(self, name: str) -> bool:
        """True if a specification tensor holds integers."""
        value = self.replay.wanted(name)
        return value is not None and value.dtype.kind == "i"

    def follows(self, name: str, of: str) -> bool:
        """True if a specification tensor is computed from another one."""
        return name != of and self.job.specification.depends(name, of)


def _instances(mesh: Mesh, axes: Sequence[str]) -> list[tuple[int, ...]]:
    """The ranks of every group that spans some axes."""
    group = replace(mesh, groups={"": tuple(axes)})
    return list(dict.fromkeys(group.members("", rank) for rank in range(mesh.world_size)))


def _equal(multiples: Iterator[tuple[Part, float]]) -> Part | None:
    return next((part for part, factor in multiples if abs(factor - 1) < 1e-6), None)
