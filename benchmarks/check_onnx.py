"""Every operator of the ONNX reader against ONNX Runtime (or onnx's own evaluator): the same numbers on random inputs.

    python benchmarks/check_onnx.py [WORD ...]

Needs ``onnx`` and ``onnxruntime``. A case is a model of one operator; it is written by ``onnx``, read by the reader,
and executed by the reference interpreter. Exit code 1 if a number differs, or an operator of the reader has no case.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tantamount.capture.onnx.rows import ROWS
from tantamount.capture.readers import read_graph
from tantamount.errors import TantamountError
from tantamount.ops.check import check_graph
from tantamount.semantics.interpret import interpret

_RANDOM = np.random.default_rng(1)


def floats(*shape: int) -> np.ndarray:
    return _RANDOM.normal(size=shape).astype(np.float32)


def above(*shape: int) -> np.ndarray:
    """Numbers from 1 on."""
    return (np.abs(_RANDOM.normal(size=shape)) + 1).astype(np.float32)


def whole(low: int, high: int, *shape: int) -> np.ndarray:
    return _RANDOM.integers(low, high, size=shape).astype(np.int64)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


class Case:
    """An operator on operands: those that are ``fixed`` are recorded in the model, ``None`` is left out."""

    def __init__(self, op: str, *operands: Any, outputs: int = 1, opset: int = 18, **attributes: Any) -> None:
        self.op, self.operands, self.outputs, self.opset, self.attributes = op, operands, outputs, opset, attributes


class Fixed:
    """An operand that the model records."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value


def cases() -> Iterator[Case]:
    for op in (
        "Neg", "Abs", "Exp", "Erf", "Tanh", "Sigmoid", "Relu", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh",
        "Floor", "Ceil", "Round", "Sign", "Softplus", "Softsign", "LeakyRelu", "Elu", "HardSigmoid", "HardSwish",
        "Identity", "IsNaN", "IsInf", "Dropout", "Shape", "Size",
    ):  # fmt: skip
        yield Case(op, floats(3, 4) * 3)
    for op in ("Sqrt", "Log", "Reciprocal", "Acosh"):
        yield Case(op, above(3, 4))
    for op in ("Asin", "Acos", "Atanh"):
        yield Case(op, (above(3, 4) - 1).clip(0, 0.9))
    yield Case("Round", np.array([0.5, 1.5, -0.5, 2.5, -2.5], dtype=np.float32))
    yield Case("LeakyRelu", floats(3, 4), alpha=0.3)
    yield Case("Elu", floats(3, 4), alpha=0.3)
    yield Case("HardSigmoid", floats(3, 4), alpha=0.3, beta=0.1)
    yield Case("PRelu", floats(3, 4), floats(4))
    yield Case("Gelu", floats(3, 4), opset=20)
    yield Case("Gelu", floats(3, 4), opset=20, approximate="tanh")
    for op in ("Add", "Sub", "Mul", "Div"):
        yield Case(op, floats(3, 1, 4), above(2, 4))
    yield Case("Div", whole(-9, 9, 20), Fixed(ints(4)))
    yield Case("Div", whole(-9, 9, 20), Fixed(ints(-4)))
    yield Case("Mod", whole(-9, 9, 20), Fixed(ints(4)))
    yield Case("Mod", whole(-9, 9, 20), Fixed(ints(-4)), fmod=1)
    yield Case("Mod", floats(20) * 5, Fixed(np.array([1.5], dtype=np.float32)), fmod=1)
    yield Case("Pow", above(3, 4), Fixed(np.array(2.5, dtype=np.float32)))
    yield Case("Pow", floats(3, 4), Fixed(np.array(3, dtype=np.float32)))
    yield Case("Pow", floats(3, 4), Fixed(np.array([2], dtype=np.float32)))
    yield Case("Pow", above(3, 4), floats(4))
    for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        yield Case(op, whole(0, 3, 3, 4), whole(0, 3, 4))
    for op in ("And", "Or", "Xor"):
        yield Case(op, floats(3, 4) > 0, floats(4) > 0)
    yield Case("Not", floats(3, 4) > 0)
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield Case(op, whole(-8, 8, 3, 4), whole(-8, 8, 4))
    yield Case("BitwiseNot", whole(-8, 8, 3, 4))
    for op in ("Sum", "Mean", "Min", "Max"):
        yield Case(op, floats(3, 4), floats(4), floats(3, 1))
        yield Case(op, floats(3, 4))
    yield Case("Clip", floats(3, 4), Fixed(np.array(-0.5, dtype=np.float32)), Fixed(np.array(0.5, dtype=np.float32)))
    yield Case("Clip", floats(3, 4), None, np.array(0.5, dtype=np.float32))
    yield Case("Clip", floats(3, 4), Fixed(np.array(0.5, dtype=np.float32)), Fixed(np.array(-0.5, dtype=np.float32)))
    yield Case("Where", floats(3, 4) > 0, floats(4), floats(3, 1))
    yield Case("Cast", floats(3, 4) * 3, to=7)
    yield Case("Cast", floats(3, 4) * 3, to=9)
    yield Case("Cast", whole(-3, 3, 5), to=1)
    yield Case("CastLike", whole(-3, 3, 5), floats(1))
    yield Case("Constant", value=floats(2, 3))
    yield Case("Constant", value_float=2.5)
    yield Case("Constant", value_ints=[1, 2, 3])
    yield Case("ConstantOfShape", Fixed(ints(2, 3)))
    yield Case("ConstantOfShape", Fixed(ints(2, 3)), value=np.array([7], dtype=np.int64))
    yield Case("Shape", floats(2, 3, 4), start=1, end=-1)
    yield Case("Range", *(Fixed(np.array(v, dtype=np.int64)) for v in (2, 11, 3)))
    yield Case("Range", *(Fixed(np.array(v, dtype=np.float32)) for v in (5, -1, -1.5)))
    yield Case("Transpose", floats(2, 3, 4))
    yield Case("Transpose", floats(2, 3, 4), perm=[1, 2, 0])
    yield Case("Reshape", floats(2, 3, 4), Fixed(ints(0, -1)))
    yield Case("Reshape", floats(2, 3, 4), Fixed(ints(4, 0, -1)))
    yield Case("Flatten", floats(2, 3, 4))
    yield Case("Flatten", floats(2, 3, 4), axis=0)
    yield Case("Flatten", floats(2, 3, 4), axis=-1)
    yield Case("Squeeze", floats(2, 1, 4, 1))
    yield Case("Squeeze", floats(2, 1, 4, 1), Fixed(ints(-1)))
    yield Case("Unsqueeze", floats(2, 4), Fixed(ints(0, -1)))
    yield Case("Unsqueeze", floats(2, 4), Fixed(ints(3, 1)))
    yield Case("Concat", floats(2, 3), floats(2, 1), axis=-1)
    yield Case("Split", floats(2, 7), outputs=3, axis=1, num_outputs=3)
    yield Case("Split", floats(2, 7), Fixed(ints(1, 4, 2)), outputs=3, axis=-1)
    yield Case("Split", floats(6, 2), outputs=2, num_outputs=2)
    yield Case("Slice", floats(9, 8), Fixed(ints(1, -3)), Fixed(ints(7, 100)), Fixed(ints(0, 1)), Fixed(ints(2, 1)))
    yield Case("Slice", floats(9, 8), Fixed(ints(-2)), Fixed(ints(-100)), Fixed(ints(0)), Fixed(ints(-3)))
    yield Case("Slice", floats(9, 8), Fixed(ints(6)), Fixed(ints(1)), Fixed(ints(-1)), Fixed(ints(-2)))
    yield Case("Slice", floats(9, 8), Fixed(ints(6)), Fixed(ints(1)))
    yield Case("Slice", floats(9, 8), Fixed(ints(100)), Fixed(ints(-9)), Fixed(ints(0)), Fixed(ints(-1)))
    yield Case("Slice", floats(9, 8), Fixed(ints(-100)), Fixed(ints(3)))
    yield Case("Expand", floats(3, 1), Fixed(ints(2, 1, 4)))
    yield Case("Expand", floats(3, 4), Fixed(ints(1)))
    yield Case("Tile", floats(2, 3), Fixed(ints(2, 3)))
    yield Case("Pad", floats(2, 3), Fixed(ints(1, 0, 2, 3)))
    yield Case("Pad", floats(2, 3), Fixed(ints(1, 2)), Fixed(np.array(5, dtype=np.float32)), Fixed(ints(1)))
    yield Case("Pad", floats(4, 5), Fixed(ints(-1, 0, 0, -2)))
    yield Case("Trilu", floats(4, 5))
    yield Case("Trilu", floats(4, 5), Fixed(np.array(-1, dtype=np.int64)), upper=0)
    yield Case("Gather", floats(5, 3), whole(0, 5, 2, 4))
    yield Case("Gather", floats(5, 3), Fixed(whole(-5, 5, 2, 4)))
    yield Case("Gather", floats(3, 5), Fixed(np.array(-2, dtype=np.int64)), axis=1)
    yield Case("Gather", floats(3, 5, 2), Fixed(whole(-5, 5, 4)), axis=-2)
    yield Case("GatherElements", floats(3, 5), Fixed(whole(-5, 5, 3, 2)), axis=1)
    yield Case("OneHot", whole(-6, 6, 2, 4), Fixed(ints(4)), floats(2))
    yield Case("OneHot", whole(0, 4, 2, 4), Fixed(ints(4)), floats(2), axis=1)
    yield Case("TopK", floats(3, 7), Fixed(ints(3)), outputs=2)
    yield Case("TopK", floats(7, 3), Fixed(ints(2)), outputs=2, axis=0, largest=0)
    for op in ("ArgMax", "ArgMin"):
        yield Case(op, floats(3, 7))
        yield Case(op, floats(3, 7), axis=-1, keepdims=0)
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
               "ReduceLogSumExp"):  # fmt: skip
        yield Case(op, floats(2, 3, 4))
        yield Case(op, floats(2, 3, 4), Fixed(ints(-1, 0)), keepdims=0)
    yield Case("ReduceSum", floats(2, 3), noop_with_empty_axes=1)
    yield Case("ReduceSum", whole(-9, 9, 3, 4), Fixed(ints(1)))
    for flags in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
        yield Case("CumSum", floats(3, 5), Fixed(np.array(1, dtype=np.int64)), **flags)
    yield Case("MatMul", floats(2, 1, 3, 4), floats(5, 4, 2))
    yield Case("MatMul", floats(3, 4), floats(4))
    yield Case("Gemm", floats(3, 4), floats(4, 5))
    yield Case("Gemm", floats(4, 3), floats(5, 4), floats(5), transA=1, transB=1, alpha=0.5, beta=2.0)
    yield Case("Einsum", floats(2, 3), floats(3, 4), equation="ij,jk->ki")
    yield Case("Softmax", floats(3, 4))
    yield Case("Softmax", floats(3, 4, 2), axis=1)
    yield Case("LogSoftmax", floats(3, 4))
    yield Case("LayerNormalization", floats(2, 3, 4), floats(4), floats(4))
    yield Case("LayerNormalization", floats(2, 3, 4), floats(3, 4), axis=1, epsilon=0.1)
    yield Case("RMSNormalization", floats(2, 3, 4), floats(4), opset=23)
    yield Case("BatchNormalization", floats(2, 3, 4), floats(3), floats(3), floats(3), above(3), epsilon=0.1)
    yield Case("InstanceNormalization", floats(2, 3, 4), floats(3), floats(3))
    yield Case("GroupNormalization", floats(2, 6, 4), floats(6), floats(6), opset=21, num_groups=3)
    yield Case("Conv", floats(2, 4, 8, 8), floats(6, 2, 3, 3), floats(6), group=2, strides=[2, 1], pads=[1, 0, 1, 0])
    yield Case("Conv", floats(2, 4, 9), floats(6, 4, 3), pads=[2, 1], dilations=[2])
    yield Case("MaxPool", floats(2, 3, 8, 8), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0])
    yield Case("AveragePool", floats(2, 3, 8, 8), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0])
    yield Case("AveragePool", floats(2, 3, 8, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    yield Case("GlobalAveragePool", floats(2, 3, 4, 5))
    yield Case("GlobalMaxPool", floats(2, 3, 4, 5))


def model_of(case: Case) -> tuple[Any, dict[str, np.ndarray]]:
    """The model of a case and its inputs by name."""
    from onnx import TensorProto, helper, numpy_helper

    names, inputs, tensors = list[str](), dict[str, np.ndarray](), list[Any]()
    for k, operand in enumerate(case.operands):
        name = "" if operand is None else f"x{k}"
        names.append(name)
        if isinstance(operand, Fixed):
            tensors.append(numpy_helper.from_array(operand.value, name))
        elif operand is not None:
            inputs[name] = np.asarray(operand)
    attributes = {
        key: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for key, value in case.attributes.items()
    }
    outputs = [f"y{k}" for k in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, **attributes)
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), list(value.shape))
        for name, value in inputs.items()
    ]
    found = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs]
    graph = helper.make_graph([node], "case", given, found, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=8), inputs


def truth(model: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What ONNX Runtime computes, or onnx's evaluator where that has no kernel."""
    import onnxruntime
    from onnx.reference import ReferenceEvaluator
    from onnx.shape_inference import infer_shapes

    try:
        session = onnxruntime.InferenceSession(infer_shapes(model).SerializeToString(), _quiet(onnxruntime))
        return session.run(None, inputs)
    except Exception:  # of a kernel that is not there
        return ReferenceEvaluator(model).run(None, inputs)


def _quiet(runtime: Any) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    return options


def problem(case: Case, path: Path) -> str:
    """What is wrong with the reader's graph of a case; empty if it computes the same."""
    model, inputs = model_of(case)
    expected = truth(model, inputs)
    path.write_bytes(model.SerializeToString())
    try:
        graph = read_graph(path)
        check_graph(graph, None)
        done = interpret(graph, {name: value.astype(np.float64) if value.dtype == np.float32 else value
                                 for name, value in inputs.items()})  # fmt: skip
    except TantamountError as found:
        return str(found)
    for output, value in zip(graph.outputs, expected, strict=True):
        mine = done.array(output.node)
        if mine.shape != value.shape:
            return f"{output.name}: shape {mine.shape}, not {value.shape}"
        if not np.allclose(mine.astype(np.float64), value.astype(np.float64), rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"{output.name}: {mine.reshape(-1)[:4]}, not {value.reshape(-1)[:4]}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="operators; default: all")
    options = parser.parse_args()
    wrong, seen, count = 0, set[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            if options.words and case.op not in options.words:
                continue
            seen.add(case.op)
            count += 1
            found = problem(case, Path(folder) / "case.onnx")
            if found:
                wrong += 1
                print(f"{case.op} {case.attributes}: {found}", flush=True)
    missing = sorted(ROWS.keys() - seen) if not options.words else []
    print(f"{count} cases of {len(seen)} operators: {wrong} wrong; without a case: {', '.join(missing) or 'none'}")
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    sys.exit(main())
