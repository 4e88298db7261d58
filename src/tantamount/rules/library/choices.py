"""Rules of maxima, comparisons, choices and logic."""

from __future__ import annotations

from tantamount.ir.types import DType
from tantamount.rules.library.words import BROADCASTS, PAIR, PLAIN, TRIPLES, W, a, example, neg, x, y, z
from tantamount.rules.rule import Example, Match, rule
from tantamount.rules.terms import Part, Term, term

__all__: list[str] = []

_MAX, _MIN = "aten.maximum.default", "aten.minimum.default"


def _max(p: object, q: object) -> Term:
    return term(_MAX, p, q)


def _min(p: object, q: object) -> Term:
    return term(_MIN, p, q)


for _name, _op in (("max", _MAX), ("min", _MIN)):

    @rule(f"{_name}-commutes", term(_op, x, y), f"{_name}(x, y) = {_name}(y, x)", BROADCASTS)
    def _commutes(m: Match, op: str = _op) -> Part:
        return term(op, m.y, m.x)

    @rule(
        f"{_name}-associates",
        term(_op, term(_op, x, y), z),
        f"{_name}({_name}(x, y), z) = {_name}(x, {_name}(y, z))",
        TRIPLES,
    )
    def _associates(m: Match, op: str = _op) -> Part:
        return term(op, m.x, term(op, m.y, m.z))

    @rule(f"{_name}-of-itself", x, f"x = {_name}(x, x)", PLAIN, share=0.03)
    def _itself(m: Match, op: str = _op) -> Part:
        return term(op, m.x, m.x)


@rule("min-as-max", _min(x, y), "min(x, y) = -max(-x, -y)", BROADCASTS, kinds="f")
def _(m: Match) -> Part:
    return neg(_max(neg(m.x), neg(m.y)))


@rule("relu-as-clamp", term("aten.relu.default", x), "relu(x) = clamp(x, 0, ∞)", PLAIN)
def _(m: Match) -> Part:
    return term("aten.clamp.default", m.x, 0, None)


@rule("relu-twice", term("aten.relu.default", x), "relu(x) = relu(relu(x))", PLAIN, share=0.5)
def _(m: Match) -> Part:
    return term("aten.relu.default", term("aten.relu.default", m.x))


@rule("abs-of-neg", term("aten.abs.default", x), "|x| = |-x|", PLAIN, kinds="f")
def _(m: Match) -> Part:
    return term("aten.abs.default", neg(m.x))


@rule(
    "clamp-as-min-of-max",
    term("aten.clamp.default", x, a, None),
    "clamp(x, a, ∞) = relu(x), where a = 0",
    [example({"a": 0}, x="M N")],
)
def _(m: Match) -> Part | None:
    return term("aten.relu.default", m.x) if type(m.a) is int and m.a == 0 else None


def _choice(*examples: tuple[str, str, str], dtype: str = "float32") -> list[Example]:
    return [Example({"w": c, "x": p, "y": q}, {}, dtype, {"w": "bool"}) for c, p, q in examples]


_WHERE = _choice(("M N", "M N", "M N"), ("M 1", "M N", "N"), ("N", "M N", ""))


@rule("where-turned-round", term("aten.where.self", W, x, y), "c ? x : y = !c ? y : x", _WHERE, kinds="fib")
def _(m: Match) -> Part:
    return term("aten.where.self", term("aten.logical_not.default", m.w), m.y, m.x)


@rule(
    "where-nested", term("aten.where.self", W, x, y), "c ? x : y = c ? (c ? x : y) : y", _WHERE, kinds="fib", share=0.3
)
def _(m: Match) -> Part:
    return term("aten.where.self", m.w, term("aten.where.self", m.w, m.x, m.y), m.y)


for _one, _other in (("lt", "gt"), ("gt", "lt"), ("le", "ge"), ("ge", "le"), ("eq", "eq"), ("ne", "ne")):

    @rule(
        f"{_one}-turned-round",
        term(f"aten.{_one}.Tensor", x, y),
        f"{_one}(x, y) = {_other}(y, x)",
        BROADCASTS,
        kinds="b",
    )
    def _turned(m: Match, op: str = f"aten.{_other}.Tensor") -> Part:
        return term(op, m.y, m.x)


for _one, _other in (("lt", "ge"), ("gt", "le"), ("eq", "ne")):

    @rule(
        f"{_one}-as-not-{_other}",
        term(f"aten.{_one}.Tensor", x, y),
        f"{_one}(x, y) = not {_other}(x, y)",
        BROADCASTS,
        kinds="b",
    )
    def _negated(m: Match, op: str = f"aten.{_other}.Tensor") -> Part:
        return term("aten.logical_not.default", term(op, m.x, m.y))


def _bools(rows: tuple[Example, ...]) -> list[Example]:
    return [Example(row.shapes, row.attributes, "bool") for row in rows]


@rule("and-as-or", term("aten.logical_and.default", x, y), "x and y = not (not x or not y)", _bools(PAIR), kinds="b")
def _(m: Match) -> Part | None:
    if any(leaf.type.dtype is not DType.BOOL for leaf in (m.x, m.y)):
        return None
    negated = [term("aten.logical_not.default", leaf) for leaf in (m.x, m.y)]
    return term("aten.logical_not.default", term("aten.logical_or.default", *negated))


@rule("not-twice", x, "x = not not x", _bools(PLAIN), kinds="b", share=0.2)
def _(m: Match) -> Part:
    return term("aten.logical_not.default", term("aten.logical_not.default", m.x))


def _where(c: object, p: object, q: object) -> Term:
    return term("aten.where.self", c, p, q)


@rule("where-of-itself", x, "x = (x < x) ? x : x", PLAIN, share=0.04)
def _(m: Match) -> Part:
    return _where(term("aten.lt.Tensor", m.x, m.x), m.x, m.x)


for _name, _op in (("add", "aten.add.Tensor"), ("mul", "aten.mul.Tensor")):

    @rule(
        f"{_name}-into-where",
        term(_op, _where(W, x, y), z),
        f"{_name}(c ? x : y, z) = c ? {_name}(x, z) : {_name}(y, z)",
        [Example({"w": "M N", "x": "M N", "y": "M N", "z": p}, {}, "float32", {"w": "bool"}) for p in ("M N", "N", "")],
    )
    def _into(m: Match, op: str = _op) -> Part:
        return _where(m.w, term(op, m.x, m.z), term(op, m.y, m.z))

    @rule(
        f"{_name}-out-of-where",
        _where(W, term(_op, x, z), term(_op, y, z)),
        f"c ? {_name}(x, z) : {_name}(y, z) = {_name}(c ? x : y, z)",
        [Example({"w": "M N", "x": "M N", "y": "M N", "z": p}, {}, "float32", {"w": "bool"}) for p in ("M N", "N")],
    )
    def _out(m: Match, op: str = _op) -> Part:
        return term(op, _where(m.w, m.x, m.y), m.z)


@rule("max-as-where", _max(x, y), "max(x, y) = x < y ? y : x", BROADCASTS, share=0.4)
def _(m: Match) -> Part:
    return _where(term("aten.lt.Tensor", m.x, m.y), m.y, m.x)


@rule("min-as-where", _min(x, y), "min(x, y) = y < x ? y : x", BROADCASTS, share=0.4)
def _(m: Match) -> Part:
    return _where(term("aten.lt.Tensor", m.y, m.x), m.y, m.x)


@rule(
    "abs-as-max",
    term("aten.abs.default", x),
    "|x| = max(x, -x)",
    PLAIN,
    integers="the least integer is its own negative and its own absolute value",
)
def _(m: Match) -> Part | None:
    return None if m.x.type.dtype is DType.UINT8 else _max(m.x, neg(m.x))


@rule("relu-as-max", term("aten.relu.default", x), "relu(x) = max(x, x 0)", PLAIN, kinds="f")
def _(m: Match) -> Part:
    return _max(m.x, term("aten.mul.Tensor", m.x, 0))
