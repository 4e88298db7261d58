"""TVM's Relax on the CPU, of ONNX models. Options: ``level``: 0 to 3, TVM's optimisation level; ``disabled``:
passes by name; ``show``: tell the kernels made."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

__all__ = ["compiled", "versions"]


def versions() -> dict[str, str]:
    """Of what results depend on."""
    return {"tvm": tvm.__version__, "onnx": onnx.__version__, "numpy": np.__version__}


def compiled(module: Any, options: dict[str, Any], inputs: list[dict[str, str]], arrays: list[Any]) -> Any:
    """The compiled model, as a function of the inputs."""
    program = from_onnx(module.model(), keep_params_in_input=False)
    level, disabled = int(options.get("level", 3)), list(options.get("disabled", ()))
    with tvm.transform.PassContext(opt_level=level, disabled_pass=disabled):
        ready = tvm.compile(program, target="llvm")
    machine = relax.VirtualMachine(ready, tvm.cpu())

    def run(given: list[Any]) -> tuple[list[Any], list[str]]:
        results = machine["main"](*(tvm.runtime.tensor(np.array(a, order="C")) for a in given))
        found = [results] if hasattr(results, "numpy") else list(results)
        outputs = [value.numpy() for value in found]
        return outputs, [str(value.dtype) for value in outputs]

    if options.get("show", False):
        functions = re.findall(r"@([\w.]+) packed_func", ready.as_text())
        run.kernels = sorted({re.sub(r"\d+", "", name) for name in functions if not name.startswith("vm.")})
    return run
