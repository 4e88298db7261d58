"""What the values of both programs say about each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Union

import numpy as np

from tantamount.correspond.values import Box, close, cut, direction, windows
from tantamount.diagnosis.classes import (
    PIECES,
    Class,
    Origin,
    classes_of,
    origins,
    specification_origins,
    target_of,
)
from tantamount.diagnosis.replay import Place, Replay
from tantamount.ir.graph import Graph, Node, references
from tantamount.proof.outputs import ancestors
from tantamount.semantics.reference import Array

__all__ = ["ValueMatches", "Part", "Slot", "given", "slots", "summable", "with_number"]

Slot = Union[int, str]  # which argument: a position, or a keyword
Part = tuple[str, "Box | None"]  # a tensor of the specification, and which block of it (``None``: the whole)


class ValueMatches:
    """Everything above one output: ``cone`` in the implementation, ``wholes`` in the specification, by classes
    (``everything``: the classes of all of the implementation)."""

    def __init__(self, replay: Replay, output: str) -> None:
        self.replay = replay
        self.job = replay.job
        graph = self.job.specification
        end = next(o.node for o in graph.outputs if o.name == output)
        above = ancestors(graph, end)
        self.cone = replay.above(replay.output_places(output))
        shapes = {
            (rank, node.name): value.shape
            for rank, one in enumerate(self.job.implementation)
            for node in one.nodes
            if not _made_of_nothing(node) and (value := replay.held((rank, node.name))) is not None
        }
        self.everything = classes_of(self.job.implementation, shapes)
        self.classes = [c for c in self.everything if any(place in self.cone for place in c.places)]
        whole = {
            (0, node.name): value.shape
            for node in graph.nodes
            if node.name in above and (value := replay.wanted(node.name)) is not None
        }
        self._ancestors: dict[str, set[str]] = {}
        self._aligned: dict[Place, Part | None] = {}
        self._summands: dict[Class, str | None] = {}
        self.wholes = classes_of([graph], whole)
        self.origin = origins(self.job, replay)
        self.whole_origin = specification_origins(graph)
        used = frozenset[str]().union(*(self.origin[place] for place in replay.output_places(output)))
        self.unused = self.whole_origin[end] - used  # inputs that matter to the specification alone

    def node(self, place: Place) -> Node:
        """The implementation's node."""
        return self.job.implementation[place[0]].by_name[place[1]]

    def graph(self, place: Place) -> Graph:
        """The graph of its rank."""
        return self.job.implementation[place[0]]

    def value(self, place: Place) -> Array:
        """What a rank holds; nothing (no elements) for several results."""
        value = self.replay.held(place)
        return np.zeros(0) if value is None else value

    def target(self, place: Place) -> str:
        """The operator."""
        return target_of(self.graph(place), self.node(place))

    @cached_property
    def _known(self) -> Mapping[object, list[tuple[Part, float]]]:
        """Parts of specification tensors by shape and direction, with the multiple of it that they are."""
        found: dict[object, list[tuple[Part, float]]] = {}
        shapes = {
            (value.shape, value.dtype.kind) for c in self.classes for p in c.places if (value := self.value(p)).size
        }
        for c in self.wholes:
            for _, name in c.places:
                whole = self.replay.wanted(name)
                for shape, kind in shapes:
                    if whole is not None and whole.dtype.kind == kind:
                        for box, part in windows(whole, shape):
                            key = direction(part)
                            if key is not None:
                                found.setdefault((shape, kind, key[0]), []).append(((name, box), key[1]))
        return found

    def multiples(self, value: Array) -> Iterator[tuple[Part, float]]:
        """The parts of specification tensors that a tensor is a multiple of, and which multiple it is."""
        key = direction(value)
        if key is not None:
            for part, scale in self._known.get((value.shape, value.dtype.kind, key[0]), ()):
                if value.size > 1 or abs(key[1] / scale - 1) < 1e-6:  # any two numbers are multiples
                    yield part, key[1] / scale

    def is_part(self, value: Array) -> Part | None:
        """The first part of a specification tensor that has these values."""
        return next((part for part, factor in self.multiples(value) if abs(factor - 1) < 1e-6), None)

    def aligned(self, place: Place) -> Part | None:
        """The first part of a specification tensor that a rank's value is."""
        if place not in self._aligned:
            self._aligned[place] = self.is_part(self.value(place))
        return self._aligned[place]

    @cached_property
    def matched(self) -> set[str]:
        """The specification's tensors of which the implementation has parts."""
        found: set[str] = set()
        for c in self.classes:
            for place in c.places:
                first = self.aligned(place)
                if first is not None:  # of other tensors only if they are the same as a whole: parts may be by chance
                    found.add(first[0])
                    found.update(
                        part[0]
                        for part, factor in self.multiples(self.value(place))
                        if part[1] is None and abs(factor - 1) < 1e-6
                    )
        return found

    def groups(self, c: Class) -> Iterator[tuple[str, Sequence[Sequence[Place]]]]:
        """What may belong together, by mesh axis; without a mesh, the members with one origin."""
        mesh = self.job.mesh
        if mesh.world_size == 1:
            siblings: dict[Origin, list[Place]] = {}
            for place in c.places:
                siblings.setdefault(self.origin[place], []).append(place)
            yield "", list(siblings.values())
            return
        names = sorted({name for _, name in c.places})
        held = set(c.places)
        for axis, (label, size) in enumerate(zip(mesh.names, mesh.sizes, strict=True)):
            if size > 1:
                rows: list[list[Place]] = []
                for rank in range(mesh.world_size):
                    here = mesh.coordinates(rank)
                    if here[axis] == 0:
                        ranks = [mesh.rank((*here[:axis], k, *here[axis + 1 :])) for k in range(size)]
                        rows += [[(r, n) for r in ranks] for n in names if all((r, n) in held for r in ranks)]
                yield label, rows

    def summands(self, c: Class) -> str | None:
        """The specification's tensor that the members of a class are summands of, or shares of a mean."""
        if c not in self._summands:
            self._summands[c] = None
            for _, groups in self.groups(c):
                values = [self.value(place) for place in (groups[0] if groups else ())]
                if summable(values) and values[0].dtype.kind == "f":
                    stacked = np.stack(values)
                    part = self.is_part(np.sum(stacked, axis=0)) or self.is_part(np.mean(stacked, axis=0))
                    self._summands[c] = self._summands[c] or (None if part is None else part[0])
        return self._summands[c]

    @cached_property
    def class_of(self) -> Mapping[Place, Class]:
        """The class of a node with one result."""
        return {place: c for c in self.classes for place in c.places}

    def sick(self, c: Class) -> bool:
        """Whether some member is no part of any tensor of the specification."""
        return any(self.aligned(place) is None for place in c.places if place in self.cone)

    def frontier(self, c: Class) -> bool:
        """Whether a class is sick though what it is computed from is not: parts, or summands, or made of nothing."""
        if not self.sick(c) or self.summands(c) is not None:
            return False
        operands = {operand for place in c.places if place in self.cone for operand in self.replay.operands[place]}
        known = [(operand, self.class_of[operand]) for operand in operands if operand in self.class_of]
        return all(self.aligned(operand) is not None or self.summands(one) is not None for operand, one in known)

    def literals(self, target: str, slot: Slot) -> list[int | float]:
        """The numbers that the specification has there among the arguments of an operator."""
        nodes = [node for node in self.job.specification.nodes if node.target == target]
        return [x for x in dict.fromkeys(given(node, slot) for node in nodes) if x is not None][:8]

    def part(self, part: Part, shape: tuple[int, ...]) -> Array | None:
        """The values of a part."""
        whole = self.replay.wanted(part[0])
        if whole is None:
            return None
        if part[1] is not None and len(part[1]) == whole.ndim:
            held = cut(whole, part[1])
            return held.reshape(shape) if held.size == prod(shape) else None
        return next((value for box, value in windows(whole, shape) if box == part[1]), None)

    def cuts(self, place: Place) -> bool:
        """Whether a node does nothing but cut a tensor into parts."""
        return PIECES.match(self.node(place).target) is not None

    def follows(self, name: str, of: str) -> bool:
        """Whether a specification tensor is computed from another."""
        if name not in self._ancestors:
            self._ancestors[name] = set(ancestors(self.job.specification, name))
        return name != of and of in self._ancestors[name]


def slots(node: Node) -> list[Slot]:
    """The arguments of a node that are numbers."""
    return [slot for slot in (*range(len(node.args)), *node.kwargs) if given(node, slot) is not None]


def given(node: Node, slot: Slot) -> int | float | None:
    """The number that a node has as an argument, if it is one."""
    if isinstance(slot, int):
        value = node.args[slot] if slot < len(node.args) else None
    else:
        value = node.kwargs.get(slot)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def with_number(node: Node, slot: Slot, number: float) -> Node:
    """The node with another number there."""
    if isinstance(slot, int):
        return replace(node, args=(*node.args[:slot], number, *node.args[slot + 1 :]))
    return replace(node, kwargs={**node.kwargs, slot: number})


_FILLED = re.compile(r"aten\.((zeros|ones|empty|full|rand|randn)_like|new_(zeros|ones|empty|full))\b")


def summable(values: Sequence[Array]) -> bool:
    """Whether tensors may be summands of one: there are several, and they are no replicas."""
    if len(values) < 2 or not all(v.size and v.shape == values[0].shape for v in values):
        return False
    return not all(close(v, values[0]) for v in values[1:])


def _made_of_nothing(node: Node) -> bool:
    return node.op == "constant" or (
        node.op == "call" and (not list(references(node)) or _FILLED.match(node.target) is not None)
    )
