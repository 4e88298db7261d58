"""Graphs as TensorFlow source: every node an expression of ``tf`` operators."""

from __future__ import annotations

from tantamount.errors import Unsupported
from tantamount.fuzz.backends.source import Dialect, broadcast, calls, margins, numbers
from tantamount.ir.graph import Graph, Node, Ref
from tantamount.ir.types import DType, Kind, TensorType

__all__ = ["TENSORFLOW_TARGETS", "emit_tensorflow"]

_SIMPLE = {
    **calls({
        "add.Tensor": "tf.add", "sub.Tensor": "tf.subtract", "mul.Tensor": "tf.multiply", "div.Tensor": "tf.divide",
        "maximum.default": "tf.maximum", "minimum.default": "tf.minimum", "eq.Tensor": "tf.equal",
        "ne.Tensor": "tf.not_equal", "lt.Tensor": "tf.less", "le.Tensor": "tf.less_equal", "gt.Tensor": "tf.greater",
        "ge.Tensor": "tf.greater_equal", "logical_and.default": "tf.logical_and", "logical_or.default": "tf.logical_or",
        "logical_xor.default": "tf.math.logical_xor", "logical_not.default": "tf.logical_not",
        "neg.default": "tf.negative", "abs.default": "tf.abs", "relu.default": "tf.nn.relu", "sign.default": "tf.sign",
        "floor.default": "tf.floor", "ceil.default": "tf.math.ceil", "round.default": "tf.round",
        "exp.default": "tf.exp", "tanh.default": "tf.tanh", "sigmoid.default": "tf.sigmoid",
        "erf.default": "tf.math.erf", "sin.default": "tf.sin", "cos.default": "tf.cos", "sqrt.default": "tf.sqrt",
        "silu.default": "tf.nn.silu", "where.self": "tf.where", "remainder.Tensor": "tf.math.floormod",
        "floor_divide.default": "tf.math.floordiv", "permute.default": "tf.transpose", "reshape.default": "tf.reshape",
        "flip.default": "tf.reverse", "roll.default": "tf.roll", "cat.default": "tf.concat",
        "stack.default": "tf.stack", "split_with_sizes.default": "tf.split", "unsqueeze.default": "tf.expand_dims",
        "mean.dim": "tf.reduce_mean", "amax.default": "tf.reduce_max", "amin.default": "tf.reduce_min",
        "any.dim": "tf.reduce_any", "all.dim": "tf.reduce_all", "mm.default": "tf.matmul", "bmm.default": "tf.matmul",
        "softmax.int": "tf.nn.softmax",
    }),
    "gelu.default": "tf.nn.gelu({0}, approximate=False)", "squeeze.dim": "tf.squeeze({0}, [{1}])",
    "index_select.default": "tf.gather({0}, {2}, axis={1})",
    "gather.default": "tf.experimental.numpy.take_along_axis({0}, {2}, {1})",
    "addmm.default": "{0} + tf.matmul({1}, {2})", "einsum.default": "tf.einsum({0}, *{1})",
}  # fmt: skip
_LOGICAL = {"and": "tf.logical_and", "or": "tf.logical_or", "xor": "tf.math.logical_xor", "not": "tf.logical_not"}


def _dtype(dtype: DType) -> str:
    return f"tf.{dtype.label}"


def _bitwise(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    """TensorFlow's bitwise operators have no booleans."""
    name = node.target.split("_")[1].split(".")[0]
    if types[args[0]].dtype is DType.BOOL:
        return f"{_LOGICAL[name]}({', '.join(args)})"
    return f"tf.bitwise.{'invert' if name == 'not' else f'bitwise_{name}'}({', '.join(args)})"


def _cast(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    return f"tf.cast({args[0]}, {_TENSORFLOW.argument(node.kwargs['dtype'])})"


def _transpose(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    order = list(range(len(types[args[0]].shape)))
    i, j = (int(args[k]) for k in (1, 2))
    order[i], order[j] = order[j], order[i]
    return f"tf.transpose({args[0]}, {order})"


def _slice(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    return f"{args[0]}[{':, ' * int(args[1])}{args[2]}:{args[3]}:{(*args, '1')[4]}]"


def _select(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    return f"{args[0]}[{':, ' * int(args[1])}{args[2]}]"


def _pad(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    config = margins(node, types)
    if min((width for pair in config for width in pair), default=0) < 0:
        raise Unsupported("negative padding")
    return f"tf.pad({args[0]}, {config}, constant_values=tf.constant({args[2]}, {_dtype(types[args[0]].dtype)}))"


def _repeat(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    more = len(numbers(node.args[1])) - len(types[args[0]].shape)
    x = args[0] if more == 0 else f"tf.reshape({args[0]}, {[1] * more + list(types[args[0]].shape)})"
    return f"tf.tile({x}, {args[1]})"


def _triangle(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    k = int((*args, "0")[1])
    rows, columns = types[args[0]].shape[-2:]
    minus = "^" if types[args[0]].dtype is DType.BOOL else "-"  # of a part of it
    if "tril" in node.target:  # what is not above diagonal k
        below = f"tf.linalg.band_part({args[0]}, -1, {min(k, columns)})"
        return below if k >= 0 else f"{args[0]} {minus} tf.linalg.band_part({args[0]}, {min(-k - 1, rows)}, -1)"
    above = f"tf.linalg.band_part({args[0]}, {min(-k, rows)}, -1)"
    return above if k <= 0 else f"{args[0]} {minus} tf.linalg.band_part({args[0]}, -1, {min(k - 1, columns)})"


def _matmul(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    ranks = [len(types[name].shape) for name in args[:2]]
    if min(ranks) < 2:
        return f"tf.tensordot({args[0]}, {args[1]}, [[{ranks[0] - 1}], [{max(ranks[1] - 2, 0)}]])"
    return f"tf.matmul({args[0]}, {args[1]})"


def _clamp(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    low, high = (*args, "None", "None")[1:3]
    dtype = _dtype(types[args[0]].dtype)
    x = args[0] if low == "None" else f"tf.maximum({args[0]}, tf.constant({low}, {dtype}))"
    return x if high == "None" else f"tf.minimum({x}, tf.constant({high}, {dtype}))"


def _sum(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    x = args[0] if types[args[0]].dtype.kind is Kind.FLOAT else f"tf.cast({args[0]}, tf.int64)"
    if "cumsum" in node.target:
        return f"tf.cumsum({x}, {args[1]})"
    return f"tf.reduce_sum({x}, {args[1]}, keepdims={args[2]})"


def _place(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    found = f"tf.{node.target.split('.')[1]}({args[0]}, {args[1]}, output_type=tf.int64)"
    return f"tf.expand_dims({found}, {args[1]})" if (*args, "False")[2] == "True" else found


def _conv(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    """Channels last, as TensorFlow has them on a CPU."""
    strides, pads, dilations = (numbers(node.args[k]) for k in (3, 4, 5))
    dims = len(pads)
    if args[8] != "1" or (dims == 1 and any(pads)):
        raise Unsupported("this convolution")
    last, first = [0, *range(2, dims + 2), 1], [0, dims + 1, *range(1, dims + 1)]
    x, w = f"tf.transpose({args[0]}, {last})", f"tf.transpose({args[1]}, {[*range(2, dims + 2), 1, 0]})"
    padding = "'VALID'" if not any(pads) else str([[0, 0], *([k, k] for k in pads), [0, 0]])
    call = f"tf.nn.conv{dims}d({x}, {w}, {strides}, {padding}, dilations={dilations})"
    if isinstance(node.args[2], Ref):
        call = f"tf.nn.bias_add({call}, {args[2]})"
    return f"tf.transpose({call}, {first})"


def _pool(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    """Maxima over padding are those over what is padded before, which XLA has and padded pooling it has not."""
    size, stride, pads = (numbers(node.args[k]) for k in (1, 2, 3))
    if any(pads) and "avg" in node.target:
        raise Unsupported("an average over padding")
    x, name = args[0], "max_pool2d" if "max" in node.target else "avg_pool2d"
    if any(pads):
        low = f"tf.constant(-np.inf, {_dtype(types[x].dtype)})"
        x = f"tf.pad({x}, {[[0, 0], [0, 0], *([k, k] for k in pads)]}, constant_values={low})"
    return f"tf.transpose(tf.nn.{name}(tf.transpose({x}, [0, 2, 3, 1]), {size}, {stride}, 'VALID'), [0, 3, 1, 2])"


_SPECIAL = {
    "bitwise_and.Tensor": _bitwise, "bitwise_or.Tensor": _bitwise, "bitwise_xor.Tensor": _bitwise,
    "bitwise_not.default": _bitwise, "_to_copy.default": _cast, "expand.default": broadcast("tf.broadcast_to"),
    "transpose.int": _transpose, "slice.Tensor": _slice, "select.int": _select, "constant_pad_nd.default": _pad,
    "repeat.default": _repeat, "tril.default": _triangle, "triu.default": _triangle, "matmul.default": _matmul,
    "clamp.default": _clamp, "sum.dim_IntList": _sum, "cumsum.default": _sum, "argmax.default": _place,
    "argmin.default": _place, "convolution.default": _conv, "max_pool2d.default": _pool, "avg_pool2d.default": _pool,
}  # fmt: skip
_TENSORFLOW = Dialect(
    ("import numpy as np", "import tensorflow as tf"),
    "tf.constant({})", "tf.cast(tf.constant({}), tf.bfloat16)", _dtype, _SIMPLE, _SPECIAL,
)  # fmt: skip
TENSORFLOW_TARGETS = _TENSORFLOW.targets


def emit_tensorflow(graph: Graph) -> str:
    """A module with a function ``program`` of the inputs, which returns a tuple of the outputs."""
    return _TENSORFLOW.module(graph)
