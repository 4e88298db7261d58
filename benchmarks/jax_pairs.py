# ruff: noqa: E501 (a table: one pair of programs per line)
"""Functions of jax.nn, jax.lax and jax.numpy in two forms each, and with a wrong twin: which are proved and refuted.

    python benchmarks/jax_pairs.py [NAME ...]

Prints the pairs of which the right twin is not PROVED or the wrong one not REFUTED, and how many there are of each. Exit
code 1 if a wrong twin is PROVED. Some right twins are no identities over the reals (``attention`` has a mask of large
numbers in JAX, ``grad hypot`` differs at 0, ``logaddexp2`` has rounded logarithms).
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np

import tantamount as tt
from support.jax_devices import jax
from tantamount.errors import UserError

jnp, lax, nn, inf = jax.numpy, jax.lax, jax.nn, jax.numpy.inf
conv = lax.conv_general_dilated


def A(*shape: int, d: str = "float32") -> Any:
    """An argument of this shape and type."""
    return jax.ShapeDtypeStruct(shape, d)


X, Y, V, M = A(4, 6), A(4, 6), A(6), A(6, 6)
I, B = A(4, 6, d="int32"), A(4, 6, d="bool")
PAIRS: list[tuple[str, tuple[Any, ...], Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = []


def p(name: str, args: tuple[Any, ...], first: Any, second: Any, wrong: Any) -> None:
    PAIRS.append((name, args, first, second, wrong))


# fmt: off
p("celu", (X,), lambda x: nn.celu(x, 1.5), lambda x: jnp.where(x > 0, x, 1.5 * (jnp.exp(x / 1.5) - 1)), lambda x: jnp.where(x > 0, x, 1.5 * (jnp.exp(x) - 1)))
p("elu", (X,), nn.elu, lambda x: jnp.maximum(x, 0) + jnp.exp(jnp.minimum(x, 0)) - 1, lambda x: jnp.maximum(x, 0) + jnp.exp(jnp.minimum(x, 0)))
p("selu", (X,), nn.selu, lambda x: 1.0507009873554804934193349852946 * nn.elu(x, 1.6732632423543772848170429916717), lambda x: 1.05 * nn.elu(x, 1.6732632423543772848170429916717))
p("hypot", (X, Y), jnp.hypot, lambda x, y: jnp.sqrt(x * x + y * y), lambda x, y: jnp.sqrt(x * x - y * y))
p("isfinite mask", (X, B), lambda x, m: jnp.where(m, x, 0.), lambda x, m: jnp.where(jnp.isfinite(jnp.where(m, x, -inf)), x, 0.), lambda x, m: jnp.where(jnp.isfinite(jnp.where(m, x, -inf)), 0., x))
p("isinf mask", (X, B), lambda x, m: jnp.where(m, x, 0.), lambda x, m: jnp.where(jnp.isinf(jnp.where(m, x, -inf)), 0., x), lambda x, m: jnp.where(jnp.isinf(jnp.where(m, x, -inf)), 1., x))
p("isneginf", (X, B), lambda x, m: jnp.where(m, x, 0.), lambda x, m: jnp.where(jnp.isneginf(jnp.where(m, x, -inf)), 0., x), lambda x, m: jnp.where(jnp.isposinf(jnp.where(m, x, -inf)), 0., x))
p("nan_to_num mask", (X, B), lambda x, m: nn.softmax(jnp.where(m, x, -inf), -1), lambda x, m: nn.softmax(x, -1, where=m), lambda x, m: nn.softmax(x, -1, where=~m))
p("cumlogsumexp", (X,), lambda x: lax.cumlogsumexp(x, 1), lambda x: jnp.log(jnp.cumsum(jnp.exp(x), 1)), lambda x: jnp.log(jnp.cumsum(jnp.exp(x), 0)))
p("cumlogsumexp tri", (X,), lambda x: lax.cumlogsumexp(x, 1), lambda x: jnp.log(jnp.exp(x) @ jnp.triu(jnp.ones((6, 6)))), lambda x: jnp.log(jnp.exp(x) @ jnp.tril(jnp.ones((6, 6)))))
p("cumsum rev", (X,), lambda x: lax.cumsum(x, 1, reverse=True), lambda x: jnp.cumsum(x[:, ::-1], 1)[:, ::-1], lambda x: jnp.cumsum(x, 1)[:, ::-1])
p("cumprod exp", (X,), lambda x: jnp.cumprod(jnp.exp(x), 1), lambda x: jnp.exp(jnp.cumsum(x, 1)), lambda x: jnp.exp(jnp.cumsum(x, 0)))
p("cummax", (X,), lambda x: lax.cummax(x, 1)[:, -1], lambda x: x.max(1), lambda x: x.min(1))
p("shift left", (I,), lambda i: i << 2, lambda i: i * 4, lambda i: i * 3)
p("shift right", (I,), lambda i: i >> 1, lambda i: i // 2, lambda i: (i + 1) // 2)
p("shift logical", (A(4, 6, d="uint32"),), lambda i: lax.shift_right_logical(i, jnp.uint32(3)), lambda i: i // jnp.uint32(8), lambda i: i // jnp.uint32(4))
p("bit and", (I,), lambda i: i & 7, lambda i: i % 8, lambda i: i % 7)
p("xor self", (I,), lambda i: (i ^ 5) ^ 5, lambda i: i, lambda i: i ^ 5)
p("popcount", (B,), lambda b: b.astype(jnp.int32).sum(-1), lambda b: jnp.count_nonzero(b, -1), lambda b: jnp.count_nonzero(~b, -1))
p("conv1d", (A(2, 3, 8), A(5, 3, 3)), lambda x, w: conv(x, w, window_strides=(1,), padding="VALID"), lambda x, w: jnp.einsum("nciw,ocw->noi", jnp.stack([x[:, :, k:k + 6] for k in range(3)], -1), w), lambda x, w: jnp.einsum("nciw,ocw->noi", jnp.stack([x[:, :, k:k + 6] for k in range(3)], -1), w[:, :, ::-1]))
p("conv2d 1x1", (A(2, 3, 4, 4), A(5, 3, 1, 1)), lambda x, w: conv(x, w, window_strides=(1, 1), padding="SAME"), lambda x, w: jnp.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]), lambda x, w: jnp.einsum("nchw,oc->nowh", x, w[:, :, 0, 0]))
p("conv depthwise", (A(2, 3, 8), A(3, 1, 3)), lambda x, w: conv(x, w, window_strides=(1,), padding=[(2, 0)], feature_group_count=3), lambda x, w: sum(jnp.pad(x, ((0, 0), (0, 0), (2, 0)))[:, :, k:k + 8] * w[:, 0, k][:, None] for k in range(3)), lambda x, w: sum(jnp.pad(x, ((0, 0), (0, 0), (1, 1)))[:, :, k:k + 8] * w[:, 0, k][:, None] for k in range(3)))
p("jnp.convolve", (A(7), A(3)), lambda x, w: jnp.convolve(x, w, mode="valid"), lambda x, w: sum(x[2 - k:7 - k] * w[k] for k in range(3)), lambda x, w: sum(x[k:5 + k] * w[k] for k in range(3)))
p("roll", (X,), lambda x: jnp.roll(x, 2, 1), lambda x: jnp.concatenate([x[:, 4:], x[:, :4]], 1), lambda x: jnp.concatenate([x[:, 2:], x[:, :2]], 1))
p("tri", (M,), lambda x: jnp.tril(x, -1), lambda x: x * (jnp.arange(6)[:, None] > jnp.arange(6)), lambda x: x * (jnp.arange(6)[:, None] >= jnp.arange(6)))
p("diag", (M,), jnp.diagonal, lambda x: (x * jnp.eye(6)).sum(0), lambda x: (x * jnp.eye(6)[::-1]).sum(0))
p("trace", (M,), jnp.trace, lambda x: jnp.einsum("ii->", x), lambda x: x.sum())
p("outer", (V, V), jnp.outer, lambda a, b: a[:, None] * b, lambda a, b: b[:, None] * a)
p("kron", (A(2, 2), A(3, 3)), jnp.kron, lambda a, b: jnp.einsum("ij,kl->ikjl", a, b).reshape(6, 6), lambda a, b: jnp.einsum("ij,kl->kilj", a, b).reshape(6, 6))
p("one_hot", (A(4, d="int32"), A(6, 5)), lambda i, w: nn.one_hot(i % 6, 6) @ w, lambda i, w: w[i % 6], lambda i, w: w[(i + 1) % 6])
p("take clip", (A(4, d="int32"), A(6, 5)), lambda i, w: jnp.take(w, i, axis=0, mode="clip"), lambda i, w: w[jnp.clip(i, 0, 5)], lambda i, w: w[jnp.clip(i, 0, 4)])
p("segment_sum", (A(6, 5), A(6, d="int32")), lambda x, s: jax.ops.segment_sum(x, s, 4), lambda x, s: jnp.einsum("nk,nd->kd", (s[:, None] == jnp.arange(4)).astype(x.dtype), x), lambda x, s: jnp.einsum("nk,nd->kd", (s[:, None] == jnp.arange(4) + 1).astype(x.dtype), x))
p("at add", (X, V), lambda x, v: x.at[2].add(v), lambda x, v: x + v * (jnp.arange(4) == 2)[:, None], lambda x, v: x + v * (jnp.arange(4) == 1)[:, None])
p("dynamic_slice", (X, A(d="int32")), lambda x, i: lax.dynamic_slice_in_dim(x, jnp.abs(i), 2, 0), lambda x, i: x[jnp.minimum(jnp.abs(i), 2) + jnp.arange(2)], lambda x, i: x[jnp.minimum(jnp.abs(i), 1) + jnp.arange(2)])
p("dynamic_update", (X, A(1, 6), A(d="int32")), lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, jnp.abs(i), 0), lambda x, u, i: jnp.where((jnp.arange(4) == jnp.minimum(jnp.abs(i), 3))[:, None], u, x), lambda x, u, i: jnp.where((jnp.arange(4) == i)[:, None], u, x))
p("glu", (X,), lambda x: nn.glu(x), lambda x: x[:, :3] * nn.sigmoid(x[:, 3:]), lambda x: x[:, 3:] * nn.sigmoid(x[:, :3]))
p("hard_tanh", (X,), nn.hard_tanh, lambda x: jnp.clip(x, -1, 1), lambda x: jnp.clip(x, 0, 1))
p("hard_sigmoid", (X,), nn.hard_sigmoid, lambda x: jnp.clip(x / 6 + 0.5, 0, 1), lambda x: jnp.clip(x / 6, 0, 1))
p("hard_swish", (X,), nn.hard_swish, lambda x: x * nn.relu6(x + 3) / 6, lambda x: x * nn.relu6(x) / 6)
p("softplus", (X,), nn.softplus, lambda x: jnp.log(1 + jnp.exp(x)), lambda x: jnp.log(2 + jnp.exp(x)))
p("log_sigmoid", (X,), nn.log_sigmoid, lambda x: -nn.softplus(-x), lambda x: -nn.softplus(x))
p("mish", (X,), nn.mish, lambda x: x * jnp.tanh(nn.softplus(x)), lambda x: x * jnp.tanh(jnp.exp(x)))
p("squareplus", (X,), nn.squareplus, lambda x: (x + jnp.sqrt(x * x + 4)) / 2, lambda x: (x + jnp.sqrt(x * x + 1)) / 2)
p("soft_sign", (X,), nn.soft_sign, lambda x: x / (1 + jnp.abs(x)), lambda x: x / (1 + x))
p("sparse_plus", (X,), nn.sparse_plus, lambda x: jnp.where(x <= -1, 0., jnp.where(x >= 1, x, (x + 1) ** 2 / 4)), lambda x: jnp.where(x <= -1, 0., jnp.where(x >= 1, x, (x + 1) / 2)))
p("standardize", (X,), lambda x: nn.standardize(x, epsilon=1e-5), lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True) + 1e-5), lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True) + 1e-4))
p("std ddof", (X,), lambda x: jnp.var(x, 1, ddof=1), lambda x: ((x - x.mean(1, keepdims=True)) ** 2).sum(1) / 5, lambda x: ((x - x.mean(1, keepdims=True)) ** 2).sum(1) / 6)
p("logaddexp", (X, Y), jnp.logaddexp, lambda x, y: jnp.log(jnp.exp(x) + jnp.exp(y)), lambda x, y: jnp.log(jnp.exp(x) * jnp.exp(y)))
p("logaddexp2", (X, Y), jnp.logaddexp2, lambda x, y: jnp.log2(jnp.exp2(x) + jnp.exp2(y)), lambda x, y: jnp.log2(jnp.exp(x) + jnp.exp2(y)))
p("expm1/log1p", (X,), lambda x: jnp.log1p(jnp.expm1(x)), lambda x: x, lambda x: x + 1)
p("rsqrt", (X,), lambda x: lax.rsqrt(x * x + 1), lambda x: 1 / jnp.sqrt(x * x + 1), lambda x: 1 / jnp.sqrt(x * x + 2))
p("sign", (X,), jnp.sign, lambda x: (x > 0).astype(x.dtype) - (x < 0), lambda x: (x > 0).astype(x.dtype) - (x <= 0))
p("heaviside", (X,), lambda x: jnp.heaviside(x, 0.5), lambda x: (jnp.sign(x) + 1) / 2, lambda x: (jnp.sign(x) - 1) / 2)
p("fmod", (I,), lambda i: jnp.remainder(i, 5), lambda i: i - 5 * jnp.floor_divide(i, 5), lambda i: jnp.fmod(i, 5))
p("divmod", (I,), lambda i: jnp.divmod(i, 3)[0] * 3 + jnp.divmod(i, 3)[1], lambda i: i, lambda i: i + 1)
p("square diff", (X, Y), lambda x, y: (x - y) ** 2, lambda x, y: x * x - 2 * x * y + y * y, lambda x, y: x * x - x * y + y * y)
p("ptp", (X,), lambda x: jnp.ptp(x, 1), lambda x: x.max(1) - x.min(1), lambda x: x.max(1) + x.min(1))
p("median", (A(4, 5),), lambda x: jnp.median(x, 1), lambda x: jnp.sort(x, 1)[:, 2], lambda x: jnp.sort(x, 1)[:, 1])
p("average", (X, V), lambda x, w: jnp.average(x, 1, weights=w), lambda x, w: (x @ w) / w.sum(), lambda x, w: (x @ w) / 6)
p("tensordot", (A(2, 3, 4), A(3, 4, 5)), lambda a, b: jnp.tensordot(a, b, 2), lambda a, b: a.reshape(2, 12) @ b.reshape(12, 5), lambda a, b: a.reshape(2, 12) @ b.swapaxes(0, 1).reshape(12, 5))
p("vmap dot", (X, Y), jax.vmap(jnp.dot), lambda a, b: (a * b).sum(1), lambda a, b: (a * b).sum(0)[:4])
p("scan cumsum", (X,), lambda x: lax.scan(lambda c, r: (c + r, c + r), jnp.zeros(6), x)[1], lambda x: jnp.cumsum(x, 0), lambda x: jnp.cumsum(x, 0) - x)
p("fori matpow", (M,), lambda m: lax.fori_loop(0, 3, lambda k, a: a @ m, jnp.eye(6)), lambda m: m @ m @ m, lambda m: m @ m)
p("assoc scan", (X,), lambda x: lax.associative_scan(jnp.add, x, axis=1), lambda x: jnp.cumsum(x, 1), lambda x: jnp.cumsum(x, 0))
p("attention", (A(1, 5, 2, 4), A(1, 5, 2, 4), A(1, 5, 2, 4)), lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=True), lambda q, k, v: jnp.einsum("bhts,bshd->bthd", nn.softmax(jnp.where(jnp.tril(jnp.ones((5, 5), bool)), jnp.einsum("bthd,bshd->bhts", q, k) / 2, -inf), -1), v), lambda q, k, v: jnp.einsum("bhts,bshd->bthd", nn.softmax(jnp.where(jnp.triu(jnp.ones((5, 5), bool)), jnp.einsum("bthd,bshd->bhts", q, k) / 2, -inf), -1), v))
p("logsumexp where", (X, B), lambda x, m: nn.logsumexp(x, 1, where=m), lambda x, m: jnp.log((jnp.exp(x) * m).sum(1)), lambda x, m: jnp.log((jnp.exp(x) * m).sum(1) + 1))
p("pad reflect", (X,), lambda x: jnp.pad(x, ((0, 0), (2, 2)), mode="reflect"), lambda x: jnp.concatenate([x[:, 2:0:-1], x, x[:, -2:-4:-1]], 1), lambda x: jnp.concatenate([x[:, 1::-1], x, x[:, :-3:-1]], 1))
p("avg pool", (A(2, 8),), lambda x: lax.reduce_window(x, 0., lax.add, (1, 2), (1, 2), "VALID") / 2, lambda x: x.reshape(2, 4, 2).mean(-1), lambda x: x.reshape(2, 2, 4).mean(1))
p("select_n", (A(4, 6, d="int32"), X, Y, A(4, 6)), lambda i, a, b, c: lax.select_n(jnp.clip(i, 0, 2), a, b, c), lambda i, a, b, c: jnp.where(i <= 0, a, jnp.where(i == 1, b, c)), lambda i, a, b, c: jnp.where(i <= 0, b, jnp.where(i == 1, a, c)))
p("choose", (A(4, 6, d="int32"), X, Y), lambda i, a, b: jnp.choose(i % 2, [a, b], mode="wrap"), lambda i, a, b: jnp.where(i % 2 == 0, a, b), lambda i, a, b: jnp.where(i % 2 == 1, a, b))
p("piecewise", (X,), lambda x: jnp.piecewise(x, [x < 0, x >= 0], [lambda x: -x, lambda x: x]), jnp.abs, lambda x: x)
p("searchsorted", (X,), lambda x: jnp.searchsorted(jnp.arange(5.), x), lambda x: (x[..., None] > jnp.arange(5.)).sum(-1), lambda x: (x[..., None] >= jnp.arange(5.)).sum(-1))
p("digitize", (X,), lambda x: jnp.digitize(x, jnp.arange(5.)), lambda x: (x[..., None] >= jnp.arange(5.)).sum(-1), lambda x: (x[..., None] > jnp.arange(5.)).sum(-1))
p("bincount", (A(6, d="int32"),), lambda i: jnp.bincount(jnp.clip(i, 0, 3), length=4), lambda i: (jnp.clip(i, 0, 3)[:, None] == jnp.arange(4)).sum(0), lambda i: (jnp.clip(i, 1, 3)[:, None] == jnp.arange(4)).sum(0))
p("grad softmax xent", (X, A(4, d="int32")), lambda x, t: jax.grad(lambda x: -jnp.take_along_axis(nn.log_softmax(x), t[:, None] % 6, 1).mean())(x), lambda x, t: (nn.softmax(x) - nn.one_hot(t % 6, 6)) / 4, lambda x, t: (nn.softmax(x) - nn.one_hot(t % 6, 6)) / 6)
p("grad celu", (X,), lambda x: jax.grad(lambda x: nn.celu(x).sum())(x), lambda x: jnp.where(x > 0, 1., jnp.exp(x)), lambda x: jnp.where(x > 0, 1., x))
p("grad hypot", (X, Y), lambda x, y: jax.grad(lambda x: jnp.hypot(x, y).sum())(x), lambda x, y: x / jnp.sqrt(x * x + y * y), lambda x, y: y / jnp.sqrt(x * x + y * y))
p("grad cumlse", (X,), lambda x: jax.grad(lambda x: lax.cumlogsumexp(x, 1)[:, -1].sum())(x), lambda x: nn.softmax(x), lambda x: nn.softmax(x, 0))
p("grad conv", (A(2, 3, 8), A(5, 3, 3)), lambda x, w: jax.grad(lambda w: conv(x, w, window_strides=(1,), padding="VALID").sum())(w), lambda x, w: jnp.broadcast_to(jnp.stack([x[:, :, k:k + 6].sum((0, 2)) for k in range(3)], -1), (5, 3, 3)), lambda x, w: jnp.broadcast_to(jnp.stack([x[:, :, k:k + 6].sum((0, 2)) for k in (2, 1, 0)], -1), (5, 3, 3)))
p("conv transpose", (A(2, 3, 5), A(3, 4, 3)), lambda x, w: lax.conv_transpose(x, w, (2,), "VALID", dimension_numbers=("NCH", "IOH", "NCH")), lambda x, w: conv(x, w, window_strides=(1,), padding=[(2, 2)], lhs_dilation=(2,), dimension_numbers=("NCH", "IOH", "NCH")), lambda x, w: conv(x, w, window_strides=(1,), padding=[(2, 2)], lhs_dilation=(2,), dimension_numbers=("NCH", "IOH", "NCH"))[:, :, ::-1])
p("lax.rem", (I,), lambda i: lax.rem(i, 4), lambda i: jnp.sign(i) * (jnp.abs(i) % 4), lambda i: i % 4)
p("clamp", (X,), lambda x: lax.clamp(-1., x, 2.), lambda x: jnp.minimum(jnp.maximum(x, -1), 2), lambda x: jnp.minimum(jnp.maximum(x, -2), 2))
p("lerp", (X, Y), lambda x, y: x + 0.25 * (y - x), lambda x, y: 0.75 * x + 0.25 * y, lambda x, y: 0.25 * x + 0.75 * y)
p("interp rot90", (M,), lambda x: jnp.rot90(x), lambda x: x.T[::-1], lambda x: x[::-1].T)
p("norm", (X,), lambda x: jnp.linalg.norm(x, axis=1), lambda x: jnp.sqrt((x * x).sum(1)), lambda x: jnp.sqrt((x * x).mean(1)))
p("norm inf", (X,), lambda x: jnp.linalg.norm(x, jnp.inf, 1), lambda x: jnp.abs(x).max(1), lambda x: x.max(1))
p("cross", (A(4, 3), A(4, 3)), jnp.cross, lambda a, b: jnp.stack([a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1], a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2], a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]], 1), lambda a, b: jnp.stack([a[:, 1] * b[:, 2] + a[:, 2] * b[:, 1], a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2], a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]], 1))
p("vander", (V,), lambda v: jnp.vander(v, 3, increasing=True), lambda v: jnp.stack([jnp.ones(6), v, v * v], 1), lambda v: jnp.stack([v * v, v, jnp.ones(6)], 1))
p("polyval", (A(3), V), jnp.polyval, lambda c, x: c[0] * x * x + c[1] * x + c[2], lambda c, x: c[2] * x * x + c[1] * x + c[0])
p("sinc", (X,), lambda x: jnp.sinc(x), lambda x: jnp.where(x == 0, 1., jnp.sin(np.pi * x) / jnp.where(x == 0, 1., np.pi * x)), lambda x: jnp.where(x == 0, 0., jnp.sin(np.pi * x) / jnp.where(x == 0, 1., np.pi * x)))
p("trapezoid", (X,), lambda x: jnp.trapezoid(x, axis=1), lambda x: x.sum(1) - (x[:, 0] + x[:, -1]) / 2, lambda x: x.sum(1) - x[:, 0])
p("diff", (X,), lambda x: jnp.diff(x, axis=1).sum(1), lambda x: x[:, -1] - x[:, 0], lambda x: x[:, 0] - x[:, -1])
p("ediff/gradient", (V,), lambda v: jnp.gradient(v)[1:-1], lambda v: (v[2:] - v[:-2]) / 2, lambda v: v[2:] - v[:-2])
p("corrcoef cov", (X,), lambda x: jnp.cov(x), lambda x: (x - x.mean(1, keepdims=True)) @ (x - x.mean(1, keepdims=True)).T / 5, lambda x: (x - x.mean(1, keepdims=True)) @ (x - x.mean(1, keepdims=True)).T / 6)
p("argsort inverse", (V,), lambda v: v[jnp.argsort(v)], jnp.sort, lambda v: -jnp.sort(-v))
p("argmin", (X,), lambda x: jnp.argmin(x, 1), lambda x: jnp.argmax(-x, 1), lambda x: jnp.argmax(x, 1))
p("nanmean", (X, B), lambda x, m: jnp.sum(x, 1, where=m), lambda x, m: (x * m).sum(1), lambda x, m: (x * ~m).sum(1))
p("mean where", (X, B), lambda x, m: jnp.mean(x, 1, where=m), lambda x, m: (x * m).sum(1) / m.sum(1), lambda x, m: (x * m).sum(1) / 6)
p("max where", (X, B), lambda x, m: jnp.max(x, 1, where=m, initial=-inf), lambda x, m: jnp.where(m, x, -inf).max(1), lambda x, m: jnp.where(m, x, 0).max(1))
p("all/any", (B,), lambda b: ~b.all(1), lambda b: (~b).any(1), lambda b: b.any(1))
p("reduce prod", (X,), lambda x: jnp.exp(x).prod(1), lambda x: jnp.exp(x.sum(1)), lambda x: jnp.exp(x.mean(1)))
p("lax.map", (X,), lambda x: lax.map(lambda r: r / r.sum(), x), lambda x: x / x.sum(1, keepdims=True), lambda x: x / x.sum())
p("while", (X,), lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1], lambda x: 8 * x, lambda x: 6 * x)
p("switch", (X,), lambda x: lax.switch(1, [lambda x: x, lambda x: 2 * x], x), lambda x: x + x, lambda x: x)
p("stop_gradient", (X,), lambda x: jax.grad(lambda x: (x * lax.stop_gradient(x)).sum())(x), lambda x: x, lambda x: 2 * x)
p("custom_jvp relu", (X,), lambda x: jax.grad(lambda x: nn.relu(x).sum())(x), lambda x: (x > 0).astype(x.dtype), lambda x: (x >= 0).astype(x.dtype))
p("erf gelu", (X,), lambda x: nn.gelu(x, approximate=False), lambda x: x * (1 + lax.erf(x / np.sqrt(2).astype("float32"))) / 2, lambda x: x * (1 + lax.erf(x)) / 2)
p("tanh gelu", (X,), lambda x: nn.gelu(x), lambda x: x * nn.sigmoid(2 * np.float32(np.sqrt(2 / np.pi)) * (x + 0.044715 * x ** 3)), lambda x: x * nn.sigmoid(np.float32(np.sqrt(2 / np.pi)) * (x + 0.044715 * x ** 3)))
p("scaled_matmul", (X, M), lambda x, w: jnp.einsum("ij,jk->ik", x, w, preferred_element_type=jnp.float32), lambda x, w: (w.T @ x.T).T, lambda x, w: x @ w.T)
p("repeat", (X,), lambda x: jnp.repeat(x, 2, 1), lambda x: jnp.stack([x, x], -1).reshape(4, 12), lambda x: jnp.concatenate([x, x], 1))
p("tile", (X,), lambda x: jnp.tile(x, (1, 2)), lambda x: jnp.concatenate([x, x], 1), lambda x: jnp.repeat(x, 2, 1))
p("unwrap bool", (B, X), lambda b, x: lax.select(b, x, -x), lambda b, x: x * (2 * b.astype(x.dtype) - 1), lambda b, x: -x * (2 * b.astype(x.dtype) - 1))
# fmt: on


def verdict(first: Callable[..., Any], second: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """The verdict on two functions, or the error that their capture ends with."""
    try:
        one, other = (tt.capture_jax(lambda *v, f=f: f(*v), args) for f in (first, second))
        return tt.refine(one, other).verdict.name
    except UserError as error:
        return f"refused: {error.found}"


def main() -> int:
    counts: Counter[str] = Counter()
    wanted = sys.argv[1:]
    for name, args, first, second, wrong in PAIRS:
        if wanted and name not in wanted:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            right, twin = (verdict(first, other, args) for other in (second, wrong))
        counts.update([f"right {right.partition(':')[0]}", f"wrong {twin.partition(':')[0]}"])
        if (right, twin) != ("PROVED", "REFUTED"):
            print(f"{name:20} {right:10} {twin}", flush=True)
    print(", ".join(f"{text} {count}" for text, count in sorted(counts.items())))
    return 1 if counts["wrong PROVED"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
