"""Valid programs of a few operators that released compilers refuse, crash on or get wrong, each run in a process of its
own. They are rows of docs/fuzz.md.

    python examples/compiler_bugs.py openvino|tvm|iree|inductor [NAME]

Needs NumPy and, in the same environment, the compiler: `pip install onnx openvino`, `apache-tvm onnx`,
`iree-base-compiler iree-base-runtime onnx`, or `torch`. Prints what is expected and what came; exit code 1 while
something is wrong.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Small numbers that are all exact."""
    return (np.arange(np.prod(shape, dtype=int)) % 9 - 4).astype(dtype).reshape(shape)


def whole(*items: int) -> np.ndarray:
    """A vector of int64."""
    return np.array(items, dtype=np.int64)


X3 = numbers(2, 3, 4)
I3 = numbers(2, 3, 4, dtype=np.int32)
BITS = numbers(3, 5) > 0
NARROW = np.where(np.arange(35).reshape(5, 7) == 1, 3, -128).astype(np.int8)

# name, compilers, nodes (operator, operands, result, attributes), inputs, constants, expected
Program = tuple[str, tuple[str, ...], list[tuple[str, list[str], str, dict[str, Any]]], Arrays, Arrays, np.ndarray]
PROGRAMS: list[Program] = [
    ("neg-of-reduced", ("openvino",), [("ReduceMax", ["x", "a"], "r", {"keepdims": 0}), ("Neg", ["r"], "y", {})],
     {"x": I3}, {"a": whole(1)}, -I3.max(1)),
    ("clip-of-constant", ("openvino",), [("Clip", ["c", "low"], "y", {})],
     {}, {"c": np.array([[3]], np.uint8), "low": np.array(0, np.uint8)}, np.array([[3]], np.uint8)),
    ("equal-of-booleans", ("tvm",), [("Equal", ["x", "z"], "y", {})],
     {"x": BITS, "z": BITS[0]}, {}, np.equal(BITS, BITS[0])),
    ("sum-of-nothing", ("tvm",), [("ReduceSum", ["x", "a"], "y", {"keepdims": 0})],
     {"x": numbers(0, 3)}, {"a": whole(0)}, np.zeros(3, np.float32)),
    ("product-over-nothing", ("tvm",), [("MatMul", ["x", "z"], "y", {})],
     {"x": numbers(2, 0), "z": numbers(0, 3)}, {}, np.zeros((2, 3), np.float32)),
    ("expand-of-nothing", ("tvm",), [("Expand", ["x", "s"], "y", {})],
     {"x": numbers(0, 1)}, {"s": whole(0, 3)}, numbers(0, 3)),
    ("reshape-of-nothing", ("iree",), [("Reshape", ["x", "s"], "y", {"allowzero": 1})],
     {"x": numbers(2, 0)}, {"s": whole(0, 5)}, numbers(0, 5)),
    ("vector-by-batch", ("iree",), [("MatMul", ["x", "z"], "y", {})],
     {"x": numbers(5), "z": numbers(2, 5, 3)}, {}, numbers(5) @ numbers(2, 5, 3)),
    ("negative-padding", ("iree",), [("Pad", ["x", "p", "v"], "y", {})],
     {"x": X3}, {"p": whole(0, 0, -1, 0, 0, 1), "v": np.array(1, np.float32)},
     np.pad(X3[:, :, 1:], ((0, 0), (0, 0), (0, 1)), constant_values=1)),
]  # fmt: skip


def model(program: Program) -> Any:
    """The program as a checked ONNX model."""
    import onnx
    from onnx import helper, numpy_helper

    _, _, nodes, inputs, constants, expected = program

    def described(name: str, array: np.ndarray) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    graph = helper.make_graph(
        [helper.make_node(op, operands, [result], **attributes) for op, operands, result, attributes in nodes],
        "program", [described(name, array) for name, array in inputs.items()], [described("y", expected)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(found, full_check=True)
    return found


def by_openvino(program: Program) -> Any:
    """The result of OpenVINO's CPU plugin."""
    import io

    import openvino

    core = openvino.Core()
    compiled = core.compile_model(core.read_model(io.BytesIO(model(program).SerializeToString())), "CPU")
    return compiled(list(program[3].values()))[0]


def by_tvm(program: Program) -> Any:
    """The result of TVM's LLVM target."""
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    ready = tvm.compile(from_onnx(model(program), keep_params_in_input=False), target="llvm")
    machine = relax.VirtualMachine(ready, tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(array) for array in program[3].values()))
    return found.numpy() if hasattr(found, "numpy") else found[0].numpy()


def by_iree(program: Program) -> Any:
    """The result of IREE's CPU target."""
    import iree.compiler
    import onnx
    from iree import runtime
    from iree.compiler import ir
    from iree.compiler.extras import onnx_importer

    info = onnx_importer.ModelInfo(onnx.shape_inference.infer_shapes(model(program)))
    module = info.create_module(context=ir.Context())
    onnx_importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
    code = iree.compiler.compile_str(str(module), target_backends=["llvm-cpu"], input_type="onnx")
    ready = runtime.load_vm_flatbuffer(code, driver="local-sync")
    return np.asarray(ready["program"](*program[3].values()))


ONNX: dict[str, Callable[[Program], Any]] = {"openvino": by_openvino, "tvm": by_tvm, "iree": by_iree}


def by_inductor(name: str) -> tuple[np.ndarray, np.ndarray]:
    """What eager PyTorch and Inductor give for a program of that name."""
    import torch

    def sum_of_abs(x: Any) -> Any:
        return x.abs().sum(-1)

    def maximum_of_abs(x: Any) -> Any:
        return torch.maximum(x.t().flip(0).abs(), torch.zeros((), dtype=torch.int8))

    program = {"sum-of-abs": sum_of_abs, "maximum-of-abs": maximum_of_abs}[name]
    x = torch.from_numpy(NARROW)
    return program(x).numpy(), torch.compile(program)(x).numpy()


def names(compiler: str) -> list[str]:
    """The programs for a compiler."""
    if compiler == "inductor":
        return ["sum-of-abs", "maximum-of-abs"]
    return [program[0] for program in PROGRAMS if compiler in program[1]]


def one(compiler: str, name: str) -> int:
    """Run one program, and print what came of it: 1 if it is wrong."""
    if compiler == "inductor":
        expected, found = by_inductor(name)
    else:
        (program,) = (program for program in PROGRAMS if program[0] == name)
        expected, found = program[5], np.asarray(ONNX[compiler](program))
    same = found.shape == expected.shape and found.dtype == expected.dtype and bool(np.all(found == expected))
    print(f"{'as expected' if same else 'WRONG'}: {name}")
    if not same:
        print("  expected:", expected.dtype, expected.shape, expected.ravel()[:12])
        print("  got:     ", found.dtype, found.shape, found.ravel()[:12])
    return 0 if same else 1


def main() -> int:
    """Each program in a process of its own, so that a crash ends that one only."""
    if len(sys.argv) == 3:
        return one(sys.argv[1], sys.argv[2])
    if len(sys.argv) != 2 or not names(sys.argv[1]):
        print(__doc__)
        return 2
    wrong = 0
    for name in names(sys.argv[1]):
        done = subprocess.run(
            [sys.executable, __file__, sys.argv[1], name], capture_output=True, text=True, check=False
        )
        if done.returncode < 0:
            print(f"CRASHED: {name}: {signal.Signals(-done.returncode).name}")
        elif "as expected" in done.stdout or "WRONG" in done.stdout:
            print(done.stdout.rstrip())
        else:
            lines = [line for line in done.stderr.splitlines() if "rror" in line]
            print(f"REFUSED: {name}: {(lines or ['no output'])[-1].strip()[:200]}")
        wrong += done.returncode != 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
