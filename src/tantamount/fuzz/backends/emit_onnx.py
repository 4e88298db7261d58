"""Graphs as source that builds an ONNX model (opset 18) with ``onnx.helper``."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

from tantamount.errors import Unsupported
from tantamount.fuzz.backends.source import array_source, constants_of, dtype_in, reference, types_of
from tantamount.ir.graph import Argument, Graph, Node, Ref
from tantamount.ir.types import DType, Kind, TensorType

__all__ = ["ONNX_TARGETS", "emit_onnx"]

_NAMES = {
    DType.FLOAT32: "FLOAT", DType.FLOAT64: "DOUBLE", DType.FLOAT16: "FLOAT16", DType.BOOL: "BOOL", DType.INT8: "INT8",
    DType.UINT8: "UINT8", DType.INT16: "INT16", DType.INT32: "INT32", DType.INT64: "INT64",
}  # fmt: skip
_SAME = {
    "add.Tensor": "Add", "sub.Tensor": "Sub", "mul.Tensor": "Mul", "div.Tensor": "Div", "maximum.default": "Max",
    "minimum.default": "Min", "eq.Tensor": "Equal", "lt.Tensor": "Less", "le.Tensor": "LessOrEqual",
    "gt.Tensor": "Greater",
    "ge.Tensor": "GreaterOrEqual", "logical_and.default": "And", "logical_or.default": "Or",
    "logical_xor.default": "Xor",
    "logical_not.default": "Not", "neg.default": "Neg", "abs.default": "Abs", "relu.default": "Relu",
    "sign.default": "Sign",
    "floor.default": "Floor", "ceil.default": "Ceil", "round.default": "Round", "exp.default": "Exp",
    "tanh.default": "Tanh",
    "sigmoid.default": "Sigmoid", "erf.default": "Erf", "sin.default": "Sin", "cos.default": "Cos",
    "sqrt.default": "Sqrt",
    "where.self": "Where", "mm.default": "MatMul", "bmm.default": "MatMul", "matmul.default": "MatMul",
}  # fmt: skip


class _Model:
    """The lines of a model: nodes, and initialisers for the attributes that ONNX wants as tensors."""

    def __init__(self, graph: Graph) -> None:
        self.types = types_of(graph)
        self.nodes: list[str] = []
        self.initialisers: list[str] = []
        self.results: dict[str, list[str]] = {}
        self.counted = 0

    def name(self) -> str:
        """A new name."""
        self.counted += 1
        return f"v{self.counted}"

    def node(self, op: str, inputs: list[str], output: str | list[str] | None = None, **attributes: Any) -> str:
        """A node's line; the name of its first output."""
        outputs = [output or self.name()] if not isinstance(output, list) else output
        given = "".join(
            f", {key}={value if isinstance(value, str) else repr(value)}" for key, value in attributes.items()
        )
        self.nodes.append(f"        helper.make_node({op!r}, {inputs!r}, {outputs!r}{given}),")
        return outputs[0]

    def constant(self, data: list[Any], dtype: DType, shape: tuple[int, ...] | None = None) -> str:
        """A new initialiser's name."""
        name = self.name()
        type_ = TensorType((len(data),) if shape is None else shape, dtype)
        self.initialisers.append(f"        numpy_helper.from_array({array_source(data, type_)}, {name!r}),")
        return name

    def integers(self, data: Any) -> str:
        """A new initialiser of 64-bit integers."""
        return self.constant(list(data), DType.INT64)

    def operand(self, argument: Argument, dtype: DType) -> str:
        """An operand's name; a number becomes an initialiser of the element type."""
        if isinstance(argument, Ref):
            return argument.name
        if isinstance(argument, (bool, int, float)):
            value = float(argument) if dtype.is_float else int(argument)
            return self.constant([value], dtype, ())
        raise Unsupported(f"the operand {argument!r}")

    def cast(self, name: str, dtype: DType, output: str | None = None) -> str:
        """A cast's name."""
        return self.node("Cast", [name], output, to=f"TensorProto.{_NAMES[dtype]}")


def emit_onnx(graph: Graph) -> str:
    """A module with a function ``model`` that returns the model. Raises :class:`Unsupported` for what cannot be
    said."""
    m = _Model(graph)
    for name, constant in constants_of(graph).items():
        if constant.type.dtype not in _NAMES:
            raise Unsupported(f"elements of type {constant.type.dtype}")
        m.initialisers.append(
            f"        numpy_helper.from_array({array_source(constant.data, constant.type)}, {name!r}),"
        )
    for node in graph.nodes:
        if node.type is not None and node.type.dtype not in _NAMES:
            raise Unsupported(f"elements of type {node.type.dtype}")
        if node.op == "call":
            emit = _EMITTERS.get(node.target)
            if emit is None:
                raise Unsupported(f"operator {node.target}")
            emit(m, node)
    results: list[str] = []
    for k, output in enumerate(graph.outputs):
        results.append(f"y{k}")
        m.node("Identity", [output.node], f"y{k}")

    def value(name: str, type_: TensorType) -> str:
        return (
            f"        helper.make_tensor_value_info({name!r}, TensorProto.{_NAMES[type_.dtype]}, {list(type_.shape)}),"
        )

    lines = ["import numpy as np", "from onnx import TensorProto, helper, numpy_helper", "", "", "def model():"]
    lines += ["    nodes = [", *m.nodes, "    ]", "    inputs = ["]
    lines += [value(node.name, m.types[node.name]) for node in graph.inputs] + ["    ]", "    outputs = ["]
    lines += [value(name, m.types[output.node]) for name, output in zip(results, graph.outputs, strict=True)]
    lines += ["    ]", "    constants = [", *m.initialisers, "    ]"]
    lines += ['    graph = helper.make_graph(nodes, "case", inputs, outputs, constants)']
    lines += ['    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)']
    return "\n".join(lines) + "\n"


_EMITTERS: dict[str, Callable[[_Model, Node], None]] = {}


def _emits(*names: str) -> Callable[[Callable[[_Model, Node], None]], Callable[[_Model, Node], None]]:
    def register(emit: Callable[[_Model, Node], None]) -> Callable[[_Model, Node], None]:
        for name in names:
            _EMITTERS[name if name == "getitem" else f"aten.{name}"] = emit
        return emit

    return register


@_emits(*_SAME)
def _same(m: _Model, node: Node) -> None:
    dtype = dtype_in(node, m.types)
    m.node(_SAME[node.target.removeprefix("aten.")], [m.operand(item, dtype) for item in node.args], node.name)


@_emits("ne.Tensor")
def _ne(m: _Model, node: Node) -> None:
    m.node("Not", [m.node("Equal", [m.operand(item, dtype_in(node, m.types)) for item in node.args])], node.name)


@_emits("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "bitwise_not.default")
def _bits(m: _Model, node: Node) -> None:
    name = node.target.split("_")[1].split(".")[0].capitalize()
    op = name if dtype_in(node, m.types) is DType.BOOL else f"Bitwise{name}"
    m.node(op, [reference(item) for item in node.args], node.name)


@_emits("remainder.Tensor")
def _remainder(m: _Model, node: Node) -> None:
    m.node("Mod", [reference(item) for item in node.args], node.name)


@_emits("floor_divide.default")
def _floor_divide(m: _Model, node: Node) -> None:
    x, y = (reference(item) for item in node.args)
    dtype = dtype_in(node, m.types)
    zero = m.constant([0], dtype, ())
    quotient = m.node("Div", [x, y])  # towards 0: one too much where something is left and the signs differ
    left = m.node("Sub", [x, m.node("Mul", [quotient, y])])
    signs = m.node("Xor", [m.node("Less", [left, zero]), m.node("Less", [y, zero])])
    over = m.node("And", [signs, m.node("Not", [m.node("Equal", [left, zero])])])
    m.node("Sub", [quotient, m.cast(over, dtype)], node.name)


@_emits("trunc.default")
def _trunc(m: _Model, node: Node) -> None:
    x = reference(node.args[0])
    m.node("Mul", [m.node("Sign", [x]), m.node("Floor", [m.node("Abs", [x])])], node.name)


@_emits("silu.default")
def _silu(m: _Model, node: Node) -> None:
    x = reference(node.args[0])
    m.node("Mul", [x, m.node("Sigmoid", [x])], node.name)


@_emits("gelu.default")
def _gelu(m: _Model, node: Node) -> None:
    x, dtype = reference(node.args[0]), dtype_in(node, m.types)
    error = m.node("Erf", [m.node("Div", [x, m.constant([sqrt(2)], dtype, ())])])
    scaled = m.node("Mul", [x, m.node("Add", [error, m.constant([1.0], dtype, ())])])
    m.node("Mul", [scaled, m.constant([0.5], dtype, ())], node.name)


@_emits("clamp.default")
def _clamp(m: _Model, node: Node) -> None:
    dtype = dtype_in(node, m.types)
    x, *bounds = node.args
    given = ["" if bound is None else m.operand(bound, dtype) for bound in bounds]
    while given and not given[-1]:
        given.pop()
    m.node("Clip", [reference(x), *given], node.name)


@_emits("_to_copy.default")
def _cast(m: _Model, node: Node) -> None:
    if node.type is None:
        raise Unsupported("a cast without a type")
    m.cast(reference(node.args[0]), node.type.dtype, node.name)


@_emits("permute.default")
def _permute(m: _Model, node: Node) -> None:
    m.node("Transpose", [reference(node.args[0])], node.name, perm=_numbers(node.args[1]))


def _numbers(argument: Argument) -> list[int]:
    if not isinstance(argument, tuple):
        raise Unsupported(f"the attribute {argument!r}")
    return [item for item in argument if isinstance(item, int)]


def _number(argument: Argument) -> int:
    if not isinstance(argument, int):
        raise Unsupported(f"the attribute {argument!r}")
    return int(argument)


@_emits("transpose.int")
def _transpose(m: _Model, node: Node) -> None:
    x = reference(node.args[0])
    order = list(range(len(m.types[x].shape)))
    i, j = _number(node.args[1]), _number(node.args[2])
    order[i], order[j] = order[j], order[i]
    m.node("Transpose", [x], node.name, perm=order)


@_emits("reshape.default")
def _reshape(m: _Model, node: Node) -> None:
    m.node("Reshape", [reference(node.args[0]), m.integers(_numbers(node.args[1]))], node.name, allowzero=1)


@_emits("expand.default")
def _expand(m: _Model, node: Node) -> None:
    m.node("Expand", [reference(node.args[0]), m.integers(node.type.shape if node.type else ())], node.name)


@_emits("slice.Tensor")
def _slice(m: _Model, node: Node) -> None:
    x, dim, start, stop, step = node.args
    m.node("Slice", [reference(x), *(m.integers([_number(item)]) for item in (start, stop, dim, step))], node.name)


@_emits("flip.default")
def _flip(m: _Model, node: Node) -> None:
    dims = _numbers(node.args[1])
    given = [[-1] * len(dims), [-(1 << 62)] * len(dims), dims, [-1] * len(dims)]
    m.node("Slice", [reference(node.args[0]), *map(m.integers, given)], node.name)


@_emits("roll.default")
def _roll(m: _Model, node: Node) -> None:
    x, (shift,), (dim,) = reference(node.args[0]), _numbers(node.args[1]), _numbers(node.args[2])
    size = m.types[x].shape[dim]
    cut = (-shift) % size
    parts = [m.node("Slice", [x, *(m.integers([k]) for k in (a, b, dim, 1))]) for a, b in ((cut, size), (0, cut))]
    m.node("Concat", parts, node.name, axis=dim)


def _parts(argument: Argument) -> list[str]:
    if not isinstance(argument, tuple):
        raise Unsupported("operands that are no list")
    return [reference(item) for item in argument]


@_emits("cat.default")
def _cat(m: _Model, node: Node) -> None:
    m.node("Concat", _parts(node.args[0]), node.name, axis=_number(node.args[1]))


@_emits("stack.default")
def _stack(m: _Model, node: Node) -> None:
    dim = _number(node.args[1])
    m.node("Concat", [m.node("Unsqueeze", [x, m.integers([dim])]) for x in _parts(node.args[0])], node.name, axis=dim)


@_emits("split_with_sizes.default")
def _split(m: _Model, node: Node) -> None:
    sizes = _numbers(node.args[1])
    m.results[node.name] = [m.name() for _ in sizes]
    m.node("Split", [reference(node.args[0]), m.integers(sizes)], m.results[node.name], axis=_number(node.args[2]))


@_emits("getitem")
def _getitem(m: _Model, node: Node) -> None:
    m.node("Identity", [m.results[reference(node.args[0])][_number(node.args[1])]], node.name)


@_emits("unsqueeze.default", "squeeze.dim")
def _squeeze(m: _Model, node: Node) -> None:
    op = "Unsqueeze" if "unsq" in node.target else "Squeeze"
    m.node(op, [reference(node.args[0]), m.integers([_number(node.args[1])])], node.name)


@_emits("select.int")
def _select(m: _Model, node: Node) -> None:
    x, dim, index = node.args
    m.node("Gather", [reference(x), m.constant([_number(index)], DType.INT64, ())], node.name, axis=_number(dim))


@_emits("constant_pad_nd.default")
def _pad(m: _Model, node: Node) -> None:
    x, dtype = reference(node.args[0]), dtype_in(node, m.types)
    widths = _numbers(node.args[1])
    rank = len(m.types[x].shape)
    before, after = [0] * rank, [0] * rank
    for k in range(len(widths) // 2):
        before[rank - 1 - k], after[rank - 1 - k] = widths[2 * k], widths[2 * k + 1]
    m.node("Pad", [x, m.integers([*before, *after]), m.operand(node.args[2], dtype)], node.name)


@_emits("repeat.default")
def _repeat(m: _Model, node: Node) -> None:
    m.node("Tile", [reference(node.args[0]), m.integers(_numbers(node.args[1]))], node.name)


@_emits("index_select.default")
def _index_select(m: _Model, node: Node) -> None:
    m.node("Gather", [reference(node.args[0]), reference(node.args[2])], node.name, axis=_number(node.args[1]))


@_emits("gather.default")
def _gather(m: _Model, node: Node) -> None:
    m.node("GatherElements", [reference(node.args[0]), reference(node.args[2])], node.name, axis=_number(node.args[1]))


@_emits("tril.default", "triu.default")
def _triangle(m: _Model, node: Node) -> None:
    k = m.constant([_number(node.args[1])], DType.INT64, ())
    m.node("Trilu", [reference(node.args[0]), k], node.name, upper=int("triu" in node.target))


def _widened(m: _Model, node: Node) -> str:
    """The operand of a sum, in the type of the sum."""
    x = reference(node.args[0])
    return (
        m.cast(x, DType.INT64) if m.types[x].dtype.kind is not Kind.FLOAT and m.types[x].dtype is not DType.INT64 else x
    )


@_emits("sum.dim_IntList", "mean.dim", "amax.default", "amin.default")
def _reduce(m: _Model, node: Node) -> None:
    name = node.target.split(".")[1]
    op = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin"}[name]
    x = _widened(m, node) if name == "sum" else reference(node.args[0])
    m.node(op, [x, m.integers(_numbers(node.args[1]))], node.name, keepdims=int(_number(node.args[2])))


@_emits("any.dim", "all.dim")
def _quantifier(m: _Model, node: Node) -> None:
    x = m.cast(reference(node.args[0]), DType.INT32)
    op = "ReduceMax" if "any" in node.target else "ReduceMin"
    found = m.node(op, [x, m.integers([_number(node.args[1])])], keepdims=int(_number(node.args[2])))
    m.cast(found, DType.BOOL, node.name)


@_emits("argmax.default", "argmin.default")
def _place(m: _Model, node: Node) -> None:
    op = "ArgMax" if "argmax" in node.target else "ArgMin"
    m.node(op, [reference(node.args[0])], node.name, axis=_number(node.args[1]), keepdims=int(_number(node.args[2])))


@_emits("cumsum.default")
def _running(m: _Model, node: Node) -> None:
    m.node("CumSum", [_widened(m, node), m.constant([_number(node.args[1])], DType.INT64, ())], node.name)


@_emits("addmm.default")
def _addmm(m: _Model, node: Node) -> None:
    bias, x, y = (reference(item) for item in node.args)
    m.node("Gemm", [x, y, bias], node.name)


@_emits("einsum.default")
def _einsum(m: _Model, node: Node) -> None:
    m.node("Einsum", _parts(node.args[1]), node.name, equation=repr(node.args[0]))


@_emits("convolution.default")
def _conv(m: _Model, node: Node) -> None:
    x, w, bias, stride, padding, dilation, transposed, _, groups = node.args
    if transposed:
        raise Unsupported("a transposed convolution")
    given = [reference(x), reference(w)] + ([] if bias is None else [reference(bias)])
    m.node("Conv", given, node.name, strides=_numbers(stride), pads=_numbers(padding) * 2, dilations=_numbers(dilation),
           group=_number(groups))  # fmt: skip


@_emits("max_pool2d.default", "avg_pool2d.default")
def _pool(m: _Model, node: Node) -> None:
    x, size, stride, padding = node.args
    attributes = {"kernel_shape": _numbers(size), "strides": _numbers(stride), "pads": _numbers(padding) * 2}
    m.node("MaxPool" if "max" in node.target else "AveragePool", [reference(x)], node.name, **attributes)


@_emits("softmax.int")
def _softmax(m: _Model, node: Node) -> None:
    m.node("Softmax", [reference(node.args[0])], node.name, axis=_number(node.args[1]))


@_emits("layer_norm.default")
def _layer_norm(m: _Model, node: Node) -> None:
    x, dtype = reference(node.args[0]), dtype_in(node, m.types)
    row = _numbers(node.args[1])
    given = [reference(item) for item in node.args[2:]] or [m.constant([1.0] * row[0], dtype)]
    m.node("LayerNormalization", [x, *given], node.name, axis=-1, epsilon=1e-05)


ONNX_TARGETS = frozenset(_EMITTERS)
