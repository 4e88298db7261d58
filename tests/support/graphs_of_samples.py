"""Graphs of single calls."""

from __future__ import annotations

from typing import Any

from tantamount.ir.graph import Argument, Graph, Node, Output, Ref
from tantamount.ir.types import TensorType
from tantamount.samples.operators.table import Operand, Sample


def called(sample: Sample) -> Graph:
    """A graph with one call, the operands of which are its inputs."""
    inputs: list[Node] = []

    def argument(item: Any) -> Argument:
        if isinstance(item, Operand):
            inputs.append(Node(f"x{len(inputs)}", "input", f"x{len(inputs)}", type=TensorType(item.shape, item.dtype)))
            return Ref(inputs[-1].name)
        return tuple(map(argument, item)) if isinstance(item, tuple) else item

    args = tuple(map(argument, sample.args))
    kwargs = {key: argument(item) for key, item in sample.kwargs.items()}
    return Graph((*inputs, Node("y", "call", sample.target, args, kwargs)), (Output("y", "y"),))
