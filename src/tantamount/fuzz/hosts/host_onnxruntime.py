"""ONNX Runtime on the CPU. Options: ``level`` (disabled, basic, extended, all), ``disabled``: optimisers by name."""

from __future__ import annotations

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
    session = onnxruntime.InferenceSession(
        model, settings, providers=["CPUExecutionProvider"], disabled_optimizers=options.get("disabled") or None
    )
    names = [item["name"] for item in inputs]

    def run(given: list[Any]) -> tuple[list[Any], list[str]]:
        found = [np.asarray(value) for value in session.run(None, dict(zip(names, given, strict=True)))]
        return found, [str(value.dtype) for value in found]

    return run
