"""OpenVINO on the CPU, of ONNX models. Options: ``level`` (``all`` is the only one)."""

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
    ready = _core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    names = [item["name"] for item in inputs]

    def run(given: list[Any]) -> tuple[list[Any], list[str]]:
        results = ready(dict(zip(names, given, strict=True)))
        found = [np.array(results[k]) for k in range(len(results))]
        return found, [str(value.dtype) for value in found]

    return run
