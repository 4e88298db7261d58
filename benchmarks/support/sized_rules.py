"""Rewrite rules with symbolic sizes, right and wrong, as text, and as folders for ``benchmarks/rewrite_rules.py``.

Every rule has its sizes and conditions, its inputs, and three programs: two that are equal for all sizes, and one that
is not. A line is ``name = target(arguments) -> shape dtype``; ``{n + 1}`` is a size among the arguments.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from benchmarks.support.window_rules import MORE

__all__ = ["RULES", "write"]

_JOB = """format = "job/1"
[spec]
graph = "spec.json"
[impl]
graphs = ["impl.json"]
mesh = {}
[inputs]
default = "Replicate()"
[outputs]
y = "Replicate()"
"""

RULES: dict[str, str] = {
    "cat_slice_middle": """
        sizes x>=1 y>=1 z>=1
        A [x] ; B [y] ; C [z]
        left   p = aten.cat.default([A, B, C], 0) -> [x + y + z]
               y = aten.slice.Tensor(p, 0, {x}, {x + y}) -> [y]
        right  y = aten.clone.default(B) -> [y]
        wrong  p = aten.cat.default([B, A, C], 0) -> [x + y + z]
               y = aten.slice.Tensor(p, 0, {x}, {x + y}) -> [y]
    """,
    "cat_of_slices": """
        sizes n>=1 k>=1 m>=1 | k <= n
        A [n, m]
        left   p = aten.slice.Tensor(A, 0, 0, {k}) -> [k, m]
               q = aten.slice.Tensor(A, 0, {k}, {n}) -> [n - k, m]
               y = aten.cat.default([p, q], 0) -> [n, m]
        right  y = aten.clone.default(A) -> [n, m]
        wrong  p = aten.slice.Tensor(A, 0, 0, {k}) -> [k, m]
               q = aten.slice.Tensor(A, 0, {n - k}, {n}) -> [k, m]
               r = aten.cat.default([p, q], 0) -> [2*k, m]
               s = aten.slice.Tensor(A, 0, {k}, {n}) -> [n - k, m]
               t = aten.cat.default([q, s], 0) -> [n, m]
               y = aten.clone.default(t) -> [n, m]
    """,
    "four_parts": """
        sizes a>=1 b>=1 c>=1 d>=1 r>=1
        A [r, a] ; B [r, b] ; C [r, c] ; D [r, d]
        left   p = aten.cat.default([A, B], 1) -> [r, a + b]
               q = aten.cat.default([C, D], 1) -> [r, c + d]
               s = aten.cat.default([p, q], 1) -> [r, a + b + c + d]
               y = aten.relu.default(s) -> [r, a + b + c + d]
        right  e = aten.relu.default(A) -> [r, a]
               f = aten.cat.default([B, C, D], 1) -> [r, b + c + d]
               g = aten.relu.default(f) -> [r, b + c + d]
               y = aten.cat.default([e, g], 1) -> [r, a + b + c + d]
        wrong  e = aten.relu.default(A) -> [r, a]
               f = aten.cat.default([C, B, D], 1) -> [r, b + c + d]
               g = aten.relu.default(f) -> [r, b + c + d]
               y = aten.cat.default([e, g], 1) -> [r, a + b + c + d]
    """,
    "pad_pad": """
        sizes n>=1 l>=1 h>=1
        A [n]
        left   p = aten.constant_pad_nd.default(A, [{l}, 0], 0.0) -> [n + l]
               y = aten.constant_pad_nd.default(p, [0, {h}], 0.0) -> [n + l + h]
        right  y = aten.constant_pad_nd.default(A, [{l}, {h}], 0.0) -> [n + l + h]
        wrong  y = aten.constant_pad_nd.default(A, [{h}, {l}], 0.0) -> [n + l + h]
    """,
    "pad_negative": """
        sizes n>=1 l>=1
        A [n]
        left   p = aten.constant_pad_nd.default(A, [{l}, 2], 1.0) -> [n + l + 2]
               y = aten.constant_pad_nd.default(p, [{-l}, -1], 1.0) -> [n + 1]
        right  y = aten.constant_pad_nd.default(A, [0, 1], 1.0) -> [n + 1]
        wrong  y = aten.constant_pad_nd.default(A, [0, 1], 0.0) -> [n + 1]
    """,
    "pad_inner_slice": """
        sizes n>=1
        A [n]
        left   p = aten.view.default(A, [{n}, 1]) -> [n, 1]
               z = aten.zeros.default([{n}, 1]) -> [n, 1]
               q = aten.cat.default([p, z], 1) -> [n, 2]
               r = aten.view.default(q, [{2*n}]) -> [2*n]
               y = aten.slice.Tensor(r, 0, 0, {2*n - 1}, 2) -> [n]
        right  y = aten.clone.default(A) -> [n]
        wrong  z = aten.flip.default(A, [0]) -> [n]
               y = aten.clone.default(z) -> [n]
    """,
    "pad_sum": """
        sizes n>=1 l>=1 m>=1
        A [n, m]
        left   p = aten.constant_pad_nd.default(A, [0, 0, {l}, 1], 0.0) -> [n + l + 1, m]
               y = aten.sum.dim_IntList(p, [0]) -> [m]
        right  y = aten.sum.dim_IntList(A, [0]) -> [m]
        wrong  p = aten.constant_pad_nd.default(A, [0, 0, {l}, 1], 1.0) -> [n + l + 1, m]
               y = aten.sum.dim_IntList(p, [0]) -> [m]
    """,
    "strided_halves": """
        sizes n>=1
        A [2*n]
        left   p = aten.slice.Tensor(A, 0, 0, {2*n}, 2) -> [n]
               q = aten.slice.Tensor(A, 0, 1, {2*n}, 2) -> [n]
               s = aten.stack.default([p, q], 1) -> [n, 2]
               y = aten.view.default(s, [{2*n}]) -> [2*n]
        right  y = aten.clone.default(A) -> [2*n]
        wrong  p = aten.slice.Tensor(A, 0, 0, {n}, 1) -> [n]
               q = aten.slice.Tensor(A, 0, {n}, {2*n}, 1) -> [n]
               s = aten.stack.default([p, q], 1) -> [n, 2]
               y = aten.view.default(s, [{2*n}]) -> [2*n]
    """,
    "strided_strided": """
        sizes n>=1 c>=1
        A [6*n + c]
        left   p = aten.slice.Tensor(A, 0, 0, {6*n}, 2) -> [3*n]
               y = aten.slice.Tensor(p, 0, 0, {3*n}, 3) -> [n]
        right  y = aten.slice.Tensor(A, 0, 0, {6*n}, 6) -> [n]
        wrong  p = aten.slice.Tensor(A, 0, 1, {6*n}, 2) -> [3*n]
               y = aten.slice.Tensor(p, 0, 0, {3*n}, 3) -> [n]
    """,
    "strided_odd": """
        sizes c>=1 s>=1 n>=1 | s + 2*c - 1 <= n
        A [n]
        left   p = aten.slice.Tensor(A, 0, {s}, {s + 2*c - 1}) -> [2*c - 1]
               y = aten.slice.Tensor(p, 0, 0, {2*c - 1}, 2) -> [c]
        right  y = aten.slice.Tensor(A, 0, {s}, {s + 2*c - 1}, 2) -> [c]
        wrong  y = aten.slice.Tensor(A, 0, {s}, {s + c}, 1) -> [c]
    """,
    "slice_of_flip": """
        sizes n>=1 k>=1 | k <= n
        A [n]
        left   p = aten.flip.default(A, [0]) -> [n]
               y = aten.slice.Tensor(p, 0, 0, {k}) -> [k]
        right  p = aten.slice.Tensor(A, 0, {n - k}, {n}) -> [k]
               y = aten.flip.default(p, [0]) -> [k]
        wrong  p = aten.slice.Tensor(A, 0, 0, {k}) -> [k]
               y = aten.flip.default(p, [0]) -> [k]
    """,
    "dynamic_slice_add": """
        sizes n>=1 c>=1 | c <= n
        A [n] ; B [n] ; i [] int64
        left   s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(r, s) -> [c] int64
               p = aten.add.Tensor(A, B) -> [n]
               y = aten.index_select.default(p, 0, t) -> [c]
        right  s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(r, s) -> [c] int64
               p = aten.index_select.default(A, 0, t) -> [c]
               q = aten.index_select.default(B, 0, t) -> [c]
               y = aten.add.Tensor(p, q) -> [c]
        wrong  r = aten.arange.default({c}) -> [c] int64
               p = aten.index_select.default(A, 0, r) -> [c]
               q = aten.index_select.default(B, 0, r) -> [c]
               y = aten.add.Tensor(p, q) -> [c]
    """,
    "dynamic_slice_of_cat": """
        sizes n>=1 m>=1 c>=1 | c <= n
        A [n] ; B [m] ; i [] int64
        left   s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(r, s) -> [c] int64
               p = aten.cat.default([A, B], 0) -> [n + m]
               y = aten.index_select.default(p, 0, t) -> [c]
        right  s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(r, s) -> [c] int64
               y = aten.index_select.default(A, 0, t) -> [c]
        wrong  s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               u = aten.add.Tensor(r, s) -> [c] int64
               t = aten.add.Tensor(u, {m}) -> [c] int64
               p = aten.cat.default([A, B], 0) -> [n + m]
               y = aten.index_select.default(p, 0, t) -> [c]
    """,
    "dynamic_slice_whole": """
        sizes n>=1
        A [n] ; i [] int64
        left   s = aten.clamp.default(i, 0, 0) -> [] int64
               r = aten.arange.default({n}) -> [n] int64
               t = aten.add.Tensor(r, s) -> [n] int64
               y = aten.index_select.default(A, 0, t) -> [n]
        right  y = aten.clone.default(A) -> [n]
        wrong  y = aten.flip.default(A, [0]) -> [n]
    """,
    "dynamic_update_read": """
        sizes n>=1 c>=1 | c <= n
        A [n] ; B [c] ; i [] int64
        left   s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(r, s) -> [c] int64
               p = aten.index_put.default(A, [t], B) -> [n]
               y = aten.index_select.default(p, 0, t) -> [c]
        right  y = aten.clone.default(B) -> [c]
        wrong  s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(r, s) -> [c] int64
               y = aten.index_select.default(A, 0, t) -> [c]
    """,
    "dynamic_update_twice": """
        sizes n>=1 c>=1 | c <= n
        A [n] ; B [c] ; C [c] ; i [] int64
        left   s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(r, s) -> [c] int64
               p = aten.index_put.default(A, [t], B) -> [n]
               y = aten.index_put.default(p, [t], C) -> [n]
        right  s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(r, s) -> [c] int64
               y = aten.index_put.default(A, [t], C) -> [n]
        wrong  s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(r, s) -> [c] int64
               y = aten.index_put.default(A, [t], B) -> [n]
    """,
    "dynamic_update_own": """
        sizes n>=1 c>=1 | c <= n
        A [n] ; i [] int64
        left   s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(r, s) -> [c] int64
               p = aten.index_select.default(A, 0, t) -> [c]
               y = aten.index_put.default(A, [t], p) -> [n]
        right  y = aten.clone.default(A) -> [n]
        wrong  s = aten.clamp.default(i, 0, {n - c}) -> [] int64
               r = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(r, s) -> [c] int64
               p = aten.slice.Tensor(A, 0, 0, {c}) -> [c]
               y = aten.index_put.default(A, [t], p) -> [n]
    """,
    "reduce_two_axes": """
        sizes a>=1 b>=1 c>=1
        A [a, b, c]
        left   p = aten.sum.dim_IntList(A, [2]) -> [a, b]
               y = aten.sum.dim_IntList(p, [0]) -> [b]
        right  p = aten.permute.default(A, [1, 0, 2]) -> [b, a, c]
               q = aten.reshape.default(p, [{b}, {a*c}]) -> [b, a*c]
               y = aten.sum.dim_IntList(q, [1]) -> [b]
        wrong  q = aten.reshape.default(A, [{b}, {a*c}]) -> [b, a*c]
               y = aten.sum.dim_IntList(q, [1]) -> [b]
    """,
    "max_two_axes": """
        sizes a>=1 b>=1 c>=1
        A [a, b, c]
        left   y = aten.amax.default(A, [0, 2]) -> [b]
        right  p = aten.amax.default(A, [0]) -> [b, c]
               y = aten.amax.default(p, [1]) -> [b]
        wrong  p = aten.amax.default(A, [0]) -> [b, c]
               y = aten.sum.dim_IntList(p, [1]) -> [b]
    """,
    "reduce_of_cat": """
        sizes x>=1 y>=1 r>=1
        A [r, x] ; B [r, y]
        left   p = aten.cat.default([A, B], 1) -> [r, x + y]
               y = aten.amax.default(p, [1]) -> [r]
        right  p = aten.amax.default(A, [1]) -> [r]
               q = aten.amax.default(B, [1]) -> [r]
               y = aten.maximum.default(p, q) -> [r]
        wrong  p = aten.amax.default(A, [1]) -> [r]
               q = aten.amax.default(B, [1]) -> [r]
               y = aten.add.Tensor(p, q) -> [r]
    """,
    "dot_of_cat": """
        sizes n>=1 x>=1 y>=1 m>=1
        A [n, x] ; B [n, y] ; C [x + y, m]
        left   p = aten.cat.default([A, B], 1) -> [n, x + y]
               y = aten.mm.default(p, C) -> [n, m]
        right  c = aten.slice.Tensor(C, 0, 0, {x}) -> [x, m]
               d = aten.slice.Tensor(C, 0, {x}, {x + y}) -> [y, m]
               p = aten.mm.default(A, c) -> [n, m]
               q = aten.mm.default(B, d) -> [n, m]
               y = aten.add.Tensor(p, q) -> [n, m]
        wrong  c = aten.slice.Tensor(C, 0, {y}, {x + y}) -> [x, m]
               d = aten.slice.Tensor(C, 0, 0, {y}) -> [y, m]
               p = aten.mm.default(A, c) -> [n, m]
               q = aten.mm.default(B, d) -> [n, m]
               y = aten.add.Tensor(p, q) -> [n, m]
    """,
    "dot_transposed": """
        sizes n>=1 k>=1 m>=1
        A [n, k] ; B [k, m]
        left   p = aten.mm.default(A, B) -> [n, m]
               y = aten.permute.default(p, [1, 0]) -> [m, n]
        right  b = aten.permute.default(B, [1, 0]) -> [m, k]
               a = aten.permute.default(A, [1, 0]) -> [k, n]
               y = aten.mm.default(b, a) -> [m, n]
        wrong  b = aten.permute.default(B, [1, 0]) -> [m, k]
               a = aten.permute.default(A, [1, 0]) -> [k, n]
               p = aten.mm.default(b, a) -> [m, n]
               y = aten.neg.default(p) -> [m, n]
    """,
    "reshape_broadcast": """
        sizes n>=1 m>=1 k>=1
        A [n]
        left   p = aten.view.default(A, [{n}, 1]) -> [n, 1]
               q = aten.expand.default(p, [{n}, {m*k}]) -> [n, m*k]
               y = aten.reshape.default(q, [{n}, {m}, {k}]) -> [n, m, k]
        right  p = aten.view.default(A, [{n}, 1, 1]) -> [n, 1, 1]
               y = aten.expand.default(p, [{n}, {m}, {k}]) -> [n, m, k]
        wrong  q = aten.expand.default(A, [{m*k}, {n}]) -> [m*k, n]
               y = aten.reshape.default(q, [{n}, {m}, {k}]) -> [n, m, k]
    """,
    "reshape_transpose": """
        sizes a>=1 b>=1 c>=1
        A [a*b, c]
        left   p = aten.view.default(A, [{a}, {b}, {c}]) -> [a, b, c]
               q = aten.permute.default(p, [2, 0, 1]) -> [c, a, b]
               y = aten.reshape.default(q, [{c}, {a*b}]) -> [c, a*b]
        right  y = aten.permute.default(A, [1, 0]) -> [c, a*b]
        wrong  p = aten.view.default(A, [{a}, {b}, {c}]) -> [a, b, c]
               q = aten.permute.default(p, [2, 1, 0]) -> [c, b, a]
               y = aten.reshape.default(q, [{c}, {a*b}]) -> [c, a*b]
    """,
    "select_of_compare": """
        sizes n>=1
        A [n] ; B [n]
        left   c = aten.lt.Tensor(A, B) -> [n] bool
               y = aten.where.self(c, B, A) -> [n]
        right  y = aten.maximum.default(A, B) -> [n]
        wrong  y = aten.minimum.default(A, B) -> [n]
    """,
    "clamp_clamp": """
        sizes n>=1
        A [n]
        left   p = aten.clamp.default(A, 0, 6) -> [n]
               y = aten.clamp.default(p, 2, 9) -> [n]
        right  y = aten.clamp.default(A, 2, 6) -> [n]
        wrong  y = aten.clamp.default(A, 2, 9) -> [n]
    """,
    "min_max_absorb": """
        sizes n>=1 m>=1
        A [n, m] ; B [n, m]
        left   p = aten.maximum.default(A, B) -> [n, m]
               y = aten.minimum.default(A, p) -> [n, m]
        right  y = aten.clone.default(A) -> [n, m]
        wrong  y = aten.clone.default(B) -> [n, m]
    """,
    "min_max_distribute": """
        sizes n>=1
        A [n] ; B [n] ; C [n]
        left   p = aten.minimum.default(B, C) -> [n]
               y = aten.maximum.default(A, p) -> [n]
        right  p = aten.maximum.default(A, B) -> [n]
               q = aten.maximum.default(A, C) -> [n]
               y = aten.minimum.default(p, q) -> [n]
        wrong  p = aten.maximum.default(A, B) -> [n]
               q = aten.minimum.default(A, C) -> [n]
               y = aten.minimum.default(p, q) -> [n]
    """,
    "compare_iota": """
        sizes n>=1 k>=1 | k <= n
        A [n]
        left   i = aten.arange.default({n}) -> [n] int64
               c = aten.lt.Scalar(i, {k}) -> [n] bool
               z = aten.zeros_like.default(A) -> [n]
               y = aten.where.self(c, A, z) -> [n]
        right  p = aten.slice.Tensor(A, 0, 0, {k}) -> [k]
               y = aten.constant_pad_nd.default(p, [0, {n - k}], 0.0) -> [n]
        wrong  i = aten.arange.default({n}) -> [n] int64
               c = aten.le.Scalar(i, {k}) -> [n] bool
               z = aten.zeros_like.default(A) -> [n]
               y = aten.where.self(c, A, z) -> [n]
    """,
    "iota_sum": """
        sizes n>=1 m>=1
        A [n, m]
        left   i = aten.arange.default({n}) -> [n] int64
               j = aten.arange.start({n}, {2*n}) -> [n] int64
               p = aten.sub.Tensor(j, i) -> [n] int64
               q = aten.view.default(p, [{n}, 1]) -> [n, 1] int64
               y = aten.mul.Tensor(A, q) -> [n, m]
        right  y = aten.mul.Tensor(A, {n}) -> [n, m]
        wrong  y = aten.mul.Tensor(A, {m}) -> [n, m]
    """,
    "remainder_shift": """
        sizes n>=1
        x [n] int64
        left   p = aten.add.Tensor(x, 12) -> [n] int64
               y = aten.remainder.Scalar(p, 4) -> [n] int64
        right  y = aten.remainder.Scalar(x, 4) -> [n] int64
        wrong  y = aten.fmod.Scalar(x, 4) -> [n] int64
    """,
    "remainder_twice": """
        sizes n>=1
        x [n] int64
        left   p = aten.remainder.Scalar(x, 6) -> [n] int64
               y = aten.remainder.Scalar(p, 3) -> [n] int64
        right  y = aten.remainder.Scalar(x, 3) -> [n] int64
        wrong  p = aten.remainder.Scalar(x, 5) -> [n] int64
               y = aten.remainder.Scalar(p, 3) -> [n] int64
    """,
    "quotient_twice": """
        sizes n>=1
        x [n] int64
        left   p = aten.div.Tensor_mode(x, 2, rounding_mode='floor') -> [n] int64
               y = aten.div.Tensor_mode(p, 3, rounding_mode='floor') -> [n] int64
        right  y = aten.div.Tensor_mode(x, 6, rounding_mode='floor') -> [n] int64
        wrong  y = aten.div.Tensor_mode(x, 6, rounding_mode='trunc') -> [n] int64
    """,
    "divmod_again": """
        sizes n>=1 k>=1
        x [n] int64
        left   q = aten.div.Tensor_mode(x, {k}, rounding_mode='floor') -> [n] int64
               r = aten.remainder.Scalar(x, {k}) -> [n] int64
               p = aten.mul.Tensor(q, {k}) -> [n] int64
               y = aten.add.Tensor(p, r) -> [n] int64
        right  y = aten.clone.default(x) -> [n] int64
        wrong  q = aten.div.Tensor_mode(x, {k}, rounding_mode='trunc') -> [n] int64
               r = aten.remainder.Scalar(x, {k}) -> [n] int64
               p = aten.mul.Tensor(q, {k}) -> [n] int64
               y = aten.add.Tensor(p, r) -> [n] int64
    """,
    "conv_one_channel": """
        sizes b>=1 c>=1 o>=1 n>=1
        A [b, c, n] ; W [o, c, 1]
        left   y = aten.convolution.default(A, W, None, [1], [0], [1], False, [0], 1) -> [b, o, n]
        right  w = aten.view.default(W, [{o}, {c}]) -> [o, c]
               y = aten.matmul.default(w, A) -> [b, o, n]
        wrong  w = aten.view.default(W, [{o}, {c}]) -> [o, c]
               f = aten.flip.default(w, [1]) -> [o, c]
               y = aten.matmul.default(f, A) -> [b, o, n]
    """,
    "conv_padded": """
        sizes b>=1 c>=1 o>=1 n>=3
        A [b, c, n] ; W [o, c, 3]
        left   y = aten.convolution.default(A, W, None, [1], [1], [1], False, [0], 1) -> [b, o, n]
        right  p = aten.constant_pad_nd.default(A, [1, 1], 0.0) -> [b, c, n + 2]
               y = aten.convolution.default(p, W, None, [1], [0], [1], False, [0], 1) -> [b, o, n]
        wrong  p = aten.constant_pad_nd.default(A, [2, 0], 0.0) -> [b, c, n + 2]
               y = aten.convolution.default(p, W, None, [1], [0], [1], False, [0], 1) -> [b, o, n]
    """,
    "conv_strided": """
        sizes b>=1 c>=1 o>=1 n>=1
        A [b, c, 2*n] ; W [o, c, 1]
        left   y = aten.convolution.default(A, W, None, [2], [0], [1], False, [0], 1) -> [b, o, n]
        right  p = aten.slice.Tensor(A, 2, 0, {2*n}, 2) -> [b, c, n]
               y = aten.convolution.default(p, W, None, [1], [0], [1], False, [0], 1) -> [b, o, n]
        wrong  p = aten.slice.Tensor(A, 2, 1, {2*n}, 2) -> [b, c, n]
               y = aten.convolution.default(p, W, None, [1], [0], [1], False, [0], 1) -> [b, o, n]
    """,
}


def _argument(tree: ast.expr) -> Any:
    if isinstance(tree, ast.Name):
        return {"node": tree.id}
    if isinstance(tree, ast.Set):
        return {"size": ast.unparse(tree.elts[0])}
    if isinstance(tree, ast.List):
        return [_argument(item) for item in tree.elts]
    return ast.literal_eval(tree)


def _shape(text: str) -> list[int | str]:
    return [int(size) if size.isdigit() else size for size in map(str.strip, text.split(",")) if size]


_LINE = re.compile(r"(?P<name>\w+) = (?P<target>[\w.]+)\((?P<args>.*)\) -> \[(?P<shape>[^\]]*)\] ?(?P<dtype>\w*)")


def _graph(rule: str, side: str, generic: bool) -> dict[str, Any]:
    head, *rest = re.split(r"\n\s*(left|right|wrong)  ", rule)
    first, *inputs = (line.strip() for line in head.strip().splitlines())
    symbols, _, conditions = first.removeprefix("sizes ").partition(" | ")
    names = [item.partition(">=")[::2] for item in symbols.split()]
    bodies = dict(zip(rest[::2], rest[1::2], strict=True))
    fitting = _hints([(name, int(low)) for name, low in names], conditions, generic)
    nodes: list[dict[str, Any]] = []
    for item in " ".join(inputs).split(";"):
        found = re.fullmatch(r"\s*(\w+) \[([^\]]*)\] ?(\w*)\s*", item)
        assert found is not None, item
        nodes.append(_node(found[1], "placeholder", found[1], [], {}, found[2], found[3]))
    for line in bodies[side].strip().splitlines():
        read = _LINE.fullmatch(line.strip())
        assert read is not None, line
        call = ast.parse(f"f({read['args']})", mode="eval").body
        assert isinstance(call, ast.Call)
        kwargs = {k.arg: _argument(k.value) for k in call.keywords}
        args = [_argument(item) for item in call.args]
        nodes.append(_node(read["name"], "call_function", read["target"], args, kwargs, read["shape"], read["dtype"]))
    return {
        "format": "fx-nodes/1",
        "rank": None,
        "sizes": {
            "symbols": {name: {"hint": fitting[name], "min": int(low)} for name, low in names},
            "conditions": [conditions] if conditions else [],
        },
        "nodes": nodes,
        "outputs": [{"name": "y", "node": "y"}],
    }


def _hints(symbols: list[tuple[str, int]], condition: str, generic: bool) -> dict[str, int]:
    """Sizes at capture: the least that fit, or generic ones. (Conditions bound sums of symbols by one: ``n`` last.)"""
    if generic:
        values = {name: low + p for (name, low), p in zip(symbols, (5, 11, 23, 47, 97), strict=False)}
    else:
        values = dict(symbols)
    largest = condition.rpartition("<= ")[2].strip()
    if largest:
        values[largest] = 7 * sum(values.values()) if generic else sum(values.values()) + 1
    return values


def _node(
    name: str, op: str, target: str, args: list[Any], kwargs: dict[Any, Any], shape: str, dtype: str
) -> dict[str, Any]:
    return {
        "name": name, "op": op, "target": target, "args": args, "kwargs": kwargs, "shape": _shape(shape),
        "dtype": dtype or "float32",
    }  # fmt: skip


def write(folder: Path) -> None:
    """Every rule as a folder with ``symbolic.toml`` and ``generic.toml``, and a second one with the wrong variant."""
    for name, rule in (RULES | MORE).items():
        for side, here in (("right", folder / name), ("wrong", folder / f"{name}_wrong")):
            for kind, generic in (("symbolic", False), ("generic", True)):
                there = here / kind
                there.mkdir(parents=True, exist_ok=True)
                (there / "spec.json").write_text(json.dumps(_graph(rule, "left", generic)))
                (there / "impl.json").write_text(json.dumps(_graph(rule, side, generic)))
                job = _JOB.replace('"spec.json"', f'"{kind}/spec.json"').replace('"impl.json"', f'"{kind}/impl.json"')
                (here / f"{kind}.toml").write_text(job)
