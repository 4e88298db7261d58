"""Random numbers have a support, and an identity: which draw of a rank is which of the specification."""
# ruff: noqa: E501 - one program per line

from __future__ import annotations

from pathlib import Path

import pytest

from support.decided import Pair, check, verdict_of
from tantamount.certificate.check import check_certificate

PAIRS = (
    Pair(
        "rand<2",
        "x: float32[4, 6];r = aten.rand.default([4, 6]); m = aten.lt.Scalar(r, 2); z = mul(x, m); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "PROVED",
    ),
    Pair(
        "rand<1",
        "x: float32[4, 6];r = aten.rand.default([4, 6]); m = aten.lt.Scalar(r, 1); z = mul(x, m); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "PROVED",
    ),
    Pair(
        "rand>=0",
        "x: float32[4, 6];r = aten.rand_like.default(x); m = aten.ge.Scalar(r, 0); z = mul(x, m); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "PROVED",
    ),
    Pair(
        "rand>0",
        "x: float32[4, 6];r = aten.rand_like.default(x); m = aten.gt.Scalar(r, 0); z = mul(x, m); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "REFUTED",
    ),
    Pair(
        "rand<.5",
        "x: float32[4, 6];r = aten.rand_like.default(x); m = aten.lt.Scalar(r, 0.5); z = mul(x, m); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "REFUTED",
    ),
    Pair(
        "2rand-1 abs",
        "x: float32[4, 6];r = aten.rand_like.default(x); a = mul(r, 2); b = sub(a, 1); m = aten.ge.Scalar(b, -1); z = mul(x, m); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "PROVED",
    ),
    Pair(
        "uniform",
        "x: float32[4, 6];e = aten.empty_like.default(x); r = aten.uniform.default(e, 2, 3); m = aten.ge.Scalar(r, 2); z = mul(x, m); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "PROVED",
    ),
    Pair(
        "randint idx",
        "x: float32[4, 6];r = aten.randint.default(4, [3]); z = index(x, [r]); a = mul(z, 0); -> a",
        "x: float32[4, 6];a = aten.zeros.default([3, 6]); -> a",
        "PROVED",
    ),
    Pair(
        "randint <4",
        "x: float32[4, 6];r = aten.randint.default(4, [4, 6]); m = aten.lt.Scalar(r, 4); z = mul(x, m); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "PROVED",
    ),
    Pair(
        "randint <3",
        "x: float32[4, 6];r = aten.randint.default(4, [4, 6]); m = aten.lt.Scalar(r, 3); z = mul(x, m); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "REFUTED",
    ),
    Pair(
        "sum perm",
        "x: float32[4, 6];r = aten.randperm.default(4); z = index(x, [r]); s = sum_dims(z, [0]); -> s",
        "x: float32[4, 6];s = sum_dims(x, [0]); -> s",
        "PROVED",
    ),
    Pair(
        "max perm",
        "x: float32[4, 6];r = aten.randperm.default(4); z = index(x, [r]); s = aten.amax.default(z, [0]); -> s",
        "x: float32[4, 6];s = aten.amax.default(x, [0]); -> s",
        "PROVED",
    ),
    Pair(
        "perm inv",
        "x: float32[4, 6];r = aten.randperm.default(4); i = aten.argsort.default(r); y = index(x, [r]); z = index(y, [i]); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "PROVED",
    ),
    Pair(
        "perm bad",
        "x: float32[4, 6];r = aten.randperm.default(4); z = index(x, [r]); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "REFUTED",
    ),
    Pair(
        "bern1",
        "x: float32[4, 6];e = aten.empty_like.default(x); r = aten.bernoulli.p(e, 1.0); z = mul(x, r); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "PROVED",
    ),
    Pair(
        "bern0",
        "x: float32[4, 6];e = aten.empty_like.default(x); r = aten.bernoulli.p(e, 0.0); z = mul(x, r); -> z",
        "x: float32[4, 6];z = mul(x, 0); -> z",
        "PROVED",
    ),
    Pair(
        "bern t1",
        "x: float32[4, 6];e = aten.ones_like.default(x); r = aten.bernoulli.default(e); z = mul(x, r); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "PROVED",
    ),
    Pair(
        "bern t0",
        "x: float32[4, 6];e = aten.zeros_like.default(x); r = aten.bernoulli.default(e); z = mul(x, r); -> z",
        "x: float32[4, 6];z = mul(x, 0); -> z",
        "PROVED",
    ),
    Pair(
        "bern sq",
        "x: float32[4, 6];e = aten.empty_like.default(x); r = aten.bernoulli.p(e, 0.5); q = mul(r, r); d = sub(q, r); z = mul(x, d); -> z",
        "x: float32[4, 6];z = mul(x, 0); -> z",
        "PROVED",
    ),
    Pair(
        "bern 0.5",
        "x: float32[4, 6];e = aten.empty_like.default(x); r = aten.bernoulli.p(e, 0.5); z = mul(x, r); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "REFUTED",
    ),
    Pair(
        "exponential>0",
        "x: float32[4, 6];e = aten.empty_like.default(x); r = aten.exponential.default(e); m = aten.gt.Scalar(r, 0); z = mul(x, m); -> z",
        "x: float32[4, 6];z = mul(x, 1); -> z",
        "PROVED",
    ),
    Pair(
        "normal std0",
        "x: float32[4, 6];e = aten.empty_like.default(x); r = aten.normal_functional.default(e, 2, 0); z = mul(x, r); -> z",
        "x: float32[4, 6];z = mul(x, 2); -> z",
        "PROVED",
    ),
    Pair(
        "multinomial",
        "x: float32[4, 6];a = softmax(x, 1, False); r = aten.multinomial.default(a, 2); m = aten.lt.Scalar(r, 6); z = aten._to_copy.default(m); -> z",
        "x: float32[4, 6];z = aten.full.default([4, 2], True); -> z",
        "PROVED",
    ),
    Pair(
        "dropout",
        "x: float32[4, 6];a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "x: float32[4, 6];a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "PROVED",
        '[inputs]\nx = "rank(0)"\n[outputs]\nz = "rank(0)"\n[assume]\ndropout = "same mask"',
        0,
    ),
    Pair(
        "dropout native",
        "x: float32[4, 6];a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "x: float32[4, 6];a = mul(x, 2); z, k = native_dropout(a, 0.25, True); -> z",
        "PROVED",
        '[inputs]\nx = "rank(0)"\n[outputs]\nz = "rank(0)"\n[assume]\ndropout = "same mask"',
        0,
    ),
    Pair(
        "dropout p",
        "x: float32[4, 6];a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "x: float32[4, 6];a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.5); d = div(r, 0.5); z = mul(a, d); -> z",
        "REFUTED",
        '[inputs]\nx = "rank(0)"\n[outputs]\nz = "rank(0)"\n[assume]\ndropout = "same mask"',
        0,
    ),
    Pair(
        "dropout no",
        "x: float32[4, 6];a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "x: float32[4, 6];a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "UNKNOWN",
        '[inputs]\nx = "rank(0)"\n[outputs]\nz = "rank(0)"\n',
        0,
    ),
    Pair(
        "tp sharded same mask",
        "x: float32[4, 6]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "x: float32[4, 3]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "PROVED",
        '[inputs]\nx = "Shard(1)"\n[outputs]\nz = "Shard(1)"\n[assume]\ndropout = "same mask"',
        2,
    ),
    Pair(
        "tp repl same mask",
        "x: float32[4, 6]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "x: float32[4, 6]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "PROVED",
        '[inputs]\nx = "Replicate()"\n[outputs]\nz = "Replicate()"\n[assume]\ndropout = "same mask"',
        2,
    ),
    Pair(
        "tp sharded different",
        "x: float32[4, 6]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "x: float32[4, 3]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "PROVED",
        '[inputs]\nx = "Shard(1)"\n[outputs]\nz = "Shard(1)"\n[assume]\ndropout = { tp = "different seeds" }',
        2,
    ),
    Pair(
        "tp sharded same seed",
        "x: float32[4, 6]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "x: float32[4, 3]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "REFUTED",
        '[inputs]\nx = "Shard(1)"\n[outputs]\nz = "Shard(1)"\n[assume]\ndropout = { tp = "same seed" }',
        2,
    ),
    Pair(
        "tp repl different",
        "x: float32[4, 6]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "x: float32[4, 6]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "REFUTED",
        '[inputs]\nx = "Replicate()"\n[outputs]\nz = "Replicate()"\n[assume]\ndropout = { tp = "different seeds" }',
        2,
    ),
    Pair(
        "tp repl same seed",
        "x: float32[4, 6]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "x: float32[4, 6]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "PROVED",
        '[inputs]\nx = "Replicate()"\n[outputs]\nz = "Replicate()"\n[assume]\ndropout = { tp = "same seed" }',
        2,
    ),
    Pair(
        "tp repl none",
        "x: float32[4, 6]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "x: float32[4, 6]; a = mul(x, 2);e = aten.empty_like.default(a); r = aten.bernoulli.p(e, 0.75); d = div(r, 0.75); z = mul(a, d); -> z",
        "UNKNOWN",
        '[inputs]\nx = "Replicate()"\n[outputs]\nz = "Replicate()"\n',
        2,
    ),
    Pair(
        "noise repl",
        "x: float32[4, 6]; n = aten.randn_like.default(x); z = add(x, n); -> z",
        "x: float32[4, 6]; n = aten.randn_like.default(x); z = add(x, n); -> z",
        "PROVED",
        '[inputs]\nx = "Replicate()"\n[outputs]\nz = "Replicate()"\n[assume]\ndropout = "same mask"',
        2,
    ),
    Pair(
        "noise shard",
        "x: float32[4, 6]; n = aten.randn_like.default(x); z = add(x, n); -> z",
        "x: float32[4, 3]; n = aten.randn_like.default(x); z = add(x, n); -> z",
        "PROVED",
        '[inputs]\nx = "Shard(1)"\n[outputs]\nz = "Shard(1)"\n[assume]\ndropout = "same mask"',
        2,
    ),
    Pair(
        "noise shard one seed",
        "x: float32[4, 6]; n = aten.randn_like.default(x); z = add(x, n); -> z",
        "x: float32[4, 3]; n = aten.randn_like.default(x); z = add(x, n); -> z",
        "REFUTED",
        '[inputs]\nx = "Shard(1)"\n[outputs]\nz = "Shard(1)"\n[assume]\ndropout = { tp = "same seed" }',
        2,
    ),
    Pair(
        "noise nothing",
        "x: float32[4, 6]; n = aten.randn_like.default(x); z = add(x, n); -> z",
        "x: float32[4, 6]; n = aten.randn_like.default(x); z = add(x, n); -> z",
        "UNKNOWN",
        '[inputs]\nx = "Replicate()"\n[outputs]\nz = "Replicate()"\n',
        2,
    ),
    Pair(
        "custom drop repl",
        "x: float32[4, 6]; n = aten.rand.default([4, 6]); m = aten.lt.Scalar(n, 0.5); z = mul(x, m); -> z",
        "x: float32[4, 6]; n = aten.rand.default([4, 6]); m = aten.lt.Scalar(n, 0.5); z = mul(x, m); -> z",
        "PROVED",
        '[inputs]\nx = "Replicate()"\n[outputs]\nz = "Replicate()"\n[assume]\ndropout = "same mask"',
        2,
    ),
    Pair(
        "custom drop diff",
        "x: float32[4, 6]; n = aten.rand.default([4, 6]); m = aten.lt.Scalar(n, 0.5); z = mul(x, m); -> z",
        "x: float32[4, 6]; n = aten.rand.default([4, 6]); m = aten.lt.Scalar(n, 0.5); z = mul(x, m); -> z",
        "REFUTED",
        '[inputs]\nx = "Replicate()"\n[outputs]\nz = "Replicate()"\n[assume]\ndropout = { tp = "different seeds" }',
        2,
    ),
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_random_draws(pair: Pair, tmp_path: Path) -> None:
    check(pair, tmp_path)


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if pair.ranks and pair.verdict == "PROVED"], ids=lambda p: p.name
)
def test_draws_are_paired_by_the_checker_too(pair: Pair, tmp_path: Path) -> None:
    verdict_of(pair, tmp_path).save_certificate(tmp_path / "c.json")
    assert check_certificate(tmp_path / "c.json").accepted
