"""Assertions of numbers that data decide: a proof has no value for them, and still has to show that they hold.

They do where they are what the specification asserts of the same numbers, down to the same inputs; and where they only
say that a size is not negative, or that a mask selects no more elements than it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tantamount.ir.graph import Argument, Graph, Node, Ref
from tantamount.ir.job import Job
from tantamount.ops.calls import asserts
from tantamount.proof.identical import same_calls
from tantamount.sizes.symbolic import is_number

__all__ = ["unshown_assertions"]

_SIZES = ("aten.sym_size.int", "aten.sym_numel.default")
_SELECTING = ("aten.nonzero.default", "aten.argwhere.default")


def unshown_assertions(job: Job, undecided: Iterable[str]) -> list[str]:
    """Those of the implementation's nodes ``undecided`` that assert something which was not shown to hold."""
    return [
        name
        for name in undecided
        if any(asserts(graph, name) and not _shown(job, graph, graph.by_name[name]) for graph in job.programs)
    ]


def _shown(job: Job, graph: Graph, node: Node) -> bool:
    if _follows(graph, node):
        return True
    candidates = (ours for ours in job.specification.nodes if ours.op == "call" and ours.target == node.target)
    return any(same_calls(job, graph, ours.name, node.name) for ours in candidates)


def _follows(graph: Graph, node: Node) -> bool:
    """True if an assertion follows from what sizes are."""
    if "constrain_range" not in node.target:
        return bool(node.args) and _true(graph, node.args[0])
    functional = "_functional_" in node.target
    low, high = node.args[1:3] if functional else (node.kwargs.get("min"), node.kwargs.get("max"))
    if low is None and "for_size" in node.target:
        low = 0
    size = node.args[0]
    below = low is None or (_integer(low) and _not_less(graph, size, low))
    return below and (high is None or (_integer(high) and _not_more(graph, size, high)))


def _true(graph: Graph, argument: Argument) -> bool:
    """True if a boolean of the program holds by what sizes are."""
    node = graph.by_name[argument.name] if isinstance(argument, Ref) else None
    if node is None or node.op != "call" or len(node.args) != 2:
        return argument is True
    x, y = node.args
    if node.target in ("operator.le", "operator.lt"):
        x, y = y, x
    strict = node.target in ("operator.gt", "operator.lt")
    if node.target not in ("operator.ge", "operator.gt", "operator.le", "operator.lt"):
        return node.target == "operator.eq" and isinstance(x, Ref) and x == y
    if isinstance(y, int) and _integer(y):
        return _not_less(graph, x, y + strict)
    return isinstance(x, int) and _integer(x) and _not_more(graph, y, x - strict)


def _integer(x: Argument) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and is_number(x)


def _not_less(graph: Graph, size: Argument, bound: Argument) -> bool:
    """True if a size is at least a number, as all are that are not above 0."""
    node = graph.by_name[size.name] if isinstance(size, Ref) else None
    return node is not None and node.target in _SIZES and isinstance(bound, int) and bound <= 0


def _not_more(graph: Graph, size: Argument, bound: Argument) -> bool:
    """True if a size counts the places that a mask selects, and there are no more than ``bound`` of them."""
    node = graph.by_name[size.name] if isinstance(size, Ref) else None
    if node is None or node.target != "aten.sym_size.int" or node.args[1:] != (0,) or not isinstance(bound, int):
        return False
    places = graph.by_name[node.args[0].name] if isinstance(node.args[0], Ref) else None
    if places is None or places.target not in _SELECTING or not isinstance(places.args[0], Ref):
        return False
    mask = graph.by_name[places.args[0].name].type
    return mask is not None and all(map(is_number, mask.shape)) and prod(mask.shape) <= bound
