"""Families of PyTorch functions that agree on easy inputs, and differ at ties, masked rows, ends of types, edges of
domains, kinks and where memory is shared. Eager PyTorch judges; nothing here knows the right verdict of a pair.

A family is a list of functions of the same tensors. A function differs from another one if on some input, drawn where
such programs differ, an element of the first that is finite is not equal in the second (or the second fails). Every
ordered pair that differs is given to ``refine``: none may be PROVED. Of pairs that do not, what is REFUTED has to
differ in eager on the counterexample.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import permutations
from math import prod
from typing import Any

import torch
from torch import Tensor

import tantamount as tt
from tantamount.verdict import Verdict

__all__ = ["Family", "Judged", "Table", "agrees", "family", "judge"]

Program = Callable[..., Any]
CLOSE = 1e-9  # of the largest element
_SETS = 12  # inputs of a family
_REALS = (-2.0, -1.0, -1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class Family:
    """``inputs``: the parameters of all functions, with element type and shape; ``values``: the numbers that an input
    takes, by parameter (without: those of its type); ``close``: what rounding does, by the largest element."""

    group: str
    name: str
    inputs: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]
    programs: Sequence[Program]
    values: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    close: float = CLOSE

    def label(self, number: int) -> str:
        """What a function is called: its number, and the line where it is written."""
        return f"{self.name} {number} (line {self.programs[number].__code__.co_firstlineno})"

    def points(self) -> Iterator[dict[str, Tensor]]:
        """Inputs at which such functions differ, if they do: always the same ones."""
        chance = torch.Generator().manual_seed(sum(map(ord, self.name)))
        for k in range(_SETS):
            yield {name: self._drawn(name, *what, k, chance) for name, what in self.inputs.items()}

    def _drawn(self, name: str, dtype: torch.dtype, shape: tuple[int, ...], k: int, chance: torch.Generator) -> Tensor:
        def out_of(values: Sequence[float]) -> Tensor:
            chosen = torch.randint(0, len(values), (prod(shape),), generator=chance)
            return torch.tensor(values, dtype=torch.float64)[chosen].reshape(shape)

        if name in self.values:
            return out_of(self.values[name]).to(dtype)
        if dtype is torch.bool:
            made = torch.randint(0, 2, shape, generator=chance).bool()
            if k % 3 == 1 and len(shape):
                made[torch.randint(0, 2, shape[:1], generator=chance).bool()] = bool(k % 2)
            return made | (k == 2) if k != 5 else torch.zeros(shape, dtype=torch.bool)
        if dtype.is_floating_point:
            if k % 4 == 3:
                return torch.randn(shape, generator=chance, dtype=torch.float64).to(dtype)
            if k == 2:
                return torch.zeros(shape, dtype=dtype)
            if k == 4:
                return out_of((-9.0, -6.0, -3.5, 0.0, 2.5, 6.0, 9.0)).to(dtype)
            return out_of(_REALS if k != 5 else (0.0, 1.0)).to(dtype)
        info = torch.iinfo(dtype)
        narrow = info.bits <= 16
        ends = (info.min, info.min + 1, info.max, info.max - 1, 0, 1, info.max // 2 + 1) if narrow else (-7, 8)
        small = tuple(max(info.min, value) for value in range(-4, 6))
        return out_of(ends if k % 2 else small).to(dtype)


def family(
    group: str,
    name: str,
    inputs: Mapping[str, tuple[torch.dtype, tuple[int, ...]]],
    *programs: Program,
    values: Mapping[str, Sequence[float]] | None = None,
    close: float = CLOSE,
) -> Family:
    """A family; ``programs`` have the parameters ``inputs``."""
    return Family(group, name, inputs, programs, values or {}, close)


# -------------------------------------------------------------------------------------------------- eager
Result = list[Tensor] | None
"""What a function gives: its tensors; ``None``: it fails."""


def run(program: Program, inputs: Mapping[str, Tensor]) -> Result:
    """What eager gives on copies of the inputs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = program(**{name: value.clone() for name, value in inputs.items()})
    except (RuntimeError, IndexError, ValueError, ZeroDivisionError):
        return None
    return [x.detach() for x in (made if isinstance(made, (tuple, list)) else [made])]


def types_of(result: Result) -> list[tuple[Any, ...]] | None:
    """Shapes and element types: only programs that have the same are compared."""
    return None if result is None else [(tuple(x.shape), x.dtype) for x in result]


def agrees(wanted: Result, found: Result, close: float = CLOSE) -> bool:
    """True if every finite element of the first is equal in the second."""
    if wanted is None:
        return True
    if found is None:
        return False
    for a, b in zip(wanted, found, strict=True):
        if not a.is_floating_point():
            if not torch.equal(a, b):
                return False
            continue
        a, b = a.double(), b.double()
        alive = torch.isfinite(a)
        size = float(a[alive].abs().max()) if alive.any() else 0.0
        if not (torch.abs(a - b)[alive] <= close * max(size, 1e-3)).all():
            return False
    return True


class _Programs:
    """The functions of a family, executed on all its inputs and captured when they are asked for."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.points = list(family.points())
        self.refused: dict[str, str] = {}
        self.results = cache(lambda k: [run(family.programs[k], given) for given in self.points])
        self.captured = cache(self._captured)

    def _captured(self, number: int) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return tt.capture(self.family.programs[number], tuple(x.clone() for x in self.points[0].values()))
        except tt.UserError as problem:
            self.refused[self.family.label(number)] = f"{problem.code}: {problem.found}"
            return None

    def where(self, one: int, other: int) -> int | None:
        """The number of an input on which they differ."""
        pairs = zip(self.results(one), self.results(other), strict=True)
        return next((k for k, pair in enumerate(pairs) if not agrees(*pair, self.family.close)), None)

    def comparable(self, one: int, other: int) -> bool:
        types = [next((t for r in self.results(k) if (t := types_of(r))), None) for k in (one, other)]
        return types[0] is not None and types[0] == types[1]


# ------------------------------------------------------------------------------------------------ verdicts
@dataclass(frozen=True)
class Judged:
    """The verdict on a pair: ``differ``, in eager; ``wrong``: why the verdict is."""

    text: str
    differ: bool
    verdict: Verdict
    wrong: str = ""


@dataclass
class Table:
    """What became of a family: ``refused``: functions that cannot be captured, with the reason."""

    family: Family
    judged: list[Judged] = field(default_factory=list[Judged])
    refused: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def wrong(self) -> list[Judged]:
        return [one for one in self.judged if one.wrong]

    def count(self, differ: bool, verdict: Verdict) -> int:
        return sum(one.differ == differ and one.verdict is verdict for one in self.judged)


def judge(of: Family, every: int = 1, start: int = 0) -> Table:
    """The verdicts on the pairs of a family that differ in eager, and on each function and the next one that is equal
    to it; ``every``: of one in so many pairs only, from ``start`` on."""
    on = _Programs(of)
    table = Table(of, refused=on.refused)
    last: dict[int, int] = {}
    for one, other in [*permutations(range(len(of.programs)), 2)][start % every :: every]:
        if not on.comparable(one, other):
            continue
        where = on.where(one, other)
        if where is None and last.setdefault(one, other) != other:
            continue
        pair = on.captured(one), on.captured(other)
        if None not in pair:
            table.judged.append(_judged(on, one, other, where, pair))
    return table


def _judged(on: _Programs, one: int, other: int, where: int | None, pair: Any) -> Judged:
    text = f"{on.family.label(one)} | {on.family.label(other)}"
    differ = where is not None
    try:
        report = tt.refine(*pair)
    except tt.UserError:  # results that no relation fits
        return Judged(text, differ, Verdict.UNKNOWN)
    wrong = ""
    if report.verdict is Verdict.PROVED and where is not None:
        shown = [on.results(k)[where] for k in (one, other)]
        wrong = f"PROVED, and different in eager: {on.points[where]}\n  gives {shown[0]}\n  and   {shown[1]}"
    example = report.counterexample
    if report.verdict is Verdict.REFUTED and not differ and example is not None and not example.sizes:
        given = {
            name: torch.tensor(example.inputs[name], dtype=torch.float64).to(dtype).reshape(shape)
            if name in example.inputs
            else torch.zeros(shape, dtype=dtype)
            for name, (dtype, shape) in on.family.inputs.items()
        }
        programs = on.family.programs
        if agrees(run(programs[one], given), run(programs[other], given), on.family.close):
            wrong = f"REFUTED, and equal in eager: {dict(example.inputs)}"
    return Judged(text, differ, report.verdict, wrong)
