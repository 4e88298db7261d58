"""Programs that differ at single numbers only: at zeros, ties, negative integers, ignored labels, masked rows."""
# ruff: noqa: E501 - one program per line

from __future__ import annotations

from pathlib import Path

import pytest

from support.decided import Pair, check

PAIRS = (
    Pair(
        "gt vs ge .5",
        "x: float32[4, 6];m = aten.gt.Scalar(x, 0.5); z = aten._to_copy.default(m); -> z",
        "x: float32[4, 6];m = aten.ge.Scalar(x, 0.5); z = aten._to_copy.default(m); -> z",
        "REFUTED",
    ),
    Pair(
        "gt vs ge 0",
        "x: float32[4, 6];m = aten.gt.Scalar(x, 0); z = aten._to_copy.default(m); -> z",
        "x: float32[4, 6];m = aten.ge.Scalar(x, 0); z = aten._to_copy.default(m); -> z",
        "REFUTED",
    ),
    Pair(
        "eq",
        "x: float32[4, 6];y: float32[4, 6];m = aten.eq.Tensor(x, y); z = aten._to_copy.default(m); -> z",
        "x: float32[4, 6];y: float32[4, 6];z = aten.zeros.default([4, 6], dtype=bool); -> z",
        "REFUTED",
    ),
    Pair(
        "lt vs le tensors",
        "x: float32[4, 6];y: float32[4, 6];z = aten.lt.Tensor(x, y); -> z",
        "x: float32[4, 6];y: float32[4, 6];z = aten.le.Tensor(x, y); -> z",
        "REFUTED",
    ),
    Pair("abs int", "i: int64[6];z = aten.abs.default(i); -> z", "i: int64[6];z = mul(i, 1); -> z", "REFUTED"),
    Pair(
        "trunc/floor",
        'i: int64[6];z = aten.div.Scalar_mode(i, 7, rounding_mode="trunc"); -> z',
        'i: int64[6];z = aten.div.Scalar_mode(i, 7, rounding_mode="floor"); -> z',
        "REFUTED",
    ),
    Pair(
        "eq 1234",
        "i: int64[6];z = aten.eq.Scalar(i, 1234); -> z",
        "i: int64[6];z = aten.zeros.default([6], dtype=bool); -> z",
        "REFUTED",
    ),
    Pair(
        "eq 1234 float",
        "x: float32[4, 6];z = aten.eq.Scalar(x, 1234.0); -> z",
        "x: float32[4, 6];z = aten.zeros.default([4, 6], dtype=bool); -> z",
        "REFUTED",
    ),
    Pair(
        "ignore index",
        "x: float32[4, 6]; t: int64[4];l = aten._log_softmax.default(x, 1, False); z, w = aten.nll_loss_forward.default(l, t, None, 2, -100); -> z",
        "x: float32[4, 6]; t: int64[4];l = aten._log_softmax.default(x, 1, False); u = aten.unsqueeze.default(t, 1); c = aten.clamp_min.default(u, 0); g = aten.gather.default(l, 1, c); s = sum(g); z = aten.neg.default(s); -> z",
        "REFUTED",
    ),
    Pair(
        "masked row",
        "x: float32[4, 6]; m: bool[4, 6];n = aten.logical_not.default(m); y = aten.masked_fill.Scalar(x, n, -inf); a = softmax(y, 1, False); b = aten.isnan.default(a); z = aten.masked_fill.Scalar(a, b, 0.0); -> z",
        "x: float32[4, 6]; m: bool[4, 6];n = aten.logical_not.default(m); y = aten.masked_fill.Scalar(x, n, -10000.0); z = softmax(y, 1, False); -> z",
        "REFUTED",
    ),
    Pair(
        "argmax tie",
        "x: float32[4, 6];z = aten.argmax.default(x, 1); -> z",
        "x: float32[4, 6];f = aten.flip.default(x, [1]); a = aten.argmax.default(f, 1); b = aten.neg.default(a); z = add(b, 5); -> z",
        "REFUTED",
    ),
    Pair(
        "argmax relu",
        "x: float32[4, 6];z = aten.argmax.default(x, 1); -> z",
        "x: float32[4, 6];r = relu(x); z = aten.argmax.default(r, 1); -> z",
        "REFUTED",
    ),
    Pair(
        "sign 0",
        "x: float32[4, 6];z = aten.sign.default(x); -> z",
        "x: float32[4, 6];m = aten.gt.Scalar(x, 0); a = aten._to_copy.default(m, dtype=float32); b = mul(a, 2); z = sub(b, 1); -> z",
        "REFUTED",
    ),
    Pair(
        "relu grad at 0",
        "x: float32[4, 6];r = relu(x); z = aten.threshold_backward.default(x, r, 0); -> z",
        "x: float32[4, 6];m = aten.ge.Scalar(x, 0); z = mul(x, m); -> z",
        "PROVED",
    ),
    Pair(
        "relu grad2",
        "x: float32[4, 6];y: float32[4, 6];z = aten.threshold_backward.default(y, x, 0); -> z",
        "x: float32[4, 6];y: float32[4, 6];m = aten.ge.Scalar(x, 0); z = mul(y, m); -> z",
        "REFUTED",
    ),
    Pair(
        "clamp grad edge",
        "x: float32[4, 6];y: float32[4, 6];a = aten.ge.Scalar(x, -1); b = aten.le.Scalar(x, 1); m = aten.logical_and.default(a, b); z = mul(y, m); -> z",
        "x: float32[4, 6];y: float32[4, 6];a = aten.gt.Scalar(x, -1); b = aten.lt.Scalar(x, 1); m = aten.logical_and.default(a, b); z = mul(y, m); -> z",
        "REFUTED",
    ),
    Pair(
        "neg index",
        "x: float32[4, 6]; i: int64[3];z = index(x, [i]); -> z",
        "x: float32[4, 6]; i: int64[3];r = aten.remainder.Scalar(i, 4); z = index(x, [r]); -> z",
        "PROVED",
    ),
    Pair(
        "neg index bad",
        "x: float32[4, 6]; i: int64[3];z = index(x, [i]); -> z",
        "x: float32[4, 6]; i: int64[3];r = aten.clamp_min.default(i, 0); z = index(x, [r]); -> z",
        "PROVED",
    ),
    Pair(
        "round",
        "x: float32[4, 6];z = aten.round.default(x); -> z",
        "x: float32[4, 6];a = add(x, 0.5); z = aten.floor.default(a); -> z",
        "REFUTED",
    ),
    Pair(
        "gelu tanh",
        "x: float32[4, 6];z = gelu(x); -> z",
        'x: float32[4, 6];z = aten.gelu.default(x, approximate="tanh"); -> z',
        "REFUTED",
    ),
    Pair(
        "int mask rows",
        "x: float32[4, 6]; m: int64[4, 6];b = aten.eq.Scalar(m, 0); y = aten.masked_fill.Scalar(x, b, 0.0); s = sum_dims(y, [1]); c = sum_dims(m, [1]); d = aten.clamp_min.default(c, 1); z = div(s, d); -> z",
        "x: float32[4, 6]; m: int64[4, 6];b = aten.eq.Scalar(m, 0); y = aten.masked_fill.Scalar(x, b, 0.0); s = sum_dims(y, [1]); n = aten.ne.Scalar(m, 0); c = sum_dims(n, [1]); d = aten.clamp_min.default(c, 1); z = div(s, d); -> z",
        "REFUTED",
    ),
    Pair(
        "float 65504",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "x: float32[4, 6];z = aten.clamp_max.default(x, 60000.0); -> z",
        "REFUTED",
    ),
    Pair(
        "max tie backward",
        "x: float32[4, 6];y: float32[4, 6];m = aten.ge.Tensor(x, y); z = aten.where.ScalarOther(m, x, 0); -> z",
        "x: float32[4, 6];y: float32[4, 6];m = aten.gt.Tensor(x, y); z = aten.where.ScalarOther(m, x, 0); -> z",
        "REFUTED",
    ),
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_programs_that_differ_at_points(pair: Pair, tmp_path: Path) -> None:
    check(pair, tmp_path)
