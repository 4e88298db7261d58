"""Infinities under masks, windows, negative indices, ignored labels with a vocabulary in shards, scaled maxima."""
# ruff: noqa: E501 - one program per line

from __future__ import annotations

from pathlib import Path

import pytest

from support.decided import Pair, check

PAIRS = (
    Pair(
        "sigmoid -inf",
        "x: float32[4, 6];m = aten.full_like.default(x, -inf); z = aten.sigmoid.default(m); -> z",
        "x: float32[4, 6];z = aten.zeros_like.default(x); -> z",
        "PROVED",
    ),
    Pair(
        "tanh -inf",
        "x: float32[4, 6];m = aten.full_like.default(x, -inf); z = tanh(m); -> z",
        "x: float32[4, 6];z = aten.full_like.default(x, -1.0); -> z",
        "PROVED",
    ),
    Pair(
        "relu -inf",
        "x: float32[4, 6];m = aten.full_like.default(x, -inf); z = relu(m); -> z",
        "x: float32[4, 6];z = aten.zeros_like.default(x); -> z",
        "PROVED",
    ),
    Pair(
        "sigmoid masked",
        "x: float32[4, 6]; m: bool[4, 6];y = aten.masked_fill.Scalar(x, m, -inf); z = aten.sigmoid.default(y); -> z",
        "x: float32[4, 6]; m: bool[4, 6];s = aten.sigmoid.default(x); z = aten.masked_fill.Scalar(s, m, 0); -> z",
        "PROVED",
    ),
    Pair(
        "relu masked",
        "x: float32[4, 6]; m: bool[4, 6];y = aten.masked_fill.Scalar(x, m, -inf); z = relu(y); -> z",
        "x: float32[4, 6]; m: bool[4, 6];s = relu(x); z = aten.masked_fill.Scalar(s, m, 0); -> z",
        "PROVED",
    ),
    Pair(
        "tanh masked",
        "x: float32[4, 6]; m: bool[4, 6];y = aten.masked_fill.Scalar(x, m, -inf); z = tanh(y); -> z",
        "x: float32[4, 6]; m: bool[4, 6];s = tanh(x); z = aten.masked_fill.Scalar(s, m, -1); -> z",
        "PROVED",
    ),
    Pair(
        "tanh +inf masked",
        "x: float32[4, 6]; m: bool[4, 6];y = aten.masked_fill.Scalar(x, m, inf); z = tanh(y); -> z",
        "x: float32[4, 6]; m: bool[4, 6];s = tanh(x); z = aten.masked_fill.Scalar(s, m, 1); -> z",
        "PROVED",
    ),
    Pair(
        "softmax masked",
        "x: float32[4, 6]; m: bool[4, 6];y = aten.masked_fill.Scalar(x, m, -inf); z = softmax(y, 1, False); -> z",
        "x: float32[4, 6]; m: bool[4, 6];e = aten.exp.default(x); f = aten.masked_fill.Scalar(e, m, 0); s = aten.sum.dim_IntList(f, [1], True); z = div(f, s); -> z",
        "PROVED",
    ),
    Pair(
        "topk sigmoid masked",
        "x: float32[4, 6]; m: bool[4, 6];y = aten.masked_fill.Scalar(x, m, -inf); v, k = aten.topk.default(y, 1, 1); z = aten.sigmoid.default(v); -> z",
        "x: float32[4, 6]; m: bool[4, 6];s = aten.sigmoid.default(x); y = aten.masked_fill.Scalar(s, m, 0.0); z = aten.amax.default(y, [1], True); -> z",
        "UNKNOWN",
    ),
    Pair(
        "select -1",
        "x: float32[4, 6];z = aten.select.int(x, 0, -1); -> z",
        "x: float32[4, 6];z = aten.select.int(x, 0, 3); -> z",
        "PROVED",
    ),
    Pair(
        "neg index wrap",
        "x: float32[4, 6]; i: int64[3];z = index(x, [i]); -> z",
        "x: float32[4, 6]; i: int64[3];m = aten.lt.Scalar(i, 0); j = add(i, 4); k = aten.where.self(m, j, i); z = index(x, [k]); -> z",
        "PROVED",
    ),
    Pair(
        "neg index rem",
        "x: float32[4, 6]; i: int64[3];z = index(x, [i]); -> z",
        "x: float32[4, 6]; i: int64[3];k = aten.remainder.Scalar(i, 4); z = index(x, [k]); -> z",
        "PROVED",
    ),
    Pair(
        "neg index sub",
        "x: float32[4, 6]; i: int64[3];j = sub(i, 4); z = index(x, [j]); -> z",
        "x: float32[4, 6]; i: int64[3];z = index(x, [i]); -> z",
        "REFUTED",
    ),
    Pair(
        "window",
        "q: float32[8, 8];r = aten.arange.default(8); a = unsqueeze(r, 1); b = unsqueeze(r, 0); d = sub(a, b); m1 = aten.ge.Scalar(d, 0); m2 = aten.lt.Scalar(d, 3); m = aten.logical_and.default(m1, m2); n = aten.logical_not.default(m); y = aten.masked_fill.Scalar(q, n, -inf); z = softmax(y, 1, False); -> z",
        "q: float32[8, 8];o = aten.full.default([8, 8], True, dtype=bool); t = aten.tril.default(o); u = aten.triu.default(o, -2); m = aten.logical_and.default(t, u); n = aten.logical_not.default(m); y = aten.masked_fill.Scalar(q, n, -inf); z = softmax(y, 1, False); -> z",
        "PROVED",
    ),
    Pair(
        "window abs",
        "q: float32[8, 8];r = aten.arange.default(8); a = unsqueeze(r, 1); b = unsqueeze(r, 0); d = sub(a, b); e = aten.abs.default(d); m = aten.le.Scalar(e, 2); n = aten.logical_not.default(m); y = aten.masked_fill.Scalar(q, n, -inf); z = softmax(y, 1, False); -> z",
        "q: float32[8, 8];r = aten.arange.default(8); a = unsqueeze(r, 1); b = unsqueeze(r, 0); d = sub(a, b); m1 = aten.ge.Scalar(d, -2); m2 = aten.le.Scalar(d, 2); m = aten.logical_and.default(m1, m2); n = aten.logical_not.default(m); y = aten.masked_fill.Scalar(q, n, -inf); z = softmax(y, 1, False); -> z",
        "PROVED",
    ),
    Pair(
        "block mask div",
        "q: float32[8, 8];r = aten.arange.default(8); h = aten.floor_divide.Scalar(r, 4); a = unsqueeze(h, 1); b = unsqueeze(h, 0); m = aten.eq.Tensor(a, b); n = aten.logical_not.default(m); y = aten.masked_fill.Scalar(q, n, -inf); z = softmax(y, 1, False); -> z",
        "q: float32[8, 8];a = slice(q, 0, 0, 4); b = slice(a, 1, 0, 4); c = slice(q, 0, 4, 8); d = slice(c, 1, 4, 8); e = softmax(b, 1, False); f = softmax(d, 1, False); g = pad(e, [0, 4, 0, 4]); h = pad(f, [4, 0, 4, 0]); z = add(g, h); -> z",
        "PROVED",
    ),
    Pair(
        "doc mask pos",
        "q: float32[8, 8]; s: int64[8];a = unsqueeze(s, 1); b = unsqueeze(s, 0); m = aten.eq.Tensor(a, b); n = aten.logical_not.default(m); y = aten.masked_fill.Scalar(q, n, -inf); z = softmax(y, 1, False); -> z",
        "q: float32[8, 8]; s: int64[8];a = unsqueeze(s, 1); b = unsqueeze(s, 0); d = sub(a, b); n = aten.ne.Scalar(d, 0); y = aten.masked_fill.Scalar(q, n, -inf); z = softmax(y, 1, False); -> z",
        "PROVED",
    ),
    Pair(
        "ignore vocab parallel red=2",
        "x: float32[4, 8]; t: int64[4];l = aten._log_softmax.default(x, 1, False); z, w = aten.nll_loss_forward.default(l, t, None, 2, -100); -> z",
        [
            'x: float32[4, 4]; t: int64[4];mx = aten.amax.default(x, [1], True); gm = all_reduce(mx, "max", "g"); wm = _c10d_functional.wait_tensor.default(gm); y = sub(x, wm); e = aten.exp.default(y); s = aten.sum.dim_IntList(e, [1], True); gs = all_reduce(s, "sum", "g"); ws = _c10d_functional.wait_tensor.default(gs); ls = aten.log.default(ws);u = unsqueeze(t, 1); v = sub(u, 0); a = aten.lt.Scalar(v, 0); b = aten.ge.Scalar(v, 4); o = aten.logical_or.default(a, b); c = aten.masked_fill.Scalar(v, o, 0); p = aten.gather.default(y, 1, c); pm = aten.masked_fill.Scalar(p, o, 0.0); gp = all_reduce(pm, "sum", "g"); wp = _c10d_functional.wait_tensor.default(gp); n = sub(ls, wp); k = aten.eq.Scalar(u, -100); nz = aten.masked_fill.Scalar(n, k, 0.0); z = sum(nz); -> z',
            'x: float32[4, 4]; t: int64[4];mx = aten.amax.default(x, [1], True); gm = all_reduce(mx, "max", "g"); wm = _c10d_functional.wait_tensor.default(gm); y = sub(x, wm); e = aten.exp.default(y); s = aten.sum.dim_IntList(e, [1], True); gs = all_reduce(s, "sum", "g"); ws = _c10d_functional.wait_tensor.default(gs); ls = aten.log.default(ws);u = unsqueeze(t, 1); v = sub(u, 4); a = aten.lt.Scalar(v, 0); b = aten.ge.Scalar(v, 4); o = aten.logical_or.default(a, b); c = aten.masked_fill.Scalar(v, o, 0); p = aten.gather.default(y, 1, c); pm = aten.masked_fill.Scalar(p, o, 0.0); gp = all_reduce(pm, "sum", "g"); wp = _c10d_functional.wait_tensor.default(gp); n = sub(ls, wp); k = aten.eq.Scalar(u, -100); nz = aten.masked_fill.Scalar(n, k, 0.0); z = sum(nz); -> z',
        ],
        "PROVED",
        '[inputs]\nx = "Shard(1)"\nt = "Replicate()"\n[outputs]\nz = "Replicate()"',
        2,
    ),
    Pair(
        "ignore vocab parallel red=1",
        "x: float32[4, 8]; t: int64[4];l = aten._log_softmax.default(x, 1, False); z, w = aten.nll_loss_forward.default(l, t, None, 1, -100); -> z",
        [
            'x: float32[4, 4]; t: int64[4];mx = aten.amax.default(x, [1], True); gm = all_reduce(mx, "max", "g"); wm = _c10d_functional.wait_tensor.default(gm); y = sub(x, wm); e = aten.exp.default(y); s = aten.sum.dim_IntList(e, [1], True); gs = all_reduce(s, "sum", "g"); ws = _c10d_functional.wait_tensor.default(gs); ls = aten.log.default(ws);u = unsqueeze(t, 1); v = sub(u, 0); a = aten.lt.Scalar(v, 0); b = aten.ge.Scalar(v, 4); o = aten.logical_or.default(a, b); c = aten.masked_fill.Scalar(v, o, 0); p = aten.gather.default(y, 1, c); pm = aten.masked_fill.Scalar(p, o, 0.0); gp = all_reduce(pm, "sum", "g"); wp = _c10d_functional.wait_tensor.default(gp); n = sub(ls, wp); k = aten.eq.Scalar(u, -100); nz = aten.masked_fill.Scalar(n, k, 0.0); z = sum(nz);f = aten.logical_not.default(k); f2 = aten._to_copy.default(f, dtype=float32); f3 = sum(f2); zz = div(z, f3); -> z=zz',
            'x: float32[4, 4]; t: int64[4];mx = aten.amax.default(x, [1], True); gm = all_reduce(mx, "max", "g"); wm = _c10d_functional.wait_tensor.default(gm); y = sub(x, wm); e = aten.exp.default(y); s = aten.sum.dim_IntList(e, [1], True); gs = all_reduce(s, "sum", "g"); ws = _c10d_functional.wait_tensor.default(gs); ls = aten.log.default(ws);u = unsqueeze(t, 1); v = sub(u, 4); a = aten.lt.Scalar(v, 0); b = aten.ge.Scalar(v, 4); o = aten.logical_or.default(a, b); c = aten.masked_fill.Scalar(v, o, 0); p = aten.gather.default(y, 1, c); pm = aten.masked_fill.Scalar(p, o, 0.0); gp = all_reduce(pm, "sum", "g"); wp = _c10d_functional.wait_tensor.default(gp); n = sub(ls, wp); k = aten.eq.Scalar(u, -100); nz = aten.masked_fill.Scalar(n, k, 0.0); z = sum(nz);f = aten.logical_not.default(k); f2 = aten._to_copy.default(f, dtype=float32); f3 = sum(f2); zz = div(z, f3); -> z=zz',
        ],
        "PROVED",
        '[inputs]\nx = "Shard(1)"\nt = "Replicate()"\n[outputs]\nz = "Replicate()"',
        2,
    ),
    Pair(
        "ignore vp wrong",
        "x: float32[4, 8]; t: int64[4];l = aten._log_softmax.default(x, 1, False); z, w = aten.nll_loss_forward.default(l, t, None, 2, -100); -> z",
        [
            'x: float32[4, 4]; t: int64[4];mx = aten.amax.default(x, [1], True); gm = all_reduce(mx, "max", "g"); wm = _c10d_functional.wait_tensor.default(gm); y = sub(x, wm); e = aten.exp.default(y); s = aten.sum.dim_IntList(e, [1], True); gs = all_reduce(s, "sum", "g"); ws = _c10d_functional.wait_tensor.default(gs); ls = aten.log.default(ws);u = unsqueeze(t, 1); v = sub(u, 0); a = aten.lt.Scalar(v, 0); b = aten.ge.Scalar(v, 4); o = aten.logical_or.default(a, b); c = aten.masked_fill.Scalar(v, o, 0); p = aten.gather.default(y, 1, c); pm = aten.masked_fill.Scalar(p, o, 0.0); gp = all_reduce(pm, "sum", "g"); wp = _c10d_functional.wait_tensor.default(gp); n = sub(ls, wp); k = aten.eq.Scalar(u, -101); nz = aten.masked_fill.Scalar(n, k, 0.0); z = sum(nz); -> z',
            'x: float32[4, 4]; t: int64[4];mx = aten.amax.default(x, [1], True); gm = all_reduce(mx, "max", "g"); wm = _c10d_functional.wait_tensor.default(gm); y = sub(x, wm); e = aten.exp.default(y); s = aten.sum.dim_IntList(e, [1], True); gs = all_reduce(s, "sum", "g"); ws = _c10d_functional.wait_tensor.default(gs); ls = aten.log.default(ws);u = unsqueeze(t, 1); v = sub(u, 4); a = aten.lt.Scalar(v, 0); b = aten.ge.Scalar(v, 4); o = aten.logical_or.default(a, b); c = aten.masked_fill.Scalar(v, o, 0); p = aten.gather.default(y, 1, c); pm = aten.masked_fill.Scalar(p, o, 0.0); gp = all_reduce(pm, "sum", "g"); wp = _c10d_functional.wait_tensor.default(gp); n = sub(ls, wp); k = aten.eq.Scalar(u, -101); nz = aten.masked_fill.Scalar(n, k, 0.0); z = sum(nz); -> z',
        ],
        "REFUTED",
        '[inputs]\nx = "Shard(1)"\nt = "Replicate()"\n[outputs]\nz = "Replicate()"',
        2,
    ),
    Pair(
        "partial max scaling",
        "x: float32[4, 6]; a = aten.amax.default(x, [1]); z = mul(a, 2); -> z",
        "x: float32[4, 3]; a = aten.amax.default(x, [1]); z = mul(a, 2); -> z",
        "PROVED",
        '[inputs]\nx = "Shard(1)"\n[outputs]\nz = "Partial(\\"max\\")"',
        2,
    ),
    Pair(
        "partial max neg scaling",
        "x: float32[4, 6]; a = aten.amax.default(x, [1]); z = mul(a, -2); -> z",
        "x: float32[4, 3]; a = aten.amax.default(x, [1]); z = mul(a, -2); -> z",
        "REFUTED",
        '[inputs]\nx = "Shard(1)"\n[outputs]\nz = "Partial(\\"max\\")"',
        2,
    ),
    Pair(
        "partial min neg",
        "x: float32[4, 6]; a = aten.amax.default(x, [1]); z = mul(a, -2); -> z",
        "x: float32[4, 3]; a = aten.amax.default(x, [1]); z = mul(a, -2); -> z",
        "PROVED",
        '[inputs]\nx = "Shard(1)"\n[outputs]\nz = "Partial(\\"min\\")"',
        2,
    ),
    Pair(
        "absmax quant scale",
        "x: float32[4, 6]; a = aten.abs.default(x); b = aten.amax.default(a, [1], True); s = div(b, 127.0); y = div(x, s); z = aten.round.default(y); -> z",
        'x: float32[4, 3]; a = aten.abs.default(x); b = aten.amax.default(a, [1], True); s = div(b, 127.0); g = all_reduce(s, "max", "g"); w = _c10d_functional.wait_tensor.default(g); y = div(x, w); z = aten.round.default(y); -> z',
        "PROVED",
        '[inputs]\nx = "Shard(1)"\n[outputs]\nz = "Shard(1)"',
        2,
    ),
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_masks_and_labels(pair: Pair, tmp_path: Path) -> None:
    check(pair, tmp_path)
