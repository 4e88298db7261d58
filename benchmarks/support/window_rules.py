"""More rewrite rules with symbolic sizes, in the language of ``sized_rules``: windows at starts that are known when the
program runs and what is done to them, rows with zeros between, running sums of reversed rows, quotients by sizes."""

from __future__ import annotations

__all__ = ["MORE"]

MORE: dict[str, str] = {
    "cumsum_flip": """
        sizes n>=1
        A [n]
        left   p = aten.flip.default(A, [0]) -> [n]
               q = aten.cumsum.default(p, 0) -> [n]
               y = aten.flip.default(q, [0]) -> [n]
        right  s = aten.sum.dim_IntList(A, [0], True) -> [1]
               c = aten.cumsum.default(A, 0) -> [n]
               d = aten.sub.Tensor(s, c) -> [n]
               y = aten.add.Tensor(d, A) -> [n]
        wrong  s = aten.sum.dim_IntList(A, [0], True) -> [1]
               c = aten.cumsum.default(A, 0) -> [n]
               y = aten.sub.Tensor(s, c) -> [n]
    """,
    "cumsum_flip_cat": """
        sizes a>=1 b>=1
        A [a] ; B [b]
        left   p = aten.cat.default([A, B], 0) -> [a + b]
               y = aten.cumsum.default(p, 0) -> [a + b]
        right  s = aten.sum.dim_IntList(A, [0], True) -> [1]
               c = aten.cumsum.default(A, 0) -> [a]
               d = aten.cumsum.default(B, 0) -> [b]
               e = aten.add.Tensor(d, s) -> [b]
               y = aten.cat.default([c, e], 0) -> [a + b]
        wrong  c = aten.cumsum.default(A, 0) -> [a]
               d = aten.cumsum.default(B, 0) -> [b]
               y = aten.cat.default([c, d], 0) -> [a + b]
    """,
    "cumsum_of_flip_matrix": """
        sizes n>=1 m>=1
        A [n, m]
        left   p = aten.flip.default(A, [1]) -> [n, m]
               y = aten.cumsum.default(p, 1) -> [n, m]
        right  s = aten.sum.dim_IntList(A, [1], True) -> [n, 1]
               c = aten.cumsum.default(A, 1) -> [n, m]
               d = aten.sub.Tensor(s, c) -> [n, m]
               e = aten.add.Tensor(d, A) -> [n, m]
               y = aten.flip.default(e, [1]) -> [n, m]
        wrong  c = aten.cumsum.default(A, 1) -> [n, m]
               y = aten.flip.default(c, [1]) -> [n, m]
    """,
    "ds_of_flip2": """
        sizes n>=1 c>=1 | c <= n
        A [n] ; i [] int64
        left   st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               p = aten.flip.default(A, [0]) -> [n]
               y = aten.index_select.default(p, 0, t) -> [c]
        right  w = aten.rsub.Scalar(i, {n - c}) -> [] int64
               st = aten.clamp.default(w, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               p = aten.index_select.default(A, 0, t) -> [c]
               y = aten.flip.default(p, [0]) -> [c]
        wrong  w = aten.rsub.Scalar(i, {n}) -> [] int64
               st = aten.clamp.default(w, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               p = aten.index_select.default(A, 0, t) -> [c]
               y = aten.flip.default(p, [0]) -> [c]
    """,
    "ds_of_max": """
        sizes c>=1 m>=1 n>=1 | c <= n
        A [n, m] ; i [] int64
        left   st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               p = aten.amax.default(A, [1]) -> [n]
               y = aten.index_select.default(p, 0, t) -> [c]
        right  st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               p = aten.index_select.default(A, 0, t) -> [c, m]
               y = aten.amax.default(p, [1]) -> [c]
        wrong  p = aten.slice.Tensor(A, 0, 0, {c}) -> [c, m]
               y = aten.amax.default(p, [1]) -> [c]
    """,
    "ds_of_pad": """
        sizes c>=1 n>=1 | c <= n
        A [n] ; i [] int64
        left   p = aten.constant_pad_nd.default(A, [{c}, {c}], 0.0) -> [n + 2*c]
               w = aten.clamp.default(i, 0, {n - c}) -> [] int64
               k = aten.add.Tensor(w, {c}) -> [] int64
               st = aten.clamp.default(k, 0, {n + 2*c - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               y = aten.index_select.default(p, 0, t) -> [c]
        right  st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               y = aten.index_select.default(A, 0, t) -> [c]
        wrong  p = aten.constant_pad_nd.default(A, [{c}, {c}], 0.0) -> [n + 2*c]
               st = aten.clamp.default(i, 0, {n + 2*c - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               y = aten.index_select.default(p, 0, t) -> [c]
    """,
    "dus_cat": """
        sizes a>=1 b>=1 c>=1
        A [a] ; B [b] ; C [b] ; D [c]
        left   p = aten.cat.default([A, B, D], 0) -> [a + b + c]
               i = aten.arange.start_step({a}, {a + b}) -> [b] int64
               y = aten.index_put.default(p, [i], C) -> [a + b + c]
        right  y = aten.cat.default([A, C, D], 0) -> [a + b + c]
        wrong  p = aten.cat.default([A, B, D], 0) -> [a + b + c]
               i = aten.arange.default({b}) -> [b] int64
               y = aten.index_put.default(p, [i], C) -> [a + b + c]
    """,
    "pad_interior_slice": """
        sizes n>=1
        A [n]
        left   z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([A, z], 1) -> [n, 2]
               q = aten.view.default(p, [{2*n}]) -> [2*n]
               r = aten.slice.Tensor(q, 0, 0, {2*n - 1}) -> [2*n - 1]
               y = aten.slice.Tensor(r, 0, 0, {2*n - 1}, 2) -> [n]
        right  y = aten.clone.default(A) -> [n]
        wrong  y = aten.flip.default(A, [0]) -> [n]
    """,
    "pad_interior_sum": """
        sizes n>=1
        A [n]
        left   z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([A, z], 1) -> [n, 2]
               q = aten.view.default(p, [{2*n}]) -> [2*n]
               r = aten.slice.Tensor(q, 0, 0, {2*n - 1}) -> [2*n - 1]
               y = aten.sum.dim_IntList(r, [0]) -> []
        right  y = aten.sum.dim_IntList(A, [0]) -> []
        wrong  z = aten.ones_like.default(A) -> [n]
               p = aten.mul.Tensor(A, z) -> [n]
               q = aten.sum.dim_IntList(p, [0]) -> []
               y = aten.add.Tensor(q, 1.0) -> []
    """,
    "pad_interior_flip": """
        sizes n>=1
        A [n]
        left   z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([A, z], 1) -> [n, 2]
               q = aten.view.default(p, [{2*n}]) -> [2*n]
               r = aten.slice.Tensor(q, 0, 0, {2*n - 1}) -> [2*n - 1]
               y = aten.flip.default(r, [0]) -> [2*n - 1]
        right  f = aten.flip.default(A, [0]) -> [n]
               z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([f, z], 1) -> [n, 2]
               q = aten.view.default(p, [{2*n}]) -> [2*n]
               y = aten.slice.Tensor(q, 0, 0, {2*n - 1}) -> [2*n - 1]
        wrong  f = aten.flip.default(A, [0]) -> [n]
               z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([z, f], 1) -> [n, 2]
               q = aten.view.default(p, [{2*n}]) -> [2*n]
               y = aten.slice.Tensor(q, 0, 0, {2*n - 1}) -> [2*n - 1]
    """,
    "conv_interior": """
        sizes b>=1 c>=1 o>=1 n>=3
        x [b, c, n] ; w [o, c, 2]
        left   z = aten.zeros_like.default(w) -> [o, c, 2]
               p = aten.stack.default([w, z], 3) -> [o, c, 2, 2]
               q = aten.view.default(p, [{o}, {c}, 4]) -> [o, c, 4]
               r = aten.slice.Tensor(q, 2, 0, 3) -> [o, c, 3]
               y = aten.convolution.default(x, r, None, [1], [0], [1], False, [0], 1) -> [b, o, n - 2]
        right  y = aten.convolution.default(x, w, None, [1], [0], [2], False, [0], 1) -> [b, o, n - 2]
        wrong  p = aten.flip.default(w, [2]) -> [o, c, 2]
               y = aten.convolution.default(x, p, None, [1], [0], [2], False, [0], 1) -> [b, o, n - 2]
    """,
    "conv_base_dilation": """
        sizes b>=1 c>=1 o>=1 n>=1
        x [b, c, n] ; w [o, c, 3]
        left   z = aten.zeros_like.default(x) -> [b, c, n]
               p = aten.stack.default([x, z], 3) -> [b, c, n, 2]
               q = aten.view.default(p, [{b}, {c}, {2*n}]) -> [b, c, 2*n]
               r = aten.slice.Tensor(q, 2, 0, {2*n - 1}) -> [b, c, 2*n - 1]
               y = aten.convolution.default(r, w, None, [1], [1], [1], False, [0], 1) -> [b, o, 2*n - 1]
        right  f = aten.flip.default(w, [2]) -> [o, c, 3]
               g = aten.permute.default(f, [1, 0, 2]) -> [c, o, 3]
               y = aten.convolution.default(x, g, None, [2], [1], [1], True, [0], 1) -> [b, o, 2*n - 1]
        wrong  g = aten.permute.default(w, [1, 0, 2]) -> [c, o, 3]
               y = aten.convolution.default(x, g, None, [2], [1], [1], True, [0], 1) -> [b, o, 2*n - 1]
    """,
    "div_add_mult": """
        sizes n>=1 m>=1
        X [n]
        left   i = aten.arange.default({n}) -> [n] int64
               p = aten.add.Tensor(i, {3*m}) -> [n] int64
               y = aten.div.Tensor_mode(p, {m}, rounding_mode='floor') -> [n] int64
        right  i = aten.arange.default({n}) -> [n] int64
               p = aten.div.Tensor_mode(i, {m}, rounding_mode='floor') -> [n] int64
               y = aten.add.Tensor(p, 3) -> [n] int64
        wrong  i = aten.arange.default({n}) -> [n] int64
               p = aten.div.Tensor_mode(i, {m}, rounding_mode='floor') -> [n] int64
               y = aten.add.Tensor(p, 2) -> [n] int64
    """,
    "divmod_iota_reshape": """
        sizes n>=1 m>=1
        X [n, m]
        left   i = aten.arange.default({n*m}) -> [n*m] int64
               q = aten.div.Tensor_mode(i, {m}, rounding_mode='floor') -> [n*m] int64
               y = aten.view.default(q, [{n}, {m}]) -> [n, m] int64
        right  i = aten.arange.default({n}) -> [n] int64
               j = aten.unsqueeze.default(i, 1) -> [n, 1] int64
               k = aten.expand.default(j, [{n}, {m}]) -> [n, m] int64
               y = aten.clone.default(k) -> [n, m] int64
        wrong  i = aten.arange.default({m}) -> [m] int64
               k = aten.expand.default(i, [{n}, {m}]) -> [n, m] int64
               y = aten.clone.default(k) -> [n, m] int64
    """,
    "rem_twice": """
        sizes n>=1
        A [n] int64 ; m [n] int64
        left   p = aten.fmod.Tensor(A, m) -> [n] int64
               y = aten.fmod.Tensor(p, m) -> [n] int64
        right  y = aten.fmod.Tensor(A, m) -> [n] int64
        wrong  y = aten.remainder.Tensor(A, m) -> [n] int64
    """,
    "div_pow": """
        sizes n>=1
        A [n] ; B [n]; C [n]
        left   a = aten.exp.default(B) -> [n]
               e = aten.pow.Tensor_Tensor(a, C) -> [n]
               y = aten.div.Tensor(A, e) -> [n]
        right  a = aten.exp.default(B) -> [n]
               m = aten.neg.default(C) -> [n]
               e = aten.pow.Tensor_Tensor(a, m) -> [n]
               y = aten.mul.Tensor(A, e) -> [n]
        wrong  a = aten.exp.default(B) -> [n]
               e = aten.pow.Tensor_Tensor(a, C) -> [n]
               y = aten.mul.Tensor(A, e) -> [n]
    """,
    "pow_exp": """
        sizes n>=1
        A [n] ; B [n]
        left   e = aten.exp.default(A) -> [n]
               y = aten.pow.Tensor_Tensor(e, B) -> [n]
        right  p = aten.mul.Tensor(A, B) -> [n]
               y = aten.exp.default(p) -> [n]
        wrong  p = aten.add.Tensor(A, B) -> [n]
               y = aten.exp.default(p) -> [n]
    """,
    "ds_of_ds": """
        sizes c>=1 d>=1 n>=1 | c + d <= n
        A [n] ; i [] int64 ; j [] int64
        left   st = aten.clamp.default(i, 0, {n - c - d}) -> [] int64
               rt = aten.arange.default({c + d}) -> [c + d] int64
               t = aten.add.Tensor(rt, st) -> [c + d] int64
               p = aten.index_select.default(A, 0, t) -> [c + d]
               su = aten.clamp.default(j, 0, {(c + d) - c}) -> [] int64
               ru = aten.arange.default({c}) -> [c] int64
               u = aten.add.Tensor(ru, su) -> [c] int64
               y = aten.index_select.default(p, 0, u) -> [c]
        right  sv = aten.clamp.default(i, 0, {n - c - d}) -> [] int64
               sw = aten.clamp.default(j, 0, {d}) -> [] int64
               k = aten.add.Tensor(sv, sw) -> [] int64
               st = aten.clamp.default(k, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               y = aten.index_select.default(A, 0, t) -> [c]
        wrong  k = aten.add.Tensor(i, j) -> [] int64
               st = aten.clamp.default(k, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               y = aten.index_select.default(A, 0, t) -> [c]
    """,
    "relu_dus": """
        sizes c>=1 n>=1 | c <= n
        A [n] ; B [c] ; i [] int64
        left   st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               p = aten.index_put.default(A, [t], B) -> [n]
               y = aten.relu.default(p) -> [n]
        right  st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               q = aten.relu.default(B) -> [c]
               p = aten.relu.default(A) -> [n]
               y = aten.index_put.default(p, [t], q) -> [n]
        wrong  st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               p = aten.relu.default(A) -> [n]
               y = aten.index_put.default(p, [t], B) -> [n]
    """,
    "max_dus": """
        sizes c>=1 m>=1 n>=1 | c <= n
        A [n] ; B [c] ; C [n] ; i [] int64
        left   st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               p = aten.index_put.default(A, [t], B) -> [n]
               y = aten.maximum.default(p, C) -> [n]
        right  st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               d = aten.index_select.default(C, 0, t) -> [c]
               q = aten.maximum.default(B, d) -> [c]
               p = aten.maximum.default(A, C) -> [n]
               y = aten.index_put.default(p, [t], q) -> [n]
        wrong  st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               p = aten.maximum.default(A, C) -> [n]
               y = aten.index_put.default(p, [t], B) -> [n]
    """,
    "relu_ds": """
        sizes c>=1 n>=1 | c <= n
        A [n] ; i [] int64
        left   st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               p = aten.index_select.default(A, 0, t) -> [c]
               y = aten.exp.default(p) -> [c]
        right  st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               p = aten.exp.default(A) -> [n]
               y = aten.index_select.default(p, 0, t) -> [c]
        wrong  p = aten.exp.default(A) -> [n]
               y = aten.slice.Tensor(p, 0, 0, {c}) -> [c]
    """,
    "relu_interior": """
        sizes n>=1
        A [n]
        left   z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([A, z], 1) -> [n, 2]
               q = aten.view.default(p, [{2*n}]) -> [2*n]
               r = aten.slice.Tensor(q, 0, 0, {2*n - 1}) -> [2*n - 1]
               y = aten.relu.default(r) -> [2*n - 1]
        right  f = aten.relu.default(A) -> [n]
               z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([f, z], 1) -> [n, 2]
               q = aten.view.default(p, [{2*n}]) -> [2*n]
               y = aten.slice.Tensor(q, 0, 0, {2*n - 1}) -> [2*n - 1]
        wrong  z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([A, z], 1) -> [n, 2]
               q = aten.view.default(p, [{2*n}]) -> [2*n]
               y = aten.slice.Tensor(q, 0, 0, {2*n - 1}) -> [2*n - 1]
    """,
    "max_interior": """
        sizes n>=1
        A [n]
        left   z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([A, z], 1) -> [n, 2]
               q = aten.view.default(p, [{2*n}]) -> [2*n]
               r = aten.slice.Tensor(q, 0, 0, {2*n}) -> [2*n]
               y = aten.amax.default(r, [0]) -> []
        right  p = aten.amax.default(A, [0]) -> []
               y = aten.relu.default(p) -> []
        wrong  y = aten.amax.default(A, [0]) -> []
    """,
    "interior_of_interior": """
        sizes n>=1
        A [n]
        left   z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([A, z], 1) -> [n, 2]
               q = aten.view.default(p, [{2*n}]) -> [2*n]
               r = aten.slice.Tensor(q, 0, 0, {2*n - 1}) -> [2*n - 1]
               w = aten.zeros_like.default(r) -> [2*n - 1]
               s = aten.stack.default([r, w], 1) -> [2*n - 1, 2]
               u = aten.view.default(s, [{4*n - 2}]) -> [4*n - 2]
               y = aten.slice.Tensor(u, 0, 0, {4*n - 3}) -> [4*n - 3]
        right  z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([A, z, z, z], 1) -> [n, 4]
               q = aten.view.default(p, [{4*n}]) -> [4*n]
               y = aten.slice.Tensor(q, 0, 0, {4*n - 3}) -> [4*n - 3]
        wrong  z = aten.zeros_like.default(A) -> [n]
               p = aten.stack.default([A, z, A, z], 1) -> [n, 4]
               q = aten.view.default(p, [{4*n}]) -> [4*n]
               y = aten.slice.Tensor(q, 0, 0, {4*n - 3}) -> [4*n - 3]
    """,
    "rem_iota_reshape": """
        sizes n>=1 m>=1
        X [n, m]
        left   i = aten.arange.default({n*m}) -> [n*m] int64
               q = aten.remainder.Scalar(i, {m}) -> [n*m] int64
               y = aten.view.default(q, [{n}, {m}]) -> [n, m] int64
        right  i = aten.arange.default({m}) -> [m] int64
               k = aten.expand.default(i, [{n}, {m}]) -> [n, m] int64
               y = aten.clone.default(k) -> [n, m] int64
        wrong  i = aten.arange.default({n}) -> [n] int64
               j = aten.unsqueeze.default(i, 1) -> [n, 1] int64
               k = aten.expand.default(j, [{n}, {m}]) -> [n, m] int64
               y = aten.clone.default(k) -> [n, m] int64
    """,
    "fmod_shift_size": """
        sizes n>=1 m>=1
        X [n]
        left   i = aten.arange.default({n}) -> [n] int64
               p = aten.add.Tensor(i, {2*m}) -> [n] int64
               y = aten.fmod.Scalar(p, {m}) -> [n] int64
        right  i = aten.arange.default({n}) -> [n] int64
               y = aten.fmod.Scalar(i, {m}) -> [n] int64
        wrong  i = aten.arange.default({n}) -> [n] int64
               p = aten.add.Tensor(i, 1) -> [n] int64
               y = aten.fmod.Scalar(p, {m}) -> [n] int64
    """,
    "gather_div": """
        sizes n>=1 m>=1
        A [n]
        left   i = aten.arange.default({n*m}) -> [n*m] int64
               q = aten.div.Tensor_mode(i, {m}, rounding_mode='floor') -> [n*m] int64
               y = aten.index_select.default(A, 0, q) -> [n*m]
        right  u = aten.unsqueeze.default(A, 1) -> [n, 1]
               k = aten.expand.default(u, [{n}, {m}]) -> [n, m]
               y = aten.reshape.default(k, [{n*m}]) -> [n*m]
        wrong  k = aten.expand.default(A, [{m}, {n}]) -> [m, n]
               y = aten.reshape.default(k, [{m*n}]) -> [m*n]
    """,
    "ds_of_reshape": """
        sizes c>=1 m>=1 n>=1 | c <= n
        A [n, m] ; i [] int64
        left   p = aten.view.default(A, [{n*m}]) -> [n*m]
               si = aten.clamp.default(i, 0, {n - c}) -> [] int64
               sj = aten.mul.Tensor(si, {m}) -> [] int64
               r = aten.arange.default({c*m}) -> [c*m] int64
               t = aten.add.Tensor(r, sj) -> [c*m] int64
               y = aten.index_select.default(p, 0, t) -> [c*m]
        right  st = aten.clamp.default(i, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               q = aten.index_select.default(A, 0, t) -> [c, m]
               y = aten.reshape.default(q, [{c*m}]) -> [c*m]
        wrong  q = aten.slice.Tensor(A, 0, 0, {c}) -> [c, m]
               y = aten.reshape.default(q, [{c*m}]) -> [c*m]
    """,
    "dus_in_dus": """
        sizes c>=1 d>=1 n>=1 | c + d <= n
        A [n] ; B [c + d] ; C [c] ; i [] int64
        left   st = aten.clamp.default(i, 0, {n - c - d}) -> [] int64
               rt = aten.arange.default({c + d}) -> [c + d] int64
               t = aten.add.Tensor(rt, st) -> [c + d] int64
               p = aten.index_put.default(A, [t], B) -> [n]
               ru = aten.arange.default({c}) -> [c] int64
               u = aten.add.Tensor(ru, st) -> [c] int64
               y = aten.index_put.default(p, [u], C) -> [n]
        right  q = aten.slice.Tensor(B, 0, {c}, {c + d}) -> [d]
               r = aten.cat.default([C, q], 0) -> [c + d]
               st = aten.clamp.default(i, 0, {n - c - d}) -> [] int64
               rt = aten.arange.default({c + d}) -> [c + d] int64
               t = aten.add.Tensor(rt, st) -> [c + d] int64
               y = aten.index_put.default(A, [t], r) -> [n]
        wrong  q = aten.slice.Tensor(B, 0, 0, {d}) -> [d]
               r = aten.cat.default([q, C], 0) -> [c + d]
               st = aten.clamp.default(i, 0, {n - c - d}) -> [] int64
               rt = aten.arange.default({c + d}) -> [c + d] int64
               t = aten.add.Tensor(rt, st) -> [c + d] int64
               y = aten.index_put.default(A, [t], r) -> [n]
    """,
    "ds_of_slice": """
        sizes c>=1 k>=1 n>=1 | c + k <= n
        A [n] ; i [] int64
        left   p = aten.slice.Tensor(A, 0, {k}, {n}) -> [n - k]
               st = aten.clamp.default(i, 0, {(n - k) - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               y = aten.index_select.default(p, 0, t) -> [c]
        right  w = aten.clamp.default(i, 0, {n - k - c}) -> [] int64
               v = aten.add.Tensor(w, {k}) -> [] int64
               st = aten.clamp.default(v, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               y = aten.index_select.default(A, 0, t) -> [c]
        wrong  v = aten.add.Tensor(i, {k}) -> [] int64
               st = aten.clamp.default(v, 0, {n - c}) -> [] int64
               rt = aten.arange.default({c}) -> [c] int64
               t = aten.add.Tensor(rt, st) -> [c] int64
               y = aten.index_select.default(A, 0, t) -> [c]
    """,
}
