"""Operators whose sizes or numbers data decide: a proof has no value for them, and still has to show that they do not
stop the implementation where the specification goes on.

They do not where they are what the specification calls on the same tensors: the same calls down to tensors that were
shown to be equal. Some never stop a program; and some assertions follow from what a size is: not negative, and no
more than the elements that a mask has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import prod

from tantamount.ir.graph import Argument, Graph, Node, Ref
from tantamount.ir.job import Job
from tantamount.ops.calls import asserts
from tantamount.proof.identical import same_calls
from tantamount.sizes.symbolic import is_number

__all__ = ["unshown"]

Equal = Callable[[Graph, str, str], bool]  # a rank's graph, a node of the specification, one of that graph

_SIZES = ("aten.sym_size.int", "aten.sym_numel.default")
_TAKING_ONE = ("aten.item.default", "aten._local_scalar_dense.default")
_SELECTING = ("aten.nonzero.default", "aten.argwhere.default")
# what comparisons and sums of Python's numbers give, whatever these are
_OF_NUMBERS = frozenset(f"operator.{name}" for name in ("add", "sub", "mul", "neg", "eq", "ne", "lt", "le", "gt", "ge"))


def unshown(job: Job, undecided: Iterable[str], equal: Equal) -> Iterator[str]:
    """A clause for each of the implementation's nodes ``undecided`` that was not shown to go on wherever the
    specification does."""
    for name in undecided:
        for graph in job.programs:
            node = graph.by_name.get(name)
            if node is None or _shown(job, graph, node, equal):
                continue
            if asserts(graph, name):
                yield f"what {name} asserts of a number that data decide was not shown to hold"
            else:
                yield f"that {name}, whose size data decide, does not fail was not shown"
            break


def _shown(job: Job, graph: Graph, node: Node, equal: Equal) -> bool:
    if node.op != "call":
        return True
    if _follows(graph, node) if asserts(graph, node.name) else _total(graph, node):
        return True
    candidates = (ours for ours in job.specification.nodes if ours.op == "call" and ours.target == node.target)
    return any(same_calls(job, graph, ours.name, node.name, partial(equal, graph)) for ours in candidates)


def _total(graph: Graph, node: Node) -> bool:
    """True if a call goes on whatever its operands hold."""
    if node.target in _OF_NUMBERS:
        return all(not isinstance(x, Ref) or _is_number(graph, x.name) for x in node.args)
    operand = graph.by_name.get(node.args[0].name) if node.args and isinstance(node.args[0], Ref) else None
    if operand is None:
        return False
    if node.target in (*_SELECTING, "aten.sym_numel.default"):
        return True
    if node.target == "aten.sym_size.int":
        dim = node.args[1] if len(node.args) > 1 else None
        rank = 2 if operand.target in _SELECTING else None if operand.type is None else len(operand.type.shape)
        return rank is not None and isinstance(dim, int) and -rank <= dim < rank
    return node.target in _TAKING_ONE and operand.type is not None and all(size == 1 for size in operand.type.shape)


def _is_number(graph: Graph, name: str) -> bool:
    """True if a node's value is a number of Python's, as sizes and elements that were taken out are."""
    node = graph.by_name[name]
    return node.op == "call" and (node.target in (*_SIZES, *_TAKING_ONE) or node.target in _OF_NUMBERS)


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
