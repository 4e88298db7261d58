"""Rules of addition and multiplication."""

from __future__ import annotations

from tantamount.ir.types import DType
from tantamount.rules.library.words import (
    BROADCASTS,
    PAIR,
    PAPER,
    PLAIN,
    TRIPLES,
    a,
    add,
    example,
    mul,
    neg,
    sub,
    x,
    y,
    z,
)
from tantamount.rules.rule import Match, rule
from tantamount.rules.terms import Leaf, Part, Term, term

__all__: list[str] = []


@rule("add-commutes", add(x, y), "x + y = y + x", BROADCASTS, origin=PAPER, share=0.6)
def _(m: Match) -> Part:
    return add(m.y, m.x)


@rule("mul-commutes", mul(x, y), "x y = y x", BROADCASTS, origin=PAPER, share=0.6)
def _(m: Match) -> Part:
    return mul(m.y, m.x)


@rule("add-associates", add(add(x, y), z), "(x + y) + z = x + (y + z)", TRIPLES, origin=PAPER)
def _(m: Match) -> Part:
    return add(m.x, add(m.y, m.z))


@rule("mul-associates", mul(mul(x, y), z), "(x y) z = x (y z)", TRIPLES, origin=PAPER)
def _(m: Match) -> Part:
    return mul(m.x, mul(m.y, m.z))


@rule("mul-distributes", mul(x, add(y, z)), "x (y + z) = x y + x z", TRIPLES, origin=PAPER)
def _(m: Match) -> Part:
    return add(mul(m.x, m.y), mul(m.x, m.z))


@rule("mul-distributes-over-sub", mul(x, sub(y, z)), "x (y - z) = x y - x z", TRIPLES)
def _(m: Match) -> Part:
    return sub(mul(m.x, m.y), mul(m.x, m.z))


@rule("mul-factors-out", add(mul(x, y), mul(x, z)), "x y + x z = x (y + z)", TRIPLES, origin=PAPER)
def _(m: Match) -> Part:
    return mul(m.x, add(m.y, m.z))


@rule("sub-as-add", sub(x, y), "x - y = x + (-y)", BROADCASTS, share=0.7)
def _(m: Match) -> Part | None:
    return add(m.x, neg(m.y)) if _numbers(m.x, m.y) else None


@rule("add-as-sub", add(x, neg(y)), "x + (-y) = x - y", BROADCASTS)
def _(m: Match) -> Part:
    return sub(m.x, m.y)


@rule("sub-turned-round", sub(x, y), "x - y = -(y - x)", BROADCASTS, share=0.4)
def _(m: Match) -> Part:
    return neg(sub(m.y, m.x))


@rule("sub-of-sub", sub(x, sub(y, z)), "x - (y - z) = (x - y) + z", TRIPLES)
def _(m: Match) -> Part:
    return add(sub(m.x, m.y), m.z)


@rule("neg-twice", neg(neg(x)), "-(-x) = x", PLAIN)
def _(m: Match) -> Part:
    return m.x


@rule("neg-as-mul", neg(x), "-x = x (-1)", PLAIN, share=0.5)
def _(m: Match) -> Part | None:
    return mul(m.x, -1) if m.x.type.dtype is not DType.UINT8 else None


@rule("neg-into-mul", neg(mul(x, y)), "-(x y) = (-x) y", BROADCASTS)
def _(m: Match) -> Part:
    return mul(neg(m.x), m.y)


@rule("neg-of-sub", neg(sub(x, y)), "-(x - y) = y - x", BROADCASTS)
def _(m: Match) -> Part:
    return sub(m.y, m.x)


@rule("double", add(x, x), "x + x = 2 x", PLAIN)
def _(m: Match) -> Part:
    return mul(m.x, 2)


@rule("double-as-add", mul(x, 2), "2 x = x + x", PLAIN)
def _(m: Match) -> Part:
    return add(m.x, m.x)


@rule("one-is-neutral", x, "x = x 1", PLAIN, share=0.05)
def _(m: Match) -> Part:
    return mul(m.x, 1)


@rule("zero-is-neutral", x, "x = x + 0", PLAIN, share=0.05)
def _(m: Match) -> Part:
    return add(m.x, 0)


@rule("add-and-take-away", x, "x = (x + x) - x", PLAIN, share=0.03)
def _(m: Match) -> Part:
    return sub(add(m.x, m.x), m.x)


@rule("square-of-sum", mul(add(x, y), sub(x, y)), "(x + y)(x - y) = x x - y y", PAIR)
def _(m: Match) -> Part:
    return sub(mul(m.x, m.x), mul(m.y, m.y))


@rule(
    "quotient-as-product",
    term("aten.div.Tensor", x, a),
    "x / a = x (1 / a)",
    [example({"a": 2}, x="M N"), example({"a": 8}, x="M"), example({"a": 0.5}, x="M")],
    kinds="f",
)
def _(m: Match) -> Part | None:
    return mul(m.x, 1 / m.a) if isinstance(m.a, (int, float)) and m.a in (2, 4, 8, 0.5) else None


_WIDER = {
    DType.FLOAT16: DType.FLOAT32,
    DType.BFLOAT16: DType.FLOAT32,
    DType.FLOAT32: DType.FLOAT64,
    DType.INT8: DType.INT32,
    DType.UINT8: DType.INT32,
    DType.INT16: DType.INT32,
    DType.INT32: DType.INT64,
}


def _to(part: Leaf | Term, dtype: DType) -> Term:
    return term("aten._to_copy.default", part, dtype=dtype)


@rule(
    "up-and-down",
    x,
    "x = narrow(widen(x))",
    [example(x="M N", dtype=name) for name in ("float16", "bfloat16", "float32", "int8", "int32")],
    share=0.04,
    integers="a wider type holds all numbers of a narrower one",
)
def _(m: Match) -> Part | None:
    wider = _WIDER.get(m.x.type.dtype)
    return None if wider is None else _to(_to(m.x, wider), m.x.type.dtype)


@rule(
    "add-in-wider-type",
    add(x, y),
    "x + y = narrow(widen(x) + widen(y))",
    [example(x="M N", y="N", dtype=name) for name in ("float32", "int32")],
    share=0.08,
    integers="narrowing is a homomorphism of rings, and the sum of two fits the wider type",
)
def _(m: Match) -> Part | None:
    dtype = m.x.type.dtype
    wider = _WIDER.get(dtype)
    if wider is None or not isinstance(m.y, Leaf) or m.y.type.dtype is not dtype:
        return None
    return _to(add(_to(m.x, wider), _to(m.y, wider)), dtype)


def _numbers(*leaves: object) -> bool:
    return all(isinstance(leaf, Leaf) for leaf in leaves)


@rule("zero-annihilates", mul(x, 0), "x 0 = x - x", PLAIN)
def _(m: Match) -> Part:
    return sub(m.x, m.x)


@rule("nothing-left", sub(x, x), "x - x = x 0", PLAIN)
def _(m: Match) -> Part:
    return mul(m.x, 0)


@rule("nothing-added", x, "x = x + x 0", PLAIN, share=0.03)
def _(m: Match) -> Part:
    return add(m.x, mul(m.x, 0))


@rule(
    "remainder-as-rest",
    term("aten.remainder.Tensor", x, y),
    "x mod y = x - floor(x / y) y",
    [example(x="M N", y="M N", dtype="int64"), example(x="M N", y="N", dtype="int32")],
    kinds="i",
    integers="both sides are whole, and floor(x / y) y and the difference are exact or wrap around as rings do",
)
def _(m: Match) -> Part:
    return sub(m.x, mul(term("aten.floor_divide.default", m.x, m.y), m.y))
