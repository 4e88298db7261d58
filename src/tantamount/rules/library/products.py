"""Rules of products of matrices and of convolutions."""

from __future__ import annotations

from typing import Any

from tantamount.rules.library.words import (
    PAPER,
    SUM,
    W,
    add,
    cat,
    example,
    mm,
    mul,
    permute,
    reshape,
    slice_,
    sub,
    x,
    y,
    z,
)
from tantamount.rules.rule import Match, rule
from tantamount.rules.terms import Attribute, Part, Term, term

__all__: list[str] = []

_XY = [example(x="M K", y="K N")]
_XYZ = [example(x="M K", y="K N", z="N B")]


def _bmm(p: Any, q: Any) -> Term:
    return term("aten.bmm.default", p, q)


@rule("mm-associates", mm(mm(x, y), z), "(x y) z = x (y z)", _XYZ, origin=PAPER)
def _(m: Match) -> Part:
    return mm(m.x, mm(m.y, m.z))


@rule("mm-associates-back", mm(x, mm(y, z)), "x (y z) = (x y) z", _XYZ, origin=PAPER)
def _(m: Match) -> Part:
    return mm(mm(m.x, m.y), m.z)


@rule("mm-distributes", mm(x, add(y, z)), "x (y + z) = x y + x z", [example(x="M K", y="K N", z="K N")], origin=PAPER)
def _(m: Match) -> Part | None:
    return add(mm(m.x, m.y), mm(m.x, m.z)) if m.y.shape == m.z.shape else None


@rule(
    "mm-distributes-left", mm(add(x, y), z), "(x + y) z = x z + y z", [example(x="M K", y="M K", z="K N")], origin=PAPER
)
def _(m: Match) -> Part | None:
    return add(mm(m.x, m.z), mm(m.y, m.z)) if m.x.shape == m.y.shape else None


@rule(
    "mm-factors-out",
    add(mm(x, y), mm(x, z)),
    "x y + x z = x (y + z)",
    [example(x="M K", y="K N", z="K N")],
    origin=PAPER,
)
def _(m: Match) -> Part | None:
    return mm(m.x, add(m.y, m.z)) if m.y.shape == m.z.shape else None


@rule("mm-distributes-over-sub", mm(sub(x, y), z), "(x - y) z = x z - y z", [example(x="M K", y="M K", z="K N")])
def _(m: Match) -> Part | None:
    return sub(mm(m.x, m.z), mm(m.y, m.z)) if m.x.shape == m.y.shape else None


@rule("mm-under-transpose", permute(mm(x, y), (1, 0)), "(x y)ᵀ = yᵀ xᵀ", _XY, origin=PAPER)
def _(m: Match) -> Part:
    return mm(permute(m.y, (1, 0)), permute(m.x, (1, 0)))


@rule("mm-turned", mm(x, y), "x y = (yᵀ xᵀ)ᵀ", _XY, share=0.4, origin=PAPER)
def _(m: Match) -> Part:
    return permute(mm(permute(m.y, (1, 0)), permute(m.x, (1, 0))), (1, 0))


@rule("mm-scaled", mm(mul(x, 2), y), "(2 x) y = 2 (x y)", _XY)
def _(m: Match) -> Part:
    return mul(mm(m.x, m.y), 2)


@rule(
    "mm-in-row-blocks",
    mm(x, y),
    "x y = cat(x[:n] y, x[n:] y)",
    [example(x="6 K", y="K N"), example(x="4 K", y="K N", seed=1)],
    share=0.4,
)
def _(m: Match) -> Part | None:
    rows = m.x.shape[0]
    if not isinstance(rows, int) or rows < 2:
        return None
    cut = m.random.randrange(1, rows)
    return cat((mm(slice_(m.x, 0, 0, cut), m.y), mm(slice_(m.x, 0, cut, rows), m.y)), 0)


@rule(
    "mm-in-column-blocks",
    mm(x, y),
    "x y = cat(x y[:, :n], x y[:, n:])",
    [example(x="M K", y="K 6"), example(x="M K", y="K 5", seed=1)],
    share=0.4,
)
def _(m: Match) -> Part | None:
    columns = m.y.shape[1]
    if not isinstance(columns, int) or columns < 2:
        return None
    cut = m.random.randrange(1, columns)
    return cat((mm(m.x, slice_(m.y, 1, 0, cut)), mm(m.x, slice_(m.y, 1, cut, columns))), 1)


@rule(
    "mm-in-inner-blocks",
    mm(x, y),
    "x y = x[:, :n] y[:n] + x[:, n:] y[n:]",
    [example(x="M 6", y="6 N"), example(x="M 5", y="5 N", seed=1)],
    share=0.4,
)
def _(m: Match) -> Part | None:
    inner = m.x.shape[1]
    if not isinstance(inner, int) or inner < 2:
        return None
    cut = m.random.randrange(1, inner)
    first = mm(slice_(m.x, 1, 0, cut), slice_(m.y, 0, 0, cut))
    return add(first, mm(slice_(m.x, 1, cut, inner), slice_(m.y, 0, cut, inner)))


@rule("mm-as-bmm", mm(x, y), "x y = bmm([x], [y])[0]", _XY, share=0.4)
def _(m: Match) -> Part:
    product = _bmm(reshape(m.x, (1, *m.x.shape)), reshape(m.y, (1, *m.y.shape)))
    return reshape(product, (m.x.shape[0], m.y.shape[1]))


@rule("mm-as-sum", mm(x, y), "(x y)[i, j] = sum over k of x[i, k] y[k, j]", _XY, share=0.3, kinds="f")
def _(m: Match) -> Part | None:
    sizes = (*m.x.shape, m.y.shape[1])
    if all(isinstance(size, int) for size in sizes) and sizes[0] * sizes[1] * sizes[2] > 1 << 14:
        return None
    product = mul(reshape(m.x, (*m.x.shape, 1)), reshape(m.y, (1, *m.y.shape)))
    return term(SUM, product, (1,), False)


@rule("matmul-as-mm", term("aten.matmul.default", x, y), "matmul(x, y) = x y, of matrices", _XY)
def _(m: Match) -> Part | None:
    return mm(m.x, m.y) if m.x.rank == m.y.rank == 2 else None


@rule(
    "matmul-flattened",
    term("aten.matmul.default", x, y),
    "matmul(x, y) = reshape(reshape(x, (n, k)) y), of a batch and a matrix",
    [example(x="B M K", y="K N")],
)
def _(m: Match) -> Part | None:
    if m.x.rank != 3 or m.y.rank != 2:
        return None
    b, rows, inner = m.x.shape
    return reshape(mm(reshape(m.x, (b * rows, inner)), m.y), (b, rows, m.y.shape[1]))


@rule(
    "addmm-as-sum", term("aten.addmm.default", W, x, y), "addmm(b, x, y) = x y + b", [example(w="N", x="M K", y="K N")]
)
def _(m: Match) -> Part:
    return add(mm(m.x, m.y), m.w)


@rule(
    "sum-as-addmm",
    add(mm(x, y), W),
    "x y + b = addmm(b, x, y)",
    [example(w="N", x="M K", y="K N"), example(w="M N", x="M K", y="K N")],
    kinds="f",
)
def _(m: Match) -> Part | None:
    result = (m.x.shape[0], m.y.shape[1])
    return term("aten.addmm.default", m.w, m.x, m.y) if m.w.shape in (result, result[1:]) else None


@rule(
    "bmm-associates", _bmm(_bmm(x, y), z), "(x y) z = x (y z), in a batch", [example(x="B M K", y="B K N", z="B N C")]
)
def _(m: Match) -> Part:
    return _bmm(m.x, _bmm(m.y, m.z))


@rule(
    "bmm-under-transpose", permute(_bmm(x, y), (0, 2, 1)), "(x y)ᵀ = yᵀ xᵀ, in a batch", [example(x="B M K", y="B K N")]
)
def _(m: Match) -> Part:
    return _bmm(permute(m.y, (0, 2, 1)), permute(m.x, (0, 2, 1)))


@rule(
    "bmm-in-batches",
    _bmm(x, y),
    "bmm(x, y) = cat(bmm(x[:n], y[:n]), bmm(x[n:], y[n:]))",
    [example(x="4 M K", y="4 K N"), example(x="5 M K", y="5 K N", seed=1)],
    share=0.5,
)
def _(m: Match) -> Part | None:
    batch = m.x.shape[0]
    if not isinstance(batch, int) or batch < 2:
        return None
    cut = m.random.randrange(1, batch)
    first = _bmm(slice_(m.x, 0, 0, cut), slice_(m.y, 0, 0, cut))
    return cat((first, _bmm(slice_(m.x, 0, cut, batch), slice_(m.y, 0, cut, batch))), 0)


_S, _P, _D = Attribute("stride"), Attribute("padding"), Attribute("dilation")
_CONV = term("aten.convolution.default", x, W, None, _S, _P, _D, False, (0, 0), 1)
_POINT = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}


@rule(
    "conv-as-matmul",
    _CONV,
    "conv(x, w) with a kernel of one element = w x, by pixels",
    [example(_POINT, x="2 3 5 4", w="6 3 1 1")],
    kinds="f",
)
def _(m: Match) -> Part | None:
    n, c, h, w = m.x.shape
    o = m.w.shape[0]
    if m.w.shape[2:] != (1, 1) or m.stride != (1, 1) or m.padding != (0, 0):
        return None
    pixels = reshape(permute(m.x, (0, 2, 3, 1)), (n * h * w, c))
    product = mm(pixels, permute(reshape(m.w, (o, c)), (1, 0)))
    return permute(reshape(product, (n, h, w, o)), (0, 3, 1, 2))


@rule(
    "conv-by-outputs",
    _CONV,
    "conv(x, w) = cat(conv(x, w[:n]), conv(x, w[n:]))",
    [example(_POINT, x="2 3 5 4", w="4 3 2 2"), example({**_POINT, "padding": (1, 1)}, x="1 2 4 4", w="3 2 3 3")],
    kinds="f",
    share=0.7,
)
def _(m: Match) -> Part | None:
    outputs = m.w.shape[0]
    if outputs < 2:
        return None
    cut = m.random.randrange(1, outputs)

    def part(start: int, stop: int) -> Term:
        weight = slice_(m.w, 0, start, stop)
        return term("aten.convolution.default", m.x, weight, None, m.stride, m.padding, m.dilation, False, (0, 0), 1)

    return cat((part(0, cut), part(cut, outputs)), 1)


@rule(
    "conv-padded-before",
    _CONV,
    "conv(x, w, padding p) = conv(pad(x, p), w)",
    [example({**_POINT, "padding": (1, 1)}, x="1 2 4 4", w="3 2 3 3")],
    kinds="f",
)
def _(m: Match) -> Part | None:
    if m.padding != (1, 1):
        return None
    padded = term("aten.constant_pad_nd.default", m.x, (1, 1, 1, 1), 0)
    return term("aten.convolution.default", padded, m.w, None, m.stride, (0, 0), m.dilation, False, (0, 0), 1)


@rule(
    "bmm-one-by-one",
    _bmm(x, y),
    "bmm(x, y) = stack(x[0] y[0], x[1] y[1])",
    [example(x="2 M K", y="2 K N"), example(x="1 M K", y="1 K N"), example(x="3 M K", y="3 K N")],
)
def _(m: Match) -> Part | None:
    count = m.x.shape[0]
    if not isinstance(count, int) or not 1 <= count <= 3:
        return None
    return term("aten.stack.default", tuple(mm(_item(m.x, k), _item(m.y, k)) for k in range(count)), 0)


def _item(p: Any, k: int) -> Term:
    return term("aten.select.int", p, 0, k)


@rule(
    "bmm-as-sum",
    _bmm(x, y),
    "bmm(x, y)[b, i, j] = sum over k of x[b, i, k] y[b, k, j]",
    [example(x="B M K", y="B K N")],
    share=0.3,
    kinds="f",
)
def _(m: Match) -> Part | None:
    sizes = (*m.x.shape, m.y.shape[2])
    if all(isinstance(size, int) for size in sizes) and sizes[0] * sizes[1] * sizes[2] * sizes[3] > 1 << 14:
        return None
    product = mul(reshape(m.x, (*m.x.shape, 1)), reshape(m.y, (m.y.shape[0], 1, *m.y.shape[1:])))
    return term(SUM, product, (2,), False)


@rule(
    "mm-inner-reversed",
    mm(x, y),
    "x y = flip(x, 1) flip(y, 0)",
    _XY,
    share=0.3,
)
def _(m: Match) -> Part:
    return mm(term("aten.flip.default", m.x, (1,)), term("aten.flip.default", m.y, (0,)))
