"""Records of where programs are undefined, held against what PyTorch computes in float64: every term must be true of
the values, wherever it is not 0; and where no term is, the value must be a number.

Programs are drawn from operators that make infinities, NaNs and zeros, and those that take them on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tantamount.calculus.atoms import Atom
from tantamount.calculus.calculus import Calculus
from tantamount.calculus.definedness import Definedness
from tantamount.calculus.evaluate import Evaluator
from tantamount.calculus.forms import Form
from tantamount.calculus.infinities import unbounded
from tantamount.calculus.kinds import FAILS, KINDS, MASKED, NAN, SOFT
from tantamount.calculus.symbolic import Trace
from tantamount.errors import TantamountError
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup

__all__ = ["IS", "Opaque", "Program", "RecordEvaluator", "draw", "untrue"]

SHAPE = (3, 4)
_MODERATE = 1e4  # what a value must be below, and its reciprocal: nothing overflows or is rounded away
_ROW = ([1], True)

_UNARY: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("reciprocal", ()), ("neg", ()), ("exp", ()), ("log", ()), ("sqrt", ()), ("rsqrt", ()), ("tanh", ()), ("abs", ()),
    ("sign", ()), ("relu", ()), ("sigmoid", ()), ("floor", ()), ("atan", ()), ("square", ()), ("isnan", ()),
    ("pow.Tensor_Scalar", (-1,)), ("pow.Tensor_Scalar", (-2,)), ("pow.Tensor_Scalar", (0,)), ("round", ()),
    ("mul.Tensor", (0,)), ("mul.Tensor", (-2,)), ("add.Tensor", (1,)), ("sub.Tensor", (1,)), ("clamp_min", (0.5,)),
    ("sum.dim_IntList", _ROW), ("amax", _ROW), ("mean.dim", _ROW), ("_softmax", (1, False)), ("logsumexp", _ROW),
    ("eq.Scalar", (0,)), ("gt.Scalar", (0,)), ("asinh", ()), ("log1p", ()), ("_log_softmax", (1, False)),
)  # fmt: skip
_BINARY = ("mul.Tensor", "add.Tensor", "sub.Tensor", "div.Tensor", "maximum", "minimum", "xlogy.Tensor")
_TERNARY = ("where.self", "masked_fill.Scalar")


@dataclass(frozen=True)
class Node:
    """A call of an operator on earlier values (by number: the inputs x, y and m come first)."""

    target: str
    operands: tuple[int, ...]
    rest: tuple[Any, ...] = ()


Program = tuple[Node, ...]


def draw(seed: int) -> Program:
    """A program of three to seven calls; every call but the first uses the last value."""
    random = Random(seed)
    nodes: list[Node] = []
    last = random.choice((0, 1))
    for _ in range(random.randint(3, 7)):
        other = random.choice([0, 1, *range(3, 3 + len(nodes))])
        pick = random.random()
        if pick < 0.6:
            name, rest = random.choice(_UNARY)
            nodes.append(Node(name, (last,), rest))
        elif pick < 0.85:
            operands = random.choice(((last, other), (other, last), (last, last)))
            nodes.append(Node(random.choice(_BINARY), operands))
        elif random.choice(_TERNARY) == "where.self":
            nodes.append(Node("where.self", random.choice(((2, last, other), (2, other, last)))))
        else:
            nodes.append(Node("masked_fill.Scalar", (last, 2), (float("-inf"),)))
        last = 2 + len(nodes)
    return tuple(nodes)


def _target(node: Node) -> str:
    name, _, overload = node.target.partition(".")
    return f"aten.{name}.{overload or 'default'}"


def inputs(seed: int) -> dict[str, NDArray[Any]]:
    """x and y with many zeros, m with whole rows."""
    random = Random(seed)
    values = (0.0, 0.0, 1.0, 2.0, 0.5, 0.25) if seed % 2 else (0.0, 0.0, 1.0, -1.0, 2.0, -0.5)
    x, y = ([[random.choice(values) for _ in range(SHAPE[1])] for _ in range(SHAPE[0])] for _ in range(2))
    m = [random.choice(([True] * 4, [False] * 4, [True, False, False, True])) for _ in range(SHAPE[0])]
    return {"x": np.array(x), "y": np.array(y), "m": np.array(m)}


def _executed(program: Program, given: dict[str, NDArray[Any]]) -> tuple[Any, Any]:
    """The last value, and where all values that may have gone into a row are moderate."""
    values: list[Any] = [torch.from_numpy(given[name]) for name in ("x", "y", "m")]
    moderate = torch.ones(SHAPE[0], 1, dtype=torch.bool)
    for node in program:
        _, name, overload = _target(node).split(".")
        operands = [
            v.double() if v.dtype is torch.bool and k != 2 else v
            for k, v in ((k, values[k].broadcast_to(SHAPE)) for k in node.operands)
        ]
        value = getattr(getattr(torch.ops.aten, name), overload)(*operands, *node.rest)
        size = value.double().abs()
        fine = ~size.isfinite() | (size == 0) | ((size < _MODERATE) & (size > 1 / _MODERATE))
        moderate &= fine.reshape(SHAPE[0], -1).all(1, keepdim=True)
        values.append(value)
    return values[-1], moderate


def _interpreted(program: Program) -> tuple[Calculus, Form] | None:
    store = Calculus()
    meaning = Definedness(store, Trace(assume_indices=True))
    b = Builder(meaning)
    values: list[Tensor] = []
    for name, dtype in (("x", DType.FLOAT32), ("y", DType.FLOAT32), ("m", DType.BOOL)):
        values.append(Tensor(SHAPE, dtype, meaning.fresh("input", name, SHAPE, dtype)))
    try:
        for node in program:
            operands = [
                b.cast(v, DType.FLOAT32) if v.dtype is DType.BOOL and k != 2 else v
                for k, v in ((k, b.expand(values[k], SHAPE)) for k in node.operands)
            ]
            target = _target(node)
            values.append(apply(lookup(target, "test"), target, (*operands, *node.rest), {}, b, "test"))
    except TantamountError:
        return None
    return store, values[-1].value


class Opaque(Exception):
    pass


class RecordEvaluator(Evaluator):
    """Evaluates what occurs in records only."""

    def _compute(self, atom: Atom, points: NDArray[np.int64]) -> NDArray[np.float64]:
        if atom.op == "undefined":
            raise Opaque
        if atom.op == "not":
            return self.polynomial(atom.arguments[0], dict(enumerate(points)))
        return super()._compute(atom, points)


IS: dict[str, Callable[[Any], Any]] = {
    "nan": np.isnan, "+inf": np.isposinf, "-inf": np.isneginf, "0": lambda v: v == 0, MASKED: np.isneginf,
    FAILS: lambda v: np.zeros(v.shape, dtype=bool), SOFT: lambda v: np.ones(v.shape, dtype=bool),
}  # fmt: skip


def untrue(program: Program, draws: int = 4) -> str:
    """What the record of a program says that is not true of its values; ``""`` if all is true."""
    found = _interpreted(program)
    if found is None:
        return ""
    store, form = found
    for seed in range(draws):
        given = inputs(seed)
        value, moderate = _executed(program, given)
        value, moderate = value.double().numpy(), np.broadcast_to(moderate.numpy(), value.shape)
        said = np.isinf(value) & any(unbounded(store, x) for _, x in form.pieces)  # by the form itself
        never = np.zeros(value.shape, dtype=bool)  # a number, as another term says
        for kind in KINDS:  # NAN comes first
            if form.undefined is None:
                break
            leaves: dict[Any, Any] = {("undefined", k): np.array(float(k == kind)) for k in KINDS}
            leaves["undefined", "somewhere"] = np.array(1.0)
            leaves |= {(name, ()): array for name, array in given.items()}
            try:
                holds = RecordEvaluator(store, leaves).form(form.undefined)
            except Opaque:
                return ""
            if np.isnan(holds).any():
                return ""
            true = np.zeros(value.shape, dtype=bool)
            for part in kind.split("|"):
                true |= IS[part](value)
            never |= (holds != 0) & (kind == NAN)
            true |= never & np.isnan(value)
            if ((holds != 0) & ~true & moderate).any():
                return f"{kind} at {np.argwhere((holds != 0) & ~true & moderate)[0]} of draw {seed}"
            said |= holds != 0
        if (~said & moderate & ~np.isfinite(value)).any():
            return f"nothing of {value[~said & moderate & ~np.isfinite(value)][0]} in draw {seed}"
    return ""
