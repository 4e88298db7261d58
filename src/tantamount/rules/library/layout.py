"""Rules of moving elements: orders of dimensions, shapes, parts, joins."""

from __future__ import annotations

from math import prod

from tantamount.rules.library.words import (
    CAT,
    ORDERS,
    PAPER,
    PLAIN,
    SLICE,
    SPLIT,
    a,
    add,
    b,
    cat,
    example,
    inverse,
    mul,
    permute,
    reshape,
    slice_,
    x,
    y,
)
from tantamount.rules.rule import Match, rule
from tantamount.rules.terms import Attribute, Leaf, Part, term

__all__: list[str] = []

ANY = "fib"
_X3 = [example({"a": order}, x="M N K") for order in ORDERS] + [example({"a": (1, 0)}, x="M N")]


def _order(m: Match, rank: int) -> tuple[int, ...]:
    return tuple(m.random.sample(range(rank), rank))


@rule(
    "permute-twice",
    permute(permute(x, a), b),
    "permute(permute(x, p), q) = permute(x, p q)",
    [example({"a": p, "b": q}, x="M N K") for p in ORDERS for q in ORDERS],
    kinds=ANY,
    origin=PAPER,
)
def _(m: Match) -> Part:
    order = tuple(m.a[k] for k in m.b)
    return m.x if order == tuple(range(len(order))) else permute(m.x, order)


@rule(
    "permute-there-and-back",
    x,
    "x = permute(permute(x, p), p⁻¹)",
    [example(x="M N"), *(example(x="M N K", seed=k) for k in range(6))],
    kinds=ANY,
    share=0.08,
    origin=PAPER,
)
def _(m: Match) -> Part | None:
    if m.x.rank < 2:
        return None
    order = _order(m, m.x.rank)
    return permute(permute(m.x, order), inverse(order))


@rule(
    "transpose-as-permute",
    term("aten.transpose.int", x, a, b),
    "transpose(x, i, j) = permute(x, (i j))",
    [example({"a": 0, "b": 1}, x="M N"), example({"a": 0, "b": -1}, x="M N K")],
    kinds=ANY,
)
def _(m: Match) -> Part:
    order = list(range(m.x.rank))
    order[m.a], order[m.b] = order[m.b], order[m.a]
    return permute(m.x, tuple(order))


def _spread(leaf: Leaf, order: tuple[int, ...]) -> Part:
    """An operand of fewer dimensions under the order of a result: dimensions of size 1 put in front."""
    lacking = len(order) - leaf.rank
    padded = reshape(leaf, (1,) * lacking + leaf.shape) if lacking else leaf
    return permute(padded, order)


_UNDER = [
    *(example({"a": order}, x="M N K", y="M N K") for order in ORDERS),
    example({"a": (1, 0)}, x="M N", y="N"),
    example({"a": (2, 0, 1)}, x="M N K", y="N 1"),
    example({"a": (1, 0)}, x="", y="M N"),
    example({"a": (1, 0)}, x="M 1", y="1 N"),
]


@rule(
    "add-under-permute",
    permute(add(x, y), a),
    "permute(x + y, p) = permute(x, p) + permute(y, p)",
    _UNDER,
    origin=PAPER,
)
def _(m: Match) -> Part:
    return add(_spread(m.x, m.a), _spread(m.y, m.a))


@rule("mul-under-permute", permute(mul(x, y), a), "permute(x y, p) = permute(x, p) permute(y, p)", _UNDER, origin=PAPER)
def _(m: Match) -> Part:
    return mul(_spread(m.x, m.a), _spread(m.y, m.a))


@rule(
    "add-turned",
    add(x, y),
    "x + y = permute(permute(x, p) + permute(y, p), p⁻¹)",
    [
        *(example(x="M N K", y="M N K", seed=k) for k in range(6)),
        example(x="M N", y="N"),
        example(x="M 1 K", y="N 1", seed=3),
    ],
    share=0.15,
    origin=PAPER,
)
def _(m: Match) -> Part | None:
    rank = max(m.x.rank, m.y.rank)
    if rank < 2:
        return None
    order = _order(m, rank)
    return permute(add(_spread(m.x, order), _spread(m.y, order)), inverse(order))


@rule(
    "concat-under-permute",
    permute(term(CAT, (x, y), b), a),
    "permute(cat(x, y), p) = cat(permute(x, p), permute(y, p))",
    [
        example({"a": order, "b": k}, x="M N K" if k else "B N K", y="M N K" if k != 1 else "M B K")
        for order in ORDERS
        for k in (0, 1)
    ]
    + [example({"a": (1, 0), "b": 1}, x="M N", y="M K")],
    kinds=ANY,
    origin=PAPER,
)
def _(m: Match) -> Part:
    return cat((permute(m.x, m.a), permute(m.y, m.a)), m.a.index(m.b % m.x.rank))


@rule(
    "part-of-double",
    x,
    "x = split(cat(x, x))[i]",
    [example(x="M"), *(example(x="M N", seed=k) for k in range(4)), example(x="M N K", seed=1)],
    kinds=ANY,
    share=0.06,
    origin=PAPER,
)
def _(m: Match) -> Part | None:
    if m.x.rank < 1:
        return None
    k = m.random.randrange(m.x.rank)
    size = m.x.shape[k]
    return term("getitem", term(SPLIT, cat((m.x, m.x), k), (size, size), k), m.random.randrange(2))


@rule(
    "concat-of-parts",
    x,
    "x = cat(split(x))",
    [example(x="8"), example(x="M 6"), example(x="7 M", seed=1), example(x="4 M 6", seed=2)],
    kinds=ANY,
    share=0.08,
    origin=PAPER,
)
def _(m: Match) -> Part | None:
    known = [k for k, size in enumerate(m.x.shape) if isinstance(size, int) and size >= 2]
    if not known:
        return None
    k = m.random.choice(known)
    size = m.x.shape[k]
    cut = m.random.randrange(1, size)
    parts = term(SPLIT, m.x, (cut, size - cut), k)
    return cat((term("getitem", parts, 0), term("getitem", parts, 1)), k)


_I = Attribute("i")


@rule(
    "part-as-slice",
    term("getitem", term(SPLIT, x, a, b), _I),
    "split(x, n)[i] = x[n_0 + ... : ... + n_i]",
    [example({"a": (3, 5), "b": k, "i": i}, x="8 M" if k == 0 else "M 8") for k in (0, 1) for i in (0, 1)],
    kinds=ANY,
)
def _(m: Match) -> Part:
    start = sum(m.a[: m.i])
    return slice_(m.x, m.b, start, start + m.a[m.i])


@rule(
    "slices-joined",
    term(CAT, (term(SLICE, x, a, 0, b, 1), term(SLICE, x, a, b, _I, 1)), a),
    "cat(x[:n], x[n:m]) = x[:m]",
    [example({"a": 0, "b": 3, "i": 8}, x="8 M"), example({"a": 1, "b": 2, "i": 5}, x="M 9")],
    kinds=ANY,
)
def _(m: Match) -> Part:
    return m.x if m.x.shape[m.a] == m.i else slice_(m.x, m.a, 0, m.i)


@rule(
    "reshape-twice",
    reshape(reshape(x, a), b),
    "reshape(reshape(x, s), t) = reshape(x, t)",
    [
        example({"a": (60,), "b": (10, 6)}, x="6 10"),
        example({"a": ("M*N",), "b": ("M*N", 1)}, x="M N"),
        example({"a": ("M", "N*K"), "b": ("M*N", "K")}, x="M N K"),
    ],
    kinds=ANY,
)
def _(m: Match) -> Part:
    return m.x if m.b == m.x.shape else reshape(m.x, m.b)


@rule(
    "reshape-there-and-back",
    x,
    "x = reshape(reshape(x, s), shape of x)",
    [example(x="M N"), example(x="M N K"), example(x="M")],
    kinds=ANY,
    share=0.06,
)
def _(m: Match) -> Part | None:
    if m.x.rank < 1:
        return None
    return reshape(reshape(m.x, (prod(m.x.shape),) if m.x.rank > 1 else (1, *m.x.shape)), m.x.shape)


@rule("unsqueeze-there-and-back", x, "x = squeeze(unsqueeze(x))", PLAIN, kinds=ANY, share=0.05)
def _(m: Match) -> Part | None:
    if m.x.rank > 4:
        return None
    k = m.random.randrange(m.x.rank + 1)
    return term("aten.squeeze.dim", term("aten.unsqueeze.default", m.x, k), k)


@rule(
    "unsqueeze-as-reshape",
    term("aten.unsqueeze.default", x, a),
    "unsqueeze(x, k) = reshape(x, ...)",
    [example({"a": k}, x="M N") for k in range(3)],
    kinds=ANY,
)
def _(m: Match) -> Part:
    return reshape(m.x, (*m.x.shape[: m.a], 1, *m.x.shape[m.a :]))


@rule(
    "reshape-as-permute",
    permute(x, a),
    "permute(x, p) = reshape(x, t), moving only sizes 1",
    [example({"a": (1, 0)}, x="1 M"), example({"a": (1, 2, 0)}, x="1 M N"), example({"a": (0, 2, 1)}, x="M N 1")],
    kinds=ANY,
)
def _(m: Match) -> Part | None:
    moved = [k for k in m.a if not (isinstance(m.x.shape[k], int) and m.x.shape[k] == 1)]
    return reshape(m.x, tuple(m.x.shape[k] for k in m.a)) if moved == sorted(moved) else None


@rule(
    "flip-there-and-back",
    x,
    "x = flip(flip(x, k), k)",
    [example(x="M"), example(x="M N", seed=1), example(x="M N", seed=2)],
    kinds=ANY,
    share=0.05,
)
def _(m: Match) -> Part | None:
    if m.x.rank < 1:
        return None
    dims = (m.random.randrange(m.x.rank),)
    return term("aten.flip.default", term("aten.flip.default", m.x, dims), dims)


@rule(
    "pad-and-cut",
    x,
    "x = pad(x)[n : n + size]",
    [example(x="M"), example(x="M N"), example(x="M N", seed=1)],
    share=0.05,
)
def _(m: Match) -> Part | None:
    if m.x.rank < 1:
        return None
    size = m.x.shape[-1]
    before = m.random.randrange(3)
    padded = term("aten.constant_pad_nd.default", m.x, (before, m.random.randrange(3)), 0)
    return slice_(padded, m.x.rank - 1, before, before + size)


@rule(
    "select-as-slice",
    term("aten.select.int", x, a, b),
    "x[..., i] = reshape(x[..., i : i + 1])",
    [example({"a": 0, "b": 2}, x="5 M"), example({"a": 1, "b": -1}, x="M 5 N")],
    kinds=ANY,
)
def _(m: Match) -> Part:
    k = m.b % m.x.shape[m.a]
    return reshape(slice_(m.x, m.a, k, k + 1), (*m.x.shape[: m.a], *m.x.shape[m.a + 1 :]))


@rule(
    "stack-as-concat",
    term("aten.stack.default", (x, y), a),
    "stack(x, y) = cat(unsqueeze(x), unsqueeze(y))",
    [example({"a": k}, x="M N", y="M N") for k in range(3)],
    kinds=ANY,
)
def _(m: Match) -> Part:
    return cat((term("aten.unsqueeze.default", m.x, m.a), term("aten.unsqueeze.default", m.y, m.a)), m.a)


_ALONE = "an operator of single elements, whatever it computes"
_REACH = [example({"a": order}, x="M N K") for order in ORDERS[1:3]] + [example({"a": (1, 0)}, x="M N")]
for _name in ("neg", "relu", "abs"):

    @rule(
        f"{_name}-under-permute",
        permute(term(f"aten.{_name}.default", x), a),
        f"permute({_name}(x), p) = {_name}(permute(x, p))",
        _REACH,
        integers=_ALONE,
    )
    def _pointwise(m: Match, target: str = f"aten.{_name}.default") -> Part:
        return term(target, permute(m.x, m.a))

    @rule(
        f"permute-under-{_name}",
        term(f"aten.{_name}.default", permute(x, a)),
        f"{_name}(permute(x, p)) = permute({_name}(x), p)",
        _REACH,
        integers=_ALONE,
    )
    def _turned(m: Match, target: str = f"aten.{_name}.default") -> Part:
        return permute(term(target, m.x), m.a)

    @rule(
        f"{_name}-of-concat",
        term(f"aten.{_name}.default", term(CAT, (x, y), a)),
        f"{_name}(cat(x, y)) = cat({_name}(x), {_name}(y))",
        [example({"a": 0}, x="M K", y="N K"), example({"a": 1}, x="M N", y="M K")],
        integers=_ALONE,
    )
    def _joined(m: Match, target: str = f"aten.{_name}.default") -> Part:
        return cat((term(target, m.x), term(target, m.y)), m.a)

    @rule(
        f"{_name}-under-reshape",
        reshape(term(f"aten.{_name}.default", x), a),
        f"reshape({_name}(x), s) = {_name}(reshape(x, s))",
        [example({"a": ("M*N",)}, x="M N"), example({"a": ("M", "N*K")}, x="M N K")],
        integers=_ALONE,
    )
    def _shaped(m: Match, target: str = f"aten.{_name}.default") -> Part:
        return term(target, reshape(m.x, m.a))


@rule(
    "slice-of-sum",
    term(SLICE, add(x, y), a, b, _I, 1),
    "(x + y)[n:m] = x[n:m] + y[n:m]",
    [example({"a": 0, "b": 1, "i": 4}, x="6 M", y="6 M"), example({"a": 1, "b": 0, "i": 3}, x="M 5", y="M 5")],
)
def _(m: Match) -> Part | None:
    if m.x.shape != m.y.shape:
        return None
    return add(slice_(m.x, m.a, m.b, m.i), slice_(m.y, m.a, m.b, m.i))


@rule(
    "repeat-as-concat",
    term("aten.repeat.default", x, a),
    "repeat(x, (2, 1)) = cat(x, x)",
    [example({"a": (2, 1)}, x="M N"), example({"a": (1, 2)}, x="M N")],
    kinds=ANY,
)
def _(m: Match) -> Part | None:
    if len(m.a) != m.x.rank or sorted(m.a) != [1] * (len(m.a) - 1) + [2]:
        return None
    return cat((m.x, m.x), m.a.index(2))
