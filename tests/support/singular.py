"""Families of programs that agree wherever all of them are defined, and differ where some are not: rows of which
everything is masked, zero divisors, logarithms of zero, roots of negative numbers, sides of a ``where`` not taken.

A program is an expression over its inputs. PyTorch in float64 judges: a specification and an implementation agree if,
on inputs that hit the singular cases, every finite element of the specification is equal in the implementation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tantamount import refine
from tantamount.capture.job import read_job
from tantamount.verdict import Verdict

from .jobs import job_files

__all__ = ["FAMILIES", "Family", "Pair", "agree", "pairs", "verdict"]

_DIM = ", [1], True"
OPERATORS = {
    "abs": "aten.abs.default", "add": "aten.add.Tensor", "all_": "aten.all.dim", "amax": "aten.amax.default",
    "any_": "aten.any.dim", "clamp_min": "aten.clamp_min.default", "decay": "aten.pow.Scalar",
    "div": "aten.div.Tensor", "eq": "aten.eq.Scalar", "floor": "aten.floor.default",
    "exp": "aten.exp.default", "fill": "aten.masked_fill.Scalar", "ge": "aten.ge.Scalar", "gt": "aten.gt.Scalar",
    "log": "aten.log.default", "log1p": "aten.log1p.default", "logsumexp": "aten.logsumexp.default",
    "lsm": "aten._log_softmax.default", "lt": "aten.lt.Scalar", "maximum": "aten.maximum.default",
    "mm": "aten.matmul.default", "mul": "aten.mul.Tensor",
    "mul0": "aten.mul.Tensor", "mul05": "aten.mul.Tensor",
    "ne": "aten.ne.Scalar", "neg": "aten.neg.default", "not_": "aten.logical_not.default",
    "ones": "aten.ones_like.default",
    "power": "aten.pow.Tensor_Scalar", "recip": "aten.reciprocal.default", "relu": "aten.relu.default",
    "rsqrt": "aten.rsqrt.default", "safe": "aten._safe_softmax.default",
    "sdpa": "aten.scaled_dot_product_attention.default", "sigmoid": "aten.sigmoid.default", "sign": "aten.sign.default",
    "softmax": "aten._softmax.default", "sqrt": "aten.sqrt.default", "sub": "aten.sub.Tensor",
    "sum_": "aten.sum.dim_IntList", "t": "aten.transpose.int", "tanh": "aten.tanh.default",
    "where": "aten.where.self", "xlogy": "aten.xlogy.Tensor", "zeros": "aten.zeros_like.default",
}  # fmt: skip
_LAST = {"sum_": [[1], True], "amax": [[1], True], "logsumexp": [[1], True], "all_": [1, True], "any_": [1, True],
         "softmax": [1, False], "safe": [1], "lsm": [1, False], "t": [-2, -1], "mul0": [0],
         "mul05": [0.5]}  # fmt: skip


@dataclass(frozen=True)
class Family:
    """``inputs``: lines of the shorthand of ``support.jobs``; ``programs``: expressions with one result of one type.
    ``let`` are names for expressions that several programs use."""

    name: str
    inputs: str
    programs: tuple[str, ...]
    let: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Pair:
    """Two programs of a family, the first one being the specification."""

    family: Family
    specification: str
    implementation: str

    def __str__(self) -> str:
        return f"{self.family.name}: {self.specification}  |  {self.implementation}"


_XY = "x: float32[3, 4]\ny: float32[3, 4]\n"
_XM = "x: float32[3, 4]\nm: bool[3, 4]\n"
_XYM = _XY + "m: bool[3, 4]\n"
_ATTENTION = "q: float32[1, 2, 3, 4]\nk: float32[1, 2, 5, 4]\nv: float32[1, 2, 5, 4]\nm: bool[3, 5]\n"
_INF = "-inf"

FAMILIES = (
    Family("masked softmax", _XM, (
        "softmax(s)", "safe(s)", "where(all_(eq(s, -inf)), zeros(s), softmax(s))", "fill(softmax(s), m, 0)",
        "fill(safe(s), m, 0)", "fill(softmax(s), all_(m), 0)", "div(exp(s), sum_(exp(s)))",
        "div(exp(sub(s, amax(s))), sum_(exp(sub(s, amax(s)))))", "mul(softmax(s), not_(m))",
        "div(mul(exp(x), not_(m)), sum_(mul(exp(x), not_(m))))", "exp(lsm(s))", "fill(exp(lsm(s)), m, 0)",
        "where(any_(not_(m)), softmax(s), zeros(s))",
        "div(exp(s), fill(sum_(exp(s)), eq(sum_(exp(s)), 0), 1))",
        "where(gt(sum_(exp(s)), 0), div(exp(s), sum_(exp(s))), zeros(s))",
        "mul(safe(s), any_(not_(m)))", "fill(div(exp(s), sum_(exp(s))), eq(amax(s), -inf), 0)",
    ), (("s", "fill(x, m, -inf)"),)),
    Family("quotient", _XY, (
        "div(x, y)", "mul(x, recip(y))", "div(mul(x, y), mul(y, y))", "mul(x, power(y, -1))",
        "where(eq(y, 0), zeros(x), div(x, y))", "where(ne(y, 0), div(x, where(eq(y, 0), ones(y), y)), zeros(x))",
        "recip(div(y, x))", "div(mul(x, x), mul(x, y))", "neg(div(x, neg(y)))", "add(div(x, y), mul0(div(x, y)))",
        "div(x, where(eq(y, 0), ones(y), y))",
    )),
    Family("nothing but x", _XY, (
        "mul(x, 1)", "div(mul(x, y), y)", "mul(div(x, y), y)", "add(x, mul0(recip(y)))",
        "add(x, sub(recip(y), recip(y)))", "where(eq(y, 0), x, div(mul(x, y), y))", "recip(recip(x))",
        "exp(log(x))", "log(exp(x))", "mul(sqrt(x), sqrt(x))", "div(mul(x, x), x)", "add(x, mul0(log(y)))",
        "where(gt(y, 0), x, add(x, mul0(sqrt(y))))", "where(lt(y, 0), x, add(x, mul0(sqrt(y))))",
        "add(x, mul0(sum_(recip(y))))", "add(x, mul0(tanh(recip(y))))", "add(x, mul0(rsqrt(mul(y, y))))",
        "mul(x, power(sigmoid(recip(y)), 0))", "add(x, mul0(sign(recip(y))))", "add(x, mul0(recip(recip(y))))",
        "add(x, mul0(exp(neg(recip(mul(y, y))))))", "mul(x, power(recip(y), 0))",
    )),
    Family("logarithm", _XY, (
        "log(x)", "where(gt(x, 0), log(x), zeros(x))", "mul(gt(x, 0), log(x))", "where(ge(x, 0), log(x), zeros(x))",
        "fill(log(x), lt(x, 0), 0)", "mul(log(mul(x, x)), 0.5)", "mul(log(sqrt(x)), 2)", "neg(log(recip(x)))",
        "where(gt(x, 0), log(where(gt(x, 0), x, ones(x))), zeros(x))", "sub(log(mul(x, y)), log(y))",
        "add(log(x), mul0(recip(x)))", "fill(log(x), eq(x, 0), 0)",
    )),
    Family("root", _XY, (
        "sqrt(x)", "power(x, 0.5)", "div(x, sqrt(x))", "mul(x, rsqrt(x))", "exp(mul(log(x), 0.5))", "recip(rsqrt(x))",
        "where(ge(x, 0), sqrt(x), zeros(x))", "where(gt(x, 0), sqrt(x), zeros(x))", "sqrt(relu(x))",
        "where(gt(x, 0), mul(x, rsqrt(x)), zeros(x))", "power(power(x, 0.25), 2)", "div(sqrt(mul(x, y)), sqrt(y))",
        "fill(sqrt(x), lt(x, 0), 0)",
    )),
    Family("length", _XY, (
        "sqrt(sum_(mul(x, x)))", "mul(sum_(mul(x, x)), rsqrt(sum_(mul(x, x))))", "power(sum_(power(x, 2)), 0.5)",
        "div(sum_(mul(x, x)), sqrt(sum_(mul(x, x))))", "exp(mul05(log(sum_(mul(x, x)))))",
        "where(gt(sum_(mul(x, x)), 0), div(sum_(mul(x, x)), sqrt(sum_(mul(x, x)))), sum_(mul(x, x)))",
        "recip(rsqrt(sum_(mul(x, x))))",
    )),
    Family("direction", _XY, (
        "div(x, n)", "mul(x, rsqrt(sum_(mul(x, x))))", "where(gt(n, 0), div(x, n), zeros(x))",
        "fill(div(x, n), eq(n, 0), 0)", "div(x, fill(n, eq(n, 0), 1))", "mul(x, recip(n))", "div(mul(x, n), mul(n, n))",
        "where(eq(sum_(mul(x, x)), 0), zeros(x), mul(x, rsqrt(sum_(mul(x, x)))))",
    ), (("n", "sqrt(sum_(mul(x, x)))"),)),
    Family("masked mean", _XM, (
        "div(sum_(mul(x, m)), sum_(m))", "div(sum_(mul(x, m)), clamp_min(sum_(m), 1))",
        "where(any_(m), div(sum_(mul(x, m)), sum_(m)), sum_(zeros(x)))", "sum_(div(mul(x, m), sum_(m)))",
        "fill(div(sum_(mul(x, m)), sum_(m)), eq(sum_(m), 0), 0)", "mul(sum_(mul(x, m)), recip(sum_(m)))",
        "where(gt(sum_(m), 0), sum_(div(mul(x, m), sum_(m))), sum_(zeros(x)))",
        "div(sum_(where(m, x, zeros(x))), sum_(m))", "div(sum_(fill(x, not_(m), 0)), maximum(sum_(m), ones(sum_(m))))",
    )),
    Family("log of a masked sum", _XM, (
        "logsumexp(s)", "log(sum_(exp(s)))", "add(log(sum_(exp(sub(s, amax(s))))), amax(s))",
        "where(all_(m), sum_(zeros(x)), logsumexp(s))", "fill(log(sum_(exp(s))), all_(m), 0)",
        "log(sum_(mul(exp(x), not_(m))))", "where(eq(amax(s), -inf), sum_(zeros(x)), log(sum_(exp(s))))",
        "sub(logsumexp(add(s, 1)), 1)",
    ), (("s", "fill(x, m, -inf)"),)),
    Family("largest of nothing", _XM, (
        "amax(s)", "fill(amax(s), all_(m), 0)", "where(any_(not_(m)), amax(s), amax(zeros(x)))",
        "where(eq(amax(s), -inf), amax(zeros(x)), amax(s))", "neg(neg(amax(s)))", "sub(amax(add(s, 1)), 1)",
        "log(amax(exp(s)))", "log(exp(amax(s)))", "add(amax(s), mul0(exp(neg(amax(s)))))",
        "mul(amax(s), div(sum_(m), sum_(m)))",
    ), (("s", "fill(x, m, -inf)"),)),
    Family("infinities that become numbers", _XY, (
        "tanh(recip(y))", "tanh(div(y, mul(y, y)))", "tanh(mul(y, power(y, -2)))",
        "where(eq(y, 0), ones(y), tanh(recip(y)))",
        "where(eq(y, 0), zeros(y), tanh(recip(y)))", "neg(tanh(neg(recip(y))))", "tanh(div(x, mul(x, y)))",
    )),
    Family("Adam", "x: float32[3, 4]\ny: float32[3, 4]\nt: float32[3, 4]\n", (
        "add(x, div(y, add(div(v, mul(sqrt(q), neg(s))), mul05(recip(neg(s))))))",
        "sub(x, mul(s, div(y, add(div(v, sqrt(q)), 0.5))))", "sub(x, div(mul(y, s), add(mul(v, rsqrt(q)), 0.5)))",
        "where(eq(t, 0), x, sub(x, mul(s, div(y, add(div(v, sqrt(q)), 0.5)))))",
        "where(eq(t, 0), x, add(x, div(y, add(div(v, mul(sqrt(q), neg(s))), mul05(recip(neg(s)))))))",
        "sub(x, div(mul(y, recip(mul(p, 4))), add(mul(v, rsqrt(q)), 0.5)))",
    ), (("p", "neg(sub(decay(0.9, t), 1))"), ("q", "neg(sub(decay(0.5, t), 1))"), ("s", "mul(recip(p), 0.25)"),
        ("v", "sqrt(mul(y, y))"))),
    Family("quotient of sums", _XY, (
        "recip(add(recip(y), 1))", "div(y, add(y, 1))", "neg(sub(recip(add(y, 1)), 1))",
        "where(eq(y, 0), zeros(y), recip(add(recip(y), 1)))", "div(mul(y, x), mul(x, add(y, 1)))",
    )),
    Family("gradients", _XYM, (
        "div(y, mul(sqrt(x), 2))", "mul(mul(y, 0.5), rsqrt(x))", "div(mul(y, sqrt(x)), mul(x, 2))",
        "where(gt(x, 0), div(y, mul(sqrt(x), 2)), zeros(y))",
        "mul(where(gt(x, 0), y, zeros(y)), mul(recip(sqrt(x)), 0.5))",
        "where(gt(x, 0), mul(y, mul(recip(sqrt(where(gt(x, 0), x, ones(x)))), 0.5)), zeros(y))",
        "fill(div(y, mul(sqrt(x), 2)), lt(x, 0), 0)",
    )),
    Family("gradient of masked softmax", _XYM, (
        "mul(w, sub(y, sum_(mul(w, y))))", "sub(mul(w, y), mul(w, sum_(mul(w, y))))", "mul(u, sub(y, sum_(mul(u, y))))",
        "fill(mul(w, sub(y, sum_(mul(w, y)))), m, 0)", "fill(mul(u, sub(y, sum_(mul(u, y)))), m, 0)",
        "where(all_(m), zeros(x), mul(w, sub(y, sum_(mul(w, y)))))", "mul(u, sub(y, sum_(mul(w, y))))",
    ), (("s", "fill(x, m, -inf)"), ("w", "softmax(fill(x, m, -inf))"), ("u", "safe(fill(x, m, -inf))"))),
    Family("attention", _ATTENTION, (
        "sdpa(q, k, v, m)", "sdpa(q, k, v, b)", "mm(safe4(c), v)", "mm(softmax4(c), v)",
        "mm(fill(softmax4(c), not_(m), 0), v)", "mm(div(exp(c), sum4(exp(c))), v)", "div(mm(exp(c), v), sum4(exp(c)))",
        "fill(div(mm(exp(c), v), sum4(exp(c))), eq(sum4(exp(c)), 0), 0)",
        "div(mm(exp(c), v), fill(sum4(exp(c)), eq(sum4(exp(c)), 0), 1))",
        "mm(fill(softmax4(c), eq(amax4(c), -inf), 0), v)", "fill(mm(softmax4(c), v), not_(any4(m)), 0)",
        "mm(softmax4(f), v)", "sdpa(q, k, v, g)",
    ), (
        ("a", "mul(mm(q, t(k)), 0.5)"), ("c", "fill(mul(mm(q, t(k)), 0.5), not_(m), -inf)"),
        ("b", "fill(mul0(mm(q, t(k))), not_(m), -inf)"), ("f", "fill(mul(mm(q, t(k)), 0.5), not_(m), -1e30)"),
        ("g", "fill(mul0(mm(q, t(k))), not_(m), -1e30)"),
    )),
)  # fmt: skip
OPERATORS |= {"softmax4": "aten._softmax.default", "safe4": "aten._safe_softmax.default",
              "sum4": "aten.sum.dim_IntList", "amax4": "aten.amax.default", "any4": "aten.any.dim"}  # fmt: skip
_LAST |= {"softmax4": [-1, False], "safe4": [-1], "sum4": [[-1], True], "amax4": [[-1], True], "any4": [-1, True]}


def pairs(families: tuple[Family, ...] = FAMILIES) -> Iterator[Pair]:
    """Every ordered pair of programs of a family."""
    for family in families:
        for one in family.programs:
            for other in family.programs:
                yield Pair(family, one, other)


# ---------------------------------------------------------------------------------------------- as a job
def _number(node: ast.expr) -> float | int | None:
    text = ast.unparse(node)
    if text in ("-inf", "inf"):
        return float(text)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _shorthand(family: Family, program: str) -> str:
    lines = family.inputs.splitlines()
    done: dict[str, str] = {}
    let = dict(family.let)

    def value(node: ast.expr) -> str:
        number = _number(node)
        if number is not None:
            return str(number)
        if isinstance(node, ast.Name):
            return value(ast.parse(let[node.id], mode="eval").body) if node.id in let else node.id
        text = ast.unparse(node)
        if text not in done:
            assert isinstance(node, ast.Call)
            assert isinstance(node.func, ast.Name)
            name = node.func.id
            arguments = [value(argument) for argument in node.args] + [str(a) for a in _LAST.get(name, [])]
            target = OPERATORS[name]
            done[text] = f"n{len(done)}"
            lines.append(f"{done[text]} = {target}({', '.join(arguments)})")
        return done[text]

    result = value(ast.parse(program, mode="eval").body)
    return "\n".join([*lines, f"-> out={result}"])


def verdict(pair: Pair) -> tuple[Verdict, str]:
    """What Tantamount says of a pair, and why."""
    names = [line.partition(":")[0] for line in pair.family.inputs.splitlines()]
    tables = "".join(
        ["[inputs]\n", *(f'{name} = "Replicate()"\n' for name in names), '[outputs]\nout = "Replicate()"\n']
    )
    with TemporaryDirectory() as folder:
        texts = [_shorthand(pair.family, program) for program in (pair.specification, pair.implementation)]
        path = job_files(Path(folder), texts[0], [texts[1]], tables, {"tp": 1}, {})
        report = refine(read_job(path))
    return report.verdict, report.outputs[0].reason or ""


# ---------------------------------------------------------------------------------------------- as PyTorch runs it
def _inputs(family: Family, seed: int) -> dict[str, Any]:
    import torch

    random = Random(f"{family.name} {seed}")
    found: dict[str, Any] = {}
    for line in family.inputs.splitlines():
        name, _, type_ = line.partition(": ")
        shape = ast.literal_eval(type_[type_.index("[") :])
        count = 1
        for n in shape:
            count *= n
        if type_.startswith("bool"):
            width = shape[-1]
            rows = [random.choice([[True] * width, [False] * width, None]) for _ in range(count // width)]
            flat = [b for row in rows for b in (row or [random.random() < 0.5 for _ in range(width)])]
            found[name] = torch.tensor(flat).reshape(shape)
        else:
            values = (0.0, 0.0, 1.0, 2.0, 0.5, 0.25) if seed % 2 else (0.0, 0.0, 1.0, -1.0, 2.0, -0.5)
            flat = [random.choice(values) for _ in range(count)]
            if seed % 3 == 0:
                flat[: shape[-1]] = [0.0] * shape[-1]
            found[name] = torch.tensor(flat, dtype=torch.float64).reshape(shape)
    return found


def _run(family: Family, program: str, given: dict[str, Any]) -> Any:
    import torch

    let = dict(family.let)

    def value(node: ast.expr) -> Any:
        number = _number(node)
        if number is not None:
            return number
        if isinstance(node, ast.Name):
            return value(ast.parse(let[node.id], mode="eval").body) if node.id in let else given[node.id]
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        arguments = [value(argument) for argument in node.args] + _LAST.get(name, [])
        _, operator, overload = OPERATORS[name].split(".")
        return getattr(getattr(torch.ops.aten, operator), overload)(*arguments)

    return value(ast.parse(program, mode="eval").body)


def agree(pair: Pair, draws: int = 24) -> bool:
    """Whether PyTorch's values agree on inputs that hit the singular cases, wherever the specification's are finite."""
    import torch

    for seed in range(draws):
        given = _inputs(pair.family, seed)
        wanted = _run(pair.family, pair.specification, given)
        found = _run(pair.family, pair.implementation, given)
        finite = wanted.isfinite()
        if not torch.allclose(found[finite], wanted[finite], rtol=1e-5, atol=1e-5):
            return False
    return True
