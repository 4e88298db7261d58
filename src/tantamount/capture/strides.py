"""``as_strided`` in graphs that were captured elsewhere: files record no strides.

The operator is read as if its operand lay in memory in the order of its elements, from the first one on, which is
printed as an assumption. Where the graph itself says that the operand does not, or need not, lie so (a transposed
tensor, and what an elementwise operator makes of one), it is refused.
"""

from __future__ import annotations

from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Node, Ref, Setting, references
from tantamount.ir.validate import node_place

__all__ = ["check_strides"]

# Views that show elements in another order than they have in memory, or not all of them.
_REORDERING_NAMES = """
    H T _conj _neg_view adjoint as_strided broadcast_tensors broadcast_to chunk diagonal dsplit expand expand_as getitem
    hsplit imag mH mT matrix_H movedim moveaxis narrow numpy_T permute real select slice split split_with_sizes swapaxes
    swapdims t tensor_split transpose unbind unfold unsafe_chunk unsafe_split unsafe_split_with_sizes view_as_real
    vsplit
"""
_REORDERING = frozenset(_REORDERING_NAMES.split())
# What these return lies in memory in order, whatever their operands do.
_IN_ORDER = frozenset({
    "addmm", "arange", "baddbmm", "bmm", "contiguous", "empty", "full", "linear", "mm", "new_empty", "new_full", "ones",
    "zeros",
})  # fmt: skip


def check_strides(graph: Graph) -> None:
    """Raise :class:`UserError` ``graph-strides`` if ``as_strided`` reads a tensor that may lie in memory otherwise."""
    if not any(_base(node).startswith("as_strided") for node in graph.nodes):
        return
    strided: set[str] = set()  # nodes whose values may lie in memory in another order
    for node in graph.nodes:
        base = _base(node)
        source = node.args[0] if node.args else None
        if base.startswith("as_strided") and isinstance(source, Ref) and source.name in strided:
            raise UserError(
                "graph-strides", place=node_place(graph.path, node),
                found=f"{node.target} of {source.name}, which need not lie in memory in the order of its elements",
                needed="an operand that is contiguous in memory, from its first element on",
                hint="capture the graph with Tantamount, which knows strides, or write views instead of as_strided",
            )  # fmt: skip
        if node.kwargs.get("memory_format") == Setting("contiguous_format"):
            continue
        if base in _REORDERING or (base not in _IN_ORDER and any(name in strided for name in references(node))):
            strided.add(node.name)


def _base(node: Node) -> str:
    """``aten.permute.default`` gives ``permute``; ``""`` for what is no call."""
    parts = node.target.split(".") if node.op == "call" else [""]
    return parts[1] if len(parts) >= 2 else parts[0]
