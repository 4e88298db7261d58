# ruff: noqa: E501, T201 (a table of calls; a script)
"""Makes the HLO texts of this folder and what JAX computes with them; needs jax (0.10.2 was used), the tests do not.

    python make.py

``one.json``: functions on one device: their HLO text before any pass, arguments and results. ``ranks.json``: functions
after XLA's SPMD partitioner, with the arguments and results of every rank.
"""

import glob
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

DUMP = tempfile.mkdtemp()
os.environ["XLA_FLAGS"] = (
    f"--xla_force_host_platform_device_count=4 --xla_dump_to={DUMP} --xla_dump_hlo_pass_re=spmd.*|shardy.*"
)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

jax.config.update("jax_enable_x64", True)
HERE = Path(__file__).parent
rng = np.random.default_rng(0)
P = PartitionSpec


def f(*shape):
    return np.round(rng.standard_normal(shape), 3)


def i(*shape, low=-9, high=9):
    return rng.integers(low, high, shape)


def array(x):
    x = np.asarray(x)
    kind = "bool" if x.dtype == bool else str(x.dtype)
    return {"dtype": kind, "shape": list(x.shape), "data": x.reshape(-1).tolist()}


def gather(offset, collapsed, index_map, sizes, operand_batching=(), indices_batching=(), mode="clip"):
    numbers = lax.GatherDimensionNumbers(offset, collapsed, index_map, operand_batching, indices_batching)
    return lambda x, i: lax.gather(x, i, numbers, sizes, mode=mode)


def scatter(function, window, inserted, dims, operand_batching=(), indices_batching=()):
    numbers = lax.ScatterDimensionNumbers(window, inserted, dims, operand_batching, indices_batching)
    return lambda x, i, u: function(x, i, u, numbers, mode=lax.GatherScatterMode.FILL_OR_DROP)


positive = np.abs(f(3, 4)) + 0.1
divisors = np.array([3, -3, 2, -7, 5, 1, -1, 4, 9, -2, 6, 8]).reshape(3, 4)
ONE = {
    "abs": (lax.abs, f(3, 4)),
    "abs_integer": (lax.abs, i(3, 4)),
    "neg": (lax.neg, i(3, 4)),
    "sign": (lax.sign, np.array([-1.5, 0.0, 2.0])),
    "floor": (lax.floor, f(3, 4)),
    "ceil": (lax.ceil, f(3, 4)),
    "round_even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), np.array([-1.5, -0.5, 0.5, 1.5, 2.2])),
    "exp": (lax.exp, f(3, 4)),
    "expm1": (lax.expm1, f(3, 4)),
    "log": (lax.log, positive),
    "log1p": (lax.log1p, positive),
    "logistic": (lax.logistic, f(3, 4)),
    "tanh": (lax.tanh, f(3, 4)),
    "cos": (lax.cos, f(3, 4)),
    "sin": (lax.sin, f(3, 4)),
    "tan": (lax.tan, f(3, 4)),
    "sqrt": (lax.sqrt, positive),
    "rsqrt": (lax.rsqrt, positive),
    "erf": (lax.erf, f(3, 4)),
    "not_bool": (lax.bitwise_not, np.array([True, False])),
    "not_integer": (lax.bitwise_not, i(5)),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 11, 52), f(3)),
    "add": (lax.add, f(3, 4), f(3, 4)),
    "sub": (lax.sub, i(3, 4), i(3, 4)),
    "mul": (lax.mul, f(3, 4), f(3, 4)),
    "div": (lax.div, f(3, 4), positive),
    "div_integer": (lax.div, i(3, 4), divisors),
    "rem": (lax.rem, f(3, 4), f(3, 4) + 3),
    "rem_integer": (lax.rem, i(3, 4), divisors),
    "pow": (lax.pow, positive, f(3, 4)),
    "max": (lax.max, f(3, 4), f(3, 4)),
    "min": (lax.min, i(3, 4), i(3, 4)),
    "and_integer": (lax.bitwise_and, i(3, 4), i(3, 4)),
    "or_bool": (lax.bitwise_or, f(6) > 0, f(6) > 0),
    "xor_bool": (lax.bitwise_xor, f(6) > 0, f(6) > 0),
    "xor_integer": (lax.bitwise_xor, i(6), i(6)),
    **{name: (getattr(lax, name), i(8, low=0, high=3), i(8, low=0, high=3)) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "lt_float": (lax.lt, f(5), f(5)),
    "select": (lax.select, f(3, 4) > 0, f(3, 4), f(3, 4)),
    "select_scalar": (lambda p, x, y: lax.select(p, x, y), np.array(True), f(3), f(3)),
    "clamp": (lax.clamp, np.array(-0.5), f(3, 4), np.array(0.5)),
    "clamp_full": (lax.clamp, i(4, low=-3, high=0), i(4), i(4, low=0, high=3)),
    "convert_to_integer": (lambda x: x.astype(jnp.int32), 10 * f(6)),
    "convert_to_bool": (lambda x: x.astype(bool), np.array([0.0, 0.5, -1.0])),
    "convert_bool": (lambda x: x.astype(jnp.float64), np.array([True, False])),
    "iota": (lambda x: x + lax.broadcasted_iota(jnp.float64, (2, 3), 1), f(2, 3)),
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (3, 2, 4), (0, 2)), f(3, 4)),
    "broadcast_one": (lambda x: lax.broadcast_in_dim(x, (3, 5), (0, 1)), f(3, 1)),
    "reshape": (lambda x: x.reshape(2, 6), f(3, 4)),
    "transpose": (lambda x: x.transpose(2, 0, 1), f(2, 3, 4)),
    "rev": (lambda x: lax.rev(x, (0, 2)), f(2, 3, 4)),
    "concatenate": (lambda x, y: lax.concatenate([x, y, x], 1), f(2, 3), f(2, 1)),
    "slice": (lambda x: lax.slice(x, (1, 0), (5, 7), (2, 3)), f(6, 7)),
    "pad": (lambda x: lax.pad(x, 0.5, ((1, 2, 0), (0, 1, 2))), f(2, 3)),
    "pad_negative": (lambda x: lax.pad(x, 7, ((-1, 2, 1), (3, -2, 0))), i(3, 4)),
    "dot": (lambda x, y: x @ y, f(3, 4), f(4, 5)),
    "dot_batch": (
        lambda x, y: lax.dot_general(x, y, (((3, 1), (2, 0)), ((2,), (3,)))), f(2, 3, 4, 5), f(3, 6, 5, 4),
    ),
    "dot_integer": (lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int64), i(3, 4), i(4, 2)),
    "reduce_sum": (lambda x: x.sum((0, 2)), f(2, 3, 4)),
    "reduce_max": (lambda x: x.max(1), f(2, 3)),
    "reduce_min": (lambda x: x.min(1), i(2, 3)),
    "reduce_prod": (lambda x: x.prod((0, 1)), f(2, 3)),
    "reduce_any": (lambda x: (x > 0).any(1), f(4, 2)),
    "reduce_all": (lambda x: (x > 0).all(0), f(2, 4)),
    "reduce_with_start": (lambda x: lax.reduce(x, np.float64(2), lax.add, (0,)), f(3, 2)),
    "softmax": (lambda x: jax.nn.softmax(x), f(3, 5)),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), f(3, 5)),
    "layer_norm": (lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5), f(3, 5)),
    "take": (lambda x, i: x[i], f(5, 3), i(4, low=-5, high=5)),
    "gather_rows": (gather((1,), (0,), (0,), (1, 3)), f(5, 3), np.array([[0], [4], [-2], [9]])),
    "gather_windows": (gather((1, 2), (), (0, 1), (2, 3)), f(4, 5), np.array([[0, 0], [3, 1], [2, 4], [-1, 2]])),
    "gather_between": (gather((0, 2), (1,), (1,), (2, 1, 4)), f(2, 3, 4), np.array([[2], [0], [1]])),
    "gather_swapped": (gather((1,), (0,), (1, 0), (1, 2)), f(4, 5), np.array([[3, 1], [0, 0], [9, 9]])),
    "gather_partial": (gather((1, 2), (), (0,), (2, 2)), f(4, 5), np.array([[0], [3]])),
    "gather_scalar": (gather((0,), (0,), (0,), (1, 3)), f(5, 3), np.array([2])),
    "gather_batched": (gather((2,), (1,), (1,), (1, 1, 2), (0,), (0,)), f(3, 4, 2), i(3, 2, 1, low=0, high=4)),
    "take_along": (lambda x, i: jnp.take_along_axis(x, i, 1, mode="clip"), f(3, 4), i(3, 2, low=0, high=4)),
    "scatter_add": (scatter(lax.scatter_add, (1,), (0,), (0,)), f(5, 3), np.array([[0], [4], [4], [7], [-1]]), f(5, 3)),
    "scatter_add_windows": (
        scatter(lax.scatter_add, (1, 2), (), (0, 1)), f(4, 5), np.array([[0, 0], [2, 3], [3, 1], [1, 2]]), f(4, 2, 2),
    ),
    "scatter_add_batched": (
        scatter(lax.scatter_add, (2,), (1,), (1,), (0,), (0,)), f(3, 4, 2), i(3, 2, 1, low=0, high=5), f(3, 2, 2),
    ),
    "scatter_set": (scatter(lax.scatter, (1,), (0,), (0,)), f(5, 3), np.array([[3], [0], [8]]), f(3, 3)),
    "scatter_set_windows": (scatter(lax.scatter, (1, 2), (), (0, 1)), f(6, 5), np.array([[0, 0], [3, 3], [5, 1]]), f(3, 2, 2)),
    "scatter_one": (scatter(lax.scatter, (0, 1), (), (0,)), f(5, 3), np.array([2]), f(2, 3)),
    "scatter_one_outside": (scatter(lax.scatter, (0, 1), (), (0,)), f(5, 3), np.array([4]), f(2, 3)),
    "at_set": (lambda x, u: x.at[2].set(u), f(4, 3), f(3)),
    "dynamic_slice": (lambda x, a, c: lax.dynamic_slice(x, (a, c), (2, 3)), f(4, 5), np.array(1), np.array(2)),
    "dynamic_slice_clamped": (lambda x, a, c: lax.dynamic_slice(x, (a, c), (2, 3)), f(4, 5), np.array(7), np.array(-7)),
    "dynamic_update": (lambda x, u, a: lax.dynamic_update_slice(x, u, (a, 0)), f(4, 5), f(2, 5), np.array(1)),
    "dynamic_update_clamped": (lambda x, u, a: lax.dynamic_update_slice(x, u, (a, a)), f(4, 5), f(2, 2), np.array(9)),
    "constant": (lambda x: x + np.array([[1.5, -2.0], [np.inf, 1e-7]]), f(2, 2)),
    "call": (lambda x: jax.jit(lambda y: (y * 2, y + 1))(x)[0] + jax.jit(lambda y: y * 3, inline=False)(x), f(3)),
    "several": (lambda x, y: (x + y, x * y, x), f(3), f(3)),
}  # fmt: skip

MESH = (("dp", 2), ("tp", 2))


def mlp(x, w1, w2):
    return jax.nn.silu(x @ w1) @ w2


def vocabulary(ids, table):
    return table[ids]


def shmap(body, ins, outs):
    return lambda mesh: jax.shard_map(body, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)


RING = [(0, 1), (1, 0)]

later = np.random.default_rng(1)  # numbers of their own: those of the cases around stay what they are


def g(*shape):
    return np.round(later.standard_normal(shape), 3)


def few(*shape):
    return later.integers(-2, 3, shape)


ONE |= {
    "is_finite": (lax.is_finite, g(3)),
    "cbrt": (lax.cbrt, np.array([-8.0, 0.0, 0.3, 27.0])),
    "cumsum": (lambda x: lax.cumsum(x, 1), g(2, 5)),
    "cumsum_reverse": (lambda x: lax.cumsum(x, 0, reverse=True), few(4, 2)),
    "cumprod": (lambda x: lax.cumprod(x, 1), g(2, 4)),
    "cummax": (lambda x: lax.cummax(x, 1), few(2, 5)),
    "cummin_reverse": (lambda x: lax.cummin(x, 1, reverse=True), g(2, 4)),
    "average_pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 2), (1, 2, 1), "VALID"), g(2, 7, 4)),
    "max_pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 2), (2, 2), ((1, 1), (0, 1))), g(6, 5)),
    "argmax": (lambda x: jnp.argmax(x, 1), few(4, 5)),
    "argmin_float": (lambda x: jnp.argmin(x, 0), g(4, 3)),
    "argmax_flat": (lambda x: jnp.argmax(x), g(3, 4)),
    "top_k": (lambda x: lax.top_k(x, 3), g(3, 5)),
    "top_k_ties": (lambda x: lax.top_k(x, 3), few(3, 5)),
    "sort": (lambda x: jnp.sort(x, 0), g(4, 2)),
    "argsort": (lambda x: jnp.argsort(x), few(2, 6)),
    "argsort_descending": (lambda x: jnp.argsort(x, descending=True), few(2, 6)),
    "sort_with": (lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), few(2, 6), g(2, 6)),
    "cond": (lambda x, y: lax.cond(x[0] > 0, lambda y: (y * 2, x), lambda y: (y + 1, x * 3), y), g(2), g(3)),
    **{
        f"switch_{k}": (lambda k, x: lax.switch(k, [lambda x: x, lambda x: x * x, lambda x: -x], x), np.array(k), g(3))
        for k in (-1, 0, 1, 5)
    },
}  # fmt: skip

RANKS = {
    "mlp": (mlp, (P("dp", None), P(None, "tp"), P("tp", None)), P("dp", None), f(4, 6), f(6, 8), f(8, 6)),
    "mlp_sequence": (mlp, (P("tp", None), P(None, "tp"), P("tp", None)), P("tp", None), f(4, 6), f(6, 8), f(8, 6)),
    "vocabulary": (vocabulary, (P("dp"), P("tp", None)), P("dp", None), i(4, low=0, high=8), f(8, 3)),
    "mean_square": (lambda x: (x * x).mean(), (P("dp", "tp"),), P(), f(4, 6)),
    "transposed": (lambda x: x.T, (P("dp", "tp"),), P("dp", "tp"), f(4, 6)),
    "softmax_sharded": (lambda x: jax.nn.softmax(x), (P(None, "tp"),), P(None, "tp"), f(3, 6)),
}


def attention(x, wq, wk, wv, wo):
    heads = lambda w: (x @ w).reshape(x.shape[0], -1, 4).transpose(1, 0, 2)  # noqa: E731
    scores = heads(wq) @ heads(wk).transpose(0, 2, 1) / 2
    mask = jnp.tril(jnp.ones((x.shape[0], x.shape[0]), bool))
    probabilities = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    return (probabilities @ heads(wv)).transpose(1, 0, 2).reshape(x.shape[0], -1) @ wo


def normal(x, w):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w


COLUMN, ROW, WHOLE = P(None, "tp"), P("tp", None), P(None, None)
RANKS |= {
    "attention": (attention, (WHOLE, COLUMN, COLUMN, COLUMN, ROW), WHOLE, f(6, 8), *(f(8, 16) for _ in "qkv"), f(16, 8)),
    "normal": (normal, (P("dp", "tp"), P("tp")), P("dp", "tp"), f(4, 6), f(6)),
    "cache": (
        lambda cache, new, at: lax.dynamic_update_slice(cache, new, (at, 0, 0)),
        (P(None, "tp", None), P(None, "tp", None), P()), P(None, "tp", None), f(8, 4, 2), f(1, 4, 2), np.array(3),
    ),
    "reverse": (lambda x: x[::-1], (P("tp", None),), P("tp", None), f(4, 3)),
    "vocabulary_clipped": (
        lambda ids, table: table.at[ids].get(mode="clip"), (P("dp"), P("tp", None)), P("dp", None),
        i(4, low=0, high=8), f(8, 3),
    ),
    "outer_sum": (lambda x, y: (x[:, None] + y[None, :]).sum(0), (P("dp"), P("tp")), P("tp"), f(4), f(6)),
}  # fmt: skip
LOCAL = {
    "psum": (lambda x: lax.psum(x, "tp"), (P("dp", "tp"),), P("dp", None), f(4, 6)),
    "pmax_both": (lambda x: lax.pmax(x, ("dp", "tp")), (P("dp", "tp"),), P(None, None), f(4, 6)),
    "all_gather": (lambda x: lax.all_gather(x, "tp", axis=1, tiled=True), (P("dp", "tp"),), P("dp", None), f(4, 6)),
    "all_gather_swapped": (
        lambda x: lax.all_gather(x, ("tp", "dp"), axis=0, tiled=True), (P("dp", "tp"),), P(None, None), f(4, 6),
    ),
    "reduce_scatter": (
        lambda x: lax.psum_scatter(x, "tp", scatter_dimension=1, tiled=True), (P("dp", None),), P("dp", "tp"), f(4, 6),
    ),
    "all_to_all": (
        lambda x: lax.all_to_all(x, "tp", split_axis=1, concat_axis=0, tiled=True), (P("tp", None),), P(None, "tp"), f(4, 6),
    ),
    "ppermute": (lambda x: lax.ppermute(x, "tp", RING), (P("dp", "tp"),), P("dp", "tp"), f(4, 6)),
    "ppermute_partial": (lambda x: lax.ppermute(x, "dp", [(0, 1)]), (P("dp", "tp"),), P("dp", "tp"), f(4, 6)),
    "axis_index": (
        lambda x: x * (10 * lax.axis_index("dp") + lax.axis_index("tp")), (P("dp", "tp"),), P("dp", "tp"), f(4, 6),
    ),
}  # fmt: skip


def layers(w, x):
    """What a model with layers under ``scan`` does: the last value, and something of every layer."""
    last, sums = lax.scan(lambda x, w: (jnp.tanh(x @ w) + x, x.sum(-1)), x, w)
    return last, sums


def nested(x):
    inner = lambda i, y: lax.fori_loop(0, i, lambda j, z: z * (i + j), y)  # noqa: E731
    return lax.fori_loop(2, 5, inner, x)


def loss(w, x):
    last, sums = layers(w, x)
    return (last**2).mean() + sums.sum()


def counting(x):
    """All arithmetic that counters of loops are made with, after the loops' bounds."""

    def turn(state):
        k, x = state
        parts = (k // 3, k % 3, -k, jnp.minimum(k, 4), jnp.maximum(k, 4), jnp.abs(k - 5), jnp.clip(k, 3, 5))
        kept = jnp.where((k > 3) & (k <= 5) | (k == 7), k, k * 2)
        return k + 2, x + sum(parts) * 0.1 + kept + (k >= 5) + (k != 3)

    return lax.while_loop(lambda state: state[0] < 9, turn, (jnp.int32(1), x))[1]


ONE |= {
    "scan": (layers, f(3, 4, 4), f(2, 4)),
    "scan_reversed": (lambda x: lax.scan(lambda c, y: (c * 2 + y, c), f(2), x, reverse=True), f(3, 2)),
    "scan_gradient": (jax.value_and_grad(loss), f(3, 4, 4), f(2, 4)),
    "nested_loops": (nested, f(3)),
    "loop_without_a_turn": (lambda x: lax.fori_loop(3, 3, lambda _, y: y * 2, x), f(2)),
    "counting": (counting, f(2)),
    "dynamic_update_constant": (lambda x, u: lax.dynamic_update_slice(x, u, (1, 9)), f(4, 5), f(2, 3)),
}
own = np.random.default_rng(2)  # as above


def h(*shape):
    return np.round(own.standard_normal(shape), 3)


def conv(strides, padding, numbers, **more):
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers, **more)


CHANNELS_LAST = ("NHWC", "HWIO", "NHWC")
ONE |= {
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 1), h(2, 5)),
    "cumlogsumexp_reverse": (lambda x: lax.cumlogsumexp(x, 0, reverse=True), np.array([[1.0], [-np.inf], [0.5]])),
    "shift_left": (lax.shift_left, np.array([3, -5, 1, 7, 9]), np.array([0, 2, 5, 64, -1])),
    "shift_right": (lax.shift_right_arithmetic, np.array([3, -5, -1, 70, 9]), np.array([0, 2, 5, 64, -1])),
    "shift_right_int32": (
        lax.shift_right_logical, np.array([3, -5, -1, 70, 9, -8], np.int32), np.array([0, 2, 31, 3, 32, 0], np.int32),
    ),
    "shift_right_uint32": (
        lax.shift_right_logical, np.array([3, 1 << 31, 70, 9], np.uint32), np.array([0, 31, 3, 32], np.uint32),
    ),
    "convolution": (conv((1,), "VALID", None), h(2, 3, 8), h(4, 3, 3)),
    "convolution_same": (conv((2, 1), "SAME", CHANNELS_LAST), h(2, 5, 4, 3), h(3, 2, 3, 2)),
    "convolution_depthwise": (conv((1,), [(2, 0)], None, feature_group_count=3), h(2, 3, 6), h(6, 1, 3)),
    "convolution_dilated": (
        conv((1, 2), [(1, 0), (2, 1)], None, lhs_dilation=(2, 1), rhs_dilation=(1, 2)), h(1, 2, 3, 6), h(3, 2, 2, 3),
    ),
    "convolution_cut": (conv((1,), [(-1, 2)], None), h(1, 2, 6), h(3, 2, 2)),
    "convolution_of_batches": (conv((1,), [(1, 1)], None, batch_group_count=2), h(4, 3, 6), h(4, 3, 3)),
    "convolution_transposed": (
        lambda x, w: lax.conv_transpose(x, w, (2,), "SAME", dimension_numbers=("NCH", "IOH", "NCH")),
        h(2, 3, 4), h(3, 2, 3),
    ),
    "convolution_gradients": (
        jax.grad(lambda x, w: (conv((2,), "SAME", None, feature_group_count=2)(x, w) ** 2).sum(), argnums=(0, 1)),
        h(2, 4, 7), h(4, 2, 3),
    ),
}  # fmt: skip
RANKS |= {"scan": (lambda w, x: layers(w, x)[0], (P(None, None, "tp"), P("dp")), P("dp"), f(3, 4, 4), f(4, 4))}


def one(name, function, *args):
    args = tuple(np.asarray(a) for a in args)
    text = jax.jit(function).lower(*args).as_text("hlo")
    results = jax.tree.leaves(jax.jit(function)(*args))
    return {"name": name, "text": text, "arguments": [array(a) for a in args], "results": [array(r) for r in results]}


def ranks(name, function, ins, out, *args):
    mesh = Mesh(np.array(jax.devices()).reshape([size for _, size in MESH]), [axis for axis, _ in MESH])
    if name in LOCAL:
        function = shmap(function, ins, out)(mesh)
    placed = [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(args, ins, strict=True)]

    def run(*xs):
        return function(*xs)

    run.__name__ = "program"
    for old in glob.glob(f"{DUMP}/*"):
        shutil.rmtree(old) if os.path.isdir(old) else os.remove(old)
    jitted = jax.jit(run, in_shardings=[p.sharding for p in placed], out_shardings=NamedSharding(mesh, out))
    result = jitted(*placed)
    (path,) = [
        p for p in glob.glob(f"{DUMP}/*after_spmd-partitioning*.txt")
        if "jit_program" in p and "before_optimizations" not in p
    ] or glob.glob(f"{DUMP}/*jit_program*after_spmd*")  # fmt: skip

    def shards(x):
        return [array(s.data) for s in sorted(x.addressable_shards, key=lambda s: s.device.id)]

    case = {
        "name": name, "text": Path(path).read_text(), "mesh": dict(MESH), "inputs": [placements(s, mesh) for s in ins],
        "output": placements(out, mesh),
        "arguments": [shards(p) for p in placed], "results": [shards(result)],
    }  # fmt: skip
    if name in RANKS:
        case["specification"] = jax.jit(function).lower(*args).as_text("hlo")
    return case


def placements(spec, mesh):
    """DTensor's words for a PartitionSpec, one per mesh axis."""
    where = {axis: dim for dim, axes in enumerate(spec) for axis in ([axes] if isinstance(axes, str) else axes or ())}
    return [f"Shard({where[axis]})" if axis in where else "Replicate()" for axis in mesh.axis_names]


def strip(text):
    """Without the places in this file, which say nothing."""
    import re

    text = re.sub(r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d.*\n)+", "\n", text)
    text = re.sub(r"\n{3,}", "\n\n", text)
    return re.sub(r", metadata=\{[^{}\n]*\}", "", text)


def write(name, cases):
    for case in cases:
        for key in {"text", "specification"} & case.keys():
            case[key] = strip(case[key]).split("\n")
    lines = ",\n".join(json.dumps(case) for case in cases)
    (HERE / name).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    chosen = sys.argv[1:]
    write("one.json", [one(n, *c) for n, c in ONE.items() if not chosen or n in chosen])
    write("ranks.json", [ranks(n, *c) for n, c in {**RANKS, **LOCAL}.items() if not chosen or n in chosen])
    print("jax", jax.__version__)
