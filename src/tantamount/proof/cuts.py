"""Cut points: where both programs are proved to agree, both go on from one fresh tensor.

Let t be a tensor of the specification and u a tensor of the implementation that is proved to be the part of t that a
placement gives each rank. From then on t stands for a fresh leaf L of its shape, and u for that part of L. Whatever is
proved afterwards holds for every L, so it holds for the value that t really has: cuts never prove anything false. (The
record of where a tensor is undefined stays with each of the two: t may be finite where u is not.) They
may lose what is true (what follows from how t was computed), so a failure after cuts is not a failure yet. What is
known of every element of t (it is positive, it is not negative) is true of its value, and kept with L.

A mask over positive numbers, t = M p, stays in sight: t stands for M L, and u for that part of M L, where L is
positive. Some L makes M L the value that t has, p itself, so that this holds of it, too. It says where t is 0, so that
a sum over what a causal mask keeps is known to be positive.

Forms stay as small as one step of the programs, so that the cost of a proof grows with the number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tantamount.calculus import forms, powers
from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.boxes import Box
from tantamount.calculus.compare import equal
from tantamount.calculus.forms import Form, leaf_form
from tantamount.calculus.infinities import unbounded
from tantamount.calculus.masked import covered, mask_over_positive
from tantamount.calculus.partial import always_positive
from tantamount.calculus.records import with_undefined
from tantamount.calculus.terms import Polynomial, sole_factor, sole_number
from tantamount.calculus.unfold import define, leaves_of
from tantamount.errors import Unsupported
from tantamount.ir.graph import references
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Placement, Shard, Sign
from tantamount.ir.relation_types import local_box
from tantamount.ir.types import Kind, Shape
from tantamount.limits import Limits
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import operator_of
from tantamount.ops.classes import RankClass
from tantamount.ops.execute import Result
from tantamount.ops.relations import even
from tantamount.proof.inputs import Inputs
from tantamount.proof.placements import distribute, local, part, stack
from tantamount.proof.run import SpecificationRun

__all__ = ["Align", "Aligned", "Candidates", "Cuts", "Ordered", "Window", "sign_of"]

_SIMPLE = ("movement", "reduction")  # operators by which a tensor is a view, or a sum, of another one
SOURCE = "cut"  # the kind of leaf that a cut makes


@dataclass(frozen=True, slots=True)
class Window:
    """Block ``index`` of ``count`` equal ones along dimension ``dim``: of the whole tensor, which is then placed, or
    (``inner``) of the part that placements give a rank. Microbatches are such blocks."""

    dim: int
    count: int
    index: int
    inner: bool

    def of(self, low: int, high: int) -> tuple[int, int] | None:
        """The block of an interval; ``None`` if it does not divide."""
        step, rest = divmod(high - low, self.count)
        return None if rest or not step else (low + self.index * step, low + (self.index + 1) * step)


@dataclass(frozen=True, slots=True)
class Ordered:
    """A tensor whose equal blocks along dimension ``dim`` are put in another order: ``blocks[k]`` comes k-th."""

    dim: int
    blocks: tuple[int, ...]

    def of(self, store: Store, whole: Form) -> Form:
        """The tensor with its blocks in this order."""
        size = whole.shape[self.dim] // len(self.blocks)
        cut = (forms.slice_form(store, whole, self.dim, k * size, (k + 1) * size, 1) for k in self.blocks)
        return forms.concat(store, list(cut), self.dim)


@dataclass(frozen=True, slots=True)
class Aligned:
    """The part of the specification that a tensor of a class of ranks seems to be: the one (of the block ``window``)
    that ``placements`` give each rank of a specification tensor, or of what that is with its blocks ``ordered``.
    ``names``: that tensor, or one for each rank of the class, in their order."""

    names: tuple[str, ...]
    placements: tuple[Placement, ...]
    window: Window | None = None
    ordered: Ordered | None = None

    def box(self, shape: Shape, mesh: Mesh, rank: int) -> tuple[tuple[int, int], ...] | None:
        """The part of a tensor of that shape on one rank; ``None`` if it does not divide."""
        window = self.window
        if window is None:
            return local_box(shape, self.placements, mesh, rank)
        if window.inner:
            box = local_box(shape, self.placements, mesh, rank)
            found = window.of(*box[window.dim])
        else:
            found = window.of(0, shape[window.dim])
            if found is None:
                return None
            size = found[1] - found[0]
            block = (*shape[: window.dim], size, *shape[window.dim + 1 :])
            box = local_box(block, self.placements, mesh, rank)
            low, high = box[window.dim]
            found = (low + found[0], high + found[0])
        return None if found is None else (*box[: window.dim], found, *box[window.dim + 1 :])


Candidates = Mapping[tuple[int, str], tuple[Aligned, ...]]  # by the leader of a class and node name
Align = Callable[[Store, Job, Inputs, Sequence[RankClass], Limits], Candidates]


@dataclass
class Cuts:
    """The cuts of one pair of runs. ``demand`` computes the value of a specification tensor."""

    store: Store
    job: Job
    specification: SpecificationRun
    classes: Sequence[RankClass]
    aligned: Candidates
    definitions: dict[str, Form] = field(default_factory=dict[str, Form])  # of specification tensors that are cut
    proved: set[str] = field(default_factory=set[str])  # specification tensors with a counterpart
    unproved: set[str] = field(default_factory=set[str])  # specification tensors whose counterparts were not proved
    _expected: set[str] = field(default_factory=set[str])  # specification tensors that some tensor may be
    _come: set[str] = field(default_factory=set[str])  # those of them that one has been compared with
    _leaves: dict[Form, int] = field(default_factory=dict[Form, int])
    _whole_of: dict[tuple[str, Shape], bool] = field(default_factory=dict[tuple[str, Shape], bool])
    _uncut: dict[str, Form | None] = field(default_factory=dict[str, "Form | None"])
    _of_inputs: dict[int, set[str]] = field(default_factory=dict[int, set[str]])

    def of_class(self, ranks: RankClass, name: str, value: Tensor) -> Tensor:
        """A tensor of the ranks of a class: the parts of a fresh leaf if it is proved to be those of a tensor."""
        aligned = self.aligned.get((ranks.leader, name), ())
        self._come.update(other for candidate in aligned for other in candidate.names)
        if not aligned or not _may_be_cut(self.store, value) or name not in self._with_inputs(ranks.leader):
            return value
        target = self.job.implementation[ranks.leader].by_name[name].target

        def later(candidate: Aligned) -> tuple[bool, bool]:
            """A tensor that is computed several times is compared with one that has not been found yet, if there is one
            (blocks of one are found one after the other), and with one of the same operator first."""
            first = candidate.names[0]
            found = candidate.window is None and first in self.definitions
            return found, self.job.specification.by_name[first].target != target

        for candidate in sorted(aligned, key=later):
            if len(candidate.names) not in (1, len(ranks.ranks)):  # found where there are other numbers of ranks
                continue
            if any(map(self._is_far_ahead, candidate.names)):
                continue
            wholes = [self._whole(name) for name in candidate.names]
            known = [whole for whole in wholes if whole is not None]
            if len(known) < len(wholes):
                continue
            if candidate.window is not None and not self._together(candidate.names[0], known[0].shape):
                continue
            computed = [self._computed(whole, name, value) for whole, name in zip(known, candidate.names, strict=True)]
            wanted = self._held(computed, candidate, ranks)
            if wanted is not None and self._proved(candidate.names, wanted, value.value):
                cut = {name: self._cut(name, x) for name, x in dict(zip(candidate.names, known, strict=True)).items()}
                leaves = [cut[name] for name in candidate.names]
                if len(leaves) == 1 and candidate.window is None:
                    self._cut_copies(candidate.names[0], leaves[0], aligned)
                held = self._held(leaves, candidate, ranks)
                return value if held is None else replace(value, value=with_undefined(held, value.value.undefined))
        return value

    def parts(self, ranks: RankClass, name: str, value: Tensor) -> tuple[Aligned, ...]:
        """The specification tensors, each with placements, whose parts a tensor of a class is proved to be: what both
        sides have by now is compared."""
        found: list[Aligned] = []
        for candidate in self.aligned.get((ranks.leader, name), ()):
            whole = self.specification.values.get(candidate.names[0])
            if len(candidate.names) > 1 or candidate.window is not None or not isinstance(whole, Tensor):
                continue
            held = self._held([whole.value], candidate, ranks)
            same_type = whole.dtype.kind is value.dtype.kind and held is not None and held.shape == value.value.shape
            if held is not None and same_type and equal(self.store, held, value.value, expand=False) is None:
                found.append(candidate)
        return tuple(found)

    def _together(self, name: str, shape: Shape) -> bool:
        """True if the blocks that tensors of all ranks seem to be are, together, a whole specification tensor.

        Of scores below a causal mask ranks of a ring compute some blocks, and nobody the others. What one rank made of
        its blocks before one of them was compared is not what it would be of parts of a leaf."""
        if (name, shape) not in self._whole_of:
            leaders = {ranks.leader: ranks for ranks in self.classes}
            mesh, sizes = self.job.mesh, dict[tuple[tuple[int, int], ...], int]()
            for (leader, _), found in self.aligned.items():
                for candidate in found:
                    if name not in candidate.names:
                        continue
                    box = candidate.box(shape, mesh, leader)
                    if box is not None:
                        inside = leaders[leader].mesh.axes
                        cut = (mesh.axes[axis] for axis, p in zip(mesh.names, candidate.placements, strict=True)
                               if axis in inside and isinstance(p, Shard))  # fmt: skip
                        sizes[box] = prod((*(high - low for low, high in box), *cut))
            self._whole_of[name, shape] = sum(sizes.values()) >= prod(shape)
        return self._whole_of[name, shape]

    def _is_far_ahead(self, name: str) -> bool:
        """True if computing a specification tensor now takes many others whose counterparts have not come yet: equal
        by chance, most likely, and without cuts in between."""
        if name in self.specification.values:
            return False
        if not self._expected:
            self._expected.update(other for found in self.aligned.values() for one in found for other in one.names)
        pending, seen, ahead = [name], {name}, 0
        while pending:
            for other in references(self.job.specification.by_name[pending.pop()]):
                if other in self.specification.values or other in seen:
                    continue
                seen.add(other)
                pending.append(other)
                ahead += other in self._expected and other not in self._come
                if self.store.effort.exceeds("cuts_ahead", ahead):
                    return True
        return False

    def _cut_copies(self, name: str, leaf: Form, candidates: Iterable[Aligned]) -> None:
        """The leaf of a specification tensor for those that are computed to the same: which of them a rank's tensor is
        compared with is chance. Only where that takes no computing of what comes later."""
        form = self.definitions.get(name)
        for other in dict.fromkeys(other for candidate in candidates for other in candidate.names):
            operands = references(self.job.specification.by_name[other])
            if form is None or other in self.definitions or not all(o in self.specification.values for o in operands):
                continue
            copy = self._whole(other)
            if copy is None or copy.shape != form.shape:
                continue
            if equal(self.store, form, copy.value, expand=False) is None:
                self.definitions[other] = copy.value
                self.specification.values[other] = replace(copy, value=with_undefined(leaf, copy.value.undefined))

    def _with_inputs(self, rank: int) -> set[str]:
        """The tensors of a rank that inputs have a part in. What is made of numbers alone (positions, their cosines,
        masks) stays what it is: both programs compute it anew in many shapes, of which some have no counterpart. So
        does what is made of single numbers (a step count, a learning rate): where the corrections of an optimizer are 0
        is seen only together."""
        found = self._of_inputs.get(rank)
        if found is None:
            found = self._of_inputs[rank] = set()
            for node in self.job.implementation[rank].nodes:
                given = node.op == "input" and node.type is not None and bool(node.type.shape)
                if given or not found.isdisjoint(references(node)):
                    found.add(node.name)
        return found

    def _held(self, wholes: Sequence[Form], candidate: Aligned, ranks: RankClass) -> Form | None:
        """The parts of a tensor (or of one for each rank) that the ranks of a class hold, stacked; ``None`` where their
        sizes differ."""
        if candidate.ordered is not None:
            wholes = [candidate.ordered.of(self.store, whole) for whole in wholes]
        mesh, whole, window = self.job.mesh, wholes[0], candidate.window
        if len(ranks.ranks) == 1 or len(wholes) > 1:
            each = wholes if len(wholes) > 1 else [whole]
            boxes = [candidate.box(x.shape, mesh, rank) for x, rank in zip(each, ranks.ranks, strict=True)]
            parts = [part(self.store, x, box) for x, box in zip(each, boxes, strict=True) if box is not None]
            if len(parts) < len(boxes) or len({x.shape for x in parts}) > 1:
                return None
            return stack(self.store, parts, ranks.mesh.sizes)  # of one rank, too: axes of size 1 are folded
        if window is not None and not window.inner:
            block = window.of(0, whole.shape[window.dim])
            if block is None:
                return None
            whole = forms.slice_form(self.store, whole, window.dim, *block, 1)
        if not even(whole.shape, candidate.placements, mesh.sizes):
            return None
        stacked = distribute(self.store, whole, candidate.placements, mesh.sizes)
        found = local(self.store, stacked, mesh, ranks.leader, ranks.mesh.names)
        if window is not None and window.inner:
            dim = len(ranks.mesh.sizes) + window.dim
            block = window.of(0, found.shape[dim])
            return None if block is None else forms.slice_form(self.store, found, dim, *block, 1)
        return found

    def _computed(self, whole: Tensor, name: str, value: Tensor) -> Form:
        """The form that was computed of a specification tensor, whether or not a leaf stands for it by now, or, unless
        ``value`` knows of the leaf, for the tensor that it is a view of."""
        root = self._cut_before(name) if len(self.classes) > 1 else name
        found = self.definitions.get(name)
        if root != name:
            cut = _leaves(self.store, self.specification.values[root])
            if cut.isdisjoint(_leaves(self.store, value)):
                found = self._of_computed(name, root) or found
        return whole.value if found is None else found

    def _cut_before(self, name: str) -> str:
        """The first tensor of which a specification tensor is a view, or a sum, and for which a leaf stands; itself if
        there is none."""
        found, graph = name, self.job.specification
        while True:
            node = graph.by_name[name]
            operands = references(node)
            if node.op != "call" or len(operands) != 1 or node.target == "getitem":
                return found
            if operator_of(graph, node).category not in _SIMPLE:
                return found
            (name,) = operands
            found = name if name in self.definitions else found

    def _of_computed(self, name: str, root: str) -> Form | None:
        """The form of such a tensor with what was computed in place of the leaf. Classes of ranks come to their parts
        one after the other, and in other views: what another one had cut by then, this one has computed."""
        if name == root:
            return self.definitions[root]
        if name not in self._uncut:
            (operand,) = references(self.job.specification.by_name[name])
            before, form = self.specification.values[operand], self._of_computed(operand, root)
            result: Result | None = None
            if form is not None and isinstance(before, Tensor):
                result = self.specification.again(name, {operand: replace(before, value=form)})
            self._uncut[name] = result.value if isinstance(result, Tensor) else None
        return self._uncut[name]

    def _proved(self, names: Sequence[str], wanted: Form, found: Form) -> bool:
        """Products are multiplied out only if all that the tensor is computed from has been proved: behind a difference
        everything differs, and the search is long."""
        if wanted.shape != found.shape:
            return False
        if equal(self.store, wanted, found, expand=not any(map(self._behind_a_difference, names))) is None:
            self.proved.update(names)
            return True
        self.unproved.update(names)
        return False

    def _behind_a_difference(self, name: str) -> bool:
        graph = self.job.specification
        pending, seen = [*references(graph.by_name[name])], {name}
        while pending:
            other = pending.pop()
            if other in self.proved or other in seen:
                continue
            if other in self.unproved:
                return True
            seen.add(other)
            pending.extend(references(graph.by_name[other]))
        return False

    def _whole(self, name: str) -> Tensor | None:
        try:
            self.specification.demand(name)
        except Unsupported:
            return None
        value = self.specification.values.get(name)
        return value if isinstance(value, Tensor) and value.dtype.kind is Kind.FLOAT else None

    def _cut(self, name: str, whole: Tensor) -> Form:
        """The leaf that stands for a specification tensor from now on, or the view of one that it is.

        Classes of ranks come to their parts of a tensor in other views of it, and two leaves would be two unknowns. So
        where a tensor has the elements of one before it, in another order or shape, the leaf is that one's."""
        if name in self.definitions or _is_view(self.store, whole.value):
            return whole.value
        before = self._rearranged(name) if len(self.classes) > 1 else None
        if before is None:
            return self._leaf(name, whole)
        operand, value = before
        found = self.specification.again(name, {operand: replace(value, value=self._cut(operand, value))})
        if not isinstance(found, Tensor):
            return self._leaf(name, whole)
        self.definitions[name] = whole.value
        view = with_undefined(found.value, whole.value.undefined)
        self.specification.values[name] = replace(whole, value=view)
        return view

    def _rearranged(self, name: str) -> tuple[str, Tensor] | None:
        """The tensor, and its value, whose elements are those of a specification tensor, in another order or shape."""
        graph = self.job.specification
        node = graph.by_name[name]
        operands = references(node)
        if node.op != "call" or len(operands) != 1 or node.target == "getitem":
            return None
        value, type_ = self.specification.values.get(operands[0]), graph.by_name[operands[0]].type
        if not isinstance(value, Tensor) or value.dtype.kind is not Kind.FLOAT or type_ is None or node.type is None:
            return None
        moved = operator_of(graph, node).category == "movement" and prod(type_.shape) == prod(node.type.shape)
        return (operands[0], value) if moved else None

    def _leaf(self, name: str, whole: Tensor) -> Form:
        """A fresh leaf in the place of a specification tensor."""
        form: Form = whole.value
        self.definitions[name] = form
        found = mask_over_positive(self.store, form)
        mask, below = (None, form) if found is None else found
        shape = form.sizes if any(len(dim) > 1 for dim in form.dims) else whole.shape
        leaf = self._leaves.get(form)  # of a tensor that is computed alike: they stay equal
        if leaf is None:
            leaf = self._leaves[form] = self.store.leaf(SOURCE, name, shape, _facts(self.store, below))
            define(self.store, leaf, below)
            self.store.leaves.computed.add(leaf)
        value = Form(form.dims, leaf_form(leaf, shape).pieces)  # axis by axis, as it was computed
        cut = with_undefined(value if mask is None else covered(self.store, mask, value), form.undefined)
        self.specification.values[name] = replace(whole, value=cut)
        return cut


def _leaves(store: Store, value: Result) -> set[int]:
    """The leaf atoms that a tensor mentions."""
    pieces = value.value.pieces if isinstance(value, Tensor) else ()
    return {leaf for _, x in pieces for leaf in leaves_of(store, x)}


def _may_be_cut(store: Store, value: Tensor) -> bool:
    """Real tensors that are more than a view of a leaf. Infinities stay visible: they vanish in exponentials."""
    if value.dtype.kind is not Kind.FLOAT or not value.value.pieces or _is_view(store, value.value):
        return False
    return not any(unbounded(store, x) for _, x in value.value.pieces)


def _is_view(store: Store, form: Form) -> bool:
    """True if every element is an element of a leaf, or a number."""
    for _, x in form.pieces:
        factor = sole_factor(x)
        if factor is None and sole_number(x) is None:
            return False
        if factor is not None and (factor.exponent != 1 or store.atoms[factor.atom].op != "leaf"):
            return False
    return True


def _facts(store: Store, form: Form) -> ValueFacts:
    sign = sign_of(store, form)
    return ValueFacts(positive=sign is Sign.POSITIVE, nonnegative=sign is not Sign.ANY)


def sign_of(store: Store, form: Form) -> Sign:
    """The sign of every element, as far as it is known."""
    if all(_is_positive(store, x, box) for box, x in form.pieces):
        return Sign.POSITIVE
    return Sign.NONNEGATIVE if all(powers.nonnegative(store, x) for _, x in form.pieces) else Sign.ANY


def _is_positive(store: Store, x: Polynomial, box: Box) -> bool:
    """True of a polynomial that is known to be > 0 on the box: so is what a masked softmax divides by, where each row
    keeps something (its diagonal)."""
    return powers.strictly_positive(store, x) or (not unbounded(store, x) and always_positive(store, x, box))
