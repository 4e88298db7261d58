"""Backends. Adding one is a file ``NAME.toml`` (what it is, its deviations) and a host, and an emitter if it reads a
language that none here writes."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from tantamount.fuzz.backends.base import ENVIRONMENT, Backend
from tantamount.fuzz.backends.emit_jax import JAX_TARGETS, emit_jax
from tantamount.fuzz.backends.emit_onnx import ONNX_TARGETS, emit_onnx
from tantamount.fuzz.backends.emit_tensorflow import TENSORFLOW_TARGETS, emit_tensorflow
from tantamount.fuzz.backends.emit_torch import emit_torch
from tantamount.fuzz.backends.planted import PLANTED
from tantamount.fuzz.draft import ALL_DTYPES
from tantamount.ir.graph import Graph

__all__ = ["EMITTERS", "backends"]

EMITTERS: Mapping[str, tuple[Callable[[Graph], str], frozenset[str] | None]] = {
    "onnx": (emit_onnx, ONNX_TARGETS),
    "torch": (emit_torch, None),
    "jax": (emit_jax, JAX_TARGETS),
    "tensorflow": (emit_tensorflow, TENSORFLOW_TARGETS),
}


def _backend(name: str, row: Mapping[str, Any]) -> Backend:
    emit, targets = EMITTERS[row["emitter"]]
    return Backend(
        name, row["host"], tuple(row["levels"]), emit, targets, row["install"],
        tuple(dtype for dtype in ALL_DTYPES if dtype.label not in row["without"]), float(row["seconds"]),
        tuple(row.get("passes", ())), float(row.get("shown", 0.0)), dict(row.get("options", {})),
        {**ENVIRONMENT, **row.get("environment", {})}, int(row.get("megabytes", Backend.megabytes)),
        str(row.get("kernels_of", "")),
    )  # fmt: skip


@cache
def backends() -> Mapping[str, Backend]:
    """All backends by name."""
    files = sorted(resources.files(__name__).iterdir(), key=lambda file: file.name)
    found = {
        name: _backend(name, tomllib.loads(file.read_text())["backend"])
        for file in files
        if (name := file.name.removesuffix(".toml")) != file.name
    }
    return {**found, PLANTED.name: PLANTED}
