"""Both programs as a reader wants to see them drawn: the normal form of every tensor as text, and which are related."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tantamount.calculus.atoms import Store
from tantamount.calculus.forms import Form
from tantamount.calculus.printing import axis_names, show_coordinate, show_polynomial
from tantamount.calculus.products import substitute_polynomial
from tantamount.calculus.terms import Polynomial, sole_factor
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation, Partial, Replicate, Shard, rank_tensors
from tantamount.ir.relation_text import parse_relation
from tantamount.limits import Limits
from tantamount.ops.algebra import Tensor
from tantamount.ops.execute import Result
from tantamount.proof.outputs import output_node
from tantamount.proof.proof import Proof
from tantamount.verdict import Link, Picture, ProgramPicture, Relation

__all__ = ["draw_picture"]

_MAX_PROGRAMS = 16  # that are drawn: what ranks of further classes hold is left out
_MAX_PIECES = 4  # boxes of a form that are shown
_MAX_TEXT = 400  # characters of a form
_DEPTH = 3  # of atoms inside atoms


def draw_picture(proof: Proof) -> Picture:
    """The picture of a job and its proof."""
    job, relations = proof.job, proof.relations()
    programs = [one.ranks for one in proof.implementation.classes[:_MAX_PROGRAMS]]
    specification = _side(proof.store, job.specification, (), proof.specification.values, ())
    mesh = proof.implementation.classes[0].mesh.names
    implementation = tuple(
        _side(proof.store, job.implementation[ranks[0]], ranks, _values(proof, ranks[0]), mesh) for ranks in programs
    )
    links = tuple(
        link for program, ranks in enumerate(programs) for link in _links(job, proof, relations, program, ranks)
    )
    nodes = {output.name: output.node for output in job.specification.outputs}
    outputs = {
        name: (nodes[name], tuple(_output(job, ranks, expectation) for ranks in programs))
        for name, expectation in job.outputs.items()
        if name in nodes
    }
    return Picture(specification, implementation, links, outputs)


def _values(proof: Proof, rank: int) -> Mapping[str, Result]:
    run = proof.implementation
    return run.environments[run.place(rank)[0]]


def _output(job: Job, ranks: tuple[int, ...], expectation: Expectation) -> str | None:
    """The node of these ranks that is expected to hold an output, or part of it."""
    names = [expectation.name]
    if expectation.expression is not None:
        tensors = [tensor for tensor in rank_tensors(expectation.expression) if tensor.rank in ranks]
        names = [expectation.name if tensor.name is None else tensor.name for tensor in tensors]
    nodes = (output_node(job, ranks[0], name) for name in names)
    return next((node for node in nodes if node in job.implementation[ranks[0]].by_name), None)


# ------------------------------------------------------------------------------------------------ forms as text
def _side(
    store: Store, graph: Graph, ranks: tuple[int, ...], values: Mapping[str, Result], mesh: Sequence[str]
) -> ProgramPicture:
    forms: dict[str, str] = {}
    for node in graph.nodes:
        value = values.get(node.name)
        if isinstance(value, Tensor):
            forms[node.name] = _form(store, node.name, value.value, mesh)
    return ProgramPicture(graph, ranks, forms)


def _form(store: Store, name: str, form: Form, mesh: Sequence[str]) -> str:
    """``name[i, j] = ...``, one line per box. The first dimensions are those of the mesh: what the ranks hold is one
    function of their coordinates."""
    lead = form.start(len(mesh))
    names = {v + lead: axis for v, axis in axis_names(len(form.sizes) - lead).items()}
    for d, axis in enumerate(mesh):
        count = len(form.dims[d])
        names.update((form.start(d) + k, axis if count == 1 else f"{axis}{k}") for k in range(count))
    index = [show_coordinate(form.coordinate(d), names) for d in range(len(mesh), len(form.dims))]
    lines: list[str] = []
    for box, x in form.pieces[:_MAX_PIECES]:
        cut = [v for v, size in enumerate(form.sizes) if box[v] != (0, size)]
        where = " and ".join(f"{names[v]} in {box[v][0]}..{box[v][1]}" for v in cut)
        lines.append(_lin(store, form, x, names) + (f"   for {where}" if where else ""))
    if len(form.pieces) > _MAX_PIECES:
        lines.append(f"... and {len(form.pieces) - _MAX_PIECES} more pieces")
    head = f"{name}[{', '.join(index)}]" if index else name
    text = f"{head} = " + "\n  ".join(lines or ["nothing: it has no elements"])
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."


def _lin(store: Store, form: Form, x: Polynomial, names: Mapping[int, str]) -> str:
    """The Polynomial; of a tensor that is a symbol of its own since both proof were proved to agree on it, what that
    is."""
    text = show_polynomial(store, x, names, _DEPTH)
    definitions = store.leaves.definitions
    factor = sole_factor(x)
    if factor is not None and factor.atom in definitions and factor.exponent == 1:
        whole = substitute_polynomial(definitions[factor.atom], dict(enumerate(factor.at)))
        return f"{text} = {show_polynomial(store, whole, names, _DEPTH)}"
    return text


# ------------------------------------------------------------------------------------------------ related tensors
def _links(
    job: Job, proof: Proof, relations: Mapping[str, Relation], program: int, ranks: tuple[int, ...]
) -> Iterator[Link]:
    """The pairs of related tensors of a program and of the specification. Tensors of a side with one form are one
    tensor: they are paired by operator and order, so that every step has its counterpart."""
    graph = job.implementation[ranks[0]]
    values = _values(proof, ranks[0])
    kept: dict[object, list[str]] = {}
    for node in graph.nodes:
        kept.setdefault(_key(values, node.name), []).append(node.name)
    groups: dict[tuple[object, object], list[tuple[str, str]]] = {}
    for name, relation in relations.items():
        for other in _named(relation, ranks):
            if other in graph.by_name:
                key = (_key(proof.specification.values, name), _key(values, other))
                groups.setdefault(key, []).append((name, other))
    pairs: list[tuple[str, str]] = []
    for (_, key), related in groups.items():
        steps = _by_operator(graph, kept[key])
        for target, names in _by_operator(job.specification, [name for name, _ in related]).items():
            pairs.extend(zip(names, steps.get(target, ()), strict=False))
    paired = {name for name, _ in pairs}
    pairs.extend(pair for related in groups.values() for pair in related if pair[0] not in paired)
    taken = {other for _, other in pairs}
    for (_, key), related in groups.items():
        pairs.extend((related[0][0], other) for other in kept[key] if other not in taken)
    for name, other in pairs:
        yield Link(name, program, other, relations[name].expression)


def _by_operator(graph: Graph, names: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(graph.by_name[name].target, []).append(name)
    return found


def _key(values: Mapping[str, Result], name: str) -> object:
    value = values.get(name)
    return (value.value.dims, value.value.pieces) if isinstance(value, Tensor) else name


def _named(relation: Relation, ranks: tuple[int, ...]) -> tuple[str, ...]:
    """The tensors of one of these ranks that a relation is about."""
    if relation.implementation:
        return (relation.implementation,)
    try:
        found = parse_relation(relation.expression, relation.tensor, Limits())
    except UserError:
        return ()
    if isinstance(found, (Replicate, Shard, Partial)):
        return ()
    return tuple(dict.fromkeys(t.name for t in rank_tensors(found) if t.rank in ranks and t.name is not None))
