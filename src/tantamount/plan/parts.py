"""A training plan: parts that are written once, pieces of the model that are instances of them, stages that own pieces.

A *part* is a pair of programs: what one device does with the whole global batch, and what every rank does with its
rows of one microbatch. It is one job for the machinery of proofs, on a mesh whose first axis may be the microbatches.
A *piece* is an instance of a part: ``layer 7``. What tensors of a part are to the plan is said by :class:`Part`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import cast

from tantamount.capture.orders import Order
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Partial, Placement, Replicate
from tantamount.ir.types import TensorType
from tantamount.plan.actions import Schedule
from tantamount.plan.families import Family

__all__ = [
    "COPY", "DEFAULT", "SUMMANDS", "TIED", "WORLD", "Approximation", "Held", "Messages", "Part", "Piece", "Plan",
    "Runs", "Stream", "Summand", "Term", "in_pipeline", "is_sum", "shown",
]  # fmt: skip

TIED = "tied"  # the axis of the devices that have a copy of a shared parameter
DEFAULT = "default"  # the layout of parts that name none: the axes of the mesh but the pipeline's
WORLD = "world"  # the only axis of parts that run once, where stages have different numbers of ranks
SUMMANDS = "summands"  # the claim that what a part makes of summands are summands
COPY = "copy"  # the axis of the devices that have a copy of a piece, one in each pipeline of a plan with several


class Runs(StrEnum):
    """The number of times that a part runs in one iteration: for every microbatch, once for every piece, or once."""

    PASS = "pass"  # forward and backward of a piece, once for every microbatch
    PIECE = "piece"  # once for every piece of a part, after all microbatches
    ONCE = "once"  # once, on all ranks of all stages
    TIED = "tied"  # once, on the stages that have a copy of a parameter that several pieces share


_LINEAR = (Partial("sum"), Partial("avg"))
Term = tuple[int, int, int]  # of what a rank has along a dimension, the k-th of n equal parts


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages that ranks of a stage with the layout ``target`` get from those of one with ``source``, for every
    tensor that passes: rank ``k`` gets the terms ``ranks[k]``, one after the other along dimension ``dim``."""

    source: str
    target: str
    ranks: tuple[tuple[Term, ...], ...]
    dim: int = 0


@dataclass(frozen=True, slots=True)
class Summand:
    """An input that is one summand of a ``tensor`` of a piece, that of a pipeline. ``messages``: what the ranks that
    take it are sent by those that have it, of layouts that are not named; ``None``: rank k has what rank k takes."""

    tensor: str
    pipeline: int
    messages: Messages | None = None


@dataclass(frozen=True, slots=True)
class Approximation:
    """A declared approximation, which a part's implementation computes instead of what the specification does: in its
    proof the strict form stands in its place. ``text`` is one clause."""

    name: str
    part: str
    text: str


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream between neighbouring pieces: a tensor forward, and its gradient backward (``None``: it has none)."""

    forward: str
    backward: str | None


@dataclass(frozen=True, slots=True)
class Held:
    """The parts of a specification tensor that the ranks hold: a placement for every mesh axis by name, in the order of
    the mesh, the axes' ``sizes``, the type of the whole, and the type of what one rank has (``None`` where no type is
    on record).

    Axes of one rank have ``Replicate()``: along them all placements are one; but for ``kept``, along which there are
    more than these. ``order``: the placements are of the tensor with its blocks in that order."""

    placements: Mapping[str, Placement]
    sizes: Mapping[str, int]
    whole: TensorType | None
    local: TensorType | None
    order: Order | None = None
    kept: str = ""

    def without(self, axis: str) -> Held:
        """The same, of ranks that differ in the other axes only."""
        placements = {name: p for name, p in self.placements.items() if name != axis}
        return replace(self, placements=placements, sizes={n: size for n, size in self.sizes.items() if n != axis})

    def along(self, axis: str, size: int, placement: Placement) -> Held:
        """The same, of ranks that differ along one more axis, the first."""
        first = placement if size > 1 else Replicate()
        return replace(self, placements={axis: first, **self.placements}, sizes={axis: size, **self.sizes})

    def everywhere(self, sizes: Mapping[str, int]) -> Held:
        """The same, if all ranks of some mesh have it whole."""
        return replace(self, placements=dict.fromkeys(sizes, Replicate()), sizes=sizes)

    @property
    def extreme(self) -> str:
        """The reason why sums of such parts are not parts of the sum: a maximum or minimum over ranks. Empty if they
        are."""
        found = next((axis for axis, p in self.placements.items() if isinstance(p, Partial) and p not in _LINEAR), "")
        return f"it is {self.placements[found]} over {found}, and sums of maxima are no maxima of sums" if found else ""

    def __str__(self) -> str:
        return shown(self.placements) if self.order is None else f"{shown(self.placements)}, {self.order}"


def shown(placements: Mapping[str, Placement]) -> str:
    """``Shard(0) over microbatch and dp, Replicate() over tp``."""
    by: dict[str, list[str]] = {}
    for axis, placement in placements.items():
        by.setdefault(str(placement), []).append(axis)
    return ", ".join(f"{text} over {' and '.join(axes)}" for text, axes in by.items()) or "Replicate()"


@dataclass(frozen=True)
class Part:
    """A pair of programs, and what its tensors are to the plan. All names are those of the specification's tensors.

    Of a part of kind ``PASS``: ``before`` are the streams that it exchanges with the piece before it (input, gradient
    of it), ``after`` those with the piece after it (output, gradient of it); ``parameters`` maps every parameter to the
    output that is its gradient; ``data`` are inputs that the data loader gives, ``results`` outputs that are wanted
    (the loss). ``frozen`` are parameters without gradients, ``symbols`` numbers of the plan; ``names`` are those of
    parameters in the whole model, the piece's number left open. ``carried`` maps state that a piece keeps from one
    microbatch to the next to the output that replaces it; ``steps`` are the jobs of one microbatch that ask for these.

    Of the other kinds: ``takes`` maps inputs to tensors of the piece (parameters, gradients, state, what parts that run
    earlier give) or of the plan (symbols, what parts that run once give); ``sums`` maps inputs to tensors of which
    every piece has one, and whose sum over all pieces it is; ``gives`` maps outputs to new tensors, ``updates`` to
    parameters or state that they replace. ``state`` are the tensors that a piece keeps from one iteration to the next.
    ``of`` is the part whose pieces a part of kind ``PIECE`` runs for, or the shared parameter of one of kind ``TIED``;
    ``members`` maps inputs of the latter to a tensor of every part that shares it, whose sum over pieces it is.
    ``layout`` is the name of the axes that the ranks of a stage have for the part.

    ``family``, if its programs have size symbols, gives its job for other numbers of rows. Where the last microbatch is
    ``smaller``, that is its job, ``job`` that of the others, and ``divided`` says that rows may be worked on apart.
    ``taken_as`` and ``given_as`` are the orders in which ranks have blocks of inputs and of outputs; the specification
    of the job is a function of what has these orders.
    ``claims`` are further jobs, by name, that must hold: for declared approximations to be what they say, for
    ``partly``, inputs of which every pipeline may have a summand, to give summands of the outputs, and for what one
    piece has of the gradient of a shared parameter to give summands likewise.
    ``base``, of a part that runs in the place of another one in some ``pipelines``, is that one, whose specification
    it has, and whose tensors; ``summands`` are inputs that are what one pipeline has of a tensor.
    ``kept`` is the axis whose placements mean something even where it has one rank: there are more of other classes."""

    name: str
    runs: Runs
    job: Job
    of: str = ""
    before: Mapping[str, Stream] = field(default_factory=dict[str, Stream])
    after: Mapping[str, Stream] = field(default_factory=dict[str, Stream])
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    frozen: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    takes: Mapping[str, str] = field(default_factory=dict[str, str])
    sums: Mapping[str, str] = field(default_factory=dict[str, str])
    gives: Mapping[str, str] = field(default_factory=dict[str, str])
    updates: Mapping[str, str] = field(default_factory=dict[str, str])
    state: tuple[str, ...] = ()
    members: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    layout: str = DEFAULT
    family: Family | None = None
    smaller: Job | None = None
    divided: Job | None = None
    symbols: tuple[str, ...] = ()
    carried: Mapping[str, str] = field(default_factory=dict[str, str])
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    steps: tuple[Job, ...] = ()
    kept: str = ""
    claims: Mapping[str, Job] = field(default_factory=dict[str, Job])
    taken_as: Mapping[str, Order] = field(default_factory=dict[str, Order])
    given_as: Mapping[str, Order] = field(default_factory=dict[str, Order])
    base: str = ""
    pipelines: tuple[int, ...] = ()
    summands: Mapping[str, Summand] = field(default_factory=dict[str, Summand])
    partly: frozenset[str] = frozenset()

    @property
    def meets(self) -> bool:
        """True if its ranks exchange something with those of other copies of its piece."""
        return bool(self.summands) or self.speaks(COPY)

    def classes(self) -> Iterator[Part]:
        """The part and, under names of their own, its other jobs: all are to be proved."""
        yield self
        names = ("carried", "carried by the last microbatch")
        more = zip(names, self.steps, strict=False)
        others = (("last microbatch", self.smaller), ("rows apart", self.divided), *more, *self.claims.items())
        for what, job in others:
            if job is not None:
                named = replace(
                    self, name=f"{self.name}, {what}", job=job, smaller=None, divided=None, steps=(), claims={}
                )
                one_order = job is self.divided or what == SUMMANDS  # the specification on both sides
                yield replace(named, taken_as={}, given_as={}) if one_order else named

    def input(self, tensor: str) -> Held:
        """The layout that the ranks hold an input in."""
        relation = self.job.inputs[tensor]
        whole = self.job.specification.by_name[tensor].type
        local = self.job.implementation[0].by_name[relation.name].type
        return replace(self._held(relation.placements, whole, local), order=self.taken_as.get(tensor))

    def output(self, tensor: str) -> Held:
        """The parts of an output that the ranks are expected to have, which the proof of the part shows."""
        expectation = self.job.outputs[tensor]
        whole, local = _result(self.job, tensor, None), _result(self.job, expectation.name, 0)
        return replace(self._held(expectation.placements, whole, local), order=self.given_as.get(tensor))

    def made_of(self, inputs: Collection[str]) -> list[str]:
        """The outputs that the specification makes of some inputs."""
        nodes = self.job.specification.output_nodes
        return [name for name in self.job.outputs if not {*inputs}.isdisjoint(
            self.job.specification.ancestors(nodes.get(name, name)))]  # fmt: skip

    def speaks(self, axis: str) -> bool:
        """True if some program of the part may exchange something along an axis: if it names a group that spans it."""
        names = {name for name, spanned in self.job.mesh.groups.items() if axis in spanned}
        programs = {id(graph): graph for graph in self.job.implementation}.values()
        calls = (node for graph in programs for node in graph.nodes)
        return any(text in names for node in calls for text in _texts((*node.args, *node.kwargs.values())))

    def _held(self, placements: Sequence[Placement] | None, whole: TensorType | None, local: TensorType | None) -> Held:
        mesh = self.job.mesh
        found = placements if placements is not None else (Replicate(),) * len(mesh.names)
        alone = {
            axis: p if size > 1 or axis == self.kept else Replicate()
            for axis, size, p in zip(mesh.names, mesh.sizes, found, strict=True)
        }
        return Held(alone, mesh.axes, whole, local, kept=self.kept if self.kept in alone else "")


def _texts(arguments: object) -> Iterator[str]:
    if isinstance(arguments, str):
        yield arguments
    elif isinstance(arguments, tuple):
        for argument in cast("tuple[object, ...]", arguments):
            yield from _texts(argument)


def _result(job: Job, name: str, rank: int | None) -> TensorType | None:
    graph = job.specification if rank is None else job.implementation[rank]
    node = next((output.node for output in graph.outputs if output.name == name), None)
    return None if node is None else graph.by_name[node].type


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """An instance of a part: the ``number``-th of the model's pieces that are this part."""

    part: str
    number: int

    def __str__(self) -> str:
        return f"{self.part} {self.number}"


@dataclass(frozen=True)
class Plan:
    """One training iteration. ``pieces`` are the model in the order of the forward pass, ``stages[s]`` the pieces of
    virtual stage ``s``; ``mesh`` has the real ranks, ``pipeline`` is its axis of stages (empty: there is none),
    ``axis`` the name of the axis of microbatches. ``reduce`` and ``update`` are the parts that run after all
    microbatches, in their order; ``symbols`` numbers that are the same everywhere (learning rate, step). ``tied`` are
    parameters that several pieces share, by name: the parts that have them, and what they call them. ``ranks[d]`` are
    those of device ``d``, one number for each layout that its pieces have; ``messages`` say who sends what where they
    differ, by the layouts of both ends. What a part's job
    has in the place of what its ranks run is listed in ``approximations``."""

    path: str
    name: str
    mesh: Mesh
    pipeline: str
    microbatches: int
    axis: str
    parts: Mapping[str, Part]
    pieces: tuple[Piece, ...]
    stages: tuple[tuple[Piece, ...], ...]
    schedule: Schedule
    schedule_name: str
    reduce: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    tied: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    approximations: tuple[Approximation, ...] = ()
    ranks: tuple[tuple[int, ...], ...] = ()
    messages: Mapping[tuple[str, str], Messages] = field(default_factory=dict[tuple[str, str], Messages])
    assumed: tuple[str, ...] = ()  # sentences of whoever wrote the plan, on which it rests

    @property
    def uneven(self) -> bool:
        """True if not every stage has as many ranks as the mesh says."""
        own = self.mesh.world_size // self.devices
        return any(counts != (own,) for counts in self.ranks)

    @property
    def world(self) -> int:
        """The number of all ranks."""
        return sum(map(max, self.ranks)) if self.uneven else self.mesh.world_size

    @property
    def apart(self) -> bool:
        """True if copies of a piece have degrees of their own."""
        return any(part.base for part in self.parts.values())

    @cached_property
    def ways(self) -> tuple[Mapping[str, Part], ...]:
        """The part that runs where one is named, by its name: in every pipeline, if copies of a piece have degrees of
        their own; otherwise once, for all of them."""
        return tuple(in_pipeline(self.parts, k) for k in range(self.copies if self.apart else 1))

    @cached_property
    def used(self) -> frozenset[str]:
        """The names of the parts that run in some pipeline."""
        named = dict.fromkeys((*self.numbers(), *self.reduce, *self.update))
        return frozenset(way[name].name for way in self.ways for name in named)

    @property
    def copies(self) -> int:
        """Copies of every piece: pipelines that microbatches may pass, each of which has the whole model."""
        return len(self.schedule.chains)

    @property
    def devices(self) -> int:
        """Stages that run at the same time: the size of the pipeline axis."""
        return self.mesh.axes.get(self.pipeline, 1)

    def numbers(self) -> Mapping[str, int]:
        """The number of pieces that are instances of every part, by its name."""
        found: dict[str, int] = {}
        for piece in self.pieces:
            found[piece.part] = found.get(piece.part, 0) + 1
        return found


def in_pipeline(parts: Mapping[str, Part], number: int) -> dict[str, Part]:
    """The part that runs in a pipeline where one is named, by its name."""
    found = {name: part for name, part in parts.items() if not part.base}
    return found | {part.base: part for part in parts.values() if part.base and number in part.pipelines}


def is_sum(placement: Placement) -> bool:
    """True for parts whose sum is the whole."""
    return placement == Partial("sum")
