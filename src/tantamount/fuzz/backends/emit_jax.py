"""Graphs as JAX source: every node an expression of ``jax.numpy``."""

from __future__ import annotations

from tantamount.fuzz.backends.source import Dialect, numbers
from tantamount.ir.graph import Graph, Node
from tantamount.ir.types import DType, Kind, TensorType

__all__ = ["JAX_TARGETS", "emit_jax"]

# An expression with the arguments as {0}, {1}, ...
_SIMPLE = {
    "add.Tensor": "{0} + {1}", "sub.Tensor": "{0} - {1}", "mul.Tensor": "{0} * {1}", "div.Tensor": "{0} / {1}",
    "maximum.default": "jnp.maximum({0}, {1})", "minimum.default": "jnp.minimum({0}, {1})", "eq.Tensor": "{0} == {1}",
    "ne.Tensor": "{0} != {1}", "lt.Tensor": "{0} < {1}", "le.Tensor": "{0} <= {1}", "gt.Tensor": "{0} > {1}",
    "ge.Tensor": "{0} >= {1}", "logical_and.default": "{0} & {1}", "logical_or.default": "{0} | {1}",
    "logical_xor.default": "{0} ^ {1}", "logical_not.default": "~{0}", "bitwise_and.Tensor": "{0} & {1}",
    "bitwise_or.Tensor": "{0} | {1}", "bitwise_xor.Tensor": "{0} ^ {1}", "bitwise_not.default": "~{0}",
    "neg.default": "-{0}",
    "abs.default": "jnp.abs({0})", "relu.default": "jax.nn.relu({0})", "sign.default": "jnp.sign({0})",
    "floor.default": "jnp.floor({0})", "ceil.default": "jnp.ceil({0})", "round.default": "jnp.round({0})",
    "trunc.default": "jnp.trunc({0})", "exp.default": "jnp.exp({0})", "tanh.default": "jnp.tanh({0})",
    "sigmoid.default": "jax.nn.sigmoid({0})", "erf.default": "jax.lax.erf({0})", "sin.default": "jnp.sin({0})",
    "cos.default": "jnp.cos({0})", "sqrt.default": "jnp.sqrt({0})", "silu.default": "jax.nn.silu({0})",
    "gelu.default": "jax.nn.gelu({0}, approximate=False)", "clamp.default": "jnp.clip({0}, {1}, {2})",
    "where.self": "jnp.where({0}, {1}, {2})", "remainder.Tensor": "jnp.remainder({0}, {1})",
    "floor_divide.default": "jnp.floor_divide({0}, {1})", "permute.default": "jnp.transpose({0}, {1})",
    "transpose.int": "jnp.swapaxes({0}, {1}, {2})", "reshape.default": "jnp.reshape({0}, {1})",
    "slice.Tensor": "jax.lax.slice_in_dim({0}, {2}, {3}, {4}, {1})", "flip.default": "jnp.flip({0}, {1})",
    "roll.default": "jnp.roll({0}, {1}, {2})", "cat.default": "jnp.concatenate({0}, {1})",
    "stack.default": "jnp.stack({0}, {1})",
    "unsqueeze.default": "jnp.expand_dims({0}, {1})", "squeeze.dim": "jnp.squeeze({0}, {1})",
    "repeat.default": "jnp.tile({0}, {1})",
    "index_select.default": "jnp.take({0}, {2}, axis={1})", "gather.default": "jnp.take_along_axis({0}, {2}, axis={1})",
    "tril.default": "jnp.tril({0}, {1})", "triu.default": "jnp.triu({0}, {1})",
    "mean.dim": "jnp.mean({0}, {1}, keepdims={2})",
    "amax.default": "jnp.max({0}, {1}, keepdims={2})", "amin.default": "jnp.min({0}, {1}, keepdims={2})",
    "any.dim": "jnp.any({0}, {1}, keepdims={2})", "all.dim": "jnp.all({0}, {1}, keepdims={2})",
    "argmax.default": "jnp.argmax({0}, {1}, keepdims={2})", "argmin.default": "jnp.argmin({0}, {1}, keepdims={2})",
    "mm.default": "{0} @ {1}", "bmm.default": "{0} @ {1}", "matmul.default": "{0} @ {1}",
    "addmm.default": "{0} + {1} @ {2}",
    "softmax.int": "jax.nn.softmax({0}, {1})",
}  # fmt: skip


def _dtype(dtype: DType) -> str:
    return f"jnp.{'bool_' if dtype is DType.BOOL else dtype.label}"


def _cast(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    return f"{args[0]}.astype({_JAX.argument(node.kwargs['dtype'])})"


def _expand(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    return f"jnp.broadcast_to({args[0]}, {node.type.shape if node.type else args[1]})"


def _split(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    sizes = numbers(node.args[1])
    cuts = [sum(sizes[: k + 1]) for k in range(len(sizes) - 1)]
    return f"jnp.split({args[0]}, {cuts}, {args[2]})"


def _select(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    return f"jax.lax.index_in_dim({args[0]}, {args[2]}, {args[1]}, keepdims=False)"


def _pad(node: Node, args: list[str], types: dict[str, TensorType]) -> str:
    widths = numbers(node.args[1])
    rank = len(types[args[0]].shape)
    config = [(0, 0, 0)] * rank
    for k in range(len(widths) // 2):
        config[rank - 1 - k] = (widths[2 * k], widths[2 * k + 1], 0)
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
    "_to_copy.default": _cast, "expand.default": _expand, "split_with_sizes.default": _split, "select.int": _select,
    "constant_pad_nd.default": _pad, "sum.dim_IntList": _sum, "cumsum.default": _sum, "convolution.default": _conv,
    "max_pool2d.default": _pool, "avg_pool2d.default": _pool,
}  # fmt: skip
_JAX = Dialect(
    ("import jax", "import jax.numpy as jnp", "import numpy as np"),
    "jnp.asarray({})", "jnp.asarray({}).astype(jnp.bfloat16)", _dtype, _SIMPLE, _SPECIAL,
)  # fmt: skip
JAX_TARGETS = _JAX.targets


def emit_jax(graph: Graph) -> str:
    """A module with a function ``program`` of the inputs, which returns a tuple of the outputs."""
    return _JAX.module(graph)
