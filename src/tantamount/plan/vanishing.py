"""The tensors of a program that are zero where the gradients that come to its rank are.

A tensor is found to be zero by what operators do with zeros: products with one, sums of zeros, zeros in another shape.
Nothing that depends on the gradients and is not zero itself has a part in it, and nothing is divided by what depends on
them: ``z (1 / z)`` is not zero, wherever it is defined. So what is found is zero there and defined.

The ranks whose gradients are zero are those at one coordinate of an axis, and what meets along other axes meets among
them. That a product with zero is zero is so of numbers; as everywhere in plans, what passes on is taken to be finite.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tantamount.capture.late import calls_of, group_axes, late
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.mesh import Mesh

__all__ = ["vanishing"]

_NAMES = """
    view reshape _unsafe_view transpose permute t expand slice select split split_with_sizes squeeze unsqueeze sum
    mean neg clone _to_copy detach alias contiguous div flip repeat slice_backward select_backward
    _softmax_backward_data _log_softmax_backward_data silu_backward gelu_backward sigmoid_backward tanh_backward
    threshold_backward convert_element_type wait_tensor unsafe_split
"""
_OF_FIRST = frozenset(_NAMES.split())  # of backward formulas, that is the gradient
_OF_ANY = frozenset(("mul", "mm", "bmm", "matmul", "dot", "mv"))
_OF_ALL = frozenset(("add", "sub"))
_ZEROS = frozenset(("zeros", "zeros_like", "new_zeros"))


def vanishing(graphs: Sequence[Graph], inputs: Collection[str], axis: str, mesh: Mesh) -> list[set[str]]:
    """The names of the nodes of every program that are zero where the inputs of these names are, on all ranks at one
    coordinate along ``axis``."""
    back = late(graphs, inputs, mesh)
    other = set[object]()  # calls into which some rank puts what is not zero
    while True:
        before, found = len(other), list[set[str]]()
        for graph, moved in zip(graphs, back, strict=True):
            names, calls = set[str](), calls_of(graph, mesh)
            for node in graph.nodes:
                zero = node.name in inputs if node.op == "input" else node.op == "call" and _zero(node, names, moved)
                call = calls.get(node.name)
                if call is not None:
                    given = set(references(node))
                    zero = bool(given) and given <= names and axis not in group_axes(graph, node, mesh)
                    if not zero:
                        other.add(call)
                    zero = zero and call not in other
                if zero:
                    names.add(node.name)
            found.append(names)
        if len(other) == before:
            return found


def _zero(node: Node, names: set[str], moved: set[str]) -> bool:
    """True for a result that is zero, if the nodes of these names are; ``moved`` depend on the gradients."""
    if any(one in moved and one not in names for one in references(node)):
        return False
    if node.target == "getitem":
        return _is_zero(node.args[0], names)
    parts = node.target.split(".")
    name = parts[1] if len(parts) > 1 and parts[0] in ("aten", "prims", "_c10d_functional") else ""
    if name in _ZEROS:
        return True
    if not node.args or any(isinstance(one, (Ref, tuple)) for one in node.kwargs.values()):
        return False
    if name == "div" and any(isinstance(one, Ref) and one.name in moved for one in node.args[1:]):
        return False
    if name in _OF_FIRST:
        return _is_zero(node.args[0], names)
    if name in _OF_ANY:
        return any(isinstance(one, Ref) and one.name in names for one in node.args[:2])
    if name == "masked_fill":
        return len(node.args) == 3 and _is_zero(node.args[0], names) and _is_zero(node.args[2], names)
    if name == "where":
        return len(node.args) == 3 and all(_is_zero(one, names) for one in node.args[1:])
    if name in ("cat", "stack"):
        return _is_zero(node.args[0], names)
    return name in _OF_ALL and len(node.args) == 2 and all(_is_zero(one, names) for one in node.args)


def _is_zero(argument: Argument, names: set[str]) -> bool:
    if isinstance(argument, tuple):
        return bool(argument) and all(_is_zero(one, names) for one in argument)
    if isinstance(argument, Ref):
        return argument.name in names
    return isinstance(argument, (int, float)) and not isinstance(argument, bool) and argument == 0
