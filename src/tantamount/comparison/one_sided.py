"""Opaque operators that only one of two programs calls: then nothing that is executed tells the programs apart.

When programs are executed, one fixed function stands in for an opaque operator. Where both call it, with the same
attributes, programs that differ with it are not equal for every function, which is what is asked. Where one of them
calls it and the other has formulas instead, the function that it really is may be these formulas.
"""

from __future__ import annotations

from collections.abc import Iterable

from tantamount.ir.graph import Argument, Graph, Ref
from tantamount.ir.job import Job
from tantamount.ir.relation import rank_tensors
from tantamount.ops.calls import operator_of
from tantamount.proof.outputs import ancestors, output_node

__all__ = ["one_sided"]


def one_sided(job: Job, outputs: Iterable[str]) -> tuple[str, ...]:
    """The opaque operators that only one program calls, or calls with other attributes, if each of these outputs of
    the first program depends on one of them in either program; none otherwise."""
    graphs = (job.specification, job.implementation[0])
    found = [_opaque(graph) for graph in graphs]
    if not any(found):
        return ()
    alone = {key for one, other in (found, found[::-1]) for key in one.keys() - other.keys()}
    places = [{name for key in calls.keys() & alone for name in calls[key]} for calls in found]
    ends = {output.name: output.node for output in graphs[0].outputs}
    for name in outputs:
        expectation = job.outputs[name]
        tensors = () if expectation.expression is None else rank_tensors(expectation.expression)
        theirs = {expectation.name, *(tensor.name for tensor in tensors if tensor.name is not None)}
        second = {above for one in theirs for above in ancestors(graphs[1], output_node(job, 0, one))}
        if places[0].isdisjoint(ancestors(graphs[0], ends[name])) and places[1].isdisjoint(second):
            return ()
    return tuple(dict.fromkeys(target for target, _ in sorted(alone)))


def _opaque(graph: Graph) -> dict[tuple[str, str], list[str]]:
    """The calls of opaque operators, by operator and attributes."""
    found: dict[tuple[str, str], list[str]] = {}
    for node in graph.nodes:
        if node.op == "call" and node.target != "getitem" and operator_of(graph, node).opaque:
            attributes = repr((_plain(node.args), sorted((key, _plain(x)) for key, x in node.kwargs.items())))
            target = str(node.args[0]) if node.target.startswith("higher_order") and node.args else node.target
            found.setdefault((target, attributes), []).append(node.name)
    return found


def _plain(argument: Argument) -> object:
    """An argument without the names of tensors."""
    if isinstance(argument, Ref):
        return Ref
    return tuple(map(_plain, argument)) if isinstance(argument, tuple) else argument
