"""Running the specification in the calculus: every tensor when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tantamount.calculus.atoms import Store
from tantamount.calculus.definedness import Definedness
from tantamount.calculus.symbolic import Trace
from tantamount.errors import TantamountError, Unsupported
from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.job import Job
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.calls import operator_of
from tantamount.ops.execute import Environment, Result, check_types, run_node
from tantamount.proof.draws import specification_draws
from tantamount.proof.inputs import Inputs
from tantamount.proof.nodes import constants_of, fail, unknown
from tantamount.proof.run import SpecificationRun
from tantamount.proof.sharing import Shared
from tantamount.proof.structure import Same

__all__ = ["run_specification"]

Progress = Callable[[str, int, int], None]


class _Missing(TantamountError):
    """An operand is not known."""


def run_specification(
    store: Store, job: Job, inputs: Inputs, shared: Shared, same: Same | None = None, progress: Progress | None = None
) -> SpecificationRun:
    """The specification's inputs; every other tensor is computed when it is asked for (``demand``), if it is not
    ``shared``, or the ``same`` in both programs. Its indices are assumed to be in range."""
    graph = job.specification
    run = SpecificationRun()
    trace = Trace(assume_indices=True)
    run.traces.append(trace)

    trace.paired = specification_draws(store, run)
    symbolic = Definedness(store, trace, rank="specification ")
    values: dict[str, Result] = {
        node.name: Tensor(node.type.shape, node.type.dtype, inputs.specification[node.name])
        for node in graph.inputs
        if node.type
    }
    if same is not None:
        values.update(same.specification)
    run.values = values
    constant = constants_of(store, job, run)
    position = {node.name: k for k, node in enumerate(graph.nodes)}
    random = [k for k, node in enumerate(graph.nodes) if _has_category(graph, node, "random")]
    done = [0]

    def compute(node: Node) -> None:
        done[0] += 1
        if progress is not None:
            progress("specification", done[0], len(graph.nodes))
        try:
            result = shared.value(graph, node, replace(symbolic, site=node.name), values, constant)
        except Unsupported as problem:
            fail(run, node.name, problem, problem.reason)
            result = unknown(graph, node, symbolic, values, None)
        check_types(graph, node, result)
        values[node.name] = result

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
        """Assume that the indices which depend on integers alone are in range, before anything is read at them."""
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
                    form = symbolic.fresh("any", (graph.path, node.name, name), type_.stored.shape, type_.stored.dtype)
                    given[name] = Tensor(type_.shape, type_.dtype, form)
                run_node(graph, node, Builder(replace(symbolic, site=node.name), node.name), given, constant, None)
            except (Unsupported, _Missing):
                continue

    def again(name: str, given: Environment) -> Result:
        node = graph.by_name[name]
        try:
            return run_node(graph, node, Builder(replace(symbolic, site=name), name), given, constant, None)
        except Unsupported:
            return None

    run.demand = demand
    run.again = again
    run.random = tuple(graph.nodes[k].name for k in random)
    run.assume_indices = assume_indices
    for node in graph.nodes:
        if node.op == "constant":  # first, so that a rank's part of a table is known as one
            demand(node.name)
    return run


def _only_integers(graph: Graph, name: str) -> bool:
    """True if a tensor and all that it is computed from are whole numbers."""
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
