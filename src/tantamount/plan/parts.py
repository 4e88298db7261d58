"""A training plan: parts that are written once, pieces of the model that are instances of them, stages that own pieces.

A *part* is a pair of programs: what one device does with the whole global batch, and what every rank does with its
rows of one microbatch. It is one job for the machinery of proofs, on a mesh whose first axis may be the microbatches.
A *piece* is an instance of a part: ``layer 7``. What tensors of a part are to the plan is said by :class:`Part`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Partial, Placement, Replicate
from tantamount.ir.types import TensorType
from tantamount.plan.actions import Schedule
from tantamount.plan.families import Family

__all__ = ["TIED", "Approximation", "Held", "Part", "Piece", "Plan", "Runs", "Stream", "is_sum", "shown"]

TIED = "tied"  # the axis of the devices that have a copy of a shared parameter


class Runs(StrEnum):
    """The number of times that a part runs in one iteration: for every microbatch, once for every piece, or once."""

    PASS = "pass"  # forward and backward of a piece, once for every microbatch
    PIECE = "piece"  # once for every piece of a part, after all microbatches
    ONCE = "once"  # once, on all ranks of all stages
    TIED = "tied"  # once, on the stages that have a copy of a parameter that several pieces share


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
    """The parts of a specification tensor that the ranks hold: a placement for every mesh axis by name, the type of the
    whole, and the type of what one rank has (``None`` where no type is on record).

    Axes of one rank have ``Replicate()``: along them all placements are one."""

    placements: Mapping[str, Placement]
    whole: TensorType | None
    local: TensorType | None

    def without(self, axis: str) -> Held:
        """The same, of ranks that differ in the other axes only."""
        return Held({name: p for name, p in self.placements.items() if name != axis}, self.whole, self.local)

    def __str__(self) -> str:
        return shown(self.placements)


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
    (the loss). ``frozen`` are parameters without gradients, ``symbols`` numbers of the plan. ``carried`` maps state
    that a piece keeps from one microbatch to the next to the output that replaces it; ``steps`` are the jobs of one
    microbatch that ask for these.

    Of the other kinds: ``takes`` maps inputs to tensors of the piece (parameters, gradients, state, what parts that run
    earlier give) or of the plan (symbols, what parts that run once give); ``sums`` maps inputs to tensors of which
    every piece has one, and whose sum over all pieces it is; ``gives`` maps outputs to new tensors, ``updates`` to
    parameters or state that they replace. ``state`` are the tensors that a piece keeps from one iteration to the next.
    ``of`` is the part whose pieces a part of kind ``PIECE`` runs for, or the shared parameter of one of kind ``TIED``;
    ``members`` maps inputs of the latter to a tensor of every part that shares it, whose sum over pieces it is.

    ``family``, if its programs have size symbols, gives its job for other numbers of rows. Where the last microbatch is
    ``smaller``, that is its job, ``job`` that of the others, and ``divided`` says that rows may be worked on apart.
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
    family: Family | None = None
    smaller: Job | None = None
    divided: Job | None = None
    symbols: tuple[str, ...] = ()
    carried: Mapping[str, str] = field(default_factory=dict[str, str])
    steps: tuple[Job, ...] = ()
    kept: str = ""

    def classes(self) -> Iterator[Part]:
        """What is to be proved of it: the part, and under names of their own its other jobs."""
        yield self
        names = ("carried", "carried by the last microbatch")
        more = zip(names, self.steps, strict=False)
        for what, job in (("last microbatch", self.smaller), ("rows apart", self.divided), *more):
            if job is not None:
                yield replace(self, name=f"{self.name}, {what}", job=job, smaller=None, divided=None, steps=())

    def input(self, tensor: str) -> Held:
        """The layout that the ranks hold an input in."""
        relation = self.job.inputs[tensor]
        whole = self.job.specification.by_name[tensor].type
        local = self.job.implementation[0].by_name[relation.name].type
        return self._held(relation.placements, whole, local)

    def output(self, tensor: str) -> Held:
        """The parts of an output that the ranks are expected to have, which the proof of the part shows."""
        expectation = self.job.outputs[tensor]
        return self._held(
            expectation.placements, _result(self.job, tensor, None), _result(self.job, expectation.name, 0)
        )

    def _held(self, placements: Sequence[Placement] | None, whole: TensorType | None, local: TensorType | None) -> Held:
        mesh = self.job.mesh
        found = placements if placements is not None else (Replicate(),) * len(mesh.names)
        alone = {
            axis: p if size > 1 or axis == self.kept else Replicate()
            for axis, size, p in zip(mesh.names, mesh.sizes, found, strict=True)
        }
        return Held(alone, whole, local)


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
    parameters that several pieces share, by name: the parts that have them, and what they call them. What a part's job
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
    assumed: tuple[str, ...] = ()  # sentences of whoever wrote the plan, on which it rests

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


def is_sum(placement: Placement) -> bool:
    """True for parts whose sum is the whole."""
    return placement == Partial("sum")
