"""Random programs that are grown along their values: every step is one that the reference interpreter is sure of.

``random_programs`` gives as many as are asked for, the same for the same seed; ``mutated`` changes one step of one.
What is claimed of a program (its forms, its rewritten twin) is then compared with the values that came with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from tantamount.errors import Unsupported, UserError
from tantamount.ir.types import Kind
from tantamount.ops.algebra import ShapeProblem, Tensor
from tantamount.ops.builder import Builder
from tantamount.samples.programs.steps import OPERATORS, Input, Program, Step, fits, make_inputs, perform, propose
from tantamount.semantics.reference import Array, Flag, IntegerOverflow, Reference

__all__ = [
    "Grown", "Unusable", "data_for", "grow", "mutated", "random_programs", "reference_inputs", "run_reference",
]  # fmt: skip

_LARGE = 200.0  # beyond this, exponentials overflow in float64 and rounding blurs comparisons
_ORDERING = ("sort", "argmax", "argsort", "ranks", "permutation", "largest places", "cumulative maxima")
_REFUSED = (ShapeProblem, UserError, IntegerOverflow, Unsupported)


class Unusable(Exception):
    """The reference is not sure of a tensor of the program."""


class Grown(NamedTuple):
    """A random program: its ``number``, which decides everything about it, the generator of random numbers that goes on
    from there, and the values of all its tensors on the data of that number."""

    number: int
    random: Random
    program: Program
    pool: list[Tensor]


def random_programs(count: int, seed: int, longest: int = 12) -> Iterator[Grown]:
    """Random programs of 1 to ``longest`` steps, number ``seed * 10**7`` onwards; the same for the same numbers."""
    for number in range(seed * 10_000_000, seed * 10_000_000 + count):
        r = Random(number)
        program, pool = grow(r, number, r.randrange(1, longest + 1))
        yield Grown(number, r, program, pool)


def data_for(inputs: Sequence[Input], seed: int) -> dict[str, Array]:
    """Random values of a program's inputs by name; all floats are positive for every third seed."""
    r = np.random.default_rng(seed)
    out: dict[str, Array] = {}
    for x in inputs:
        if x.dtype.kind is Kind.INT:
            out[x.name] = r.integers(0, x.limit, x.shape) if x.limit else r.integers(-2, 4, x.shape)
        elif x.dtype.kind is Kind.BOOL:
            out[x.name] = r.random(x.shape) < 0.5
        else:
            out[x.name] = np.abs(r.standard_normal(x.shape)) + 0.1 if seed % 3 == 0 else r.standard_normal(x.shape)
    return out


def reference_inputs(inputs: Sequence[Input], data: Mapping[str, Array]) -> list[Tensor]:
    """The inputs as tensors of the reference interpreter."""
    return [Tensor(x.shape, x.dtype, np.asarray(data[x.name])) for x in inputs]


def grow(r: Random, seed: int, steps: int) -> tuple[Program, list[Tensor]]:
    """A random program, grown step by step along its reference values on the data of ``seed``."""
    inputs = make_inputs(r)
    pool = reference_inputs(inputs, data_for(inputs, seed))
    done: list[Step] = []
    for _ in range(4 * steps):
        if len(done) == steps:
            break
        step = propose(r, pool)
        if step is None or not _defined_for(step, pool):
            continue
        reference = _Careful()
        try:
            result = perform(step, Builder(reference), pool)
        except _REFUSED:
            continue
        if fits(result) and _usable(result.value, reference):
            done.append(step)
            pool.append(result)
    return Program(inputs, tuple(done)), pool


def run_reference(program: Program, seed: int) -> list[Tensor]:
    """The values of all tensors on the data of ``seed``. Raises :class:`Unusable` where the reference is not sure of
    one."""
    pool = reference_inputs(program.inputs, data_for(program.inputs, seed))
    for step in program.steps:
        reference = _Careful()
        pool.append(perform(step, Builder(reference), pool))
        if not _defined_for(step, pool) or not _usable(pool[-1].value, reference):
            raise Unusable
    return pool


def mutated(r: Random, program: Program, pool: Sequence[Tensor], seed: int) -> Program | None:
    """The program with one step replaced by another of the same operator and result type; ``None`` if none is found."""
    n = len(program.inputs)
    for _ in range(20):
        k = r.randrange(len(program.steps))
        old = program.steps[k]
        found = OPERATORS[old.operator].generate(r, list(pool[: n + k]))
        if found is None or found == (old.operands, old.attributes):
            continue
        new = Step(old.operator, *found)
        try:
            result = perform(new, Builder(_Careful()), list(pool))
        except _REFUSED:
            continue
        if result.type == pool[n + k].type and not result.weak:
            mutant = Program(program.inputs, (*program.steps[:k], new, *program.steps[k + 1 :]))
            try:
                run_reference(mutant, seed)
            except (Unusable, *_REFUSED):
                continue
            return mutant
    return None


def _usable(value: Array, reference: Reference) -> bool:
    """True where the reference is sure of enough of the tensor: defined, finite, not large, decided by no NaN."""
    if reference.flags:
        return False
    value = np.asarray(value, dtype=np.float64)
    known = value[~np.isnan(value)]
    return known.size * 2 >= value.size and bool(np.all(np.isfinite(known))) and bool(np.all(np.abs(known) < _LARGE))


class _Careful(Reference):
    """Flags decisions that rounding took: comparisons and roundings nearer to a tie than float64 can tell."""

    def _near(self, difference: Array) -> None:
        if difference.dtype == np.float64 and ((difference != 0) & (np.abs(difference) < 1e-9)).any():
            self.flags.append(Flag("tie", 1))

    def less(self, x: Array, y: Array) -> Array:
        self._near(np.asarray(x - y) if x.dtype != np.bool_ else x)
        return super().less(x, y)

    def equal(self, x: Array, y: Array) -> Array:
        self._near(np.asarray(x - y) if x.dtype != np.bool_ else x)
        return super().equal(x, y)

    def function(self, name: str, xs: Sequence[Array]) -> Array:
        if name in ("floor", "trunc", "round", "sign"):
            scaled = xs[0] * (2 if name == "round" else 1)
            self._near(np.asarray(scaled - np.round(scaled)) if scaled.dtype == np.float64 else scaled)
        found = super().function(name, xs)
        if name == "sign" and xs[0].dtype.kind == "f":
            # In eager the sign of NaN is 0, which records of definedness know; a form says nothing of such elements.
            return np.where(np.isnan(xs[0]), np.nan, found)
        return found

    def rows(self, name: str, xs: Sequence[Array], attributes: Any, results: Any) -> Any:
        for x in xs:
            if x.dtype == np.float64:
                self._near(np.diff(np.sort(x, axis=-1), axis=-1))
        return super().rows(name, xs, attributes, results)


def _defined_for(step: Step, pool: Sequence[Tensor]) -> bool:
    """False for a step that orders rows with undefined elements: they have no order."""
    return step.operator not in _ORDERING or not any(np.isnan(pool[k].value).any() for k in step.operands)
