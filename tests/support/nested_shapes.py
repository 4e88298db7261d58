"""More programs whose normal forms could grow without end: operators inside themselves, many times.

Each shape is written three times: as it is, with the operands of its last sum exchanged and its input written in
another way (the same function, which no structure shows), and with another number in its first step (another function).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

__all__ = ["nested_shapes"]

Shape = tuple[str, str, str, str]  # a name, the program, an equal one, and one that differs

_INPUTS = "x: float32[4, 4]\nw: float32[4, 4]"
_DETOUR = "x_flat = view(x, [16])\nx_again = view(x_flat, [4, 4])"


def _program(rows: Sequence[str], inputs: str = _INPUTS, end: str = "y = add(last, first)") -> str:
    return "\n".join([inputs, *rows, end, "-> y"])


def _three(name: str, first: str, rows: Sequence[str], wrong: str, inputs: str = _INPUTS) -> Shape:
    """``first`` makes the tensor ``first`` of x and w, ``wrong`` another one; ``rows`` make ``last`` of it."""
    detour = _DETOUR if "x: float32[4, 4]" in inputs else ""
    again = first.replace("x", "x_again") if detour else first
    exchanged = "y = add(first, last)"
    return (
        name,
        _program([first, *rows], inputs),
        _program([*([detour] if detour else []), again, *rows], inputs, exchanged),
        _program([wrong, *rows], inputs),
    )


def _steps(times: int, *lines: str) -> list[str]:
    """Lines over and over: ``{a}`` is the tensor before, ``{b}`` the one before that, ``{n}`` the new one, ``{k}`` its
    number."""
    rows, names = [], ["first", "first"]
    for k in range(times):
        new = "last" if k == times - 1 else f"n{k}"
        rows += [line.format(a=names[-1], b=names[-2], n=new, k=k) for line in lines]
        names.append(new)
    return rows


def nested_shapes() -> Iterator[Shape]:
    """Shapes on tensors of sixteen numbers."""
    add, other = "first = add(x, w)", "first = mul(x, 1.0625)"
    maximum, minimum = "aten.maximum.default", "aten.minimum.default"
    rows = _steps(60, f"a{{k}} = {maximum}({{a}}, w)", f"b{{k}} = {minimum}(a{{k}}, {{b}})", "{n} = mul(b{k}, 1.5)")
    yield _three("60 maxima of minima", add, rows, other)
    rows = _steps(40, "c{k} = aten.gt.Tensor({a}, {b})", "{n} = aten.where.self(c{k}, w, {a})")
    yield _three("40 choices by what was chosen", add, rows, other)
    rows = _steps(30, f"a{{k}} = {maximum}({{a}}, w)", "c{k} = aten.gt.Scalar(a{k}, 0.5)", f"m{{k}} = {minimum}({{b}}, a{{k}})",
                  "{n} = aten.where.self(c{k}, a{k}, m{k})")  # fmt: skip
    yield _three("30 choices among maxima and minima", add, rows, other)
    names = [f"v{k}" for k in range(8)]
    many = "\n".join(f"{name}: float32[4, 4]" for name in (*names, "x", "w"))
    sums = [f"s0_{k} = {('add' if k % 2 else 'sub')}({a}, {b})" for k, (a, b) in enumerate(zip(names, names[1:]))]
    rows = [*sums, *(f"p{k} = mul({f'p{k - 1}' if k else 'first'}, s0_{k})" for k in range(len(sums)))]
    rows += ["q0 = mul(p6, p6)", "last = mul(q0, p5)"]
    yield _three("products of sums of many tensors", add, rows, other, many)
    wide = [f"u{k} = add({f'u{k - 1}' if k else names[0]}, {name})" for k, name in enumerate(names[1:])]
    rows = [*wide, "p0 = mul(u6, first)", *(f"p{k} = mul(p{k - 1}, u6)" for k in range(1, 10)), "last = mul(p9, first)"]
    yield _three("the tenth power of a sum of eight", add, rows, other, many)
    yield _three("12 running sums along both ways", add, _steps(12, "a{k} = aten.cumsum.default({a}, 0)", "{n} = aten.cumsum.default(a{k}, 1)"), other)  # fmt: skip
    yield _three("20 running products", add, _steps(20, "{n} = aten.cumprod.default({a}, 0)"), other)
    yield _three("running sums of running products", add, _steps(10, "a{k} = aten.cumprod.default({a}, 0)", "{n} = aten.cumsum.default(a{k}, 1)"), other)  # fmt: skip
    indexed = f"{_INPUTS}\ni: int64[4, 4]"
    yield _three("40 gathers in one another", add, _steps(40, "{n} = aten.gather.default({a}, 0, i)"), other, indexed)
    yield _three(
        "30 scatters in one another", add, _steps(30, "{n} = aten.scatter.src({a}, 0, i, {b})"), other, indexed
    )
    yield _three("30 accumulating scatters", add, _steps(30, "{n} = aten.scatter_add.default({a}, 0, i, {b})"), other, indexed)  # fmt: skip
    yield _three("gathers by what was gathered", add, _steps(20, "i{k} = aten.gather.default(i, 0, i)", "{n} = aten.gather.default({a}, 0, i{k})"), other, indexed)  # fmt: skip
    yield _three("20 sorts of sorts", add, _steps(20, "s{k} = aten.sort.default({a}, 0)", "a{k} = getitem(s{k}, 0)", "t{k} = aten.sort.default(a{k}, 1)", "{n} = getitem(t{k}, 0)"), other)  # fmt: skip
    yield _three("20 largest of the largest", add, _steps(20, "s{k} = aten.topk.default({a}, 4, 1)", "a{k} = getitem(s{k}, 0)", "{n} = mul(a{k}, w)"), other)  # fmt: skip
    yield _three("6 exponentials of exponentials", add, _steps(6, "{n} = aten.exp.default({a})"), other)
    yield _three("20 exponentials of sums of exponentials", add, _steps(20, "a{k} = aten.exp.default({a})", "b{k} = sum_dims(a{k}, [1], True)", "c{k} = aten.log.default(b{k})", "d{k} = expand(c{k}, [4, 4])", "{n} = add(d{k}, w)"), other)  # fmt: skip
    yield _three("40 roots of sums", add, _steps(40, "a{k} = mul({a}, {a})", "b{k} = add(a{k}, {b})", "c{k} = aten.abs.default(b{k})", "{n} = aten.sqrt.default(c{k})"), other)  # fmt: skip
    yield _three("20 quotients of sums", add, _steps(20, "a{k} = add({a}, {b})", "{n} = div({b}, a{k})"), other)
    yield _three("8 differences of squares", add, _steps(8, "a{k} = add({a}, {b})", "b{k} = sub({a}, {b})", "{n} = mul(a{k}, b{k})"), other)  # fmt: skip
    chain = ['e0 = aten.einsum.default("ab,bc->ac", [first, w])']
    chain += [f'e{k} = aten.einsum.default("ab,bc,cd->ad", [e{k - 1}, w, first])' for k in range(1, 16)]
    yield _three("a chain of einsums", add, [*chain, "last = mul(e15, w)"], other)
    yield _three("einsums of many diagonals", add, _steps(12, 'd{k} = aten.einsum.default("ab,ab,ba->ab", [{a}, {b}, w])', "{n} = mm(d{k}, {a})"), other)  # fmt: skip
    images = "v: float32[1, 2, 6, 6]\nf: float32[2, 2, 3, 3]\nb: float32[2]"
    yield _three("12 convolutions", "first = mul(v, 2.0)", _steps(12, "c{k} = aten.convolution.default({a}, f, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)", "{n} = relu(c{k})"), "first = mul(v, 2.5)", images)  # fmt: skip
    yield _three("6 convolutions of 16 channels, with strides", "first = mul(v, 2.0)", [*_steps(6, "{n} = aten.convolution.default({a}, f, b, [1, 1], [2, 2], [2, 2], False, [0, 0], 1)")], "first = mul(v, 2.5)", "v: float32[1, 16, 8, 8]\nf: float32[16, 16, 3, 3]\nb: float32[16]")  # fmt: skip
    whole = "i: int64[4, 4]\nj: int64[4, 4]"
    div = "aten.div.Tensor_mode({a}, {m}, rounding_mode='floor')"
    yield _three("30 divisions and remainders", "first = add(i, j)", _steps(30, "a{k} = aten.floor_divide.default({a}, {k_3})".replace("{k_3}", "3"), "b{k} = aten.remainder.Scalar({a}, 7)", "c{k} = mul(a{k}, 11)", "{n} = add(b{k}, c{k})"), "first = sub(i, j)", whole)  # fmt: skip
    del div
    yield _three("20 remainders by what was divided", "first = add(i, j)", _steps(20, "a{k} = aten.remainder.Tensor({a}, j)", "{n} = aten.floor_divide.default(a{k}, {b})"), "first = sub(i, j)", whole)  # fmt: skip
    yield _three("masks of masks", add, _steps(40, "m{k} = aten.gt.Tensor({a}, {b})", "l{k} = aten.logical_not.default(m{k})", "f{k} = masked_fill({a}, l{k}, 0.5)", "{n} = masked_fill(f{k}, m{k}, -1.5)"), other)  # fmt: skip
    yield _three("masks combined", add, _steps(24, "m{k} = aten.gt.Tensor({a}, w)", "l{k} = aten.lt.Tensor({b}, w)", "o{k} = aten.logical_or.default(m{k}, l{k})", "q{k} = aten.logical_and.default(o{k}, m{k})", "{n} = aten.where.self(q{k}, {a}, {b})"), other)  # fmt: skip
    cut = _steps(100, "b{k} = slice({a}, 0, 1, 4)", "c{k} = slice({a}, 0, 0, 1)", "d{k} = cat([b{k}, c{k}], 0)", "e{k} = slice(d{k}, 1, 2, 4)", "f{k} = slice(d{k}, 1, 0, 2)", "{n} = cat([e{k}, f{k}], 1)")  # fmt: skip
    yield _three("100 rotations along both ways", add, cut, other)
    grown = ["g0 = cat([first, w], 0)", *(f"g{k} = cat([g{k - 1}, g{k - 1}], 0)" for k in range(1, 14)), "h = aten.cumsum.default(g13, 0)", "last = slice(h, 0, 7, 11)"]  # fmt: skip
    yield _three("a running sum over 100,000 rows", add, grown, other)
    large = ["at = aten.arange.default(100000)", "h = aten.one_hot.default(at, 100000)"] if False else ["at = aten.arange.default(4096)", "col = unsqueeze(at, 1)", "row = unsqueeze(at, 0)", "eq = aten.eq.Tensor(col, row)", "f = aten._to_copy.default(eq, dtype=float32)", "g = mm(f, f)", "h = slice(g, 0, 3, 7)", "k = slice(h, 1, 3, 7)", "last = mul(k, first)"]  # fmt: skip
    yield _three("a product of one-hot matrices of 4096", add, large, other)
    hot = ["h = aten.one_hot.default(i, 50000)", "f = aten._to_copy.default(h, dtype=float32)", "s = sum_dims(f, [2], False)", "last = mul(s, first)"]  # fmt: skip
    yield _three("a sum of one-hot rows of 50,000", add, hot, other, indexed)
    yield _three("40 norms of norms", add, _steps(40, "s{k} = mul({a}, {a})", "t{k} = sum_dims(s{k}, [1], True)", "u{k} = add(t{k}, 1.0)", "r{k} = aten.rsqrt.default(u{k})", "{n} = mul({a}, r{k})"), other)  # fmt: skip
    yield _three("30 softmaxes of products along both ways", add, _steps(30, "m{k} = mm({a}, {b})", "s{k} = softmax(m{k}, 0, False)", "{n} = softmax(s{k}, 1, False)"), other)  # fmt: skip
    yield _three("products of maxima of sums", add, _steps(30, "a{k} = add({a}, {b})", f"m{{k}} = {maximum}(a{{k}}, w)", "{n} = mul(m{k}, {b})"), other)  # fmt: skip
    yield _three("30 sines of cosines", add, _steps(30, "a{k} = aten.sin.default({a})", "b{k} = aten.cos.default({b})", "{n} = mul(a{k}, b{k})"), other)  # fmt: skip
