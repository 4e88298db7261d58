"""Operators of vLLM: its fused kernels by what they compute, its attention by its labels, its collectives.

Attention reads and writes a cache that is not part of the graph, and its masks depend on the batch; what is public is
that every query head is computed alike from its own query and from the key and value head of its group. That is what
its labels say.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tantamount.ir.graph import CustomOperator
from tantamount.ir.types import Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.custom import custom_operator
from tantamount.ops.definitions.activation import gelu_of, silu
from tantamount.ops.definitions.collective import all_reduce
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.definitions.norm import rms_norm_of
from tantamount.ops.table import Group, insert, operator

_VENDOR = "vendor"


# ---------------------------------------------------------------------------------------------- normalisation
_RESULT = (("out", "result"),)  # the kernels for GPUs, and those for CPUs before 0.32


@operator("_C.rms_norm.default", category=_VENDOR, mutates=("out",), other_names=_RESULT)
def rms_norm(b: Builder, out: Tensor, input: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    """out := input / sqrt(mean(input^2) + epsilon) * weight, means over the last dimension"""
    if out.dtype is not input.dtype:
        raise ShapeProblem(f"the kernel writes elements of {input.type}, out is {out.type}")
    return b.cast(rms_norm_of(b, input, input.shape[-1:], weight, epsilon)[0], out.dtype)


@operator("_C.fused_add_rms_norm.default", category=_VENDOR, mutates=("input", "residual"))
def fused_add_rms_norm(
    b: Builder, input: Tensor, residual: Tensor, weight: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor]:
    """residual := s = input + residual; input := s / sqrt(mean(s^2) + epsilon) * weight"""
    if input.shape != residual.shape:
        raise ShapeProblem(f"a residual {residual.type} of {input.type}")
    total = b.add(input, residual)
    return b.cast(rms_norm_of(b, total, total.shape[-1:], weight, epsilon)[0], input.dtype), b.cast(
        total, residual.dtype
    )


def _no_variance_size(variance_size: int | None) -> None:
    if variance_size is not None:
        raise ShapeProblem(f"variance_size={variance_size}: a norm by the first elements only")


@operator("vllm_ir.rms_norm.default", category=_VENDOR)
def ir_rms_norm(
    b: Builder, x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) * weight, means over the last dimension"""
    _no_variance_size(variance_size)
    return b.cast(rms_norm_of(b, x, x.shape[-1:], weight, epsilon)[0], x.dtype)


@operator("vllm_ir.fused_add_rms_norm.default", category=_VENDOR)
def ir_fused_add_rms_norm(
    b: Builder,
    x: Tensor,
    x_residual: Tensor,
    weight: Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    """s / sqrt(mean(s^2) + epsilon) * weight and s, where s = x + x_residual"""
    _no_variance_size(variance_size)
    if x.shape != x_residual.shape:
        raise ShapeProblem(f"a residual {x_residual.type} of {x.type}")
    total = b.add(x, x_residual)
    normed = rms_norm_of(b, total, total.shape[-1:], weight, epsilon)[0]
    return b.cast(normed, x.dtype), b.cast(total, x.dtype)


@operator("vllm_ir.fused_add_rms_norm.maybe_inplace", category=_VENDOR, mutates=("x", "x_residual"))
def ir_fused_add_rms_norm_maybe_inplace(
    b: Builder,
    x: Tensor,
    x_residual: Tensor,
    weight: Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """as fused_add_rms_norm; x and x_residual may be used as memory: afterwards they are unknown"""
    normed, total = ir_fused_add_rms_norm(b, x, x_residual, weight, epsilon, variance_size)
    return normed, total, b.unknown(x.shape, x.dtype), b.unknown(x_residual.shape, x_residual.dtype)


# ---------------------------------------------------------------------------------------------- positions
@operator("_C.rotary_embedding.default", category=_VENDOR, mutates=("query", "key"))
def rotary_embedding(
    b: Builder,
    positions: Tensor,
    query: Tensor,
    key: Tensor | None,
    head_size: int,
    cos_sin_cache: Tensor,
    is_neox: bool,
    rope_dim_offset: int = 0,
    inverse: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """query, key := every pair (x, y) of the first r of each head's elements turned: (x cos - y sin, y cos + x sin)

    Rows of ``cos_sin_cache`` (one per position) have r/2 cosines, then r/2 sines; pair i uses the i-th of each. With
    ``is_neox`` pair i is the elements i and r/2 + i, else 2 i and 2 i + 1. Elements from r on stay.
    """
    if cos_sin_cache.rank != 2 or cos_sin_cache.shape[1] % 2 or not 0 < cos_sin_cache.shape[1] <= head_size:
        raise ShapeProblem(f"a cache of cosines and sines {cos_sin_cache.type} for heads of size {head_size}")
    if rope_dim_offset or inverse:
        raise ShapeProblem(f"rope_dim_offset={rope_dim_offset}, inverse={inverse}: only 0 and False are known")
    if positions.rank not in (1, 2) or positions.dtype.kind is not Kind.INT:
        raise ShapeProblem(f"positions {positions.type}")
    half = cos_sin_cache.shape[1] // 2
    rows = b.gather(cos_sin_cache, [b.reshape(positions, (-1,)), None])  # one per token
    cos, sin = (b.unsqueeze(b.slice(rows, 1, k * half, (k + 1) * half), 1) for k in (0, 1))

    def turned(x: Tensor) -> Tensor:
        heads = b.reshape(require_float(x), (rows.shape[0], -1, head_size))
        if x.shape[: positions.rank] != positions.shape:
            raise ShapeProblem(f"{x.type} at positions {positions.type}")
        part = b.slice(heads, 2, 0, 2 * half)
        pairs = b.reshape(part, (*part.shape[:2], *((2, half) if is_neox else (half, 2))))
        dim = 2 if is_neox else 3
        first, second = b.select(pairs, dim, 0), b.select(pairs, dim, 1)
        new = b.stack(
            [
                b.sub(b.mul(first, cos), b.mul(second, sin)),
                b.add(b.mul(second, cos), b.mul(first, sin)),
            ],
            dim,
        )
        out = b.concat([b.reshape(new, part.shape), b.slice(heads, 2, 2 * half)], 2)
        return b.cast(b.reshape(out, x.shape), x.dtype)

    return turned(query), None if key is None else turned(key)


# ---------------------------------------------------------------------------------------------- activations
def _halves(b: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    if not x.rank or x.shape[-1] % 2:
        raise ShapeProblem(f"the halves of the last dimension of {x.type}")
    half = x.shape[-1] // 2
    return b.slice(require_float(x), -1, 0, half), b.slice(x, -1, half)


def _gated(target: str, formula: str, activation: Callable[[Builder, Tensor], Tensor], second: bool = False) -> None:
    """``out := activation(input[..., :d]) * input[..., d:]``; of the second half, if ``second``."""

    def define(b: Builder, out: Tensor, input: Tensor) -> Tensor:
        x, y = _halves(b, input)
        return b.mul(x, activation(b, y)) if second else b.mul(activation(b, x), y)

    define.__doc__ = formula
    operator(target, category=_VENDOR, mutates=("out",), other_names=_RESULT)(define)


def _pointwise(target: str, formula: str, activation: Callable[[Builder, Tensor], Tensor]) -> None:
    def define(b: Builder, out: Tensor, input: Tensor) -> Tensor:
        return activation(b, require_float(input))

    define.__doc__ = formula
    operator(target, category=_VENDOR, mutates=("out",), other_names=_RESULT)(define)


def _gelu(b: Builder, x: Tensor) -> Tensor:
    return b.mul(*gelu_of(b, x, "none"))


def _gelu_tanh(b: Builder, x: Tensor) -> Tensor:
    return b.mul(*gelu_of(b, x, "tanh"))


def _gelu_rounded(b: Builder, x: Tensor) -> Tensor:
    """The tanh form with the constant as the kernels write it."""
    inner = b.mul(b.add(x, b.mul(b.power(x, 3), Fraction("0.044715"))), Fraction("0.79788456"))
    return b.mul(b.mul(x, Fraction(1, 2)), b.add(b.function("tanh", inner), 1))


def _gelu_quick(b: Builder, x: Tensor) -> Tensor:
    return b.div(x, b.add(b.exp(b.mul(x, Fraction("-1.702"))), 1))


_HALVES = "where (x, y) are the halves of input's last dimension"
_gated("_C.silu_and_mul.default", f"out := silu(x) * y, {_HALVES}", silu)
_gated("_C.mul_and_silu.default", f"out := x * silu(y), {_HALVES}", silu, True)
_gated("_C.gelu_and_mul.default", f"out := gelu(x) * y, {_HALVES}", _gelu)
_gated("_C.gelu_tanh_and_mul.default", f"out := gelu(x) * y in gelu's tanh form, {_HALVES}", _gelu_tanh)
_pointwise("_C.gelu_new.default", "out := x/2 * (1 + tanh(0.79788456 * (x + 0.044715 x^3)))", _gelu_rounded)
_pointwise("_C.gelu_fast.default", "out := x/2 * (1 + tanh(0.79788456 * (x + 0.044715 x^3)))", _gelu_rounded)
_pointwise("_C.gelu_tanh.default", "out := gelu(x) in its tanh form", _gelu_tanh)
_pointwise("_C.gelu_quick.default", "out := x / (1 + exp(-1.702 x))", _gelu_quick)


# ---------------------------------------------------------------------------------------------- attention
insert(
    custom_operator(
        CustomOperator(
            "vllm.unified_attention_with_output.default",
            args="query: Tensor, key: Tensor, value: Tensor, output: Tensor, layer_name,"
            " output_scale=None, output_block_scale=None, kv_cache_dummy_dep=None",
            labels="[t] (g r) [d], [t] g [d], [t] g [e], _ -> [t] (g r) [e]",
            mutates=("output",),
            doc="""output := attention of every query head g r + i over key and value head g, by its labels

Of shape (tokens, heads, head size): query head h belongs to key and value head ``h // (query heads / key heads)``. What
it computes of them is not known, but the same for every head and rank, and for one ``layer_name`` the same everywhere;
the key-value cache and the masks, which are outside of the graph, are part of it. That the cache was written with this
key and value (``kv_cache_dummy_dep``, the result of ``unified_kv_cache_update``) must be settled where graphs are
captured: a tensor there is refused.""",
        )
    )
)


# ---------------------------------------------------------------------------------------------- collectives
@operator("vllm.all_reduce.default", "vllm.outplace_all_reduce.default", category=_VENDOR)
def vllm_all_reduce(b: Builder, tensor: Tensor, group_name: Group) -> Tensor:
    """y_r = sum over the members s of tensor_s"""
    return all_reduce(b, tensor, "sum", group_name)


def _dimension(b: Builder, tensor: Tensor, dim: int, world_size: int) -> int:
    """The dimension among the stacked ones."""
    if world_size != tensor.shape[0]:
        raise ShapeProblem(f"world_size {world_size} for a group of {tensor.shape[0]} ranks")
    if not -tensor.rank < dim < tensor.rank - 1 or tensor.rank < 2:
        raise ShapeProblem(f"dimension {dim} of a tensor with {tensor.rank - 1} dimensions")
    return dim % (tensor.rank - 1) + 1


@operator("vllm.all_gather.default", category=_VENDOR)
def vllm_all_gather(b: Builder, tensor: Tensor, dim: int, world_size: int, group_name: Group) -> Tensor:
    """y_r = the members' tensors one after the other along dim"""
    k = _dimension(b, tensor, dim, world_size)
    whole = b.concat([b.select(tensor, 0, member) for member in range(world_size)], k - 1)
    return b.expand(b.unsqueeze(whole, 0), (world_size, *whole.shape))


@operator("vllm.reduce_scatter.default", category=_VENDOR)
def vllm_reduce_scatter(b: Builder, tensor: Tensor, dim: int, world_size: int, group_name: Group) -> Tensor:
    """y_r = part r along dim of the sum over the members"""
    k = _dimension(b, tensor, dim, world_size) - 1
    total = b.cast(b.sum(tensor, (0,)), tensor.dtype)
    if total.shape[k] % world_size:
        raise ShapeProblem(f"dimension {dim} of size {total.shape[k]} scattered to {world_size} ranks")
    return b.stack(b.split(total, (total.shape[k] // world_size,) * world_size, k), 0)
