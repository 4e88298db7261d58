"""More programs whose normal forms could grow without end: operators inside themselves, many times.

Each shape is written three times: as it is; with the operands of its last sum exchanged and its input written in
another way (the same function, which no structure shows); and with another first step (another function).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Shape", "nested_shapes"]

_TWO = "x: float32[4, 4]\nw: float32[4, 4]"
_INDEXED = f"{_TWO}\ni: int64[4, 4]"
_MANY = "\n".join(f"{name}: float32[4, 4]" for name in ("v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "x", "w"))
_WHOLE = "x: int64[4, 4]\nw: int64[4, 4]"
_IMAGES = "x: float32[1, 2, 6, 6]\nw: float32[2, 2, 3, 3]\nb: float32[2]"
_CONVOLVED = "aten.convolution.default({a}, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)"


@dataclass(frozen=True)
class Shape:
    """A program, one that computes the same, and one that does not. ``provable``: equality is to be proved, and not
    only to be given up in time."""

    name: str
    program: str
    equal: str
    wrong: str
    provable: bool


@dataclass(frozen=True)
class _Row:
    """Lines that are repeated: ``{n}`` is the new tensor, ``{a}`` the one before, ``{b}`` the one before that, ``{k}``
    the number of the step; the first tensor is ``first``. ``once``: lines before, which are not repeated."""

    name: str
    times: int
    lines: str
    inputs: str = _TWO
    once: str = ""
    provable: bool = True
    first: str = "first = add(x, w)"
    wrong: str = "first = mul(x, 2)"

    def shape(self) -> Shape:
        body, names = [line.strip() for line in self.once.splitlines() if line.strip()], ["first", "first"]
        for k in range(self.times):
            new = f"n{k}"
            texts = [line.strip() for line in self.lines.splitlines() if line.strip()]
            body += [line.format(a=names[-1], b=names[-2], n=new, k=k) for line in texts]
            names.append(new)
        last = names[-1]
        shape = self.inputs.partition("x: ")[2].partition("\n")[0].partition("[")[2]
        flat = 72 if "6, 6" in shape else 16
        detour = f"x_flat = view(x, [{flat}])\nx_again = view(x_flat, [{shape})\n{self.first.replace('(x', '(x_again')}"
        first, second, third = (
            "\n".join([self.inputs, head, *body, f"y = add({operands})", "-> y"])
            for head, operands in (
                (self.first, f"{last}, first"),
                (detour, f"first, {last}"),
                (self.wrong, f"{last}, first"),
            )
        )
        return Shape(self.name, first, second, third, self.provable)


_ROWS = (
    _Row("maxima of minima", 60, """
        a{k} = aten.maximum.default({a}, w)
        b{k} = aten.minimum.default(a{k}, {b})
        {n} = mul(b{k}, 1.5)"""),
    _Row("choices by what was chosen", 40, """
        c{k} = aten.gt.Tensor({a}, {b})
        {n} = aten.where.self(c{k}, w, {a})"""),
    _Row("choices among maxima and minima", 30, """
        a{k} = aten.maximum.default({a}, w)
        c{k} = aten.gt.Scalar(a{k}, 0.5)
        m{k} = aten.minimum.default({b}, a{k})
        {n} = aten.where.self(c{k}, a{k}, m{k})"""),
    _Row("products of sums of many tensors", 1, """
        {n} = mul(p7, p6)""", _MANY, "\n".join(
        [f"s{k} = {'add' if k % 2 else 'sub'}(v{k - 1}, v{k})" for k in range(1, 8)]
        + [f"p{k} = mul({f'p{k - 1}' if k > 1 else 'first'}, s{k})" for k in range(1, 8)])),
    _Row("the tenth power of a sum of eight", 10, """
        {n} = mul({a}, u7)""", _MANY, "\n".join(
        f"u{k} = add({f'u{k - 1}' if k > 1 else 'v0'}, v{k})" for k in range(1, 8))),
    _Row("running sums along both ways", 12, """
        a{k} = aten.cumsum.default({a}, 0)
        {n} = aten.cumsum.default(a{k}, 1)"""),
    _Row("running products", 20, """
        {n} = aten.cumprod.default({a}, 0)"""),
    _Row("running sums of running products", 10, """
        a{k} = aten.cumprod.default({a}, 0)
        {n} = aten.cumsum.default(a{k}, 1)"""),
    _Row("gathers", 40, """
        {n} = aten.gather.default({a}, 0, i)""", _INDEXED, provable=False),
    _Row("gathers by what was gathered", 20, """
        i{k} = aten.gather.default(i, 0, i)
        {n} = aten.gather.default({a}, 0, i{k})""", _INDEXED),
    _Row("scatters", 30, """
        {n} = aten.scatter.src({a}, 0, i, {b})""", _INDEXED, provable=False),
    _Row("accumulating scatters", 30, """
        {n} = aten.scatter_add.default({a}, 0, i, {b})""", _INDEXED),
    _Row("sorts of sorts", 20, """
        s{k} = aten.sort.default({a}, 0)
        a{k} = getitem(s{k}, 0)
        t{k} = aten.sort.default(a{k}, 1)
        {n} = getitem(t{k}, 0)""", provable=False),
    _Row("the largest of the largest", 20, """
        s{k} = aten.topk.default({a}, 4, 1)
        a{k} = getitem(s{k}, 0)
        {n} = mul(a{k}, w)"""),
    _Row("exponentials of exponentials", 6, """
        {n} = aten.exp.default({a})"""),
    _Row("logarithms of sums of exponentials", 20, """
        a{k} = aten.exp.default({a})
        b{k} = sum_dims(a{k}, [1], True)
        c{k} = aten.log.default(b{k})
        d{k} = expand(c{k}, [4, 4])
        {n} = add(d{k}, w)"""),
    _Row("roots of sums", 40, """
        a{k} = mul({a}, {a})
        b{k} = add(a{k}, {b})
        c{k} = aten.abs.default(b{k})
        {n} = aten.sqrt.default(c{k})"""),
    _Row("quotients of sums", 20, """
        a{k} = add({a}, {b})
        {n} = div({b}, a{k})""", provable=False),
    _Row("differences of squares", 8, """
        a{k} = add({a}, {b})
        b{k} = sub({a}, {b})
        {n} = mul(a{k}, b{k})"""),
    _Row("einsums", 16, """
        {n} = aten.einsum.default("ab,bc,cd->ad", [{a}, w, first])"""),
    _Row("einsums of diagonals", 12, """
        d{k} = aten.einsum.default("ab,ab,ba->ab", [{a}, {b}, w])
        {n} = mm(d{k}, {a})"""),
    _Row("convolutions", 12, f"""
        c{{k}} = {_CONVOLVED}
        {{n}} = relu(c{{k}})""", _IMAGES, first="first = mul(x, 3)"),
    _Row("quotients and remainders of integers", 30, """
        a{k} = aten.floor_divide.default({a}, 3)
        b{k} = aten.remainder.Scalar({a}, 7)
        c{k} = mul(a{k}, 11)
        {n} = add(b{k}, c{k})""", _WHOLE),
    _Row("remainders by what was divided", 20, """
        a{k} = aten.remainder.Tensor({a}, w)
        {n} = aten.floor_divide.default(a{k}, {b})""", _WHOLE),
    _Row("masks of masks", 40, """
        m{k} = aten.gt.Tensor({a}, {b})
        l{k} = aten.logical_not.default(m{k})
        f{k} = masked_fill({a}, l{k}, 0.5)
        {n} = masked_fill(f{k}, m{k}, -1.5)"""),
    _Row("masks combined", 24, """
        m{k} = aten.gt.Tensor({a}, w)
        l{k} = aten.lt.Tensor({b}, w)
        o{k} = aten.logical_or.default(m{k}, l{k})
        q{k} = aten.logical_and.default(o{k}, m{k})
        {n} = aten.where.self(q{k}, {a}, {b})"""),
    _Row("rotations along both ways", 100, """
        b{k} = slice({a}, 0, 1, 4)
        c{k} = slice({a}, 0, 0, 1)
        d{k} = cat([b{k}, c{k}], 0)
        e{k} = slice(d{k}, 1, 2, 4)
        f{k} = slice(d{k}, 1, 0, 2)
        {n} = cat([e{k}, f{k}], 1)"""),
    _Row("a running sum of what was doubled many times", 1, """
        h = aten.cumsum.default(g13, 0)
        {n} = slice(h, 0, 7, 11)""", once="g0 = cat([first, w], 0)\n" + "\n".join(
        f"g{k} = cat([g{k - 1}, g{k - 1}], 0)" for k in range(1, 14)), provable=False),
    _Row("a product of one-hot matrices of 4096", 1, """
        at = aten.arange.default(4096)
        column = unsqueeze(at, 1)
        row = unsqueeze(at, 0)
        e = aten.eq.Tensor(column, row)
        f = aten._to_copy.default(e, dtype=float32)
        g = mm(f, f)
        h = slice(g, 0, 3, 7)
        k = slice(h, 1, 3, 7)
        {n} = mul(k, first)"""),
    _Row("a sum of one-hot rows of 50,000", 1, """
        h = aten.one_hot.default(i, 50000)
        f = aten._to_copy.default(h, dtype=float32)
        s = sum_dims(f, [2], False)
        {n} = mul(s, first)""", _INDEXED),
    _Row("norms of norms", 40, """
        s{k} = mul({a}, {a})
        t{k} = sum_dims(s{k}, [1], True)
        u{k} = add(t{k}, 1.0)
        r{k} = aten.rsqrt.default(u{k})
        {n} = mul({a}, r{k})"""),
    _Row("softmaxes of products along both ways", 30, """
        m{k} = mm({a}, {b})
        s{k} = softmax(m{k}, 0, False)
        {n} = softmax(s{k}, 1, False)"""),
    _Row("products of maxima of sums", 30, """
        a{k} = add({a}, {b})
        m{k} = aten.maximum.default(a{k}, w)
        {n} = mul(m{k}, {b})"""),
    _Row("sines of cosines", 30, """
        a{k} = aten.sin.default({a})
        b{k} = aten.cos.default({b})
        {n} = mul(a{k}, b{k})"""),
)  # fmt: skip


def nested_shapes() -> Iterator[Shape]:
    """All shapes."""
    for row in _ROWS:
        yield row.shape()
