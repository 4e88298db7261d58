"""Random small tensor programs as data.

A program is typed inputs and a tuple of steps, each naming an operator of ``OPERATORS``, its operands by number and its
attributes. The generator needs only the methods of :class:`random.Random`, so hypothesis can drive it as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import Any

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.samples.programs import layout, sums
from tantamount.samples.programs.operands import MAX_SIZE, OPERATORS, SIZES, Pool

MAX_ELEMENTS = 300
SOURCES = (layout, sums)  # importing them registers their operators


@dataclass(frozen=True)
class Input:
    """An input of a program: its name, shape and dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    limit: int = 0  # of integers: 0 <= value < limit (indices); 0: small integers of both signs


@dataclass(frozen=True)
class Step:
    """A call of an operator of ``OPERATORS`` on tensors by number."""

    operator: str
    operands: tuple[int, ...]
    attributes: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Program:
    """``inputs`` are tensors 0, 1, ...; step k makes tensor ``len(inputs) + k``."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = [
            f"t{k} = {i.name}: {i.dtype.label}{list(i.shape)}" + (f" below {i.limit}" if i.limit else "")
            for k, i in enumerate(self.inputs)
        ]
        for k, s in enumerate(self.steps, len(self.inputs)):
            lines.append(
                f"t{k} = {s.operator}({', '.join(f't{o}' for o in s.operands)}; {', '.join(map(str, s.attributes))})"
            )
        return "\n".join(lines)

    def ending_at(self, tensor: int) -> Program:
        """The steps that tensor number ``tensor`` needs; it becomes the last one."""
        n = len(self.inputs)
        if tensor < n:
            return Program(self.inputs, ())
        kept = self.used_by(tensor)
        number = {old: new for new, old in enumerate([*range(n), *(k for k in kept if k >= n)])}
        steps = [self.steps[k - n] for k in kept if k >= n]
        return Program(self.inputs, tuple(replace(s, operands=tuple(number[o] for o in s.operands)) for s in steps))

    def used_by(self, tensor: int) -> list[int]:
        """The tensors that tensor number ``tensor`` is computed from, and itself, in order."""
        n = len(self.inputs)
        needed = {tensor}
        for k in range(tensor, n - 1, -1):
            if k in needed:
                needed.update(self.steps[k - n].operands)
        return sorted(needed)


NAMES = list(OPERATORS)
WEIGHTS = [OPERATORS[name].weight for name in NAMES]


def make_inputs(r: Random) -> tuple[Input, ...]:
    """Between one and five typed inputs whose dimensions share few sizes."""
    sizes = [r.choice(SIZES) for _ in range(3)]  # few sizes, so that shapes match
    out: list[Input] = []
    for k in range(r.randrange(1, 4)):
        rank = r.choice((1, 1, 2, 2, 2, 3))
        out.append(Input(f"x{k}", tuple(r.choice(sizes) for _ in range(rank)), DType.FLOAT32))
    if r.random() < 0.5:
        out.append(Input("i", (r.choice(sizes),), DType.INT64, r.choice((0, sizes[0], sizes[1]))))
    if r.random() < 0.3:
        out.append(Input("p", tuple(r.choice(sizes) for _ in range(r.choice((1, 2)))), DType.BOOL))
    return tuple(out)


def perform(step: Step, b: Builder, pool: Pool) -> Tensor:
    """The tensor that a step computes from those in the pool. Raises :class:`UserError` if the operator refuses it."""
    return OPERATORS[step.operator].build(b, *(pool[k] for k in step.operands), *step.attributes)


def propose(r: Random, pool: Pool) -> Step | None:
    """One more step that its operator's generator finds operands for."""
    name = r.choices(NAMES, WEIGHTS)[0]
    found = OPERATORS[name].generate(r, pool)
    return None if found is None else Step(name, *found)


def fits(x: object) -> bool:
    """True for a tensor with 1 to ``MAX_ELEMENTS`` elements in at most five dimensions of at most ``MAX_SIZE``."""
    return (
        isinstance(x, Tensor)
        and prod(x.shape) in range(1, MAX_ELEMENTS + 1)
        and x.rank <= 5
        and max(x.shape, default=1) <= MAX_SIZE
    )
