"""Pairs of tensors of the two programs that seem to be the same: a hint from one execution, on which nothing rests.

Both programs run once on random numbers: on a mesh whose long axes are shrunk to two ranks, where ranks along them run
one program, and at smaller shapes where they are large. A tensor of the implementation is aligned with a tensor of the
specification if its values are the whole of it, or the part (of a block of it) that a placement gives its rank, on
every rank of its class. What is aligned is then proved at the job's own sizes, or not (:mod:`tantamount.proof.cuts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard, cast

import numpy as np

from tantamount.calculus.atoms import Store
from tantamount.calculus.calculus import Calculus
from tantamount.correspond.values import cut, fingerprint
from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.execution.plans import Execution, NotExecuted, Plan, Scale, TooLarge, draw, execute, plan_execution
from tantamount.ir.graph import Graph, Ref
from tantamount.ir.job import Job
from tantamount.ir.layouts import layouts
from tantamount.ir.relation import Placement, Shard
from tantamount.ir.types import Shape
from tantamount.limits import Limits
from tantamount.ops.classes import RankClass, rank_classes
from tantamount.proof.cuts import Aligned, Candidates, Ordered, Window
from tantamount.proof.inputs import Inputs, build_inputs
from tantamount.proof.run import RanksRun, SpecificationRun
from tantamount.reduction import LONG, NotReduced, folded, long_axes, sketch
from tantamount.semantics.reference import Array

__all__ = ["align"]

_SKETCHED = 4  # times the limit of a counterexample: numbers in programs (heads) may keep a sketch large
_SEED = 5

_Part = tuple[tuple[Placement, ...], "Window | None", "Ordered | None"]
_Box = tuple[tuple[int, int], ...]
_Cut = tuple[_Box, "Ordered | None"]
_Key = tuple[Shape, str]


def align(store: Store, job: Job, inputs: Inputs, classes: Sequence[RankClass], limits: Limits) -> Candidates:
    """The candidates for tensors of every class of ranks, by its leader and node name; empty if nothing could be
    executed. A job that is too large, or of many ranks that run one program, is executed as a smaller one, if there is
    one that seems to compute something alike. Where no output is aligned there (a number that two sizes explain became
    the wrong one), it is executed at its own sizes, if these are not far too large."""
    long = [axis for axis in long_axes(classes) if axis not in job.counted]
    found = _sketched(job, classes, long, limits, store.effort) if long else None
    if found is not None:
        return found
    plan = _planned(store, job, inputs, limits, "alignment_work")
    if plan is None:
        for ordered in (True, False):
            found = found or _sketched(job, classes, (), limits, store.effort, ordered)
        if found is not None and not _to_the_end(job, classes, found):
            plan = _planned(store, job, inputs, limits, "realigned_work")
    if found is not None and plan is None:
        return found
    return _candidates(store, job, inputs, classes, classes, limits, plan) or found or {}


def _planned(store: Store, job: Job, inputs: Inputs, limits: Limits, bound: str) -> Plan | None:
    """The plan of an execution within a bound; ``None`` if both programs cannot be executed with so much work."""
    light = replace(limits, witness_work=min(limits.witness_work, getattr(store.effort.bounds, bound)))
    try:
        return plan_execution(store, job, inputs, SpecificationRun(), RanksRun(job.mesh), light)
    except TooLarge:
        store.effort.hit(bound)
    except NotExecuted:
        pass
    return None


def _to_the_end(job: Job, classes: Sequence[RankClass], found: Candidates) -> bool:
    """True if an output of a class of ranks is aligned."""
    graphs = {ranks.leader: job.implementation[ranks.leader] for ranks in classes}
    return any((leader, output.node) in found for leader, graph in graphs.items() for output in graph.outputs)


def _sketched(
    job: Job, classes: Sequence[RankClass], axes: Sequence[str], limits: Limits, effort: Effort, ordered: bool = False
) -> Candidates | None:
    """The candidates that a smaller job suggests; ``None`` if there is none that can be executed. Node names are the
    same there (of what is seen as a view of pieces, that of the result), and so are dimensions; of ranks that run one
    program two along each axis say what placements there are. ``ordered`` as :func:`sketch` has it."""
    try:
        smaller = sketch(folded(job, LONG) if axes else job, axes, effort, ordered=ordered)
        store = Calculus(effort)
        inputs = build_inputs(store, smaller)
        like = rank_classes(smaller.implementation, smaller.mesh, len(classes) < job.mesh.world_size)
    except (NotReduced, TantamountError):
        return None
    if len(like) != len(classes):
        return None
    limits = replace(limits, witness_elements=_SKETCHED * limits.witness_elements)
    return _candidates(store, smaller, inputs, like, classes, limits)


def _candidates(
    store: Store,
    job: Job,
    inputs: Inputs,
    classes: Sequence[RankClass],
    like: Sequence[RankClass],
    limits: Limits,
    plan: Plan | None = None,
) -> Candidates | None:
    """The candidates that an execution suggests for the classes, under the leaders of those that they are like;
    ``None`` if nothing can be executed. ``plan``: that of the execution, where it is known."""
    try:
        if plan is None:
            plan = plan_execution(store, job, inputs, SpecificationRun(), RanksRun(job.mesh), limits)
        execution = execute(plan, draw(plan, _SEED, Scale()), _SEED, stacked=True)
    except TantamountError:
        return None
    if execution is None:
        return None
    matching = _Matching(job, execution, store.effort)
    return {(other.leader, name): found for one, other in zip(classes, like, strict=True)
            for name, found in matching.of_class(one)}  # fmt: skip


@dataclass
class _Matching:
    """Tensors of both programs by their values. Parts of specification tensors are looked at once for every box."""

    job: Job
    execution: Execution
    effort: Effort
    _wholes: dict[Shape, dict[str, Array]] = field(default_factory=dict[Shape, "dict[str, Array]"])
    _targets: dict[str, str] = field(default_factory=dict[str, str])
    _keys: dict[tuple[str, _Cut], _Key] = field(default_factory=dict[tuple[str, _Cut], _Key])
    _named: dict[tuple[Shape, _Cut], dict[_Key, list[str]]] = field(
        default_factory=dict[tuple[Shape, _Cut], "dict[_Key, list[str]]"]
    )
    _orders: set[tuple[int, tuple[int, ...]]] = field(default_factory=set[tuple[int, tuple[int, ...]]])

    def __post_init__(self) -> None:
        for node in self.job.specification.nodes:
            self._targets[node.name] = node.target
            value = self.execution.specification.get(node.name)
            if _is_real(value) and node.op != "constant":
                self._wholes.setdefault(value.shape, {})[node.name] = value
        self._orders.update(_orders(self.job.specification, self.execution.specification))

    def of_class(self, ranks: RankClass) -> Iterator[tuple[str, tuple[Aligned, ...]]]:
        """The candidates for every tensor of a class that has some."""
        names = [node.name for node in self.job.implementation[ranks.leader].nodes if node.op == "call"]
        found_values = ((name, self.execution.ranks[ranks.leader].get(name)) for name in names)
        values = {name: value for name, value in found_values if _is_real(value) and value.any()}  # zeros are anywhere
        open_: dict[Shape, list[str]] = {}
        for name, value in values.items():
            open_.setdefault(value.shape, []).append(name)
        keys = {name: fingerprint(value) for name, value in values.items()}
        found: dict[str, list[Aligned]] = {}
        for local, group in open_.items():
            self._search(ranks, group, keys, found, [(w, p) for w in self._wholes for p in self._layouts(w, local)])
        rest = {local: [n for n in group if n not in found] for local, group in open_.items()}
        if 3 * sum(map(len, rest.values())) > len(values):  # most likely blocks of rows: microbatches
            for local, group in rest.items():
                parts = [(w, p) for w in self._wholes for p in self._windows(w, local)]
                self._search(ranks, group, keys, found, parts)
        return ((name, tuple(self.effort.first("aligned_tensors", one))) for name, one in found.items())

    def _search(
        self,
        ranks: RankClass,
        group: Sequence[str],
        keys: Mapping[str, _Key],
        found: dict[str, list[Aligned]],
        parts: Sequence[tuple[Shape, _Part]],
    ) -> None:
        """Find the tensors of a group, which have one shape, among parts of specification tensors."""
        for whole, part in parts:
            box = self._box(whole, part, ranks.leader)
            if box is None:
                continue
            known = self._by_key(whole, (box, part[2]))
            for name in group:
                alike = known.get(keys[name], ())
                for wanted in alike:
                    aligned = self._on_all(ranks, name, self._like(wanted, alike), wanted, whole, part)
                    if aligned is not None:
                        found.setdefault(name, []).append(aligned)

    def _like(self, name: str, alike: Sequence[str]) -> tuple[str, int]:
        """A key that tells a specification tensor apart from others of the same values: its operator, and its
        number."""
        target = self._targets[name]
        return target, [other for other in alike if self._targets[other] == target].index(name)

    def _on_all(
        self, ranks: RankClass, name: str, like: tuple[str, int], wanted: str, whole: Shape, part: _Part
    ) -> Aligned | None:
        """The candidate if all ranks of the class hold their part: of that tensor, or each of another one like it."""
        names = [wanted]
        for rank in ranks.ranks[1:]:
            value = self.execution.ranks[rank].get(name)
            box = self._box(whole, part, rank)
            if not _is_real(value) or box is None:
                return None
            key = fingerprint(value)
            if self._key(wanted, (box, part[2])) == key:
                names.append(wanted)
                continue
            others = [n for n in self._by_key(whole, (box, part[2])).get(key, ()) if self._targets[n] == like[0]]
            if not others:
                return None
            names.append(others[min(like[1], len(others) - 1)])
        return Aligned((wanted,) if len({*names}) == 1 else tuple(names), *part)

    def _box(self, whole: Shape, part: _Part, rank: int) -> _Box | None:
        return Aligned((), *part).box(whole, self.job.mesh, rank)

    def _key(self, name: str, cut_: _Cut) -> _Key:
        if (name, cut_) not in self._keys:
            whole, (box, order) = self._wholes[self._shape(name)][name], cut_
            if order is not None:
                blocks = np.split(whole, len(order.blocks), order.dim)
                whole = np.concatenate([blocks[k] for k in order.blocks], order.dim)
            self._keys[name, cut_] = fingerprint(cut(whole, box))
        return self._keys[name, cut_]

    def _shape(self, name: str) -> Shape:
        return cast(Array, self.execution.specification[name]).shape

    def _by_key(self, whole: Shape, cut_: _Cut) -> Mapping[_Key, list[str]]:
        """The specification tensors of a shape by what the elements in a box look like."""
        found = self._named.get((whole, cut_))
        if found is None:
            found = self._named[whole, cut_] = {}
            for name in self._wholes[whole]:
                found.setdefault(self._key(name, cut_), []).append(name)
        return found

    def _layouts(self, whole: Shape, local: Shape) -> Iterator[_Part]:
        """The placements that cut a tensor into parts of a shape, of it as it is, or with its blocks in another
        order."""
        found = list(layouts(whole, self.job.mesh.sizes, local=local))
        yield from ((placements, None, None) for placements in found)
        for size, blocks in self._orders:
            for dim in (dim for dim, n in enumerate(whole) if n == size):
                yield from ((p, None, Ordered(dim, blocks)) for p in found if Shard(dim) in p)

    def _windows(self, whole: Shape, local: Shape) -> Iterator[_Part]:
        """Blocks along one dimension that placements cut into parts of a shape, or the other way round."""
        if len(whole) != len(local):
            return
        sizes = self.job.mesh.sizes
        for dim, (n, part) in enumerate(zip(whole, local, strict=True)):
            if not part or n % part or n == part:
                continue
            for count in range(2, n // part + 1):
                if n % (count * part) or self.effort.exceeds("alignment_windows", count):
                    continue
                block = (*whole[:dim], n // count, *whole[dim + 1 :])
                for placements in layouts(block, sizes, local=local):
                    cut = any(isinstance(p, Shard) and p.dim == dim for p in placements)
                    for index in range(count):
                        for inner in (True, False) if cut else (True,):
                            yield placements, Window(dim, count, index, inner), None


def _orders(graph: Graph, values: Mapping[str, object]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The orders in which inputs and outputs of a program have the blocks of a dimension of some size, if that is not
    its own: what is put together again of all equal pieces of a tensor. Of an input, it is the program that puts them
    in its own order."""
    for node in graph.nodes:
        pieces = node.args[0] if node.target == "aten.cat.default" and node.args else None
        if not isinstance(pieces, tuple):
            continue
        taken = [graph.by_name[piece.name] for piece in pieces if isinstance(piece, Ref)]
        sources = {one.args[0] for one in taken if one.target == "getitem"}
        blocks = tuple(one.args[1] for one in taken if len(one.args) > 1 and isinstance(one.args[1], int))
        if len(taken) < len(pieces) or len(sources) != 1 or sorted(blocks) != list(range(len(pieces))):
            continue
        (source,) = sources
        split = graph.by_name[source.name] if isinstance(source, Ref) else node
        dim, whole, made = node.args[1] if len(node.args) > 1 else 0, split.args[0], values.get(node.name)
        if split.target != "aten.split.Tensor" or split.args[2:3] != node.args[1:2] or not isinstance(whole, Ref):
            continue
        if not isinstance(made, np.ndarray) or not isinstance(dim, int) or blocks == tuple(range(len(blocks))):
            continue
        size = cast(Array, made).shape[dim]
        given = graph.by_name[whole.name].op == "input"
        if size % len(blocks) == 0:
            yield size, tuple(blocks.index(k) for k in range(len(blocks))) if given else blocks


def _is_real(value: object) -> TypeGuard[Array]:
    """Finite floating-point numbers, at least one."""
    if not isinstance(value, np.ndarray):
        return False
    array = cast(Array, value)
    return array.dtype.kind == "f" and array.size > 0 and bool(np.isfinite(array).all())
