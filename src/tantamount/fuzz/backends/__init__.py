"""Backends, one row each. Adding one is a row here, an emitter, a host, and a TOML file of its deviations."""

from __future__ import annotations

from collections.abc import Mapping

from tantamount.fuzz.backends.base import Backend
from tantamount.fuzz.backends.emit_jax import JAX_TARGETS, emit_jax
from tantamount.fuzz.backends.emit_onnx import ONNX_TARGETS, emit_onnx
from tantamount.fuzz.backends.emit_torch import emit_torch
from tantamount.fuzz.backends.planted import PLANTED
from tantamount.fuzz.draft import ALL_DTYPES
from tantamount.ir.types import DType

__all__ = ["BACKENDS"]

_NO_BFLOAT16 = tuple(dtype for dtype in ALL_DTYPES if dtype is not DType.BFLOAT16)

_ROWS = (
    Backend("ort", "onnxruntime", ("disabled", "basic", "extended", "all"), emit_onnx, ONNX_TARGETS,
            "pip install onnx onnxruntime", ("onnx", "onnxruntime"), _NO_BFLOAT16, tail="ort"),
    Backend("openvino", "openvino", ("all",), emit_onnx, ONNX_TARGETS, "pip install onnx openvino", ("onnx",
    "openvino"),
            _NO_BFLOAT16, tail="openvino"),
    Backend("eager", "torch", ("eager",), emit_torch, None, "pip install torch==2.13.0", ("torch",), tail="torch"),
    Backend("inductor", "torch", ("eager", "aot_eager", "inductor"), emit_torch, None, "pip install torch==2.13.0",
            ("torch",), seconds=180.0, tail="torch"),
    Backend("xla", "jax", ("0", "1", "2", "3"), emit_jax, JAX_TARGETS, "pip install 'jax[cpu]'", ("jax",),
    seconds=60.0, tail="jax"),
    PLANTED,
)  # fmt: skip

BACKENDS: Mapping[str, Backend] = {row.name: row for row in _ROWS}
