"""Running both sides in the calculus: the specification, and the implementation with ranks folded into mesh axes.

Ranks are folded only if their graphs are isomorphic: same nodes, operators, types, references and attributes, up to
numbers. A number that differs by rank is one value per mesh coordinate (affine or a table) where the definition takes
it as an operand; any other attribute that differs makes that one node be evaluated coordinate by coordinate. Everything
else runs rank by rank, in lock step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tantamount.calculus.atoms import Facts, Store
from tantamount.calculus.compare import locate
from tantamount.calculus.forms import Form, constant_form
from tantamount.calculus.symbolic import Symbolic, Trace, identity
from tantamount.errors import DataDependent, TantamountError, Unsupported
from tantamount.ir.graph import Argument, Graph, Node, references
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import Shape
from tantamount.ops.algebra import Number, PerRank, Tensor, TypesOnly, Unsized
from tantamount.ops.builder import Builder
from tantamount.ops.calls import operator_of
from tantamount.ops.execute import (
    Environment,
    Result,
    check_types,
    constant_type,
    recorded_constant,
    run_node,
)
from tantamount.ops.lockstep import run_ranks
from tantamount.ops.messages import has_messages
from tantamount.refine.cuts import Cuts
from tantamount.refine.inputs import Inputs
from tantamount.refine.placements import local, stack
from tantamount.refine.run import Dropout, Run

__all__ = ["foldable", "run_implementation", "run_specification"]

Progress = Callable[[str, int, int], None]
_UNPAIRED = 1 << 30  # the number of a dropout that has no counterpart in the specification


class _Missing(TantamountError):
    """An operand is not known."""


def _constants(
    store: Store, job: Job, run: Run, spread: Callable[[Builder, Form, Shape], Form]
) -> Callable[[Graph, Node, Builder], Tensor]:
    """The value of ``constant`` nodes: recorded, assumed to be a number, or unknown but the same on both sides."""

    def constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
        assumed = job.assume.constants
        if node.target in graph.constants or assumed is None:
            return recorded_constant(graph, node, builder)
        type_ = constant_type(graph, node)
        run.constants[node.target] = f"{graph.path}: {node.name}"
        if assumed == SAME_NAME:
            type_, original = type_.stored, type_
            kind = type_.dtype.kind
            shapes: dict[str, Shape] = store.cache("constant shapes")
            atom = store.leaf(
                "constant"
                if type_.shape == shapes.setdefault(node.target, type_.shape)
                else "constant of another shape",
                node.target if type_.shape == shapes[node.target] else (node.target, type_.shape),
                type_.shape,
                Facts(integer=type_.dtype.is_integral, boolean=kind.name == "BOOL"),
            )
            form = constant_form(type_.shape, ((((atom, 1, identity(type_.shape)),), 1),))
            return Tensor(original.shape, original.dtype, spread(builder, form, type_.shape))
        return builder.full(type_.shape, Fraction(assumed), type_.dtype)

    return constant


def _spread(builder: Builder, form: Form, shape: Shape) -> Form:
    interpretation = builder.interpretation
    return interpretation.spread(form, shape) if isinstance(interpretation, Symbolic) else form


# ------------------------------------------------------------------------------------------------ specification
def run_specification(store: Store, job: Job, inputs: Inputs, progress: Progress | None = None) -> Run:
    """The specification's inputs; every other tensor is computed when it is asked for (``demand``). Its indices are
    assumed to be in range."""
    graph = job.specification
    run = Run(Mesh())
    trace = Trace(assume_indices=True)
    run.traces.append(trace)

    def mask(like: Form, shape: Shape, p: Number, site: str, ordinal: int) -> Form:
        atom = store.leaf("mask", (ordinal, p), shape, Facts(integer=True, boolean=True, nonnegative=True))
        run.dropouts.append(Dropout(like, shape, p, atom))
        form = constant_form(shape, ((((atom, 1, identity(shape)),), 1),))
        run.masks.setdefault(site, []).append(form)
        return form

    trace.mask = mask
    symbolic = Symbolic(store, trace, rank="specification ")
    values: dict[str, Result] = {
        node.name: Tensor(node.type.shape, node.type.dtype, inputs.specification[node.name])
        for node in graph.inputs
        if node.type
    }
    run.values = values
    constant = _constants(store, job, run, _spread)
    position = {node.name: k for k, node in enumerate(graph.nodes)}
    random = [k for k, node in enumerate(graph.nodes) if _has_category(graph, node, "random")]
    done = [0]

    def compute(node: Node) -> None:
        done[0] += 1
        if progress is not None:
            progress("specification", done[0], len(graph.nodes))
        builder = Builder(replace(symbolic, site=node.name), node.name)
        _guarded(
            run, node, lambda: run_node(graph, node, builder, values, constant, None), graph,
            lambda _: _unknown(graph, node, symbolic, values, None),
        )  # fmt: skip

    def demand(name: str) -> None:
        """The value of a node, after those that it needs; random nodes in the order of the program."""
        pending = [position[name]]
        while pending:
            k = pending[-1]
            node = graph.nodes[k]
            if node.name in values:
                pending.pop()
                continue
            missing = [position[other] for other in references(node) if other not in values]
            if k in random:
                missing += [other for other in random if other < k and graph.nodes[other].name not in values]
            if missing:
                pending.extend(missing)
            else:
                pending.pop()
                compute(node)

    def assume_indices() -> None:
        """What is assumed of the indices that depend on integers alone, before anything that they are used on."""
        for node in graph.nodes:
            names = [name for name in references(node) if graph.by_name[name].op == "call"]
            if not _has_category(graph, node, "indexing") or node.name in values:
                continue
            whole = [name for name in names if _only_integers(graph, name)]
            for name in whole:
                demand(name)
            given = {name: values[name] for name in references(node) if name in values}
            try:
                for name in set(references(node)) - set(given):
                    type_ = graph.by_name[name].type
                    if type_ is None:
                        raise _Missing
                    form = symbolic.fresh("any", (graph.path, node.name, name), type_.stored.shape, type_.dtype.kind)
                    given[name] = Tensor(type_.shape, type_.dtype, form)
                run_node(graph, node, Builder(replace(symbolic, site=node.name), node.name), given, constant, None)
            except (Unsupported, _Missing):
                continue

    run.demand = demand
    run.random = tuple(graph.nodes[k].name for k in random)
    run.assume_indices = assume_indices
    return run


def _only_integers(graph: Graph, name: str) -> bool:
    """Whether a tensor and all that it is computed from are whole numbers."""
    pending, seen = [name], set[str]()
    while pending:
        node = graph.by_name[pending.pop()]
        if node.name in seen:
            continue
        seen.add(node.name)
        if node.type is None or not node.type.dtype.is_integral or node.op == "constant":
            return False
        pending.extend(references(node))
    return True


def _has_category(graph: Graph, node: Node, category: str) -> bool:
    return node.op == "call" and node.target != "getitem" and operator_of(graph, node).category == category


def _guarded(
    run: Run, node: Node, compute: Callable[[], Result], graph: Graph, rescue: Callable[[Unsupported], Result]
) -> None:
    """Evaluate one node; what the calculus cannot express becomes a fresh unknown, and is remembered."""
    try:
        result = compute()
    except Unsupported as problem:
        _fail(run, node.name, problem, problem.reason)
        result = rescue(problem)
    check_types(graph, node, result)
    run.values[node.name] = result


def _fail(run: Run, name: str, problem: Unsupported, reason: str) -> None:
    run.failures.setdefault(name, reason)
    if isinstance(problem, DataDependent):
        run.undecided[name] = None


def _unknown(
    graph: Graph, node: Node, symbolic: Symbolic, environment: Environment, groups: Mapping[str, int] | None
) -> Result:
    """Fresh unknowns of the node's types: the value may be anything, so nothing false follows from it."""
    types = run_node(graph, node, Builder(TypesOnly(groups), node.name), environment, _type_of_constant, groups)

    def fresh(tensor: Tensor | None, k: int) -> Tensor | None:
        if tensor is None:
            return None
        stored = tensor.type.stored
        form = symbolic.fresh("unsupported", (symbolic.rank, graph.path, node.name, k), stored.shape, stored.dtype.kind)
        return replace(tensor, value=form)

    if isinstance(types, tuple):
        return tuple(fresh(tensor, k) for k, tensor in enumerate(types))
    return types if isinstance(types, Unsized) else fresh(types, 0)


def _type_of_constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
    found = constant_type(graph, node)
    return Tensor(found.shape, found.dtype, None)


# ------------------------------------------------------------------------------------------------ implementation
def foldable(graphs: Sequence[Graph]) -> bool:
    """Whether all ranks run one program up to attributes: same nodes, operators, types, references and groups. Ranks
    that send messages are not: what a node gets depends on who sends to it."""
    first = graphs[0]
    if len(graphs) > 1 and has_messages(first):
        return False
    for other in graphs[1:]:
        if other is first:
            continue
        if len(other.nodes) != len(first.nodes) or other.outputs != first.outputs:
            return False
        for a, b in zip(first.nodes, other.nodes, strict=True):
            if (
                a.name != b.name
                or a.op != b.op
                or a.target != b.target
                or a.type != b.type
                or a.kwargs.keys() != b.kwargs.keys()
            ):
                return False
            alike = _same_shape if not _is_collective(first, a) else _same  # an attribute may differ, a call may not
            if not alike(a.args, b.args) or not all(alike(a.kwargs[key], b.kwargs[key]) for key in a.kwargs):
                return False
    return True


def _is_collective(graph: Graph, node: Node) -> bool:
    return node.op == "call" and node.target != "getitem" and operator_of(graph, node).group_parameter is not None


def _same_shape(a: Argument, b: Argument) -> bool:
    """Equal up to numbers."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(_same_shape(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return type(a) is type(b)
    return type(a) is type(b) and a == b


def _same(a: Argument, b: Argument) -> bool:
    """Exactly equal: 1, 1.0 and True are three values."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and (a == b)


def run_implementation(
    store: Store,
    job: Job,
    inputs: Inputs,
    specification: Run,
    fold: bool,
    progress: Progress | None = None,
    cuts: Cuts | None = None,
) -> Run:
    """The form of every implementation tensor. ``cuts`` replaces what is proved to be a part of a specification tensor.
    Raises :class:`UserError` if the ranks' collectives do not match."""
    return (_run_folded if fold else _run_by_rank)(store, job, inputs, specification, progress, cuts)


def _paired_mask(
    store: Store, run: Run, specification: Run, alone: bool
) -> Callable[[Form, Shape, Number, str, int], Form]:
    """The part of the specification's k-th mask that the relation between the dropped tensors selects; a fresh mask
    where there is no such relation. ``alone``: forms are those of one rank, without mesh axes."""

    def mask(like: Form, shape: Shape, p: Number, site: str, ordinal: int) -> Form:
        for name in specification.random:
            if ordinal < len(specification.dropouts):
                break
            specification.demand(name)
        if ordinal < len(specification.dropouts):
            paired = specification.dropouts[ordinal]
            places = None
            if paired.p == p and like.pieces:
                whole = paired.like
                if alone and whole.pieces == like.pieces and [*filter(None, whole.dims)] == [*filter(None, like.dims)]:
                    # the same tensor, whatever its values tell
                    index = tuple(whole.coordinate(d) for d in range(len(whole.dims)))
                    places = [(box, index) for box, _ in like.pieces]
                else:
                    places = locate(store, paired.like, like, unique=True)
            if places is not None:
                atom = paired.atom
                pieces = tuple((box, ((((atom, 1, index),), 1),)) for box, index in places)
                form = Form(like.dims, pieces)
                run.masks.setdefault(site, []).append(form)
                return form
        run.fresh_masks.append(site)
        atom = store.leaf("mask", (site, p, shape), shape, Facts(integer=True, boolean=True, nonnegative=True))
        return constant_form(shape, ((((atom, 1, identity(shape)),), 1),))

    return mask


def _run_folded(
    store: Store, job: Job, inputs: Inputs, specification: Run, progress: Progress | None, cuts: Cuts | None
) -> Run:
    mesh, graphs = job.mesh, job.implementation
    graph = graphs[0]
    run = Run(mesh)
    trace = Trace()
    run.traces.append(trace)
    if job.assume.dropout:
        trace.mask = _paired_mask(store, run, specification, mesh.world_size == 1)
    symbolic = Symbolic(store, trace, mesh, tuple(range(len(mesh.sizes))))
    groups = {name: mesh.group_size(name) for name in mesh.groups}
    values: dict[str, Result] = {
        node.name: Tensor(node.type.shape, node.type.dtype, inputs.stacked[node.name])
        for node in graph.inputs
        if node.type
    }
    run.values = values
    constant = _constants(store, job, run, _spread)
    others = [other for other in graphs[1:] if other is not graph]
    for k, node in enumerate(graph.nodes):
        if progress is not None:
            progress("implementation", k, len(graph.nodes))
        if node.op == "input":
            continue
        builder = Builder(replace(symbolic, site=node.name), node.name)

        def rescue(_: Unsupported, n: Node = node) -> Result:
            return _unknown(graph, n, symbolic, values, groups)

        peers = [other.nodes[k] for other in others]
        if all(
            _same(node.args, p.args) and all(_same(node.kwargs[key], p.kwargs[key]) for key in node.kwargs)
            for p in peers
        ) and not _constant_differs(node, graphs):
            chosen: Node | None = node
        else:
            chosen = _merged(node, [g.nodes[k] for g in graphs], graph)
        if chosen is not None:
            _guarded(
                run, node, lambda n=chosen, b=builder: run_node(graph, n, b, values, constant, groups), graph, rescue
            )
        else:
            _guarded(run, node, lambda n=k, b=builder: _coordinatewise(store, job, run, n, b, constant), graph, rescue)
        value = values[node.name]
        if cuts is not None and isinstance(value, Tensor):
            values[node.name] = cuts.folded(node.name, value)
    return run


def _constant_differs(node: Node, graphs: Sequence[Graph]) -> bool:
    return node.op == "constant" and any(
        g.constants.get(node.target) != graphs[0].constants.get(node.target) for g in graphs[1:]
    )


def _merged(node: Node, nodes: Sequence[Node], graph: Graph) -> Node | None:
    """The node with numbers that differ by rank as :class:`PerRank`, if the definition takes them all as operands."""
    if node.op != "call" or node.target == "getitem":
        return None
    row = operator_of(graph, node)
    names = list(row.signature.parameters)

    def per_rank(values: Sequence[Argument], kind: str) -> Any:
        if all(_same(values[0], v) for v in values):
            return values[0]
        if kind.rstrip("?") in ("Operand", "Scalar") and all(isinstance(v, (int, float)) for v in values):
            return PerRank(tuple(v for v in values if isinstance(v, (int, float))))
        raise _Missing

    try:
        args = tuple(
            per_rank([n.args[k] for n in nodes], row.parameters[names[k]].kind if k < len(names) else "")
            for k in range(len(node.args))
        )
        kwargs = {
            key: per_rank([n.kwargs[key] for n in nodes], row.parameters[key].kind if key in row.parameters else "")
            for key in node.kwargs
        }
    except _Missing:
        return None
    return replace(node, args=args, kwargs=kwargs)


def _coordinatewise(
    store: Store,
    job: Job,
    run: Run,
    position: int,
    builder: Builder,
    constant: Callable[[Graph, Node, Builder], Tensor],
) -> Result:
    """One node evaluated at every mesh coordinate with that rank's attributes, and stacked."""
    mesh = job.mesh
    symbolic = builder.interpretation
    if not isinstance(symbolic, Symbolic):
        raise Unsupported("attributes that differ by rank")
    node = job.implementation[0].nodes[position]
    if _is_collective(job.implementation[0], node):
        raise Unsupported("a collective whose attributes differ by rank")
    results: list[Result] = []
    ordinal = symbolic.trace.dropouts
    counts: set[int] = set()
    for rank in range(mesh.world_size):
        symbolic.trace.dropouts = ordinal  # one dropout of the program, whichever rank computes it
        graph = job.implementation[rank]
        environment = _LocalView(store, run, rank)
        alone = Builder(replace(symbolic, batch=(), mesh=Mesh(), rank=f"rank {rank} "), builder.site)
        results.append(run_node(graph, graph.nodes[position], alone, environment, constant, {}))
        counts.add(symbolic.trace.dropouts)
    if len(counts) > 1:  # from here on ranks count their dropouts differently: no later one is paired
        symbolic.trace.dropouts = _UNPAIRED
    return _stack_results(store, results, mesh)


class _LocalView(dict[str, Result]):
    """The environment of one rank, read off stacked forms when asked for."""

    def __init__(self, store: Store, run: Run, rank: int) -> None:
        super().__init__()
        self._store, self._run, self._rank = store, run, rank

    def __missing__(self, name: str) -> Result:
        value = self._run.values[name]
        found = self._localise(value)
        self[name] = found
        return found

    def _localise(self, value: Result) -> Result:
        if isinstance(value, tuple):
            return tuple(self._one(item) for item in value)
        return value if isinstance(value, Unsized) else self._one(value)

    def _one(self, value: Tensor | None) -> Tensor | None:
        if value is None:
            return None
        return replace(value, value=local(self._store, value.value, self._run.mesh, self._rank))


def _stack_results(store: Store, results: Sequence[Result], mesh: Mesh) -> Result:
    first = results[0]
    if isinstance(first, tuple):
        return tuple(
            _stack_tensors(store, [r[k] if isinstance(r, tuple) else None for r in results], mesh)
            for k in range(len(first))
        )
    return _stack_tensors(store, [r if isinstance(r, Tensor) else None for r in results], mesh)


def _stack_tensors(store: Store, tensors: Sequence[Tensor | None], mesh: Mesh) -> Tensor | None:
    found = [t for t in tensors if t is not None]
    if len(found) != len(tensors):
        return None
    if len({t.type for t in found}) != 1:
        raise Unsupported("results whose shapes differ by rank")
    return replace(found[0], value=stack(store, [t.value for t in found], mesh))


def _run_by_rank(
    store: Store, job: Job, inputs: Inputs, specification: Run, progress: Progress | None, cuts: Cuts | None
) -> Run:
    mesh, graphs = job.mesh, job.implementation
    run = Run(mesh)
    interpretations: list[Symbolic] = []
    given: list[Mapping[str, Tensor]] = []
    for rank, graph in enumerate(graphs):
        trace = Trace()
        if job.assume.dropout:
            trace.mask = _paired_mask(store, run, specification, True)
        run.traces.append(trace)
        interpretations.append(Symbolic(store, trace, rank=f"rank {rank} "))
        given.append(
            {n.name: Tensor(n.type.shape, n.type.dtype, inputs.locals[rank, n.name]) for n in graph.inputs if n.type}
        )
    total = sum(len(graph.nodes) for graph in graphs)
    done = [0]

    def each(rank: int, node: Node, result: Result) -> Result:
        done[0] += 1
        if progress is not None:
            progress("implementation", done[0], total)
        return cuts.of_rank(rank, node.name, result) if cuts is not None and isinstance(result, Tensor) else result

    groups = {name: mesh.group_size(name) for name in mesh.groups}

    def rescue(rank: int, node: Node, environment: Environment, problem: Unsupported) -> Result:
        _fail(run, node.name, problem, f"{problem.reason} (rank {rank})")
        return _unknown(graphs[rank], node, interpretations[rank], environment, groups)

    constant = _constants(store, job, run, _spread)
    environments = run_ranks(graphs, mesh, interpretations, given, constant=constant, each=each, rescue=rescue)
    run.by_rank = [
        {**{o.name: environment[o.node] for o in graph.outputs}, **environment}
        for graph, environment in zip(graphs, environments, strict=True)
    ]
    return run
