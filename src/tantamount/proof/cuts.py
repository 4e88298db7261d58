"""Cut points: where both programs are proved to agree, both go on from one fresh tensor.

Let t be a tensor of the specification and u a tensor of the implementation that is proved to be the part of t that a
placement gives each rank. From then on t stands for a fresh leaf L of its shape, and u for that part of L. Whatever is
proved afterwards holds for every L, so it holds for the value that t really has: cuts never prove anything false. (The
record of where a tensor is undefined stays with each of the two: t may be finite where u is not.) They
may lose what is true (what follows from how t was computed), so a failure after cuts is not a failure yet. What is
known of every element of t (it is positive, it is not negative) is true of its value, and kept with L.

Forms stay as small as one step of the programs, so that the cost of a proof grows with the number of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tantamount.calculus import powers
from tantamount.calculus.atoms import Facts, Store
from tantamount.calculus.compare import equal
from tantamount.calculus.forms import Form, leaf_form
from tantamount.calculus.infinities import unbounded
from tantamount.calculus.records import with_undefined
from tantamount.calculus.terms import sole_factor, sole_number
from tantamount.calculus.unfold import define
from tantamount.errors import Unsupported
from tantamount.ir.graph import references
from tantamount.ir.job import Job
from tantamount.ir.relation import Placement
from tantamount.ir.relation_types import local_box
from tantamount.ir.types import Kind
from tantamount.limits import Limits
from tantamount.ops.algebra import Tensor
from tantamount.ops.classes import RankClass
from tantamount.ops.relations import even
from tantamount.proof.inputs import Inputs
from tantamount.proof.placements import distribute, local, part
from tantamount.proof.run import SpecificationRun
from tantamount.reduction import Reduction

__all__ = ["Align", "Aligned", "Candidates", "Cuts"]

SOURCE = "cut"  # the kind of leaf that a cut makes


@dataclass(frozen=True, slots=True)
class Aligned:
    """The specification tensor whose part under ``placements`` a tensor of the implementation seems to be."""

    name: str
    placements: tuple[Placement, ...]


Candidates = Mapping[tuple[int, str], tuple[Aligned, ...]]  # by rank and node name
Align = Callable[[Store, Job, Inputs, Limits], tuple[Candidates, Reduction | None]]


@dataclass
class Cuts:
    """The cuts of one pair of runs. ``demand`` computes the value of a specification tensor."""

    store: Store
    job: Job
    specification: SpecificationRun
    aligned: Candidates
    definitions: dict[str, Form] = field(default_factory=dict[str, Form])  # of specification tensors that are cut
    proved: set[str] = field(default_factory=set[str])  # specification tensors with a counterpart
    unproved: set[str] = field(default_factory=set[str])  # specification tensors whose counterparts were not proved
    _leaves: dict[Form, int] = field(default_factory=dict[Form, int])
    _of_inputs: dict[int, set[str]] = field(default_factory=dict[int, set[str]])

    def of_class(self, ranks: RankClass, name: str, value: Tensor) -> Tensor:
        """A tensor of the ranks of a class: the parts of a fresh leaf if it is proved to be those of a tensor."""
        if not _may_be_cut(self.store, value) or name not in self._with_inputs(ranks.leader):
            return value
        aligned = self.aligned.get((ranks.leader, name), ())
        # a tensor that is computed several times is compared with one that has not been found yet, if there is one
        for candidate in sorted(aligned, key=lambda found: found.name in self.definitions):
            if any(candidate not in self.aligned.get((rank, name), ()) for rank in ranks.ranks[1:]):
                continue
            whole = self._whole(candidate.name)
            if whole is None:
                continue
            wanted = self._held(self._computed(whole, candidate), candidate, ranks)
            if wanted is not None and self._proved(candidate.name, wanted, value.value):
                leaf = self._cut(candidate.name, whole)
                self._cut_copies(candidate.name, leaf, aligned)
                held = self._held(leaf, candidate, ranks)
                return value if held is None else replace(value, value=with_undefined(held, value.value.undefined))
        return value

    def _cut_copies(self, name: str, leaf: Form, candidates: Iterable[Aligned]) -> None:
        """The leaf of a specification tensor for those that are computed to the same: which of them a rank's tensor is
        compared with is chance. Only where that takes no computing of what comes later."""
        form = self.definitions.get(name)
        for other in dict.fromkeys(candidate.name for candidate in candidates):
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
        masks) stays what it is: both programs compute it anew in many shapes, of which some have no counterpart."""
        found = self._of_inputs.get(rank)
        if found is None:
            found = self._of_inputs[rank] = set()
            for node in self.job.implementation[rank].nodes:
                if node.op == "input" or not found.isdisjoint(references(node)):
                    found.add(node.name)
        return found

    def _held(self, whole: Form, candidate: Aligned, ranks: RankClass) -> Form | None:
        """The parts of a tensor that the ranks of a class hold, stacked; ``None`` where their sizes differ."""
        mesh = self.job.mesh
        if len(ranks.ranks) == 1:
            return part(self.store, whole, local_box(whole.shape, candidate.placements, mesh, ranks.leader))
        if not even(whole.shape, candidate.placements, mesh.sizes):
            return None
        stacked = distribute(self.store, whole, candidate.placements, mesh.sizes)
        return local(self.store, stacked, mesh, ranks.leader, ranks.mesh.names)

    def _computed(self, whole: Tensor, candidate: Aligned) -> Form:
        """The form that was computed of a specification tensor, whether or not a leaf stands for it by now."""
        found = self.definitions.get(candidate.name)
        return whole.value if found is None else found

    def _proved(self, name: str, wanted: Form, found: Form) -> bool:
        """Products are multiplied out only if all that the tensor is computed from has been proved: behind a difference
        everything differs, and the search is long."""
        if wanted.shape != found.shape:
            return False
        if equal(self.store, wanted, found, expand=not self._behind_a_difference(name)) is None:
            self.proved.add(name)
            return True
        self.unproved.add(name)
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
        """The leaf that stands for a specification tensor from now on."""
        form: Form = whole.value
        if name in self.definitions or _is_view(self.store, form):
            return form
        self.definitions[name] = form
        leaf = self._leaves.get(form)  # of a tensor that is computed alike: they stay equal
        if leaf is None:
            leaf = self._leaves[form] = self.store.leaf(SOURCE, name, whole.shape, _facts(self.store, form))
            define(self.store, leaf, form)
        cut = with_undefined(leaf_form(leaf, whole.shape), form.undefined)
        self.specification.values[name] = replace(whole, value=cut)
        return cut


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


def _facts(store: Store, form: Form) -> Facts:
    positive = all(powers.strictly_positive(store, x) for _, x in form.pieces)
    return Facts(positive=positive, nonnegative=positive or all(powers.nonnegative(store, x) for _, x in form.pieces))
