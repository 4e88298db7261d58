"""Missing reductions: a tensor of which every rank holds one summand, used where the whole is needed.

An implementation tensor is ``Partial("sum")`` of a specification tensor if its sum over ranks is that tensor. An
operator may pass that on (a view, a matrix product with a replicated matrix); where it does not, as when a summand is
added to a replicated tensor or squared, a reduction is missing before it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tantamount.calculus.atoms import Store
from tantamount.calculus.forms import Form
from tantamount.calculus.sums import signature
from tantamount.diagnosis.naming import short
from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.job import Job
from tantamount.ir.layouts import layouts
from tantamount.ir.relation import Partial, Placement, Replicate
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import facts_of
from tantamount.ops.facts import NOTHING, Facts
from tantamount.proof.outputs import ancestors, holds, independent, show
from tantamount.proof.run import RanksRun, SpecificationRun
from tantamount.verdict import Relation

__all__ = ["Summand", "bare_summand", "misuse", "summand_of"]


@dataclass(frozen=True, slots=True)
class Summand:
    """The implementation's ``node`` has these placements, at least one of them ``Partial("sum")``, of a specification
    tensor."""

    node: str
    placements: tuple[Placement, ...]

    def axes(self, job: Job) -> str:
        """The mesh axes over which a sum is missing."""
        names = (axis for axis, p in zip(job.mesh.names, self.placements, strict=True) if isinstance(p, Partial))
        return " and ".join(names)

    @property
    def reduced(self) -> str:
        """The placements that it would have after an all-reduce, as text."""
        return show([Replicate() if isinstance(p, Partial) else p for p in self.placements])


def summand_of(
    store: Store, job: Job, implementation: RanksRun, whole: Tensor, among: Collection[str] | None = None
) -> Summand | None:
    """The last implementation tensor (``among`` some, unless it is ``None``) whose sum over ranks is the given
    specification tensor. Replicas do not count: n times a tensor is no sum that anybody forgot."""
    if not whole.dtype.is_float or (among is not None and not among):
        return None
    sizes = job.mesh.sizes
    atoms = atoms_of(store, whole.value)
    for node in reversed(job.implementation[0].nodes):
        if node.op == "input" or node.type is None or node.type.dtype.kind is not whole.dtype.kind:
            continue
        if among is not None and node.name not in among:
            continue
        options = [
            ps
            for ps in layouts(whole.shape, sizes, local=node.type.shape, partial=True)
            if any(isinstance(p, Partial) for p in ps)
        ]
        stacked = implementation.stacked(store, node.name) if options else None
        if stacked is None or not atoms_of(store, stacked) & atoms:
            continue
        for placements in options:
            if holds(store, whole.value, placements, implementation, node.name, expand=False) is None and independent(
                store, stacked, placements
            ):
                return Summand(node.name, placements)
    return None


def atoms_of(store: Store, form: Form) -> set[tuple[int, object]]:
    """The leaves and functions of the summands at the top of a form: what a form shares with its partial sums."""
    found: set[tuple[int, object]] = set()
    for _, x in form.pieces:
        for m, _ in x:
            found.update(signature(store, m))
    return found


def bare_summand(job: Job, summand: Summand) -> str:
    """The text where nothing is known of how the summand is used."""
    over = summand.axes(job)
    return (
        f"{summand.node} is {show(summand.placements)}: every rank holds one summand over {over}, "
        f"and what follows uses it as if it were {summand.reduced}: "
        f"a sum over {over} is missing (all_reduce or reduce_scatter)"
    )


def misuse(
    store: Store,
    job: Job,
    specification: SpecificationRun,
    implementation: RanksRun,
    relations: Mapping[str, Relation],
    operands: Mapping[str, Summand | None],
    end: str,
) -> tuple[str, str] | None:
    """The node of the implementation that uses a summand as if it were the whole, and the text; ``None`` if none does.

    ``operands`` are what a specification operator reads: with the summand that the implementation has, or ``None``
    where it has the tensor itself. ``end`` is the implementation node that comes out wrong."""
    graph = job.implementation[0]
    if end not in graph.by_name:
        return None  # another rank has it
    above = ancestors(graph, end)
    summands = [s for s in operands.values() if s is not None]
    for summand in summands:
        use = next((name for name in graph.users.get(summand.node, ()) if name in above), None)
        if use is None:
            continue
        node = graph.by_name[use]
        wholes = _wholes(store, job, specification, implementation, relations, operands, node)
        return use, _text(job, node, summand, wholes)
    return None


def _wholes(
    store: Store,
    job: Job,
    specification: SpecificationRun,
    implementation: RanksRun,
    relations: Mapping[str, Relation],
    operands: Mapping[str, Summand | None],
    node: Node,
) -> list[tuple[str, str]]:
    """The operands of which every rank has its part of the whole: (name, placements)."""
    found: list[tuple[str, str]] = []
    read = list(dict.fromkeys(references(node)))
    for name, summand in operands.items():
        value = specification.values.get(name)
        if summand is not None or not isinstance(value, Tensor):
            continue
        placed = next((p for ref in read if (p := _placed(store, job, implementation, value, ref)) is not None), None)
        relation = relations.get(name)
        if placed is not None:
            found.append(placed)
        elif relation is not None:
            found.append((relation.implementation or name, relation.expression))
    return found


def _placed(store: Store, job: Job, implementation: RanksRun, whole: Tensor, name: str) -> tuple[str, str] | None:
    node = job.implementation[0].by_name[name]
    if node.type is None:
        return None
    for placements in layouts(whole.shape, job.mesh.sizes, local=node.type.shape):
        if holds(store, whole.value, placements, implementation, name, expand=False) is None:
            return name, show(placements)
    return None


def _text(job: Job, node: Node, summand: Summand, wholes: Sequence[tuple[str, str]]) -> str:
    """Two rows: what is missing where, and why."""
    over, placement = summand.axes(job), show(summand.placements)
    made = f"{summand.node}{_at(job.implementation[0].by_name[summand.node])}"
    partial = f"{made}, which is {placement} over {over} (every rank holds one summand)"
    missing = f"a sum over {over} (all_reduce or reduce_scatter) is missing before {node.name}{_at(node)}"
    if _facts(job.implementation[0], node).adds and wholes:
        others = " and ".join(f"{name}, which is {placement}" for name, placement in wholes)
        return f"{missing}\nit adds {partial}, to {others}"
    kind = short(node.target)
    return f"{missing}\nit applies {kind} to {partial}, and {kind} of a summand is no summand of the result"


def _facts(graph: Graph, node: Node) -> Facts:
    """The facts of a node, from the types that the graph records."""

    def operand(name: str) -> Tensor | None:
        type_ = graph.by_name[name].type
        return None if type_ is None else Tensor(type_.shape, type_.dtype, None)

    return facts_of(graph, node, operand) if node.op == "call" and node.target != "getitem" else NOTHING


def _at(node: Node) -> str:
    source = node.source
    return "" if source is None else f" ({source})" if source.file else f" (`{source}`)"
