"""Random expressions of integers of 8, 16 and 64 bits: as eager PyTorch has them, as the reference interpreter does,
and their normal forms."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import torch

from support.calculus import Workbench
from tantamount.errors import Unsupported, UserError
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup
from tantamount.semantics.reference import IntegerOverflow, Reference

__all__ = ["Figures", "fuzz"]

Tree = tuple[Any, ...]  # (operator, operands, attributes), or (leaf name,)
SHAPE = (16, 4)
TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.INT64)
_BINARY = ("add.Tensor", "sub.Tensor", "mul.Tensor", "minimum.default", "maximum.default")
_BITS = ("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor")
_UNARY = ("neg.default", "abs.default", "bitwise_not.default")


@dataclass
class Figures:
    """``proved`` of ``pairs`` of different programs had equal forms; ``equal``: are equal on all inputs tried;
    ``wrong``: what must not be."""

    pairs: int = 0
    proved: int = 0
    equal: int = 0
    skipped: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])


class _Program:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.leaves = {name: random.choice(TYPES) for name in "xy"}

    def tree(self, depth: int) -> Tree:
        r = self.random
        if depth == 0:
            return (r.choice("xy"),)
        choice = r.random()
        if choice < 0.35:
            return (r.choice(_BINARY), (self.tree(depth - 1), self.tree(r.randrange(depth))), ())
        if choice < 0.6:
            return self.cast(self.tree(depth - 1))
        if choice < 0.67:
            return (r.choice(_UNARY), (self.tree(depth - 1),), ())
        if choice < 0.77:
            name, numbers = r.choice([
                ("add.Scalar", (1, -1, 100, 127)), ("mul.Scalar", (2, 3, 16)), ("sub.Scalar", (1, 3, 128)),
            ])  # fmt: skip
            return (name, (self.tree(depth - 1),), (r.choice(numbers),))
        if choice < 0.87:
            name, numbers = r.choice([
                ("floor_divide.Scalar", (2, 3, 7)), ("remainder.Scalar", (2, 5, 16)), ("clamp.default", (0, 5)),
                ("bitwise_left_shift.Tensor_Scalar", (1, 4, 8)), ("bitwise_right_shift.Tensor_Scalar", (1, 4, 7)),
            ])  # fmt: skip
            return (name, (self.tree(depth - 1),), (r.choice(numbers),))
        if choice < 0.91:
            return (r.choice(_BITS), (self.tree(depth - 1), self.tree(depth - 1)), ())
        if choice < 0.95:
            return ("sum.dim_IntList", (self.tree(depth - 1),), (r.choice((None, *TYPES)),))
        return ("lt.Tensor", (self.tree(depth - 1), self.tree(depth - 1)), ())

    def cast(self, tree: Tree) -> Tree:
        return ("_to_copy.default", (tree,), (self.random.choice(TYPES),))

    def changed(self, tree: Tree) -> Tree:
        """Another tree: a cast put in, left out or moved, a product or a sum taken apart, operands exchanged."""
        r = self.random
        if len(tree) == 1 or r.random() < 0.4:
            return self._here(tree)
        op, operands, attributes = tree
        k = r.randrange(len(operands))
        return (op, (*operands[:k], self.changed(operands[k]), *operands[k + 1 :]), attributes)

    def _here(self, tree: Tree) -> Tree:
        r = self.random
        if len(tree) == 1:
            return self.cast(tree)
        op, operands, attributes = tree
        choices = [self.cast(tree), self.cast(self.cast(tree))]
        if op == "_to_copy.default":
            choices += [operands[0], self.cast(operands[0])]
            inner = operands[0]
            if len(inner) == 3 and inner[0] != "_to_copy.default":
                choices += [(inner[0], tuple((op, (x,), attributes) for x in inner[1]), inner[2])] * 3
        if op in (*_BINARY, *_BITS):
            choices += [(op, operands[::-1], ()), (op, tuple(self.cast(x) for x in operands), ())]
        if op == "mul.Tensor" and len(operands[1]) == 3 and operands[1][0] in ("add.Tensor", "sub.Tensor"):
            a, (inner_op, (b, c), _) = operands
            choices += [(inner_op, ((op, (a, b), ()), (op, (a, c), ())), ())] * 3
        if op == "sub.Tensor":
            choices += [("add.Tensor", (operands[0], ("neg.default", (operands[1],), ())), ())]
        if op in ("neg.default", "bitwise_not.default"):
            choices += [("mul.Scalar", (operands[0],), (-1,))]
        return r.choice(choices)


def _call(op: str, attributes: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional attributes and keywords."""
    if op == "_to_copy.default":
        return (), {"dtype": attributes[0]}
    if op == "sum.dim_IntList":
        return ((-1,), True), {"dtype": attributes[0]}
    return attributes, {}


def _eager(tree: Tree, leaves: dict[str, torch.Tensor]) -> torch.Tensor:
    if len(tree) == 1:
        return leaves[tree[0]]
    op, operands, attributes = tree
    args, kwargs = _call(op, attributes)
    named = {key: getattr(torch, value.label) for key, value in kwargs.items() if value is not None}
    name, overload = op.split(".")
    function = getattr(getattr(torch.ops.aten, name), overload)
    found = function(*[_eager(x, leaves) for x in operands], *args, **named)
    return found.expand(SHAPE) if op.startswith("sum") else found


def _ours(tree: Tree, leaves: dict[str, Tensor], b: Builder) -> Tensor:
    if len(tree) == 1:
        return leaves[tree[0]]
    op, operands, attributes = tree
    args, kwargs = _call(op, attributes)
    found = apply(
        lookup(f"aten.{op}", "fuzz"),
        f"aten.{op}",
        (*[_ours(x, leaves, b) for x in operands], *args),
        {key: value for key, value in kwargs.items() if value is not None},
        b,
        "fuzz",
    )
    assert isinstance(found, Tensor)
    return b.expand(found, SHAPE) if op.startswith("sum") else found


def _drawn(dtype: DType, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    low, high = dtype.bounds if dtype.is_narrow else (-(1 << 17), 1 << 17)
    edges = [x for k in (7, 8, 15, 16) for e in (-1, 0, 1) for x in (-(1 << k) + e, (1 << k) + e)]
    ends = generator.choice([x for x in (*edges, low, high, -1, 0, 1, 2, 3) if low <= x <= high], SHAPE)
    return np.where(generator.random(SHAPE) < 0.6, ends, generator.integers(low, high + 1, SHAPE))


def _values(tree: Tree, data: dict[str, Any], types: dict[str, DType]) -> np.ndarray[Any, Any]:
    """What eager gives, which the reference interpreter must give, too."""
    eager = _eager(tree, {name: torch.tensor(x, dtype=getattr(torch, types[name].label)) for name, x in data.items()})
    reference = Reference()
    own = {name: Tensor(SHAPE, types[name], x.astype(np.int64)) for name, x in data.items()}
    found = _ours(tree, own, Builder(reference))
    theirs = eager.numpy()
    if f"torch.{found.dtype.label}" != str(eager.dtype) or not np.array_equal(np.asarray(found.value), theirs):
        raise ValueError(f"the reference interpreter has {np.asarray(found.value).tolist()}, eager {theirs.tolist()}")
    return theirs


def fuzz(pairs: int, seed: int, depth: int = 3) -> Figures:
    """Pairs of programs of which the second is the first with one change, or two."""
    out = Figures()
    for number in range(pairs):
        random = Random(f"{seed} {number}")
        program = _Program(random)
        first = program.tree(depth)
        second = program.changed(first)
        if random.random() < 0.3:
            second = program.changed(second)
        if first == second:
            out.skipped["the same"] += 1
            continue
        try:
            _pair(program.leaves, first, second, number, out)
        except (Unsupported, UserError, ShapeProblem, IntegerOverflow, RuntimeError) as problem:
            out.skipped[type(problem).__name__] += 1
        except ValueError as problem:
            out.wrong.append(f"{seed} {number}: {program.leaves} {first} / {second}: {problem}")
    return out


def _pair(types: dict[str, DType], first: Tree, second: Tree, number: int, out: Figures) -> None:
    equal = True
    for draw in range(3):
        generator = np.random.default_rng((number, draw))
        data = {name: _drawn(dtype, generator) for name, dtype in types.items()}
        a, b = (_values(tree, data, types) for tree in (first, second))
        equal = equal and a.dtype == b.dtype and np.array_equal(a, b)
    w = Workbench()
    leaves = {name: w.input(name, *SHAPE, dtype=dtype) for name, dtype in types.items()}
    one, other = (_ours(tree, leaves, w.b) for tree in (first, second))
    proved = one.dtype is other.dtype and w.equivalent(one, other)
    out.pairs += 1
    out.equal += equal
    out.proved += proved
    if proved and not equal:
        out.wrong.append(f"PROVED and different: {types} {first} / {second}")
    value = w.value(one, data)
    if not np.array_equal(np.asarray(value, dtype=np.float64), _values(first, data, types).astype(np.float64)):
        out.wrong.append(f"the form of {types} {first} evaluates to something else")
