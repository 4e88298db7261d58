"""What is shown to be defined, what depends on what, and what rounding may decide."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from support.jobs import graph_of, job_files
from tantamount import read_job
from tantamount.certificate.execution import Floats, _Noisy  # pyright: ignore[reportPrivateUsage]
from tantamount.certificate.signs import may_be_undefined
from tantamount.certificate.uses import DECIDED, TRANSCENDENTAL, uses_of

# k: what a causal mask hides, l: the diagonal, too; m: what a window of three hides
CAUSAL = (
    "i = aten.arange.default(6)\nj = aten.view.default(i, [6, 1])\nk = aten.gt.Tensor(i, j)\nl = ge(i, j)\n"
    "n = sub(j, i)\no = aten.gt.Scalar(n, 2)\nm = aten.logical_or.default(k, o)\n"
    "p = unsqueeze(x, 1)\nq = aten.expand.default(p, [4, 6, 6])"
)


@pytest.mark.parametrize(
    ("text", "undefined"),
    [
        ("y = div(x, z)", {"y"}),
        ("a = mul(z, z)\ny = div(x, a)", {"y"}),
        ("a = mul(z, z)\nb = add(a, 1e-05)\ny = div(x, b)", set()),
        ("a = mul(z, x)\nb = add(a, 1)\ny = aten.rsqrt.default(b)", {"y"}),
        ("a = aten.exp.default(z)\ny = aten.log.default(a)", set()),
        ("a = aten.exp.default(z)\ny = aten.log.default(z)", {"y"}),
        ("y = softmax(x, 1, False)", set()),
        ("a = aten.gt.Scalar(x, 0)\nb = masked_fill(z, a, float('-inf'))\ny = softmax(b, 1, False)", {"y"}),
        ("y = mean(x)", set()),
        ("a = aten.abs.default(x)\ny = aten.sqrt.default(a)", set()),
        ("y = aten.sqrt.default(x)", {"y"}),
        (f"{CAUSAL}\nb = masked_fill(q, k, float('-inf'))\ny = softmax(b, -1, False)", set()),
        (f"{CAUSAL}\nb = masked_fill(q, l, float('-inf'))\ny = softmax(b, -1, False)", {"y"}),
        (f"{CAUSAL}\nb = masked_fill(q, m, float('-inf'))\ny = softmax(b, -1, False)", set()),
        (f"{CAUSAL}\nb = masked_fill(q, k, float('-inf'))\nc = aten.amax.default(b, [-1], True)\nd = sub(b, c)\n"
         "e = aten.exp.default(d)\nf = sum_dims(e, [-1], True)\ny = div(e, f)", set()),
        (f"{CAUSAL}\nb = masked_fill(q, k, float('-inf'))\nc = aten.exp.default(b)\nd = sum_dims(c, [-2], True)\n"
         "y = aten.log.default(d)", set()),
        (f"{CAUSAL}\na = aten._to_copy.default(k, dtype=float32)\nb = aten.exp.default(x)\nc = mm(b, a)\n"
         "d = slice(c, 1, 1, 6)\ne = aten.reciprocal.default(d)\ny = aten.reciprocal.default(c)", {"y"}),
        (f"{CAUSAL}\na = masked_fill(q, k, float('-inf'))\nb = aten.exp.default(a)\nc = aten.view.default(b, [4, 36])\n"
         "d = slice(c, 1, 0, 1)\ne = aten.log.default(d)\nf = slice(c, 1, 1, 2)\ny = aten.log.default(f)", {"y"}),
        ("a = sub(x, x)\nb = add(a, 1)\ny = aten.reciprocal.default(b)", {"y"}),
    ],
)  # fmt: skip
def test_what_may_be_undefined_is_found_without_inputs(text: str, undefined: set[str], tmp_path: Path) -> None:
    text = text.replace("float('-inf')", "-inf")
    whole = f"x: float32[4, 6]\nz: float32[4, 6]\n{text}\n-> y"
    tables = '[inputs]\nx = "Replicate()"\nz = "Replicate()"\n[outputs]\ny = "Replicate()"'
    job = read_job(job_files(tmp_path, whole, [whole], tables, {"a": 1}, {"a": ("a",)}))
    assert may_be_undefined(job) == undefined


def test_it_is_known_what_decides_a_value() -> None:
    graph = graph_of(
        "x: float32[4]\ni: int64[4]\na = mul(x, x)\nb = add(a, 3)\nc = relu(b)\nd = mul(i, 2)\n"
        "e = aten.exp.default(b)\nf = aten.arange.default(4)\ng = div(a, b)\n-> c, d, e, f, g"
    )
    (uses,) = uses_of([graph], None)
    decided = {name for name, bits in uses.bits.items() if bits & DECIDED}
    assert decided == {"i", "c", "d"}
    assert {name for name, bits in uses.bits.items() if bits & TRANSCENDENTAL} == {"e"}
    assert uses.bits["f"] == 0
    assert uses.divisors == {"x"}
    assert uses.powers == {"g"}
    assert Fraction(3) in uses.numbers


def test_noise_moves_what_was_rounded_and_nothing_else() -> None:
    plain, noisy = Floats(), _Noisy(noise=1)
    x, third = np.arange(1.0, 9.0), np.full(8, 1 / 3)
    assert np.array_equal(noisy.add(x, x), plain.add(x, x))
    assert np.array_equal(noisy.mul(x, x), plain.mul(x, x))
    assert np.array_equal(noisy.power(x * x, Fraction(1, 2)), x)
    assert np.array_equal(noisy.contract([(x, (0,)), (x, (0,))], ()), plain.contract([(x, (0,)), (x, (0,))], ()))
    assert not np.array_equal(noisy.mul(x, third), plain.mul(x, third))
    assert not np.array_equal(noisy.power(x, Fraction(1, 2)), plain.power(x, Fraction(1, 2)))
    assert not np.array_equal(noisy.exp(x), plain.exp(x))
