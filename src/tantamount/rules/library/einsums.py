"""Rules of Einstein sums: what products, sums and orders of dimensions are as such, and what such sums are."""

from __future__ import annotations

from math import prod
from typing import Any

from tantamount.rules.library.words import PERMUTE, SUM, a, example, mm, mul, permute, reshape, x, y
from tantamount.rules.rule import Match, rule
from tantamount.rules.terms import Attribute, Leaf, Part, Term, term

__all__: list[str] = []

_LETTERS = "ijklmn"
_SEEDS = range(4)


def _einsum(m: Match, operands: list[tuple[str, Leaf]], result: str) -> Term:
    """The sum of products of some operands, given with their letters, in any order, each turned now and then."""
    operands = m.random.sample(operands, len(operands))
    for k, (letters, operand) in enumerate(operands):
        if len(letters) >= 2 and m.random.random() < 0.3:
            order = tuple(m.random.sample(range(len(letters)), len(letters)))
            operands[k] = ("".join(letters[j] for j in order), permute(operand, order))  # type: ignore[call-overload]
    equation = f"{','.join(letters for letters, _ in operands)}->{result}"
    return term("aten.einsum.default", equation, tuple(operand for _, operand in operands))


@rule(
    "mm-as-einsum", mm(x, y), "x y = einsum(ij,jk->ik, x, y)",
    [example(x="M K", y="K N", seed=seed) for seed in _SEEDS], share=0.3, kinds="f",
)  # fmt: skip
def _(m: Match) -> Part:
    return _einsum(m, [("ij", m.x), ("jk", m.y)], "ik")


@rule(
    "bmm-as-einsum", term("aten.bmm.default", x, y), "bmm(x, y) = einsum(bij,bjk->bik, x, y)",
    [example(x="B M K", y="B K N", seed=seed) for seed in _SEEDS], share=0.3, kinds="f",
)  # fmt: skip
def _(m: Match) -> Part:
    return _einsum(m, [("bij", m.x), ("bjk", m.y)], "bik")


@rule(
    "mul-as-einsum", mul(x, y), "x * y = einsum(ij,ij->ij, x, y)",
    [*(example(x="M N", y="M N", seed=seed) for seed in _SEEDS), example(x="M", y="M"), example(x="M N K", y="M N K")],
    share=0.15, kinds="f",
)  # fmt: skip
def _(m: Match) -> Part | None:
    if m.x.shape != m.y.shape or not 1 <= m.x.rank <= 4:
        return None
    letters = _LETTERS[: m.x.rank]
    return _einsum(m, [(letters, m.x), (letters, m.y)], letters)


@rule(
    "sum-as-einsum", term(SUM, x, a, Attribute("keep")), "sum(x, 1) = einsum(ij->i, x)",
    [example({"a": (1,), "keep": False}, x="M N", seed=seed) for seed in _SEEDS]
    + [example({"a": (0, 2), "keep": False}, x="M N K"), example({"a": (0,), "keep": False}, x="M")],
    share=0.3, kinds="f",
)  # fmt: skip
def _(m: Match) -> Part | None:
    if m.keep or not m.a or not 1 <= m.x.rank <= 4:
        return None
    letters = _LETTERS[: m.x.rank]
    summed = {k % m.x.rank for k in m.a}
    return _einsum(m, [(letters, m.x)], "".join(letters[k] for k in range(m.x.rank) if k not in summed))


@rule(
    "permute-as-einsum", term(PERMUTE, x, a), "permute(x, (1, 0)) = einsum(ij->ji, x)",
    [example({"a": (1, 0)}, x="M N"), example({"a": (2, 0, 1)}, x="M N K"), example({"a": (0, 2, 1)}, x="M N K")],
    share=0.1, kinds="f",
)  # fmt: skip
def _(m: Match) -> Part | None:
    if m.x.rank > 4:
        return None
    letters = _LETTERS[: m.x.rank]
    return term("aten.einsum.default", f"{letters}->{''.join(letters[k] for k in m.a)}", (m.x,))


def _said(equation: str, *operands: Leaf) -> tuple[list[str], str, dict[str, Any]] | None:
    """The letters of every operand and of the result, and the size of each; ``None`` for an equation in which a letter
    is repeated within an operand, left out, or stands for two sizes."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    sizes: dict[str, Any] = {}
    for letters, operand in zip(terms, operands, strict=True):
        if not arrow or len(letters) != operand.rank or len(set(letters)) != len(letters):
            return None
        for letter, size in zip(letters, operand.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                return None
    return terms, result, sizes


def _spread(operand: Leaf, letters: str, order: str) -> Part:
    """An operand with its dimensions in an order of letters, with dimensions of size 1 for those that it has not."""
    turned = tuple(sorted(range(len(letters)), key=lambda k: order.index(letters[k])))
    sizes = dict(zip(letters, operand.shape, strict=True))
    found = operand if turned == tuple(range(len(letters))) else permute(operand, turned)
    return reshape(found, tuple(sizes.get(letter, 1) for letter in order))


def _summed(product: Part, result: str, order: str) -> Part:
    dims = tuple(range(len(result), len(order)))
    return term(SUM, product, dims, False) if dims else product


@rule(
    "einsum-as-sum", term("aten.einsum.default", a, (x, y)), "einsum(ij,jk->ik, x, y) = sum over j of x[i, j] y[j, k]",
    [example({"a": "ij,jk->ik"}, x="M K", y="K N"), example({"a": "ij,kj->ki"}, x="M K", y="N K"),
     example({"a": "ij,j->ij"}, x="M N", y="N"), example({"a": "ij,i->j"}, x="M N", y="M"),
     example({"a": "bij,bk->bi"}, x="B M N", y="B K")],
    kinds="f",
)  # fmt: skip
def _(m: Match) -> Part | None:
    found = _said(m.a, m.x, m.y)
    if found is None:
        return None
    (first, second), result, sizes = found
    order = result + "".join(letter for letter in sizes if letter not in result)
    if all(isinstance(size, int) for size in sizes.values()) and (prod(sizes.values()) > 1 << 14 or len(order) > 5):
        return None
    return _summed(mul(_spread(m.x, first, order), _spread(m.y, second, order)), result, order)


@rule(
    "einsum-turned", term("aten.einsum.default", a, (x, y)), "einsum(ij,jk->ik, x, y) = einsum(jk,ij->ik, y, x)",
    [example({"a": "ij,jk->ik"}, x="M K", y="K N", seed=seed) for seed in _SEEDS],
    kinds="f",
)  # fmt: skip
def _(m: Match) -> Part | None:
    found = _said(m.a, m.x, m.y)
    return found and _einsum(m, [*zip(found[0], (m.x, m.y), strict=True)], found[1])


@rule(
    "einsum-of-one", term("aten.einsum.default", a, (x,)), "einsum(ij->j, x) = sum(x, 0)",
    [example({"a": "ij->j"}, x="M N"), example({"a": "ijk->ki"}, x="M N K"), example({"a": "ij->ji"}, x="M N"),
     example({"a": "ij->"}, x="M N")],
    kinds="f",
)  # fmt: skip
def _(m: Match) -> Part | None:
    found = _said(m.a, m.x)
    if found is None:
        return None
    (letters,), result, _ = found
    order = result + "".join(letter for letter in letters if letter not in result)
    return _summed(permute(m.x, tuple(letters.index(letter) for letter in order)), result, order)
