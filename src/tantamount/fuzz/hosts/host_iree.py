"""IREE on the CPU, of ONNX models. Options: ``level``: O0 to O3, IREE's optimisation level; ``disabled``: flags that
are switched off."""

from __future__ import annotations

import os
import re
from typing import Any

import iree.compiler
import numpy as np
import onnx
from iree import runtime
from iree.compiler import api, ir
from iree.compiler.extras import onnx_importer

__all__ = ["compiled", "versions"]


def versions() -> dict[str, str]:
    """Of what results depend on."""
    return {"iree": iree.compiler.version.VERSION, "onnx": onnx.__version__, "numpy": np.__version__}


def compiled(module: Any, options: dict[str, Any], inputs: list[dict[str, str]], arrays: list[Any]) -> Any:
    """The compiled model, as a function of the inputs."""
    model = onnx_importer.ModelInfo(onnx.shape_inference.infer_shapes(module.model()))
    program = model.create_module(context=ir.Context())
    onnx_importer.NodeImporter.define_function(model.main_graph, program.operation).import_all()
    session = api.Session()
    session.set_flags(
        "--iree-hal-target-backends=llvm-cpu", "--iree-input-type=onnx", "--iree-llvmcpu-target-cpu=generic",
        f"--iree-opt-level={options.get('level', 'O3')}", *(f"--{name}=false" for name in options.get("disabled", ())),
    )  # fmt: skip
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    said = os.fstat(2).st_size
    if not invocation.parse_source(api.Source.wrap_buffer(session, str(program).encode())) or not invocation.execute():
        raise RuntimeError(diagnosed(said))
    output = api.Output.open_membuffer()
    invocation.output_vm_bytecode(output)
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    machine = runtime.VmModule.copy_buffer(context.instance, bytes(output.map_memory()))
    context.add_vm_module(machine)
    function = context.modules[machine.name][model.main_graph.graph_proto.name]

    declared = [onnx.helper.tensor_dtype_to_np_dtype(o.type.tensor_type.elem_type) for o in module.model().graph.output]

    def run(given: list[Any]) -> tuple[list[Any], list[str]]:
        results = function(*given)
        # Copies: the memory of results is given back with them.
        found = [np.array(value) for value in (results if isinstance(results, (tuple, list)) else [results])]
        found = [  # the machine's integers have no sign: the program says how they are read
            value.view(wanted) if value.dtype.kind in "iu" and value.dtype.itemsize == wanted.itemsize else value
            for value, wanted in zip(found, declared, strict=True)
        ]
        return found, [str(value.dtype) for value in found]

    return run


def diagnosed(start: int) -> str:
    """The first error in the standard error from a place on, if that is a file that can be read, behind the ONNX
    operator that it is about."""
    try:
        text = os.pread(2, 4000, start).decode(errors="replace")
    except OSError:
        return "not compiled"
    first = next((line.partition(" error: ")[2] for line in text.splitlines() if " error: " in line), "not compiled")
    named = re.search(r'"(onnx\.\w+)"', first)
    return f"{named[1]}: {first}" if named else first
