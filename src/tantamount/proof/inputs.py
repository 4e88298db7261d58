"""From the job's input relation to forms of both sides' inputs.

Where it can, an implementation input is written as a view of the specification input (a free leaf). Where a
specification input is a sum of implementation inputs, or shares one with another, the leaves are the implementation's.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from math import prod

from tantamount.calculus import forms
from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.forms import Form, leaf_form
from tantamount.errors import InternalError, UserError
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Concat,
    Expression,
    InputRelation,
    Partial,
    Permute,
    RankTensor,
    Replicate,
    Reshape,
    Shard,
    Sign,
    Slice,
    Sum,
    rank_tensors,
    unresolved,
)
from tantamount.ir.relation_types import local_box
from tantamount.ir.types import DType, Shape, TensorType
from tantamount.ops.classes import RankClass
from tantamount.ops.relations import even
from tantamount.proof.placements import collapse, distribute, evaluate, local, part, stack
from tantamount.verdict import Assumption

__all__ = ["Inputs", "build_inputs"]

Key = tuple[int, str]  # rank and name of an implementation input
Box = tuple[tuple[int, int], ...]


@dataclass
class Inputs:
    """Forms of the specification's inputs by name and of the implementation's: ``stacked`` over all ranks by name, of
    those that are not by rank and name. ``restrictions`` are relations that are not onto."""

    specification: dict[str, Form] = field(default_factory=dict[str, Form])
    locals: dict[Key, Form] = field(default_factory=dict[Key, Form])
    stacked: dict[str, Form] = field(default_factory=dict[str, Form])
    restrictions: list[Assumption] = field(default_factory=list[Assumption])

    def held(self, store: Store, mesh: Mesh, ranks: RankClass, name: str) -> Form:
        """The parts of an implementation input that the ranks of a class hold, stacked over the axes of the class."""
        if name in self.stacked:
            return local(store, self.stacked[name], mesh, ranks.leader, ranks.mesh.names)
        return stack(store, [self.locals[rank, name] for rank in ranks.ranks], ranks.mesh.sizes)


def leaf(
    store: Store, source: str, name: object, type_: TensorType, shape: Shape | None = None, sign: Sign = Sign.ANY
) -> Form:
    """A free tensor, whose elements are of a sign."""
    whole = type_.shape if shape is None else shape
    facts = ValueFacts.of_type(type_.dtype)
    if sign is not Sign.ANY:
        facts = replace(facts, positive=sign is Sign.POSITIVE, nonnegative=True)
    return leaf_form(store.leaf(source, name, whole, facts), whole)


def _type(graph: Graph, name: str) -> TensorType:
    found = graph.by_name[name].type
    return found.stored if found is not None else TensorType((), DType.FLOAT32)


def build_inputs(store: Store, job: Job) -> Inputs:
    """All inputs of both sides. Raises :class:`UserError` if relations contradict each other."""
    builder = _Builder(store, job)
    shared = _shared(job)
    # placements first: an expression about the same tensors is then one about what they have put there
    related = [node.name for node in job.specification.inputs if node.name in job.inputs]
    for name in sorted(related, key=lambda name: job.inputs[name].placements is None):
        builder.add(name, job.inputs[name], name in shared)
    for node in job.specification.inputs:
        if node.name not in job.inputs:
            builder.out.specification[node.name] = leaf(store, "input", node.name, _type(job.specification, node.name))
    made = (store.leaves.numbers.get(("input", name)) for name in job.specification.computed)
    store.leaves.computed.update(number for number in made if number is not None)
    return builder.finish()


def _shared(job: Job) -> set[str]:
    """Specification inputs whose implementation elements also serve another, or serve twice."""
    uses: dict[Key, list[tuple[str, tuple[tuple[int, int], ...] | None]]] = {}
    wholes: dict[str, list[str]] = {}  # by name on every rank
    out: set[str] = set()
    for name, relation in job.inputs.items():
        if relation.placements is not None:
            wholes.setdefault(relation.name, []).append(name)
            continue
        found = _regions(relation.expression, relation.name, job)
        if found is None:
            out.add(name)
            found = [((t.rank, t.name or relation.name), None) for t in _tensors(relation.expression)]
        for key, box in found:
            for other, taken in uses.get(key, []):
                if (
                    box is None
                    or taken is None
                    or all(max(a[0], b[0]) < min(a[1], b[1]) for a, b in zip(box, taken, strict=True))
                ):
                    out |= {name, other}
            uses.setdefault(key, []).append((name, box))
    for (_, held), users in uses.items():
        if held in wholes:
            out |= {*wholes[held], *(name for name, _ in users)}
    return out.union(*(names for names in wholes.values() if len(names) > 1))


def _tensors(expression: Expression | None) -> list[RankTensor]:

    return [] if expression is None else list(rank_tensors(expression))


def _regions(
    expression: Expression | None, name: str, job: Job
) -> list[tuple[Key, tuple[tuple[int, int], ...] | None]] | None:
    """The boxes of implementation inputs that an invertible expression reads; ``None`` if it is not invertible."""
    if isinstance(expression, RankTensor):
        return [((expression.rank, expression.name or name), None)]
    if isinstance(expression, Slice):
        if not isinstance(expression.operand, RankTensor) or any(step != 1 for _, _, step in expression.bounds):
            return None
        key = (expression.operand.rank, expression.operand.name or name)
        return [(key, tuple((start or 0, stop or 0) for start, stop, _ in expression.bounds))]
    if isinstance(expression, Concat):
        out: list[tuple[Key, tuple[tuple[int, int], ...] | None]] = []
        for item in expression.parts:
            found = _regions(item, name, job)
            if found is None:
                return None
            out.extend(found)
        return out
    if isinstance(expression, (Permute, Reshape)):
        return _regions(expression.operand, name, job)
    return None


def _common(a: Box, b: Box) -> Box:
    return tuple((max(x[0], y[0]), min(x[1], y[1])) for x, y in zip(a, b, strict=True))


def _meet(a: Box, b: Box) -> bool:
    return all(low < high for low, high in _common(a, b))


class _Builder:
    def __init__(self, store: Store, job: Job) -> None:
        self.store = store
        self.job = job
        self.out = Inputs()
        self.regions: dict[Key, list[tuple[tuple[tuple[int, int], ...], Form]]] = {}
        self.layouts: dict[str, tuple[str, InputRelation]] = {}

    def add(self, name: str, relation: InputRelation, reverse: bool) -> None:
        type_ = _type(self.job.specification, name)
        if relation.placements is not None:
            partial = any(isinstance(p, Partial) for p in relation.placements)
            if partial or reverse:
                self._reverse_placements(name, type_, relation, reverse)
            else:
                self._forward_placements(name, type_, relation)
        elif relation.expression is not None:
            if reverse:
                self._reverse_expression(name, type_, relation)
            else:
                self.out.specification[name] = whole = leaf(self.store, "input", name, type_)
                self._assign(relation.expression, whole, relation.name)
        self._equalities(name, relation)

    # -- the specification input is the leaf
    def _forward_placements(self, name: str, type_: TensorType, relation: InputRelation) -> None:
        whole = leaf(self.store, "input", name, type_, sign=relation.signs[0])
        self.out.specification[name] = whole
        placements = relation.placements or ()
        mesh = self.job.mesh
        if even(type_.shape, placements, mesh.sizes):
            self.out.stacked[relation.name] = distribute(self.store, whole, placements, mesh.sizes)
            return
        for rank in range(mesh.world_size):
            self.out.locals[rank, relation.name] = part(
                self.store, whole, local_box(type_.shape, placements, mesh, rank)
            )

    def _assign(self, expression: Expression, value: Form, name: str) -> None:
        """Make the implementation tensors of an invertible expression the parts of ``value``."""
        store = self.store
        if isinstance(expression, Concat):
            start = 0
            for item in expression.parts:
                size = self._shape(item, name)[expression.dim]
                self._assign(item, forms.slice_form(store, value, expression.dim, start, start + size, 1), name)
                start += size
        elif isinstance(expression, Permute):
            inverse = sorted(range(len(expression.dims)), key=expression.dims.__getitem__)
            self._assign(expression.operand, forms.permute(store, value, inverse), name)
        elif isinstance(expression, Reshape):
            self._assign(expression.operand, forms.reshape(store, value, self._shape(expression.operand, name)), name)
        elif isinstance(expression, Slice):
            tensor = expression.operand
            if isinstance(tensor, RankTensor):
                box = tuple((start or 0, stop or 0) for start, stop, _ in expression.bounds)
                self.regions.setdefault((tensor.rank, tensor.name or name), []).append((box, value))
        elif isinstance(expression, RankTensor):
            box = tuple((0, size) for size in value.shape)
            self.regions.setdefault((expression.rank, expression.name or name), []).append((box, value))

    def _shape(self, expression: Expression, name: str) -> Shape:
        if isinstance(expression, RankTensor):
            return _type(self.job.implementation[expression.rank], expression.name or name).shape
        if isinstance(expression, Slice):
            return tuple(-(-((stop or 0) - (start or 0)) // step) for start, stop, step in expression.bounds)
        if isinstance(expression, Concat):
            shapes = [self._shape(item, name) for item in expression.parts]
            d = expression.dim
            return (*shapes[0][:d], sum(s[d] for s in shapes), *shapes[0][d + 1 :])
        if isinstance(expression, Sum):
            return self._shape(expression.parts[0], name)
        if isinstance(expression, Reshape):
            return expression.shape
        if isinstance(expression, Permute):
            shape = self._shape(expression.operand, name)
            return tuple(shape[d] for d in expression.dims)
        raise unresolved(expression)

    # -- the implementation inputs are the leaves
    def _reverse_placements(self, name: str, type_: TensorType, relation: InputRelation, shared: bool) -> None:
        mesh = self.job.mesh
        placements = relation.placements or ()
        first = self.layouts.get(relation.name)
        if first is not None and first[1].placements != placements:
            raise UserError(
                "relation-conflict",
                place=f"{self.job.path}: [inputs] {name}",
                found=f"{relation.text} of {relation.name}, which {first[0]} uses as {first[1].text}",
                needed="one placement for an implementation input that two specification inputs share",
            )
        if not even(type_.shape, placements, mesh.sizes):
            raise UserError(
                "relation-uneven",
                place=f"{self.job.path}: [inputs] {name}",
                found=f"{relation.text}: parts of different sizes",
                needed="equal parts where a placement is Partial or an input is shared",
                hint="write the relation as an expression: concat(rank(0), rank(1), dim=0)",
            )
        if first is None:
            self.layouts[relation.name] = (name, relation)
            parts = [size for p, size in zip(placements, mesh.sizes, strict=True) if isinstance(p, Partial)]
            local_type = _type(self.job.implementation[0], relation.name)
            shape = list(type_.shape)
            cut = leaf(
                self.store, "implementation input", relation.name, local_type, (*parts, *shape), relation.signs[1]
            )
            self.out.stacked[relation.name] = self._spread(cut, placements, shape, len(parts))
        else:
            self._restrict(name, f"{name} and {first[0]} are one tensor of the implementation ({relation.name})")
        stacked = self.out.stacked[relation.name]
        collapsed = collapse(self.store, stacked, placements, mesh.sizes)
        rest = [(p, size) for p, size in zip(placements, mesh.sizes, strict=True) if not isinstance(p, Partial)]
        self.out.specification[name] = self._assemble(
            collapsed, [p for p, _ in rest], [s for _, s in rest], type_.shape
        )

    def _spread(self, cut: Form, placements: tuple[object, ...], shape: list[int], partial: int) -> Form:
        """A leaf with one leading dimension per Partial axis, and the whole tensor behind, as the ranks hold it."""
        store, sizes = self.store, self.job.mesh.sizes
        lead = tuple(cut.shape[:partial])
        flat = forms.reshape(store, cut, (*lead, *shape))
        shifted = [
            Shard(p.dim + partial) if isinstance(p, Shard) else Replicate()
            for p in placements
            if not isinstance(p, Partial)
        ]
        others = [size for p, size in zip(placements, sizes, strict=True) if not isinstance(p, Partial)]
        spread = distribute(store, flat, shifted, others)
        order: list[int] = []
        partials = iter(range(len(others), len(others) + partial))
        rest = iter(range(len(others)))
        for p in placements:
            order.append(next(partials) if isinstance(p, Partial) else next(rest))
        order.extend(range(len(others) + partial, len(spread.dims)))
        return forms.permute(store, spread, order)

    def _assemble(self, stacked: Form, placements: list[object], sizes: list[int], shape: Shape) -> Form:
        """The whole tensor of which the ranks hold (even) parts: coordinate 0 of every replicated axis."""
        store = self.store
        for axis, p in enumerate(placements):
            if not isinstance(p, Shard):
                stacked = forms.slice_form(store, stacked, axis, 0, 1, 1)
        order: list[int] = [axis for axis, p in enumerate(placements) if not isinstance(p, Shard)]
        for d in range(len(shape)):
            order.extend(axis for axis, p in enumerate(placements) if isinstance(p, Shard) and p.dim == d)
            order.append(len(placements) + d)
        return forms.reshape(store, forms.permute(store, stacked, order), shape)

    def _reverse_expression(self, name: str, type_: TensorType, relation: InputRelation) -> None:
        def tensor(rank: int, wanted: str) -> Form:
            key = (rank, wanted)
            if wanted in self.out.stacked:
                return local(self.store, self.out.stacked[wanted], self.job.mesh, rank)
            if key not in self.out.locals:
                found = _type(self.job.implementation[rank], wanted)
                self.out.locals[key] = leaf(
                    self.store, "implementation input", (wanted, self._class_of(relation, key)), found
                )
            return self.out.locals[key]

        expression = relation.expression
        if expression is None:
            return
        seen: set[Key] = set()
        for t in _tensors(expression):
            key = (t.rank, t.name or relation.name)
            if key in seen or key in self.out.locals or key[1] in self.out.stacked:
                self._restrict(
                    name, f"{name} = {relation.text} uses {t.name or relation.name} of rank {t.rank} more than once"
                )
                break
            seen.add(key)
        self.out.specification[name] = evaluate(self.store, expression, tensor, relation.name)

    def _class_of(self, relation: InputRelation, key: Key) -> Key:
        """The representative of the implementation inputs that ``equal`` makes one."""
        for a, b in relation.equal:
            if not isinstance(a, RankTensor) or not isinstance(b, RankTensor):
                continue
            pair = ((a.rank, a.name or relation.name), (b.rank, b.name or relation.name))
            if key == pair[1]:
                return self._class_of(relation, pair[0]) if pair[0] != key else key
        return key

    def _restrict(self, name: str, text: str) -> None:
        self.out.restrictions.append(
            Assumption("input-restriction", f"the relation restricts the specification: {text}", (name,))
        )

    def _equalities(self, name: str, relation: InputRelation) -> None:
        for a, b in relation.equal:
            if isinstance(a, Slice) or isinstance(b, Slice):
                self._equal_parts(name, relation, a, b)
                continue
            if not isinstance(a, RankTensor) or not isinstance(b, RankTensor):
                raise InternalError(f"{a} == {b}, which are no tensors of ranks")
            left, right = (a.rank, a.name or relation.name), (b.rank, b.name or relation.name)
            for source, target in ((left, right), (right, left)):
                if source in self.regions and target not in self.regions:
                    self.regions[target] = self.regions[source]
                elif source in self.out.locals and target not in self.out.locals:
                    self.out.locals[target] = self.out.locals[source]
            if left in self.regions and right in self.regions and self.regions[left] is not self.regions[right]:
                raise UserError(
                    "relation-restricts",
                    place=f"{self.job.path}: [inputs] {name}",
                    found=f"equal = {a} == {b}, both already parts of {name}",
                    needed="equalities between a tensor that the relation uses and one that it does not use",
                )

    def _equal_parts(self, name: str, relation: InputRelation, a: Expression, b: Expression) -> None:
        """Slices that are equal: what the relation has put into one of them is in the other one, too."""
        (left, at), (right, to) = (self._box(side, relation.name) for side in (a, b))
        place = f"{self.job.path}: [inputs] {name}"
        for source, inside, target, box in ((left, at, right, to), (right, to, left, at)):
            held = [region for region in self.regions.get(source, []) if _meet(region[0], inside)]
            if not held:
                continue
            if any(_meet(region[0], box) for region in self.regions.get(target, [])):
                raise UserError(
                    "relation-restricts",
                    place=place,
                    found=f"equal = {a} == {b}, both already parts of {name}",
                    needed="equalities between a part that the relation uses and one that it does not use",
                )
            for region, form in held:
                cut = [(max(r[0], i[0]), min(r[1], i[1])) for r, i in zip(region, inside, strict=True)]
                found = part(self.store, form, [(c[0] - r[0], c[1] - r[0]) for c, r in zip(cut, region, strict=True)])
                moved = tuple(
                    (c[0] - i[0] + o[0], c[1] - i[0] + o[0]) for c, i, o in zip(cut, inside, box, strict=True)
                )
                self.regions.setdefault(target, []).append((moved, found))
            covered = sum(prod(high - low for low, high in _common(region, inside)) for region, _ in held)
            if covered == prod(high - low for low, high in inside):
                return
            break
        raise UserError(
            "relation-restricts",
            place=place,
            found=f"equal = {a} == {b}, of which the relation uses neither as a whole",
            needed="slices one of which is made of parts of this input, none of them twice",
            hint="say what the whole tensors are in the relation, or state that the whole tensors are equal",
        )

    def _box(self, side: Expression, name: str) -> tuple[Key, Box]:
        """The tensor that a side of an equality is a part of, and the part."""
        tensor = side.operand if isinstance(side, Slice) else side
        if not isinstance(tensor, RankTensor):
            raise InternalError(f"{side}, which is no part of a tensor of a rank")
        key = (tensor.rank, tensor.name or name)
        if not isinstance(side, Slice):
            return key, tuple((0, size) for size in _type(self.job.implementation[key[0]], key[1]).shape)
        if any(step != 1 for _, _, step in side.bounds):
            raise UserError(
                "relation-restricts",
                place=f"{self.job.path}: [inputs]",
                found=f"{side}, a slice with steps, in `equal`",
                needed="slices without steps",
            )
        return key, tuple((start or 0, stop or 0) for start, stop, _ in side.bounds)

    # -- everything else
    def finish(self) -> Inputs:
        out = self.out
        for key, found in self.regions.items():
            shape = _type(self.job.implementation[key[0]], key[1]).shape
            out.locals[key] = self._patchwork(key, shape, found)
        names = {node.name for graph in self.job.programs for node in graph.inputs}
        for name in sorted(names):
            if name in out.stacked:
                continue
            holders = [rank for rank, graph in enumerate(self.job.implementation) if name in graph.by_name]
            missing = [rank for rank in holders if (rank, name) not in out.locals]
            for rank in missing:
                found = _type(self.job.implementation[rank], name)
                out.locals[rank, name] = leaf(self.store, "free input", (name, rank), found)
        return out

    def _patchwork(self, key: Key, shape: Shape, regions: list[tuple[tuple[tuple[int, int], ...], Form]]) -> Form:
        """A tensor made of boxes; what no box covers is free."""
        whole = tuple((0, size) for size in shape)
        if len(regions) == 1 and regions[0][0] == whole:
            return regions[0][1]
        rest = leaf(self.store, "free input", (key[1], key[0]), _type(self.job.implementation[key[0]], key[1]))

        def build(box: tuple[tuple[int, int], ...], dim: int) -> Form:
            for region, form in regions:
                if all(r[0] <= b[0] and b[1] <= r[1] for r, b in zip(region, box, strict=True)):
                    return part(
                        self.store, form, [(b[0] - r[0], b[1] - r[0]) for r, b in zip(region, box, strict=True)]
                    )
            if dim == len(shape):
                return part(self.store, rest, box)
            inside = {x for region, _ in regions for x in region[dim] if box[dim][0] < x < box[dim][1]}
            cuts = sorted({box[dim][0], box[dim][1], *inside})
            parts = [build((*box[:dim], span, *box[dim + 1 :]), dim + 1) for span in itertools.pairwise(cuts)]
            return forms.concat(self.store, parts, dim) if len(parts) > 1 else parts[0]

        return build(whole, 0)
