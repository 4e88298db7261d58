"""OpenVINO on the CPU, of ONNX models. Options: ``level`` (``all`` is the only one); ``disabled``: modes of the plugin
that are switched off; ``show``: tell the nodes of the graph that is executed."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx
import openvino

__all__ = ["compiled", "versions"]

_core = openvino.Core()


def versions() -> dict[str, str]:
    """Of what results depend on."""
    return {"openvino": openvino.__version__, "onnx": onnx.__version__, "numpy": np.__version__}


def compiled(module: Any, options: dict[str, Any], inputs: list[dict[str, str]], arrays: list[Any]) -> Any:
    """The compiled model, as a function of the inputs."""
    model = _core.read_model(io.BytesIO(module.model().SerializeToString()))
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    settings |= dict.fromkeys(options.get("disabled", ()), "DISABLE")
    ready = _core.compile_model(model, "CPU", settings)
    names = [item["name"] for item in inputs]

    def run(given: list[Any]) -> tuple[list[Any], list[str]]:
        results = ready(dict(zip(names, given, strict=True)))
        found = [np.array(results[k]) for k in range(len(results))]
        return found, [str(value.dtype) for value in found]

    run.kernels = described(ready) if options.get("show", False) else []
    return run


def described(ready: Any) -> list[str]:
    """Every node that is executed, with its implementation and what made its operands, without names."""
    found = []
    for node in ready.get_runtime_model().get_ordered_ops():
        row = node.get_rt_info()
        words = [row[key].astype(str) for key in ("layerType", "primitiveType", "outputPrecisions")]
        made = [node.input(k).get_source_output().get_node() for k in range(node.get_input_size())]
        operands = ", ".join(item.get_rt_info()["layerType"].astype(str) for item in made)
        found.append(f"{' '.join(words)} ({operands})")
    return found
