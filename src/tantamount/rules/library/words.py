"""Words that rules are written with: short names of operators, holes, examples."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from tantamount.ir.types import Kind
from tantamount.rules.rule import Example, Match
from tantamount.rules.terms import Attribute, Leaf, Term, Variable, term

__all__ = [
    "ADD", "BROADCASTS", "CAT", "MUL", "ORDERS", "PAIR", "PAPER", "PERMUTE", "PLAIN", "RESHAPE", "SLICE", "SPLIT",
    "SUM",
    "TRIPLES", "W", "a", "add", "b", "cat", "example", "floats", "inverse", "mm", "mul", "neg", "permute", "reshape",
    "sizes_known", "slice_", "sub", "x", "y", "z",
]  # fmt: skip

x, y, z, W = Variable("x"), Variable("y"), Variable("z"), Variable("w")
a, b = Attribute("a"), Attribute("b")
PAPER = "PolyJuice, Table 1"

ADD, MUL, SUB, NEG = "aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor", "aten.neg.default"
PERMUTE, RESHAPE, SLICE = "aten.permute.default", "aten.reshape.default", "aten.slice.Tensor"
CAT, SPLIT, SUM = "aten.cat.default", "aten.split_with_sizes.default", "aten.sum.dim_IntList"


def add(p: Any, q: Any) -> Term:
    """``p + q``."""
    return term(ADD, p, q)


def sub(p: Any, q: Any) -> Term:
    """``p - q``."""
    return term(SUB, p, q)


def mul(p: Any, q: Any) -> Term:
    """``p * q``."""
    return term(MUL, p, q)


def neg(p: Any) -> Term:
    """``-p``."""
    return term(NEG, p)


def mm(p: Any, q: Any) -> Term:
    """The product of two matrices."""
    return term("aten.mm.default", p, q)


def permute(p: Any, order: Any) -> Term:
    """Dimensions in another order."""
    return term(PERMUTE, p, order)


def reshape(p: Any, shape: Any) -> Term:
    """The same elements in another shape."""
    return term(RESHAPE, p, shape)


def slice_(p: Any, dim: Any, start: Any, stop: Any) -> Term:
    """A part along one dimension."""
    return term(SLICE, p, dim, start, stop, 1)


def cat(parts: tuple[Any, ...], dim: Any) -> Term:
    """Parts one after the other."""
    return term(CAT, parts, dim)


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """The order that undoes an order."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def example(attributes: dict[str, Any] | None = None, dtype: str = "float32", seed: int = 0, **shapes: str) -> Example:
    """An example: shapes by variable, attributes by hole."""
    return Example(shapes, attributes or {}, dtype, {}, seed)


PLAIN = (example(x=""), example(x="M"), example(x="M N"), example(x="M N K"))
PAIR = (example(x="M N", y="M N"), example(x="M", y="M"))
BROADCASTS = (
    *PAIR,
    example(x="M N", y="N"),
    example(x="M 1", y="1 N"),
    example(x="N", y="B M N"),
    example(x="", y="M"),
)
TRIPLES = (
    example(x="M N", y="M N", z="M N"), example(x="M N", y="N", z="M 1"), example(x="N", y="B M N", z=""),
    example(x="M N", y="M N", z="N"), example(x="1", y="M N", z="M N"),
)  # fmt: skip
ORDERS = tuple(permutations(range(3)))


def floats(match: Match) -> bool:
    """True if all tensors of a match are floats."""
    return all(leaf.type.dtype.is_float for leaf in match.tensors.values())


def sizes_known(leaf: Leaf) -> bool:
    """True if no dimension of a tensor is empty."""
    return all(size > 0 for size in leaf.shape)


def kind(leaf: Leaf) -> Kind:
    """The kind of a tensor's elements."""
    return leaf.type.dtype.kind
