"""Graphs as PyTorch source: every node a call of its aten operator."""

from __future__ import annotations

from tantamount.errors import Unsupported
from tantamount.fuzz.backends.source import constants_of, wrapped_lines
from tantamount.ir.graph import Argument, Graph, Node, Ref
from tantamount.ir.types import DType

__all__ = ["emit_torch"]


def emit_torch(graph: Graph) -> str:
    """A module with a function ``program`` of the inputs, which returns a tuple of the outputs."""
    lines = ["import numpy as np", "import torch", "", "aten = torch.ops.aten", ""]
    for name, constant in constants_of(graph).items():
        cast = ".to(torch.bfloat16)" if constant.type.dtype is DType.BFLOAT16 else ""
        lines.append(f"{name} = torch.from_numpy(np.array({wrapped_lines(constant)})){cast}")
    lines += ["", "", f"def program({', '.join(node.name for node in graph.inputs)}):"]
    for node in graph.nodes:
        if node.op == "call":
            lines.append(f"    {node.name} = {_call(node)}{_comment(node)}")
    lines.append(f"    return ({', '.join(output.node for output in graph.outputs)},)")
    return "\n".join(lines) + "\n"


def _comment(node: Node) -> str:
    return f"  # {node.type}" if node.type is not None else ""


def _call(node: Node) -> str:
    if node.target == "getitem":
        return f"{_argument(node.args[0])}[{node.args[1]}]"
    given = [_argument(item) for item in node.args] + [f"{key}={_argument(item)}" for key, item in node.kwargs.items()]
    if not node.target.startswith("aten."):
        raise Unsupported(f"operator {node.target}")
    return f"{node.target}({', '.join(given)})"


def _argument(item: Argument) -> str:
    if isinstance(item, Ref):
        return item.name
    if isinstance(item, DType):
        return f"torch.{item.label}"
    if isinstance(item, tuple):
        return f"[{', '.join(_argument(entry) for entry in item)}]"
    return repr(item)
