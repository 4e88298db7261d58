"""Running the implementation in the calculus: every class of ranks as one, with the mesh axes that are folded as axes.

Of ranks that run one program up to numbers (:mod:`tantamount.ops.classes`), a number that differs by rank is one value
per mesh coordinate (affine or a table) where the definition takes it as an operand; any other attribute that differs
makes that one node be evaluated coordinate by coordinate. Classes run in lock step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tantamount.calculus.atoms import Store
from tantamount.calculus.definedness import Definedness
from tantamount.calculus.forms import Form
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph, Node
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ops.algebra import Tensor, Unsized
from tantamount.ops.builder import Builder
from tantamount.ops.classes import RankClass, differs, merged
from tantamount.ops.execute import ConstantOf, Environment, Result, run_node
from tantamount.ops.lockstep import run_ranks
from tantamount.proof.cuts import Cuts
from tantamount.proof.draws import Peers, rank_draws
from tantamount.proof.inputs import Inputs
from tantamount.proof.nodes import constants_of, fail, unknown
from tantamount.proof.placements import local, stack_beside
from tantamount.proof.run import RanksRun, SpecificationRun
from tantamount.proof.sharing import Shared
from tantamount.proof.structure import Same

__all__ = ["run_implementation"]

Progress = Callable[[str, int, int], None]
_UNPAIRED = 1 << 30  # the number of a dropout that has no counterpart in the specification


def run_implementation(
    store: Store,
    job: Job,
    inputs: Inputs,
    specification: SpecificationRun,
    classes: Sequence[RankClass],
    shared: Shared,
    same: Same | None = None,
    progress: Progress | None = None,
    cuts: Cuts | None = None,
) -> RanksRun:
    """The form of every implementation tensor, ``shared`` with the specification's where they are computed alike.
    ``same`` has the values of nodes that both programs have; ``cuts`` replaces what is proved to be a part of a
    specification tensor. Raises :class:`UserError` if the ranks' collectives or messages do not match."""
    mesh, graphs = job.mesh, job.implementation
    run = RanksRun(mesh, classes=classes)
    constant = constants_of(store, job, run)
    parts: dict[int, _Part] = {}
    given: list[Mapping[str, Tensor]] = []
    peers = Peers()
    for one in classes:
        trace = Trace()
        trace.paired = rank_draws(store, job, run, specification, one, peers)
        run.traces.append(trace)
        axes = tuple(range(len(one.mesh.sizes)))
        symbolic = Definedness(store, trace, one.mesh, axes, rank=run.label(one))
        held = [graphs[rank] for rank in one.ranks]
        parts[one.leader] = _Part(one, held, [*{id(graph): graph for graph in held}.values()], symbolic)
        given.append(
            {
                node.name: Tensor(node.type.shape, node.type.dtype, inputs.held(store, mesh, one, node.name))
                for node in graphs[one.leader].inputs
                if node.type
            }
        )
    total = sum(len(part.graphs[0].nodes) for part in parts.values())
    done = [0]

    def each(rank: int, node: Node, result: Result) -> Result:
        done[0] += 1
        if progress is not None:
            progress("implementation", done[0], total)
        if cuts is None or not isinstance(result, Tensor):
            return result
        return cuts.of_class(parts[rank].ranks, node.name, result)

    groups = {name: mesh.group_size(name) for name in mesh.groups}

    def rescue(rank: int, node: Node, environment: Environment, problem: Unsupported) -> Result:
        where = "" if run.folded else f" (rank {rank})"
        fail(run, node.name, problem, f"{problem.reason}{where}")
        return unknown(graphs[rank], node, parts[rank].symbolic, environment, groups)

    def compute(rank: int, node: Node, environment: Environment) -> Result:
        known = None if same is None else same.implementation[rank].get(node.name)
        if known is not None:
            return known
        return _compute(store, parts[rank], node, environment, constant, shared)

    environments = run_ranks(
        graphs, mesh, [part.symbolic for part in parts.values()], given,
        each=each, rescue=rescue, classes=classes, compute=compute,
    )  # fmt: skip
    for one, environment in zip(classes, environments, strict=True):
        named = {output.name: environment[output.node] for output in graphs[one.leader].outputs}
        run.environments.append({**named, **environment})
    return run


@dataclass(frozen=True)
class _Part:
    """A class of ranks, with the graphs of all of them, and those that are different objects."""

    ranks: RankClass
    graphs: Sequence[Graph]
    distinct: Sequence[Graph]
    symbolic: Symbolic

    @cached_property
    def alike(self) -> tuple[str, ...]:
        """The mesh axes along which all ranks run one program."""
        mesh, programs = self.ranks.mesh, [id(graph) for graph in self.graphs]
        found: list[str] = []
        block = 1  # ranks from one coordinate to the next
        for name, size in reversed([*mesh.axes.items()]):
            here = range(0, len(programs), block * size)
            if all(programs[k : k + block] * size == programs[k : k + block * size] for k in here):
                found.append(name)
            block *= size
        return tuple(reversed(found))


def _compute(
    store: Store, part: _Part, node: Node, environment: Environment, constant: ConstantOf, shared: Shared
) -> Result:
    """The value of a node on all ranks of a class."""
    graph = part.graphs[0]
    symbolic = replace(part.symbolic, site=node.name)
    if len(part.distinct) == 1 or not differs(node, part.distinct):
        return shared.value(graph, node, symbolic, environment, constant)
    builder = Builder(symbolic, node.name)
    merged_ = merged(node, [other.by_name[node.name] for other in part.graphs], graph)
    if merged_ is None:
        return _coordinatewise(store, part, node, builder, environment, constant)
    return run_node(graph, merged_, builder, environment, constant, None)


def _coordinatewise(
    store: Store, part: _Part, node: Node, builder: Builder, environment: Environment, constant: ConstantOf
) -> Result:
    """One node evaluated with the attributes that ranks have, and stacked: once for all ranks along axes along which
    these are the same, unless it draws something, which is every rank's own."""
    trace = part.symbolic.trace
    drawn = trace.drawn
    if part.alike:
        before = trace.dropouts, dict(trace.draws), dict(trace.obligations)
        found = _at_coordinates(store, part, node, builder, environment, constant, part.alike)
        if (trace.drawn, trace.dropouts, trace.draws) == (drawn, *before[:2]):
            return found
        trace.dropouts, trace.draws, trace.obligations = before
    return _at_coordinates(store, part, node, builder, environment, constant, ())


def _at_coordinates(
    store: Store, part: _Part, node: Node, builder: Builder, environment: Environment, constant: ConstantOf,
    kept: tuple[str, ...],
) -> Result:  # fmt: skip
    """One node evaluated at every coordinate along the axes that are not ``kept``, for all ranks along those together,
    and stacked."""
    trace, mesh = part.symbolic.trace, part.ranks.mesh
    results: list[Result] = []
    ordinal, draws = trace.dropouts, dict(trace.draws)
    counts: set[int] = set()
    together = Mesh({name: mesh.axes[name] for name in kept})
    positions = [k for k, name in enumerate(mesh.names) if name in kept]
    for position, (rank, graph) in enumerate(zip(part.ranks.ranks, part.graphs, strict=True)):
        if kept and any(mesh.coordinates(position)[k] for k in positions):
            continue
        trace.dropouts, trace.draws = ordinal, dict(draws)  # one draw of the program, whichever rank computes it
        here = _LocalView(store, environment, mesh, position, kept)
        batch = tuple(range(len(kept)))
        symbolic = replace(part.symbolic, batch=batch, mesh=together, rank=f"rank {rank} ", site=node.name)
        alone = Builder(symbolic, builder.site)
        results.append(run_node(graph, graph.by_name[node.name], alone, here, constant, None))
        counts.add(trace.dropouts)
    if len(counts) > 1:  # from here on ranks count their dropouts differently: no later one is paired
        trace.dropouts = _UNPAIRED
    return _stack_results(store, results, mesh, kept)


class _LocalView(dict[str, Result]):
    """The environment of one rank, or of all that differ from it along ``kept`` axes, read off stacked forms when asked
    for."""

    def __init__(self, store: Store, environment: Environment, mesh: Mesh, rank: int, kept: tuple[str, ...]) -> None:
        super().__init__()
        self._store, self._environment, self._mesh, self._rank, self._kept = store, environment, mesh, rank, kept

    def __missing__(self, name: str) -> Result:
        value = self._environment[name]
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
        like = None if value.like is None else self._form(value.like)
        return replace(value, value=self._form(value.value), like=like)

    def _form(self, form: Form) -> Form:
        return local(self._store, form, self._mesh, self._rank, self._kept)


def _stack_results(store: Store, results: Sequence[Result], mesh: Mesh, kept: tuple[str, ...]) -> Result:
    first = results[0]
    if isinstance(first, tuple):
        return tuple(
            _stack_tensors(store, [r[k] if isinstance(r, tuple) else None for r in results], mesh, kept)
            for k in range(len(first))
        )
    return _stack_tensors(store, [r if isinstance(r, Tensor) else None for r in results], mesh, kept)


def _stack_tensors(store: Store, tensors: Sequence[Tensor | None], mesh: Mesh, kept: tuple[str, ...]) -> Tensor | None:
    found = [t for t in tensors if t is not None]
    if len(found) != len(tensors):
        return None
    if len({t.type for t in found}) != 1:
        raise Unsupported("results whose shapes differ by rank")
    images = [t.like for t in found if t.like is not None]
    like = stack_beside(store, images, mesh, kept) if len(images) == len(found) else None
    return replace(found[0], value=stack_beside(store, [t.value for t in found], mesh, kept), like=like)
