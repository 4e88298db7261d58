"""ONNX Runtime on the CPU. Options: ``level`` (disabled, basic, extended, all), ``disabled``: optimisers by name,
``show``: tell the nodes of the optimised graph."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np
import onnx
import onnxruntime

__all__ = ["compiled", "versions"]

_LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
onnxruntime.set_default_logger_severity(4)


def versions() -> dict[str, str]:
    """Of what results depend on."""
    return {"onnxruntime": onnxruntime.__version__, "onnx": onnx.__version__, "numpy": np.__version__}


def compiled(module: Any, options: dict[str, Any], inputs: list[dict[str, str]], arrays: list[Any]) -> Any:
    """The session, as a function of the inputs."""
    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, _LEVELS[options.get("level", "all")]
    )
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    model = module.model().SerializeToString()
    show = options.get("show", False)
    if show:
        handle, path = tempfile.mkstemp(suffix=".onnx")
        os.close(handle)
        settings.optimized_model_filepath = path
    session = onnxruntime.InferenceSession(
        model, settings, providers=["CPUExecutionProvider"], disabled_optimizers=options.get("disabled") or None
    )
    kernels = []
    if show:
        kernels = described(onnx.load(path).graph)
        os.unlink(path)
    names = [item["name"] for item in inputs]

    def run(given: list[Any]) -> tuple[list[Any], list[str]]:
        found = [np.asarray(value) for value in session.run(None, dict(zip(names, given, strict=True)))]
        return found, [str(value.dtype) for value in found]

    run.kernels = kernels
    return run


def described(graph: Any) -> list[str]:
    """Every node with what made its operands and the element types of its results, without names."""
    made = {item.name: "constant" for item in graph.initializer}
    types = {item.name: item.type.tensor_type.elem_type for item in (*graph.value_info, *graph.output)}
    found = []
    for node in graph.node:
        operands = ", ".join(made.get(name, "input") for name in node.input)
        results = ", ".join(str(types.get(name, "")) for name in node.output)
        found.append(f"{node.domain}.{node.op_type}({operands}) {results}")
        made.update(dict.fromkeys(node.output, node.op_type))
    return found
