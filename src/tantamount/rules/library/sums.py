"""Rules of reductions."""

from __future__ import annotations

from tantamount.rules.library.words import (
    ORDERS,
    SUM,
    a,
    add,
    b,
    cat,
    example,
    mm,
    mul,
    neg,
    permute,
    reshape,
    slice_,
    sub,
    x,
    y,
)
from tantamount.rules.rule import Match, rule
from tantamount.rules.terms import Attribute, Part, Term, term

__all__: list[str] = []

_KEEP = Attribute("keep")


def _sum(p: Part, dims: tuple[int, ...], keep: bool) -> Term:
    return term(SUM, p, dims, keep)


_PATTERN = term(SUM, x, a, _KEEP)
_CASES = [
    example({"a": (0,), "keep": False}, x="M N"),
    example({"a": (1,), "keep": True}, x="M N"),
    example({"a": (0, 2), "keep": False}, x="M N K"),
    example({"a": (0, 1), "keep": True}, x="M N"),
]


@rule("sum-one-by-one", _PATTERN, "sum over i, j = sum over i of sum over j", _CASES[2:])
def _(m: Match) -> Part | None:
    if len(m.a) != 2 or not (m.x.type.dtype.is_float or m.x.type.dtype.label == "int64"):
        return None
    low, high = sorted(k % m.x.rank for k in m.a)
    return _sum(_sum(m.x, (high,), m.keep), (low,), m.keep)


@rule(
    "sum-turned",
    _PATTERN,
    "sum of x = sum of permute(x)",
    [*_CASES[:3], example({"a": (1,), "keep": False}, x="M N K", seed=4)],
    share=0.5,
)
def _(m: Match) -> Part | None:
    if m.keep or m.x.rank < 2 or len(m.a) != 1:
        return _keep(m)
    k = m.a[0] % m.x.rank
    order = (k, *(j for j in range(m.x.rank) if j != k))
    return _sum(permute(m.x, order), (0,), False)


def _keep(m: Match) -> Part | None:
    """The dimensions put back by a reshape, or the other way round."""
    dims = {k % m.x.rank for k in m.a}
    if m.keep:
        shape = tuple(1 if k in dims else size for k, size in enumerate(m.x.shape))
        return reshape(_sum(m.x, m.a, False), shape)
    shape = tuple(size for k, size in enumerate(m.x.shape) if k not in dims)
    return reshape(_sum(m.x, m.a, True), shape)


@rule(
    "sum-in-blocks",
    _PATTERN,
    "sum of x = sum of x[:n] + sum of x[n:]",
    [example({"a": (0,), "keep": False}, x="6 N"), example({"a": (1,), "keep": True}, x="M 5", seed=1)],
    share=0.6,
)
def _(m: Match) -> Part | None:
    if len(m.a) != 1:
        return None
    k = m.a[0] % m.x.rank
    size = m.x.shape[k]
    if not isinstance(size, int) or size < 2:
        return None
    cut = m.random.randrange(1, size)
    return add(_sum(slice_(m.x, k, 0, cut), m.a, m.keep), _sum(slice_(m.x, k, cut, size), m.a, m.keep))


@rule(
    "sum-of-sum",
    term(SUM, add(x, y), a, _KEEP),
    "sum(x + y) = sum(x) + sum(y)",
    [example({"a": (0,), "keep": False}, x="M N", y="M N"), example({"a": (0, 1), "keep": True}, x="M N", y="M N")],
)
def _(m: Match) -> Part | None:
    if m.x.shape != m.y.shape or not _own(m):
        return None
    return add(_sum(m.x, m.a, m.keep), _sum(m.y, m.a, m.keep))


@rule(
    "sum-of-difference",
    term(SUM, sub(x, y), a, _KEEP),
    "sum(x - y) = sum(x) - sum(y)",
    [example({"a": (0,), "keep": False}, x="M N", y="M N")],
)
def _(m: Match) -> Part | None:
    return sub(_sum(m.x, m.a, m.keep), _sum(m.y, m.a, m.keep)) if m.x.shape == m.y.shape and _own(m) else None


@rule("sum-scaled", term(SUM, mul(x, 2), a, _KEEP), "sum(2 x) = 2 sum(x)", _CASES)
def _(m: Match) -> Part | None:
    return mul(_sum(m.x, m.a, m.keep), 2) if _own(m) else None


def _own(m: Match) -> bool:
    """True if sums are of the type of their operands: narrow integers would wrap around before the sum on one side."""
    return m.x.type.dtype.is_float or m.x.type.dtype.label == "int64"


@rule(
    "sum-of-product-as-mm",
    term(SUM, mul(x, y), (1,), False),
    "sum over k of x[i, k] y[k] = x y",
    [example(x="M K", y="K")],
    kinds="f",
)
def _(m: Match) -> Part | None:
    if m.x.rank != 2 or m.y.rank != 1 or m.y.shape[0] != m.x.shape[1]:
        return None
    return reshape(mm(m.x, reshape(m.y, (*m.y.shape, 1))), (m.x.shape[0],))


@rule(
    "mean-as-sum",
    term("aten.mean.dim", x, a, _KEEP),
    "mean(x) = sum(x) / n",
    [example({"a": (0,), "keep": False}, x="4 N"), example({"a": (1,), "keep": True}, x="M 8")],
    kinds="f",
)
def _(m: Match) -> Part | None:
    count = 1
    for k in m.a:
        count *= m.x.shape[k]
    if not isinstance(count, int) or count & (count - 1) or count == 0:
        return None
    return mul(_sum(m.x, m.a, m.keep), 1 / count)


for _name in ("amax", "amin"):
    _op = f"aten.{_name}.default"
    _pair = "aten.maximum.default" if _name == "amax" else "aten.minimum.default"

    @rule(
        f"{_name}-in-blocks",
        term(_op, x, a, _KEEP),
        f"{_name}(x) = the {_name[1:]}imum of {_name}(x[:n]) and {_name}(x[n:])",
        [example({"a": (0,), "keep": False}, x="6 N"), example({"a": (1,), "keep": True}, x="M 5", seed=1)],
        share=0.6,
    )
    def _blocks(m: Match, op: str = _op, pair: str = _pair) -> Part | None:
        k = m.a[0] % m.x.rank
        size = m.x.shape[k]
        if len(m.a) != 1 or not isinstance(size, int) or size < 2:
            return None
        cut = m.random.randrange(1, size)
        first = term(op, slice_(m.x, k, 0, cut), m.a, m.keep)
        return term(pair, first, term(op, slice_(m.x, k, cut, size), m.a, m.keep))

    @rule(
        f"{_name}-one-by-one",
        term(_op, x, a, _KEEP),
        f"{_name} over i, j = {_name} over i of {_name} over j",
        [example({"a": (0, 2), "keep": False}, x="M N K"), example({"a": (0, 1), "keep": True}, x="M N")],
    )
    def _nested(m: Match, op: str = _op) -> Part | None:
        if len(m.a) != 2:
            return None
        low, high = sorted(k % m.x.rank for k in m.a)
        return term(op, term(op, m.x, (high,), m.keep), (low,), m.keep)

    @rule(
        f"{_name}-turned",
        term(_op, permute(x, b), a, _KEEP),
        f"{_name}(permute(x, p), k) = permute({_name}(x, p[k]))",
        [example({"a": (0,), "b": order, "keep": True}, x="M N K") for order in ORDERS[1:4]],
    )
    def _turned(m: Match, op: str = _op) -> Part | None:
        if not m.keep:
            return None
        return permute(term(op, m.x, tuple(m.b[k] for k in m.a), True), m.b)


_REVERSED = [example({"a": (1,), "keep": False}, x="M N"), example({"a": (0, 1), "keep": True}, x="M N K")]
for _name in ("sum", "amax", "amin"):
    _op = SUM if _name == "sum" else f"aten.{_name}.default"

    @rule(
        f"{_name}-backwards",
        term(_op, x, a, _KEEP),
        f"{_name}(x) = {_name}(flip(x))",
        _REVERSED,
        share=0.4,
    )
    def _backwards(m: Match, op: str = _op) -> Part | None:
        return term(op, term("aten.flip.default", m.x, m.a), m.a, m.keep) if m.a else None


@rule(
    "amin-as-amax",
    term("aten.amin.default", x, a, _KEEP),
    "amin(x) = -amax(-x)",
    [example({"a": (1,), "keep": False}, x="M N"), example({"a": (0, 1), "keep": True}, x="M N")],
    kinds="f",
)
def _(m: Match) -> Part:
    return neg(term("aten.amax.default", neg(m.x), m.a, m.keep))


@rule(
    "cumsum-in-blocks",
    term("aten.cumsum.default", x, a),
    "cumsum(x) = cat(cumsum(x[:n]), cumsum(x[n:]) + sum(x[:n]))",
    [example({"a": 0}, x="6 N"), example({"a": 1}, x="M 5", seed=1)],
    share=0.6,
)
def _(m: Match) -> Part | None:
    k = m.a % m.x.rank if m.x.rank else 0
    size = m.x.shape[k] if m.x.rank else 0
    if not isinstance(size, int) or size < 2:
        return None
    cut = m.random.randrange(1, size)
    first, second = slice_(m.x, k, 0, cut), slice_(m.x, k, cut, size)
    running = [term("aten.cumsum.default", part, k) for part in (first, second)]
    return cat((running[0], add(running[1], _sum(first, (k,), True))), k)


@rule(
    "mean-one-by-one",
    term("aten.mean.dim", x, a, _KEEP),
    "mean over i, j = mean over i of mean over j",
    [example({"a": (0, 1), "keep": True}, x="M N"), example({"a": (0, 2), "keep": False}, x="M N K")],
    kinds="f",
)
def _(m: Match) -> Part | None:
    if len(m.a) != 2:
        return None
    low, high = sorted(k % m.x.rank for k in m.a)
    return term("aten.mean.dim", term("aten.mean.dim", m.x, (high,), m.keep), (low,), m.keep)
