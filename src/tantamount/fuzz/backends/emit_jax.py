"""Graphs as JAX source: every node an expression of ``jax.numpy``."""

from __future__ import annotations

from tantamount.fuzz.backends.source import Dialect, broadcast, calls, margins, numbers
from tantamount.ir.graph import Graph, Node
from tantamount.ir.types import DType, Kind, TensorType

__all__ = ["JAX_TARGETS", "emit_jax"]

# An expression with the arguments as {0}, {1}, ...
_SIMPLE = {
    **calls({
        "maximum.default": "jnp.maximum", "minimum.default": "jnp.minimum", "abs.default": "jnp.abs",
        "relu.default": "jax.nn.relu", "sign.default": "jnp.sign", "floor.default": "jnp.floor",
        "ceil.default": "jnp.ceil", "round.default": "jnp.round", "trunc.default": "jnp.trunc",
        "exp.default": "jnp.exp", "tanh.default": "jnp.tanh", "sigmoid.default": "jax.nn.sigmoid",
        "erf.default": "jax.lax.erf", "sin.default": "jnp.sin", "cos.default": "jnp.cos", "sqrt.default": "jnp.sqrt",
        "silu.default": "jax.nn.silu", "clamp.default": "jnp.clip", "where.self": "jnp.where",
        "remainder.Tensor": "jnp.remainder", "floor_divide.default": "jnp.floor_divide",
        "permute.default": "jnp.transpose", "transpose.int": "jnp.swapaxes", "reshape.default": "jnp.reshape",
        "flip.default": "jnp.flip", "roll.default": "jnp.roll", "cat.default": "jnp.concatenate",
        "stack.default": "jnp.stack", "unsqueeze.default": "jnp.expand_dims", "repeat.default": "jnp.tile",
        "tril.default": "jnp.tril", "triu.default": "jnp.triu", "mean.dim": "jnp.mean", "amax.default": "jnp.max",
        "amin.default": "jnp.min", "any.dim": "jnp.any", "all.dim": "jnp.all", "argmax.default": "jnp.argmax",
        "argmin.default": "jnp.argmin", "softmax.int": "jax.nn.softmax",
    }),
    "add.Tensor": "{0} + {1}", "sub.Tensor": "{0} - {1}", "mul.Tensor": "{0} * {1}", "div.Tensor": "{0} / {1}",
    "eq.Tensor": "{0} == {1}", "ne.Tensor": "{0} != {1}", "lt.Tensor": "{0} < {1}", "le.Tensor": "{0} <= {1}",
    "gt.Tensor": "{0} > {1}", "ge.Tensor": "{0} >= {1}", "logical_and.default": "{0} & {1}",
    "logical_or.default": "{0} | {1}", "logical_xor.default": "{0} ^ {1}", "logical_not.default": "~{0}",
    "bitwise_and.Tensor": "{0} & {1}", "bitwise_or.Tensor": "{0} | {1}", "bitwise_xor.Tensor": "{0} ^ {1}",
    "bitwise_not.default": "~{0}", "neg.default": "-{0}", "gelu.default": "jax.nn.gelu({0}, approximate=False)",
    "slice.Tensor": "jax.lax.slice_in_dim({0}, {2}, {3}, {4}, {1})", "squeeze.dim": "jnp.squeeze({0}, {1})",
    "index_select.default": "jnp.take({0}, {2}, axis={1})",
    "gather.default": "jnp.take_along_axis({0}, {2}, axis={1})", "mm.default": "{0} @ {1}",
    "bmm.default": "{0} @ {1}", "matmul.default": "{0} @ {1}", "addmm.default": "{0} + {1} @ {2}",
    "einsum.default": "jnp.einsum({0}, *{1})",
}  # fmt: skip


def _dtype(dtype: DType) -> str:
    return f"jnp.{'bool_' if dtype is DType.BOOL else dtype.label}"


def _cast(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    return f"{args[0]}.astype({_JAX.argument(node.kwargs['dtype'])})"


def _split(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    sizes = numbers(node.args[1])
    cuts = [sum(sizes[: k + 1]) for k in range(len(sizes) - 1)]
    return f"jnp.split({args[0]}, {cuts}, {args[2]})"


def _select(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    return f"jax.lax.index_in_dim({args[0]}, {args[2]}, {args[1]}, keepdims=False)"


def _pad(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    config = [(low, high, 0) for low, high in margins(node, types)]
    return f"jax.lax.pad({args[0]}, jnp.asarray({args[2]}, {args[0]}.dtype), {config})"


def _sum(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    dtype = "" if types[args[0]].dtype.kind is Kind.FLOAT else ", dtype=jnp.int64"
    keep = f", keepdims={args[2]}" if node.target.endswith("IntList") else ""
    return f"jnp.{'sum' if keep else 'cumsum'}({args[0]}, {args[1]}{dtype}{keep})"


def _conv(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    pads = [(k, k) for k in numbers(node.args[4])]
    given = f"{args[0]}, {args[1]}, {args[3]}, {pads}, rhs_dilation={args[5]}, feature_group_count={args[8]}"
    call = f"jax.lax.conv_general_dilated({given})"
    shape = (1, -1, *(1 for _ in pads))
    return call if args[2] == "None" else f"{call} + {args[2]}.reshape({shape})"


def _pool(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    size, stride = (1, 1, *numbers(node.args[1])), (1, 1, *numbers(node.args[2]))
    pads = [(0, 0), (0, 0), *((k, k) for k in numbers(node.args[3]))]
    if "max" in node.target:
        first = f"jnp.asarray(-jnp.inf, {args[0]}.dtype)"
        return f"jax.lax.reduce_window({args[0]}, {first}, jax.lax.max, {size}, {stride}, {pads})"
    count = size[2] * size[3]
    first = f"jnp.asarray(0, {args[0]}.dtype)"
    return f"jax.lax.reduce_window({args[0]}, {first}, jax.lax.add, {size}, {stride}, {pads}) / {count}"


_SPECIAL = {
    "_to_copy.default": _cast, "expand.default": broadcast("jnp.broadcast_to"), "split_with_sizes.default": _split,
    "select.int": _select, "constant_pad_nd.default": _pad, "sum.dim_IntList": _sum, "cumsum.default": _sum,
    "convolution.default": _conv, "max_pool2d.default": _pool, "avg_pool2d.default": _pool,
}  # fmt: skip
_JAX = Dialect(
    ("import jax", "import jax.numpy as jnp", "import numpy as np"),
    "jnp.asarray({})", "jnp.asarray({}).astype(jnp.bfloat16)", _dtype, _SIMPLE, _SPECIAL,
)  # fmt: skip
JAX_TARGETS = _JAX.targets


def emit_jax(graph: Graph) -> str:
    """A module with a function ``program`` of the inputs, which returns a tuple of the outputs."""
    return _JAX.module(graph)
