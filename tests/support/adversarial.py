"""Programs whose normal forms could grow without end: towers of operators, long chains, numbers with many digits.

They are written in the shorthand of :mod:`support.jobs` and have one output ``y``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from .nested_shapes import nested_shapes

__all__ = ["MIXED", "Pair", "commuted", "pairs", "tower"]

MIXED = (
    "add({a}, {b})",
    "mul({a}, {b})",
    "sub({a}, {b})",
    "mm({a}, {b})",
    "t({a})",
    "aten.maximum.default({a}, {b})",
    "aten.pow.Tensor_Scalar({a}, 2)",
    "softmax({a}, 1, False)",
)
_INPUTS = "x: float32[4, 4]\nw: float32[4, 4]"
# Another way to write x, which no structure shows to be the same.
_DETOUR = "x_flat = view(x, [16])\nx_again = view(x_flat, [4, 4])"


@dataclass(frozen=True)
class Pair:
    """Two programs; ``equal``: they compute the same, and that is to be proved, not only to be given up in time;
    ``wrong``: they do not compute the same."""

    name: str
    first: str
    second: str
    equal: bool = True
    wrong: bool = False


def tower(nodes: int, seed: int, calls: Sequence[str] = MIXED) -> str:
    """Calls on two of the latest results each, chosen at random."""
    r = Random(seed)
    names = ["x", "w"]
    lines = [_INPUTS]
    for k in range(nodes):
        a, b = names[-1 - r.randrange(min(3, len(names)))], names[-1 - r.randrange(min(8, len(names)))]
        names.append(f"n{k}")
        lines.append(f"n{k} = {r.choice(calls).format(a=a, b=b)}")
    return "\n".join([*lines, f"y = add({names[-1]}, x)", "-> y"])


def commuted(text: str) -> str:
    """The program with the operands of its first sum or product of two different results exchanged."""
    lines = text.splitlines()
    for k, line in enumerate(lines):
        name, _, call = line.partition(" = ")
        operator, _, operands = call.removesuffix(")").partition("(")
        a, _, b = operands.partition(", ")
        if operator in ("add", "mul") and a != b:
            lines[k] = f"{name} = {operator}({b}, {a})"
            break
    return "\n".join(lines)


def again(text: str) -> str:
    """The program with x written in another way, so that the two are not the same up to names."""
    head, _, body = text.partition(_INPUTS)
    for before, after in (("(x,", "(x_again,"), (", x)", ", x_again)"), ("(x)", "(x_again)"), ("[x,", "[x_again,")):
        body = body.replace(before, after)
    return f"{head}{_INPUTS}\n{_DETOUR}{body}"


def chain(step: str, times: int, first: str = "x", before: str = "") -> str:
    """A step over and over: ``{a}`` is the result before, ``{k}`` the number of the step."""
    lines, last = [_INPUTS, *([before] if before else [])], first
    for k in range(times):
        lines.append(f"n{k} = {step.format(a=last, k=k)}")
        last = f"n{k}"
    return "\n".join([*lines, f"y = add({last}, {last})", "-> y"])


def _concatenated(count: int, then: str = "") -> str:
    parts = "\n".join(f"a{k} = mul(x, {k}.5)" for k in range(count))
    names = ", ".join(f"a{k}" for k in range(count))
    return f"{_INPUTS}\n{parts}\nz = cat([{names}], 0)\n{then or 'y = mul(z, 2)'}\n-> y"


def _split(count: int, item: int) -> str:
    one = "a = slice(x, 0, 0, 1)\nb = slice(a, 1, 0, 1)\nc = view(b, [1])"
    parts = f"d = expand(c, [{count}])\nall = aten.split.Tensor(d, 1)\ne = getitem(all, {item})"
    return f"{_INPUTS}\n{one}\n{parts}\ny = add(e, w)\n-> y"


def _powers(base: str, exponent: str) -> str:
    power = f"c = aten.full.default([4, 4], {base})\np = aten.pow.Tensor_Scalar(c, {exponent})"
    return f"{_INPUTS}\n{power}\ny = mul(p, x)\n-> y"


def pairs() -> Iterator[Pair]:
    """What has made searches endless, or could."""
    kinds = {
        "mixed": MIXED,
        "matrix products": ("mm({a}, {b})", "mm({a}, {b})", "t({a})"),
        "sums of matrix products": ("mm({a}, {b})", "add({a}, {b})"),
        "differences of products": ("mul({a}, {b})", "sub({a}, {b})"),
        "maxima": ("aten.maximum.default({a}, {b})", "add({a}, {b})", "mul({a}, {b})"),
        "powers": ("aten.pow.Tensor_Scalar({a}, 2)", "add({a}, {b})", "mul({a}, {b})"),
        "softmaxes": ("softmax({a}, 1, False)", "mm({a}, {b})", "add({a}, {b})"),
        "row sums": ("sum_dims({a}, [1], True)", "add({a}, {b})", "mul({a}, {b})"),
        "exponentials": ("aten.exp.default({a})", "mul({a}, {b})", "mm({a}, {b})"),
    }
    for name, calls in kinds.items():
        for seed in (0, 1):
            text = tower(97, seed, calls)
            yield Pair(f"tower of {name}, {seed}: itself", text, text)
            yield Pair(f"tower of {name}, {seed}: one pair of operands exchanged", text, commuted(text))
            short = name != "powers"  # numbers of so many digits have no normal form
            yield Pair(f"tower of {name}, {seed}: an input written otherwise", text, again(text), short)
    steps = {
        "squares": ("mul({a}, {a})", 40),
        "squares by mm": ("mm({a}, {a})", 12),
        "maxima": ("aten.maximum.default({a}, w)", 200),
        "softmaxes": ("softmax({a}, 1, False)", 100),
        "layer norms": ("aten.layer_norm.default({a}, [4])", 60),
        "concatenations": ("cat([{a}, w], 0)", 400),
    }
    for name, (step, times) in steps.items():
        text = chain(step, times)
        yield Pair(f"{times} {name} in one another", text, again(text))
    yield Pair("40 squares against 39", chain("mul({a}, {a})", 40), chain("mul({a}, {a})", 39), False)
    yield Pair("a sum of 400 parts", _concatenated(400), again(_concatenated(400)))
    products = "u = t(z)\ny = mm(u, z)"
    yield Pair("a product of 400 parts", _concatenated(400, products), again(_concatenated(400, products)))
    yield Pair("3.0 ** 1e9", _powers("3.0", "1000000000.0"), again(_powers("3.0", "1000000000.0")), False)
    yield Pair("3.0 ** 1e9 against 9.0 ** 5e8", _powers("3.0", "1000000000.0"), _powers("9.0", "500000000.0"), False)
    three, nine = (f"c = aten.full.default([4, 4], {number})" for number in (3.0, 9.0))
    squares = chain("mul({a}, {a})", 40, "c", three), chain("mul({a}, {a})", 39, "c", nine)
    yield Pair("3.0 squared 40 times against 9.0 squared 39 times", *squares, False)
    yield Pair("60,000 parts", _split(60_000, 59_999), _split(60_000, 7))
    yield from _symmetric()
    yield from _long()
    for shape in nested_shapes():
        yield Pair(f"{shape.name}: otherwise written", shape.program, shape.equal, shape.provable)
        yield Pair(f"{shape.name}: another first step", shape.program, shape.wrong, False, True)


def _symmetric() -> Iterator[Pair]:
    """Products and sums of many tensors that nothing tells apart, in two orders."""
    for count in (8, 12):
        names = [f"a{k}" for k in range(count)]
        inputs = "\n".join(f"{name}: float32[4, 4]" for name in names)
        for what, call in (("sums", "add"), ("products", "mul"), ("maxima", "aten.maximum.default")):
            both: list[str] = []
            for order in (names, names[::-1]):
                rows, last = [inputs], order[0]
                for k, name in enumerate(order[1:]):
                    rows.append(f"n{k} = {call}({last}, {name})")
                    last = f"n{k}"
                both.append("\n".join([*rows, f"y = mul({last}, {last})", "-> y"]))
            yield Pair(f"{what} of {count} tensors, backwards", both[0], both[1])
    for count in (6, 10, 12):
        rows = [_INPUTS]
        for operands in (("x", "w"), ("w", "x")):
            rows.append(f"m_{operands[0]} = mm({operands[0]}, {operands[0]})")
        for k in range(count):
            rows += [f"t{k} = t(x)", f"p{k} = mm(x, t{k})", f"s{k} = sum_dims(p{k}, [0, 1], True)"]
        for k in range(count):
            rows.append(f"q{k} = mul({f'q{k - 1}' if k else 's0'}, s{k})")
        rows += [f"y = mul(q{count - 1}, w)", "-> y"]
        yield Pair(f"{count} equal traces multiplied", "\n".join(rows), again("\n".join(rows)))
    for count in (4, 6, 8):
        letters = "abcdefghijkl"[:count]
        einsum = ",".join(f"{a}{b}" for a in letters[:2] for b in letters[2:])
        operands = ", ".join("x" for _ in einsum.split(","))
        call = f'aten.einsum.default("{einsum}->{letters[0]}{letters[1]}", [{operands}])'
        other = f'aten.einsum.default("{",".join(einsum.split(",")[::-1])}->{letters[0]}{letters[1]}", [{operands}])'
        first, second = (f"{_INPUTS}\nz = {c}\ny = mul(z, 0.5)\n-> y" for c in (call, other))
        yield Pair(f"a symmetric einsum of {2 * (count - 2)} factors", first, second)


def _long() -> Iterator[Pair]:
    """Long chains of what moves, selects, adds up and compares; deep and wide trees."""
    steps = {
        "slices": ("cat([b{k}, c{k}], 0)", 120, ("b{k} = slice({a}, 0, 1, 4)", "c{k} = slice({a}, 0, 0, 1)")),
        "choices": ("aten.where.self(b{k}, {a}, w)", 60, ("b{k} = aten.gt.Scalar({a}, 0)",)),
        "running sums": ("aten.cumsum.default({a}, 0)", 24, ()),
        "transposes and flips": ("aten.flip.default(b{k}, [0])", 150, ("b{k} = t({a})",)),
        "clamps": ("aten.clamp.default({a}, -1.5, 2.5)", 80, ()),
        "roundings": ("aten.floor.default({a})", 80, ()),
        "rolls": ("aten.roll.default({a}, [1], [0])", 80, ()),
        "pads": ("slice(b{k}, 0, 1, 5)", 60, ("b{k} = aten.constant_pad_nd.default({a}, [0, 0, 1, 0], 0.5)",)),
        "roots of squares": ("aten.sqrt.default(b{k})", 40, ("b{k} = mul({a}, {a})",)),
        "quotients": ("aten.div.Tensor(b{k}, w)", 40, ("b{k} = mul({a}, w)",)),
        "exponentials of logarithms": ("aten.exp.default(b{k})", 30, ("b{k} = aten.log.default({a})",)),
        "masked fills": ("masked_fill({a}, b{k}, 0.0)", 40, ("b{k} = aten.lt.Tensor({a}, w)",)),
    }
    for name, (step, times, before) in steps.items():
        rows, last = [_INPUTS], "x"
        for k in range(times):
            rows += [line.format(a=last, k=k) for line in before]
            rows.append(f"n{k} = {step.format(a=last, k=k)}")
            last = f"n{k}"
        text = "\n".join([*rows, f"y = add({last}, {last})", "-> y"])
        yield Pair(f"{times} {name} in one another", text, again(text))
    for width in (128, 512):
        rows = [f"a{k} = mul(x, {k}.25)" for k in range(width)]
        adds = [[f"s{k} = add({f's{k - 1}' if k > 1 else 'a0'}, a{k})" for k in range(1, width)]]
        left = "\n".join([_INPUTS, *rows, *adds[0], f"y = mul(s{width - 1}, w)", "-> y"])
        level, tree, number = [f"a{k}" for k in range(width)], list[str](), 0
        while len(level) > 1:
            new: list[str] = []
            for a, b in zip(level[::2], level[1::2], strict=True):
                tree.append(f"u{number} = add({a}, {b})")
                new.append(f"u{number}")
                number += 1
            level = new
        right = "\n".join([_INPUTS, *rows, *tree, f"y = mul({level[0]}, w)", "-> y"])
        yield Pair(f"a sum of {width} terms, from the left and as a tree", left, right)
    for count in (64, 512):
        hot = (
            f"x: float32[{count}, 4]\ni: int64[8]\nh = aten.one_hot.default(i, {count})\n"
            "f = aten._to_copy.default(h, dtype=float32)\ny = mm(f, x)\n-> y"
        )
        rows_ = f"x: float32[{count}, 4]\ni: int64[8]\ny = aten.embedding.default(x, i)\n-> y"
        yield Pair(f"rows of {count} by one-hot and by index", hot, rows_, False)
