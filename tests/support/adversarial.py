"""Programs whose normal forms could grow without end: towers of operators, long chains, numbers with many digits.

They are written in the shorthand of :mod:`support.jobs` and have one output ``y``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

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
    """Two programs that compute the same; ``equal``: that is to be proved, and not only to be given up in time."""

    name: str
    first: str
    second: str
    equal: bool = True


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
