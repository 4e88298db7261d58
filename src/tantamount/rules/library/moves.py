"""Rules of parts, repetitions and reversals: what two calls that move elements are together, and past other calls."""

from __future__ import annotations

from tantamount.rules.library.words import (
    CAT,
    MUL,
    PERMUTE,
    SLICE,
    a,
    add,
    b,
    cat,
    example,
    inverse,
    mul,
    permute,
    slice_,
    x,
    y,
)
from tantamount.rules.rule import Match, rule
from tantamount.rules.terms import Attribute, Part, Term, term

__all__: list[str] = []

_ANY = "fib"
_C, _D, _E, _F, _G = (Attribute(name) for name in "cdefg")
_EXPAND, _FLIP, _PAD = "aten.expand.default", "aten.flip.default", "aten.constant_pad_nd.default"


def _flip(p: Part, dims: tuple[int, ...]) -> Term:
    return term(_FLIP, p, dims)


def _expand(p: Part, shape: tuple[int, ...]) -> Term:
    return term(_EXPAND, p, shape)


# ---------------------------------------------------------------------------------------------- parts
@rule(
    "slice-twice",
    term(SLICE, term(SLICE, x, a, b, _C, _D), a, _E, _F, _G),
    "x[n:m:s][i:j:t] = x[n + i s : m : s t], as long as it is",
    [
        example({"a": 0, "b": 2, "c": 9, "d": 1, "e": 1, "f": 5, "g": 1}, x="12 M"),
        example({"a": 1, "b": 1, "c": 12, "d": 3, "e": 1, "f": 4, "g": 2}, x="M 13"),
        example({"a": 0, "b": 0, "c": 11, "d": 2, "e": 2, "f": 6, "g": 1}, x="11"),
    ],
    kinds=_ANY,
)
def _(m: Match) -> Part | None:
    if not all(type(n) is int and n >= 0 for n in (m.a, m.b, m.c, m.d, m.e, m.f, m.g)) or m.a >= m.x.rank:
        return None
    size = m.x.shape[m.a]
    if not isinstance(size, int) or not m.b < m.c <= size or not m.e < m.f <= -((m.b - m.c) // m.d):
        return None
    last = m.b + (m.e + (m.f - m.e - 1) // m.g * m.g) * m.d  # the last element that is taken
    return term(SLICE, m.x, m.a, m.b + m.e * m.d, last + 1, m.d * m.g)


@rule(
    "slice-in-two-steps",
    term(SLICE, x, a, b, _C, 1),
    "x[n:m] = x[n:][:m - n]",
    [example({"a": 0, "b": 2, "c": 5}, x="8 M"), example({"a": 1, "b": 1, "c": 4}, x="M 4")],
    kinds=_ANY,
    share=0.4,
)
def _(m: Match) -> Part | None:
    size = m.x.shape[m.a]
    if not isinstance(size, int) or not 0 <= m.b < m.c <= size:
        return None
    return slice_(slice_(m.x, m.a, m.b, size), m.a, 0, m.c - m.b)


@rule(
    "slice-under-permute",
    permute(term(SLICE, x, a, b, _C, _D), _E),
    "permute(x[n:m], p) = permute(x, p)[n:m]",
    [
        example({"a": 0, "b": 1, "c": 5, "d": 1, "e": (1, 0)}, x="8 M"),
        example({"a": 1, "b": 0, "c": 7, "d": 2, "e": (1, 2, 0)}, x="M 7 N"),
    ],
    kinds=_ANY,
)
def _(m: Match) -> Part | None:
    return term(SLICE, permute(m.x, m.e), m.e.index(m.a), m.b, m.c, m.d) if m.a in m.e else None


@rule(
    "slice-of-product",
    term(SLICE, mul(x, y), a, b, _C, _D),
    "(x y)[n:m] = x[n:m] y[n:m]",
    [
        example({"a": 0, "b": 1, "c": 4, "d": 1}, x="6 M", y="6 M"),
        example({"a": 1, "b": 0, "c": 5, "d": 2}, x="M 5", y="M 5"),
    ],
)
def _(m: Match) -> Part | None:
    if m.x.shape != m.y.shape:
        return None
    return mul(term(SLICE, m.x, m.a, m.b, m.c, m.d), term(SLICE, m.y, m.a, m.b, m.c, m.d))


@rule(
    "slice-from-behind",
    term(SLICE, x, a, b, _C, 1),
    "x[n:m] = flip(flip(x)[size - m : size - n])",
    [example({"a": 0, "b": 1, "c": 4}, x="6 M"), example({"a": 1, "b": 0, "c": 3}, x="M 5")],
    kinds=_ANY,
    share=0.3,
)
def _(m: Match) -> Part | None:
    size = m.x.shape[m.a]
    if not isinstance(size, int) or not 0 <= m.b < m.c <= size:
        return None
    return _flip(slice_(_flip(m.x, (m.a,)), m.a, size - m.c, size - m.b), (m.a,))


@rule(
    "pad-twice",
    term(_PAD, term(_PAD, x, (a, b), 0), (_C, _D), 0),
    "pad(pad(x, n, m), k, l) = pad(x, n + k, m + l)",
    [
        example({"a": 1, "b": 2, "c": 0, "d": 1}, x="M N"),
        example({"a": 0, "b": 1, "c": 2, "d": 2}, x="M"),
    ],
)
def _(m: Match) -> Part | None:
    widths = (m.a, m.b, m.c, m.d)
    if not all(type(n) is int and n >= 0 for n in widths):
        return None
    return term(_PAD, m.x, (m.a + m.c, m.b + m.d), 0)


# ---------------------------------------------------------------------------------------------- repetitions
@rule(
    "expand-twice",
    term(_EXPAND, term(_EXPAND, x, a), b),
    "expand(expand(x, s), t) = expand(x, t)",
    [
        example({"a": ("M", "N"), "b": ("K", "M", "N")}, x="1 N"),
        example({"a": (1, "N"), "b": ("M", "N")}, x="N"),
    ],
    kinds=_ANY,
)
def _(m: Match) -> Part | None:
    known = all(type(n) is not int or n >= 0 for n in (*m.a, *m.b))
    return _expand(m.x, m.b) if known else None


@rule(
    "expand-and-take",
    x,
    "x = expand(x, (n, ...))[i]",
    [example(x="M"), example(x="M N", seed=1), example(x="M N", seed=2), example(x="")],
    kinds=_ANY,
    share=0.05,
)
def _(m: Match) -> Part | None:
    if m.x.rank > 4:
        return None
    count = m.random.choice((2, 3))
    return term("aten.select.int", _expand(m.x, (count, *m.x.shape)), 0, m.random.randrange(count))


for _name, _op in (("add", "aten.add.Tensor"), ("mul", MUL)):

    @rule(
        f"{_name}-with-expanded",
        term(_op, x, y),
        f"{_name}(x, y) = {_name}(x, expand(y, shape of x))",
        [example(x="M N", y="N"), example(x="B M N", y="M 1"), example(x="M", y="")],
        share=0.6,
    )
    def _expanded(m: Match, op: str = _op) -> Part | None:
        if m.root is None or m.y.shape == m.x.shape or m.x.shape != m.root.shape:
            return None
        return term(op, m.x, _expand(m.y, m.x.shape))


@rule(
    "expand-as-concat",
    term(_EXPAND, x, a),
    "expand(x, (2, ...)) = cat(x, x)",
    [example({"a": (2, "M")}, x="1 M"), example({"a": ("M", 2)}, x="M 1")],
    kinds=_ANY,
)
def _(m: Match) -> Part | None:
    changed = [k for k, (old, new) in enumerate(zip(m.x.shape, m.a, strict=False)) if old != new]
    if len(m.a) != m.x.rank or len(changed) != 1 or m.a[changed[0]] != 2 or m.x.shape[changed[0]] != 1:
        return None
    return cat((m.x, m.x), changed[0])


# ---------------------------------------------------------------------------------------------- reversals
@rule(
    "flip-twice",
    term(_FLIP, term(_FLIP, x, a), b),
    "flip(flip(x, p), q) = flip(x, p + q - 2 (p and q))",
    [
        example({"a": (0,), "b": (1,)}, x="M N"),
        example({"a": (0, 1), "b": (1,)}, x="M N"),
        example({"a": (1,), "b": (1,)}, x="M N K"),
    ],
    kinds=_ANY,
)
def _(m: Match) -> Part:
    dims = tuple(sorted({k % m.x.rank for k in m.a} ^ {k % m.x.rank for k in m.b}))
    return _flip(m.x, dims) if dims else m.x


@rule(
    "flip-one-by-one",
    term(_FLIP, x, a),
    "flip(x, (i, j)) = flip(flip(x, j), i)",
    [example({"a": (0, 1)}, x="M N"), example({"a": (0, 2)}, x="M N K")],
    kinds=_ANY,
)
def _(m: Match) -> Part | None:
    return _flip(_flip(m.x, m.a[1:]), m.a[:1]) if len(m.a) >= 2 else None


@rule(
    "flip-under-permute",
    term(PERMUTE, term(_FLIP, x, a), b),
    "permute(flip(x, k), p) = flip(permute(x, p), p⁻¹ k)",
    [example({"a": (0,), "b": (1, 0)}, x="M N"), example({"a": (0, 2), "b": (1, 2, 0)}, x="M N K")],
    kinds=_ANY,
)
def _(m: Match) -> Part | None:
    if any(k < 0 for k in m.b):
        return None
    order: tuple[int, ...] = m.b
    dims: tuple[int, ...] = m.a
    rank, back = len(order), inverse(order)
    return _flip(permute(m.x, order), tuple(sorted(back[k % rank] for k in dims)))


@rule(
    "flip-of-sum",
    term(_FLIP, add(x, y), a),
    "flip(x + y) = flip(x) + flip(y)",
    [example({"a": (0,)}, x="M N", y="M N"), example({"a": (0, 1)}, x="M N", y="M N")],
)
def _(m: Match) -> Part | None:
    return add(_flip(m.x, m.a), _flip(m.y, m.a)) if m.x.shape == m.y.shape else None


@rule(
    "flip-of-concat",
    term(_FLIP, term(CAT, (x, y), a), (a,)),
    "flip(cat(x, y)) = cat(flip(y), flip(x))",
    [example({"a": 0}, x="M N", y="K N"), example({"a": 1}, x="M N", y="M K")],
    kinds=_ANY,
)
def _(m: Match) -> Part:
    return cat((_flip(m.y, (m.a,)), _flip(m.x, (m.a,))), m.a)
