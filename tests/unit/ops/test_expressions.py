"""Definitions as text: what they compute, against PyTorch; and that nothing but the language gets through."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.ir.types import DType
from tantamount.ops.algebra import ShapeProblem, Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.expressions import ExpressionProblem, parse_expression
from tantamount.semantics.reference import Reference

torch = pytest.importorskip("torch", reason="the values are PyTorch's own")
R = np.random.default_rng(0)
X, Y, W = R.standard_normal((3, 4)), R.standard_normal((3, 4)), R.standard_normal((4, 5))


def value(text: str, **given: Any) -> Any:
    tensors = {k: Tensor(x.shape, DType.FLOAT64, x) if isinstance(x, np.ndarray) else x for k, x in given.items()}
    found = parse_expression(text, list(given)).evaluate(Builder(Reference()), tensors)
    return tuple(x.value for x in found) if isinstance(found, tuple) else found.value


T = {"x": torch.tensor(X), "y": torch.tensor(Y), "w": torch.tensor(W)}
VALUES = [
    ("x + y * 2 - 1", lambda x, y, w: x + y * 2 - 1),
    ("add(x, mul(y, 3))", lambda x, y, w: x + y * 3),
    ("-x / (y * y + 1)", lambda x, y, w: -x / (y * y + 1)),
    ("x @ w", lambda x, y, w: x @ w),
    ("h = x @ w; silu(h) * h", lambda x, y, w: torch.nn.functional.silu(x @ w) * (x @ w)),
    ("gelu(x, approximate='tanh')", lambda x, y, w: torch.nn.functional.gelu(x, approximate="tanh")),
    ("aten.gelu.default(x)", lambda x, y, w: torch.nn.functional.gelu(x)),
    ("softmax(x, -1)", lambda x, y, w: x.softmax(-1)),
    ("x[1:, :2]", lambda x, y, w: x[1:, :2]),
    ("x[..., 1]", lambda x, y, w: x[..., 1]),
    ("x[-1, ::2]", lambda x, y, w: x[-1, ::2]),
    ("x[:, 0:x.shape[1]//2]", lambda x, y, w: x[:, :2]),
    ("x ** 2 + x ** 3", lambda x, y, w: x**2 + x**3),
    ("(y * y) ** (1/2)", lambda x, y, w: y.abs()),
    ("a, b = split(x, 2, 1); a * b", lambda x, y, w: x[:, :2] * x[:, 2:]),
    ("split(x, [1, 3], -1)[1]", lambda x, y, w: x[:, 1:]),
    ("view(x, [2, 6])", lambda x, y, w: x.reshape(2, 6)),
    ("sum(x, [1], True) * (1/6) * 2**3", lambda x, y, w: x.sum(1, keepdim=True) / 6 * 8),
    ("to(x, dtype='int64') + 0.5", lambda x, y, w: x.long() + 0.5),
    ("cat([x, y], 1)", lambda x, y, w: torch.cat([x, y], 1)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "truth"), VALUES, ids=[text for text, _ in VALUES])
def test_values(text: str, truth: Any) -> None:
    np.testing.assert_allclose(value(text, x=X, y=Y, w=W), truth(**T).numpy(), rtol=1e-12)


def test_several_results_and_numbers_as_arguments() -> None:
    a, b = value("s = x * scale; (s, s + 1)", x=X, scale=0.5)
    np.testing.assert_allclose(b, X / 2 + 1)
    np.testing.assert_allclose(a, X / 2)


def test_numbers_are_exact() -> None:
    bench = Workbench()
    x = bench.input("x", 3)
    third = parse_expression("x * (1/3) + x * (0.1 + 0.2)", ["x"]).evaluate(bench.b, {"x": x})
    b = bench.b
    assert bench.same(third, b.mul(x, Fraction(1, 3) + Fraction(3, 10)))


@pytest.mark.parametrize(
    "text",
    [
        "", "x = y", "__import__('os')", "x.__class__", "x.T", "lambda: x", "[x for x in y]", "x if y else x", "f'{x}'",
        "x; y = 1", "x and y", "x < y", "(lambda z: z)(x)", "x(y)", "add(*[x])", "add(**x)", "z", "x = x.value; x",
        "import os", "x: int = 3; x", "x += 1; x", "while x: pass", "print(x)", "open('f')", "nosuch(x)", "b'x'", "1j",
        "a, 3 = x; x", "x := y", "(y := x)", "await x", "x[y := 1]", "all_reduce(x, 'sum', 'g')", "x << 2", "not x",
        "_c10d_functional.all_reduce(x, 'sum', 'g')", "_C.silu_and_mul(x, y)", "x y", "\x00", "(" * 500,
        "-" * 500 + "x",
        "x" * 20_000, "x.shape.__class__", "add.__globals__", "class x: pass", "yield x", "`x`", "x[{}]", "{x}",
        "x[()]()",
    ],
)  # fmt: skip
def test_what_is_no_definition(text: str) -> None:
    with pytest.raises(ExpressionProblem):
        parse_expression(text, ["x", "y"])


@pytest.mark.parametrize(
    "text",
    [
        "2 ** 100 ** 100 * x", "2 ** 64 ** 64 * x", "x * 10.0 ** 65", "x / 0 * (1/0)", "x * (1//0)", "x // 2",
        "x[0.5]", "x[0, 0, 0]", "x['a']", "x[...][..., ...]", "x[9]", "split(x, 2, 1)[5]",
        "a, b, c = split(x, 2, 1); a",
        "x.shape", "1", "'a' + x", "add(x)", "add(x, y, beta=2)", "x @ 2 * (2 @ 3)", "x.shape[0] * 'a' + x",
        "-'a' + x", "y.dtype.shape", "w.shape", "2 ** (1/2) * x", "mm(x, x)", "x[x:]", "to(x, dtype='float31')",
        "0 ** -1 * x", "1e400 * 2 + x", "(x, 1)", "x[None]", "x[True]", "split(x, 2, 1)[True]",
    ],
)  # fmt: skip
def test_what_has_no_value(text: str) -> None:
    given = {"x": Tensor((3, 4), DType.FLOAT32, None), "y": Tensor((3, 4), DType.FLOAT32, None), "w": 3}
    with pytest.raises(ShapeProblem):
        parse_expression(text, list(given)).evaluate(Builder(TypesOnly()), given)
