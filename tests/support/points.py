"""Random programs whose pairs differ at single numbers, or not at all; the verdicts on them, judged by PyTorch eager.

A program is a list of calls on floats, integers and booleans, with comparisons, maxima, quotients, orders, masks and
random numbers. Its partner writes some calls otherwise: with the same meaning everywhere, or everywhere but at ties,
zeros, negative integers or masked rows. What is REFUTED has to differ in eager on the counterexample; what is PROVED
must not differ anywhere. Where numbers are drawn, both run several times.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import torch

from support.decided import Pair, verdict_of
from tantamount.verdict import Verdict

SHAPE = (3, 4)
TIMES = 12  # runs of programs that draw
KINDS = {"x": "f", "y": "f", "i": "i", "j": "i", "m": "b"}
INPUTS = "x: float64[3, 4]; y: float64[3, 4]; i: int64[3, 4]; j: int64[3, 4]; m: bool[3, 4]; "


@dataclass(frozen=True)
class Call:
    """``name = target(args)``; arguments that are names are strings, others numbers, lists or strings with quotes."""

    name: str
    target: str
    args: tuple[Any, ...]

    @property
    def text(self) -> str:
        return f"{self.name} = {self.target}({', '.join(map(_shown, self.args))})"


def _shown(value: Any) -> str:
    return "-inf" if value == -inf else str(value)


@dataclass
class Program:
    """Calls; the last one gives the output ``z``."""

    calls: list[Call] = field(default_factory=list[Call])
    fresh: int = 0

    def call(self, target: str, *args: Any) -> str:
        """The name of a new call's result."""
        self.fresh += 1
        self.calls.append(Call(f"t{self.fresh}", target, args))
        return f"t{self.fresh}"

    @property
    def text(self) -> str:
        return INPUTS + "; ".join(call.text for call in self.calls) + f"; z = aten.clone.default(t{self.fresh}); -> z"

    @property
    def draws(self) -> bool:
        return any("rand" in c.target or "bernoulli" in c.target for c in self.calls)

    def run(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The output in eager."""
        values: dict[str, Any] = dict(inputs)
        for call in self.calls:
            _, name, overload = call.target.split(".")
            args = [values.get(a, a) if isinstance(a, str) else a for a in call.args]
            kwargs = {}
            if args and isinstance(args[-1], str):
                key, _, text = args.pop().partition("=")
                kwargs[key] = text.strip('"')
            values[call.name] = getattr(getattr(torch.ops.aten, name), overload)(*args, **kwargs)
        return values[f"t{self.fresh}"]


# Ways to write one function: kinds of operands, kind of the result, and the ways. The first ones mean the same, those
# after None something else at some numbers.
Way = Callable[..., str]


def _ways() -> list[tuple[str, str, list[Way | None]]]:
    def c(target: str, *more: Any) -> Way:
        return lambda p, *xs: p.call(f"aten.{target}", *xs, *more)

    def relu_where(p: Program, x: str) -> str:
        return p.call("aten.where.ScalarOther", p.call("aten.gt.Scalar", x, 0), x, 0.0)

    def relu_abs(p: Program, x: str) -> str:
        return p.call("aten.mul.Scalar", p.call("aten.add.Tensor", p.call("aten.abs.default", x), x), 0.5)

    def relu_one(p: Program, x: str) -> str:
        return p.call("aten.where.ScalarOther", p.call("aten.lt.Scalar", x, 1), p.call("aten.relu.default", x), 1.0)

    def maximum_where(p: Program, x: str, y: str) -> str:
        return p.call("aten.where.self", p.call("aten.gt.Tensor", x, y), x, y)

    def maximum_relu(p: Program, x: str, y: str) -> str:
        return p.call("aten.add.Tensor", p.call("aten.relu.default", p.call("aten.sub.Tensor", x, y)), y)

    def tie_is_zero(p: Program, x: str, y: str) -> str:
        return p.call("aten.mul.Tensor", p.call("aten.maximum.default", x, y), p.call("aten.ne.Tensor", x, y))

    def not_less(p: Program, x: str, y: str) -> str:
        return p.call("aten.logical_not.default", p.call("aten.lt.Tensor", x, y))

    def difference(p: Program, x: str, y: str) -> str:
        return p.call("aten.ge.Scalar", p.call("aten.sub.Tensor", x, y), 0)

    def halves(p: Program, i: str) -> str:
        return p.call("aten.floor_divide.Scalar", p.call("aten.floor_divide.Scalar", i, 2), 3)

    def six_three(p: Program, i: str) -> str:
        return p.call("aten.remainder.Scalar", p.call("aten.remainder.Scalar", i, 6), 3)

    def argmin_of_negative(p: Program, x: str) -> str:
        return p.call("aten.argmin.default", p.call("aten.neg.default", x), 1)

    def argmax_scaled(p: Program, x: str) -> str:
        return p.call("aten.argmax.default", p.call("aten.mul.Scalar", x, 2.0), 1)

    def argmax_flipped(p: Program, x: str) -> str:
        place = p.call("aten.argmax.default", p.call("aten.flip.default", x, [1]), 1)
        return p.call("aten.rsub.Scalar", place, 3)

    def argmax_relu(p: Program, x: str) -> str:
        return p.call("aten.argmax.default", p.call("aten.relu.default", x), 1)

    def kept(p: Program, x: str, m: str) -> str:
        return p.call("aten.where.self", p.call("aten.logical_not.default", m), x, p.call("aten.zeros_like.default", x))

    def zero_times(p: Program, x: str, m: str) -> str:
        return p.call("aten.mul.Tensor", x, p.call("aten.logical_not.default", m))

    def softmax_of(fill: float) -> Way:
        def way(p: Program, x: str, m: str) -> str:
            return p.call("aten._softmax.default", p.call("aten.masked_fill.Scalar", x, m, fill), 1, False)

        return way

    def softmax_rest(p: Program, x: str, m: str) -> str:
        e = p.call("aten.masked_fill.Scalar", p.call("aten.exp.default", x), m, 0.0)
        return p.call("aten.div.Tensor", e, p.call("aten.sum.dim_IntList", e, [1], True))

    def drawn(compare: str, number: float) -> Way:
        def way(p: Program, x: str) -> str:
            return p.call(
                "aten.mul.Tensor", x, p.call(f"aten.{compare}.Scalar", p.call("aten.rand_like.default", x), number)
            )

        return way

    def kept_by(number: float) -> Way:
        def way(p: Program, x: str) -> str:
            return p.call("aten.mul.Tensor", x, p.call("aten.bernoulli.p", x, number))

        return way

    def shuffled(p: Program, x: str) -> str:
        order = p.call("aten.randperm.default", 4)
        return p.call("aten.sum.dim_IntList", p.call("aten.index_select.default", x, 1, order), [1])

    def first(p: Program, x: str) -> str:
        order = p.call("aten.randperm.default", 4)
        return p.call("aten.select.int", p.call("aten.index_select.default", x, 1, order), 1, 0)

    same = c("mul.Scalar", 1.0)
    truncated = {n: c("div.Scalar_mode", n, 'rounding_mode="trunc"') for n in (2, 6)}
    relus = [c("relu.default"), c("clamp_min.default", 0), relu_where, relu_abs]
    return [
        ("f", "f", [*relus, None, relu_one, c("abs.default")]),
        ("ff", "f", [c("maximum.default"), maximum_where, maximum_relu, None, tie_is_zero]),
        ("ff", "b", [c("ge.Tensor"), not_less, difference, None, c("gt.Tensor")]),
        ("f", "b", [c("gt.Scalar", 0), None, c("ge.Scalar", 0), c("gt.Scalar", 0.5), c("ne.Scalar", 0)]),
        ("f", "b", [c("le.Scalar", 1.5), None, c("lt.Scalar", 1.5)]),
        ("f", "f", [c("sign.default"), None, c("tanh.default")]),
        ("i", "i", [c("floor_divide.Scalar", 6), halves, None, truncated[6]]),
        ("i", "i", [c("remainder.Scalar", 3), six_three, None, c("fmod.Scalar", 3)]),
        ("i", "i", [c("bitwise_and.Scalar", 1), c("remainder.Scalar", 2), None, c("fmod.Scalar", 2)]),
        ("i", "i", [c("__rshift__.Scalar", 1), c("floor_divide.Scalar", 2), None, truncated[2]]),
        ("i", "b", [c("eq.Scalar", -100), None, c("lt.Scalar", -99), c("eq.Scalar", -101)]),
        ("f", "r", [c("argmax.default", 1), argmin_of_negative, argmax_scaled, None, argmax_flipped, argmax_relu]),
        ("fb", "f", [c("masked_fill.Scalar", 0.0), kept, zero_times, None, c("masked_fill.Scalar", 1.0)]),
        ("fb", "f", [softmax_of(-inf), softmax_rest, None, softmax_of(-1e4)]),
        ("f", "f", [same, drawn("lt", 2.0), drawn("ge", 0.0), kept_by(1.0), None, drawn("lt", 0.5), kept_by(0.5)]),
        ("f", "s", [c("sum.dim_IntList", [1]), shuffled, None, first]),
    ]  # fmt: skip


WAYS = _ways()


def pair_of(seed: int) -> tuple[Program, Program]:
    """A program and its partner."""
    choose = random.Random(seed)
    ours, theirs = Program(), Program()
    known: dict[str, list[tuple[str, str]]] = {"f": [], "i": [], "b": [], "r": [], "s": []}
    for name, kind in KINDS.items():
        known[kind].append((name, name))
    wrong = choose.random() < 0.5  # somewhere
    steps = choose.randint(1, 3)
    for step in range(steps):
        last = known["f"][-1] if step else None
        kinds, result, ways = choose.choice([w for w in WAYS if step == 0 or "f" in w[0]])
        operands = [choose.choice(known[k]) for k in kinds]
        if last is not None and "f" in kinds:
            operands[kinds.index("f")] = last
        cut = ways.index(None)
        mine = choose.choice(ways[:cut])
        other = choose.choice(ways[cut + 1 :] if wrong and choose.random() < 0.6 else ways[:cut])
        assert mine is not None
        assert other is not None
        found = mine(ours, *[a for a, _ in operands]), other(theirs, *[b for _, b in operands])
        if result in "rs":
            return ours, theirs
        known[result].append(found)
        if result != "f":
            made = [p.call("aten.mul.Tensor", "x", t) for p, t in zip((ours, theirs), found, strict=True)]
            known["f"].append((made[0], made[1]))
    return ours, theirs


def inputs_of(seed: int) -> Iterator[dict[str, torch.Tensor]]:
    """Inputs at which such programs differ, if they do."""
    choose = torch.Generator().manual_seed(seed)
    for k in range(8):

        def drawn(low: int, high: int) -> torch.Tensor:
            return torch.randint(low, high, SHAPE, generator=choose)

        halves = drawn(-4, 5).double() / 2
        # of few binary digits, so that sums and differences are not rounded: (x - y) + y >= x is true
        fine = torch.randn(SHAPE, generator=choose, dtype=torch.float64).mul(1024).round() / 1024
        x = fine if k % 4 == 3 else halves
        y = x.clone() if k % 3 == 1 else drawn(-4, 5).double() / 2
        i = torch.where(drawn(0, 4) == 0, torch.tensor(-100), drawn(-9, 10))
        m = torch.ones(SHAPE, dtype=torch.bool) if k == 2 else drawn(0, 2).bool()
        yield {"x": x, "y": y, "i": i, "j": drawn(-5, 6), "m": m}


def outcomes(program: Program, inputs: dict[str, torch.Tensor], times: int = TIMES) -> list[torch.Tensor]:
    """What eager gives, once, or several times if numbers are drawn."""
    return [program.run(inputs).double() for _ in range(times if program.draws else 1)]


def differs(ours: Program, theirs: Program, inputs: dict[str, torch.Tensor], times: int = TIMES) -> bool:
    """True if eager shows a difference where the first program's result is finite, or numbers that are drawn matter."""
    wanted, found = outcomes(ours, inputs, times), outcomes(theirs, inputs, times)
    for a in wanted:
        for b in found:
            alive = torch.isfinite(a)
            if not torch.allclose(a[alive], b[alive], rtol=1e-9, atol=1e-12, equal_nan=False):
                return True
    return False


def judged(seed: int, folder: Path) -> tuple[Verdict, str]:
    """The verdict on a pair, and what is wrong with it (nothing, if nothing is)."""
    ours, theirs = pair_of(seed)
    torch.manual_seed(seed)
    report = verdict_of(Pair(str(seed), ours.text, theirs.text, ""), folder)
    if report.verdict is Verdict.REFUTED:
        example = report.counterexample
        if example is None:
            return report.verdict, "no counterexample"
        types = {"f": torch.float64, "i": torch.int64, "b": torch.bool}
        given = {name: torch.zeros(SHAPE, dtype=types[kind]) for name, kind in KINDS.items()}
        given |= {n: torch.tensor(v, dtype=types[KINDS[n]]).reshape(SHAPE) for n, v in example.inputs.items()}
        # a difference that one draw in many shows (an element that is kept, and then chosen) takes more of them
        if not differs(ours, theirs, given) and not differs(ours, theirs, given, 20 * TIMES):
            return report.verdict, f"refuted, and equal in eager:\n{ours.text}\n{theirs.text}\n{example.inputs}"
    if report.verdict is Verdict.PROVED:
        for given in inputs_of(seed):
            if differs(ours, theirs, given):
                return report.verdict, f"proved, and different in eager:\n{ours.text}\n{theirs.text}\n{given}"
    return report.verdict, ""
