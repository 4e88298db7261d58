"""In-place operators in captured graphs: allowed as long as nobody reads the overwritten tensor afterwards.

A graph has values, not memory: the node of ``sub_`` is the new value. That is the program's meaning only if the
overwritten tensor, and everything that shares its memory, is not read later. Whether two tensors share memory is
decided by operator name, in doubt they do; so a graph may be refused that would be right, never the reverse.
"""

from __future__ import annotations

from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.validate import node_place

__all__ = ["check_overwrites", "overwritten_input"]

# Operators whose result shares, or may share, the memory of an operand.
_VIEW_NAMES = """
    H T _conj _neg_view _reshape_alias _unsafe_view adjoint alias alpha_dropout as_strided atleast_1d atleast_2d
    atleast_3d broadcast_tensors broadcast_to chunk conj conj_physical contiguous detach diag diagonal dropout
    dsplit einsum expand expand_as feature_alpha_dropout feature_dropout flatten getitem hsplit imag lift lift_fresh
    mH mT matrix_H meshgrid moveaxis movedim narrow native_dropout numpy_T permute pin_memory positive ravel real
    reshape reshape_as resolve_conj resolve_neg rot90 select slice split split_with_sizes squeeze sum_to_size
    swapaxes swapdims t tensor_split to to_dense transpose type_as unbind unflatten unfold unsafe_chunk unsafe_split
    unsafe_split_with_sizes unsqueeze values view view_as view_as_complex view_as_real view_dtype vsplit wait_tensor
"""
_VIEWS = frozenset(_VIEW_NAMES.split())


def _base(target: str) -> str:
    """``aten.sub_.Tensor`` gives ``sub_``."""
    parts = target.split(".")
    return parts[1] if len(parts) >= 2 else parts[0]


def overwritten_input(graph: Graph) -> str | None:
    """An input whose memory the program overwrites, or may overwrite; ``None`` if there is none."""
    inputs = {node.name for node in graph.inputs}
    root: dict[str, str] = {name: name for name in inputs}
    for node in graph.nodes:
        first = next(references(node), None) if node.op == "call" else None
        base = root.get(first, "") if first is not None else ""
        if base and is_in_place(node.target):
            return base
        if base and _base(node.target) in _VIEWS:
            root[node.name] = base
    return None


def is_in_place(target: str) -> bool:
    """Does the operator overwrite an operand?"""
    base = _base(target)
    return base.endswith("_") and not base.endswith("__")


def _refs(argument: Argument) -> list[str]:
    if isinstance(argument, Ref):
        return [argument.name]
    return [name for item in argument for name in _refs(item)] if isinstance(argument, tuple) else []


def _overwritten(node: Node) -> list[str]:
    """The nodes whose memory an in-place operator writes: its first operand; every list of a fused or for-each one."""
    if _base(node.target).startswith(("_foreach", "_fused")) or not node.args:
        return list(references(node))
    return _refs(node.args[0])


def check_overwrites(graph: Graph) -> None:
    """Raise :class:`UserError` ``graph-in-place`` if an overwritten tensor or an alias of it is read later."""
    if not any(node.op == "call" and is_in_place(node.target) for node in graph.nodes):
        return
    memory: dict[str, frozenset[str]] = {}  # node: the memory it may share, named after the nodes that allocated it
    born: dict[str, int] = {}  # node: position from which its value is current
    writes: dict[str, tuple[int, Node]] = {}  # memory: its last write

    def read(name: str, reader: str) -> None:
        for block in memory[name]:
            position, writer = writes.get(block, (-1, None))
            if writer is not None and position > born[name]:
                raise _stale(graph, name, writer, reader)

    for position, node in enumerate(graph.nodes):
        for name in references(node):
            read(name, f"node {node.name}")
        shared: frozenset[str] = frozenset()
        born[node.name] = position
        if node.op == "call" and is_in_place(node.target):
            targets = _overwritten(node)
            shared = frozenset(block for name in targets for block in memory[name])
            writes.update(dict.fromkeys(shared, (position, node)))
        elif node.op == "call" and _base(node.target) in _VIEWS:
            operands = list(references(node))
            shared = frozenset(block for name in operands for block in memory[name])
            born[node.name] = min((born[name] for name in operands), default=position)
        memory[node.name] = shared or frozenset([node.name])
    for output in graph.outputs:
        read(output.node, f"output {output.name}")


def _stale(graph: Graph, name: str, writer: Node, reader: str) -> UserError:
    return UserError(
        "graph-in-place",
        place=node_place(graph.path, writer),
        found=f"{writer.target} overwrites memory that {name} may share, and {reader} reads {name} later",
        needed="an overwritten tensor that is not read any more",
        hint="functionalise the graph at capture (torch.func.functionalize), so that no operator works in place",
    )
