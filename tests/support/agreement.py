"""Does the form of every tensor of a program evaluate to what the reference interpreter computes?"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.calculus import escaped
from tantamount.calculus.atoms import Store
from tantamount.calculus.calculus import Calculus
from tantamount.calculus.evaluate import Evaluator
from tantamount.calculus.forms import Form, aligned
from tantamount.calculus.multiplied import distribute
from tantamount.calculus.rebuild import refresh
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.calculus.terms import Factor
from tantamount.effort import Effort
from tantamount.errors import Unsupported
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.samples.programs.growing import (
    Unusable,
    data_for,
    mutated,
    random_programs,
    reference_inputs,
    run_reference,
)
from tantamount.samples.programs.steps import Input, Program, Step, perform
from tantamount.semantics.reference import Reference

ABSOLUTE, RELATIVE = 1e-6, 1e-6

Array = NDArray[Any]


@dataclass
class Failure:
    """``kind``: ``value``, ``facts``, ``crash``, ``equal`` (two different tensors with equal forms)."""

    kind: str
    program: Program
    seed: int
    text: str

    def __str__(self) -> str:
        return f"[{self.kind}] data seed {self.seed}\n{self.program}\n{self.text}"


@dataclass
class Figures:
    programs: int = 0
    tensors: int = 0
    elements: int = 0
    pairs_equal: int = 0
    mutants: int = 0
    mutants_equal: int = 0
    unsure: int = 0
    undefined: int = 0  # forms that are undefined at elements at which the program is defined (a side not taken)
    unsupported: Counter[str] = field(default_factory=Counter)
    incomplete: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    slowest: list[tuple[float, str]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        self.programs += other.programs
        self.tensors += other.tensors
        self.elements += other.elements
        self.pairs_equal += other.pairs_equal
        self.mutants += other.mutants
        self.mutants_equal += other.mutants_equal
        self.unsure += other.unsure
        self.undefined += other.undefined
        self.unsupported.update(other.unsupported)
        self.incomplete.update(other.incomplete)
        self.examples.update({k: v for k, v in other.examples.items() if k not in self.examples})
        self.slowest = sorted([*self.slowest, *other.slowest], key=lambda s: -s[0])[:5]
        self.failures.extend(other.failures)


class CheckedEvaluator(Evaluator):
    """Also checks that what the store claims of an atom's values is true of them."""

    def __init__(self, store: Store, leaves: Any) -> None:
        super().__init__(store, leaves)
        self.wrong: list[str] = []
        self.outside = 7919.0  # a real number that no program computes: elements outside a tensor must never count
        self.largest = 0.0  # of all products so far: what cancellation may lose is a rounding error of it
        self.overflow = False  # some atom left the range of float64: values cannot be compared

    def product(self, factors: Any, axes: Any) -> Any:
        value = super().product(factors, axes)
        if any(abs(e) > 1e5 for _, e, _ in factors):
            self.overflow = True  # exp(x) ** 10**9 loses what exp(x) was rounded by
        atoms = ((Factor(a, 1, index),) for a, _, index in factors)
        if np.isinf(value).any() and not any(np.isinf(Evaluator.product(self, one, axes)).any() for one in atoms):
            self.overflow = True  # exp(x) ** 81000 beside exp(y) ** -27000, whose product is none of the two
        known = np.abs(value[np.isfinite(value)])
        self.largest = max(self.largest, float(known.max(initial=0.0)))
        return value

    def _compute(self, atom: Any, points: Any) -> Any:
        value = super()._compute(atom, points)
        known = np.broadcast_to(value, points.shape[1:])
        known = known[~np.isnan(known)]
        infinite = atom.op == "leaf" and atom.attributes[0] == "infinity"
        if known.size and not infinite and (np.abs(known).max() > 1e60 or (atom.op == "exp" and known.min() < 1e-60)):
            self.overflow = True
        facts = atom.facts
        tests = {
            "positive": not facts.positive
            or (bool((known >= 0).all()) and bool((known != 0).all() or atom.op in ("exp", "sum", "polynomial"))),
            "nonnegative": not facts.nonnegative or bool((known >= 0).all()),
            "integer": not facts.integer
            or atom.op in ("element", "pair")
            or bool((np.abs(known - np.round(known)) < 1e-6).all()),
            "boolean": not facts.boolean or bool(((known == 0) | (known == 1)).all()),
        }
        self.wrong.extend(
            f"atom {atom.number} ({atom.op}) is not {name}: {known[:8]}" for name, holds in tests.items() if not holds
        )
        return value


# ------------------------------------------------------------------------------------------------ two interpretations
def symbolic_inputs(inputs: Sequence[Input], symbolic: Symbolic) -> list[Tensor]:
    return [Tensor(x.shape, x.dtype, symbolic.fresh("input", x.name, x.shape, x.dtype)) for x in inputs]


def leaves_of(data: dict[str, Array]) -> dict[Any, Array]:
    return {(name, ()): value for name, value in data.items()}


def difference(expected: Array, found: Array, largest: float = 0.0) -> str | None:
    """Where a form's value differs from the reference's, at elements that the reference defines."""
    expected = np.asarray(expected, dtype=np.float64)
    if expected.shape != found.shape:
        return f"shape {found.shape}, reference {expected.shape}"
    known = ~np.isnan(expected)
    close = np.abs(found - expected) <= ABSOLUTE + RELATIVE * np.abs(expected) + 1e-11 * largest
    wrong = known & ~close
    if not wrong.any():
        return None
    at = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"at {list(at)}: form {found[at]!r}, reference {expected[at]!r} ({int(wrong.sum())} of {wrong.size} differ)"


def stable(program: Program, seed: int, tensor: int) -> bool:
    """Whether the reference value, and all that it is computed from, survive tiny changes of every tensor (else a
    comparison sits on a tie).

    What it is computed from: ``x == where(relu(m) == m, m, x)`` is false with and without noise, for two reasons."""
    used = program.used_by(tensor)
    values: list[list[Array]] = []
    for shift in (0.0, 1e-11, -1e-11, 1e-10, 3e-10):
        r = np.random.default_rng(99)
        pool = reference_inputs(program.inputs, data_for(program.inputs, seed))
        for step in program.steps:
            x = perform(step, Builder(Reference()), pool)
            noise = shift * r.standard_normal(x.shape) * (1 + np.abs(x.value)) if x.value.dtype == np.float64 else None
            pool.append(replace(x, value=x.value + noise) if shift and noise is not None else x)
        values.append([np.asarray(pool[k].value, dtype=np.float64) for k in used])
    return all(_near(x, y) for run in values[1:] for x, y in zip(values[0], run, strict=True))


def _near(x: Array, y: Array) -> bool:
    known = ~np.isnan(x)
    return bool(np.allclose(x[known], y[known], rtol=1e-4, atol=1e-5))


# ------------------------------------------------------------------------------------------------ one program
def run_symbolic(program: Program, symbolic: Symbolic, figures: Figures | None = None) -> list[Tensor | None]:
    """The forms; ``None`` for what the calculus refuses and what depends on it."""
    pool: list[Tensor | None] = list(symbolic_inputs(program.inputs, symbolic))
    for step in program.steps:
        if any(pool[k] is None for k in step.operands):
            pool.append(None)
            continue
        try:
            pool.append(perform(step, Builder(symbolic), pool))  # type: ignore[arg-type]
        except Unsupported as problem:
            if figures is not None:
                figures.unsupported[f"{step.operator}: {problem}"] += 1
            pool.append(None)
    return pool


def check(
    program: Program,
    seed: int,
    figures: Figures,
    expected: Sequence[Tensor] | None = None,
    deep: bool = False,
    effort: float = 1.0,
) -> Failure | None:
    """Compare every tensor. ``deep``: also refreshed and distributed forms, and pairs of equal forms on other data;
    ``effort``: how many times the normal effort the comparison of two forms may take."""
    expected = run_reference(program, seed) if expected is None else expected
    store = Calculus(Effort(effort))
    symbolic = Symbolic(store, Trace(assume_indices=True))
    started = time.perf_counter()
    try:
        forms = run_symbolic(program, symbolic, figures)
    except Exception as problem:
        import traceback

        return Failure("crash", program, seed, "".join(traceback.format_exception(problem)[-6:]))
    spent = time.perf_counter() - started
    if spent > 0.05:
        figures.slowest = sorted([*figures.slowest, (spent, str(program))], key=lambda s: -s[0])[:5]
    figures.programs += 1
    evaluator = CheckedEvaluator(store, leaves_of(data_for(program.inputs, seed)))
    for k in range(len(program.inputs), len(forms)):
        tensor = forms[k]
        if tensor is None:
            continue
        figures.tensors += 1
        figures.elements += expected[k].value.size
        try:
            found = evaluator.form(tensor.value)
            if found.shape == expected[k].value.shape and (np.isnan(found) & ~np.isnan(expected[k].value)).any():
                figures.undefined += 1
                found = np.where(np.isnan(found), expected[k].value, found)
            text = difference(expected[k].value, found)
            kind = "value"
            if text is None and tensor.shape != tensor.value.shape:
                text = f"form of shape {tensor.value.shape} for a tensor of shape {tensor.shape}"
            if text is None and evaluator.wrong:
                kind, text = "facts", evaluator.wrong[0]
            if text is None and deep:
                for name, rebuild in (("refreshed", refresh), ("distributed", distribute)):
                    try:
                        again = Form(
                            tensor.value.dims, tuple((box, rebuild(store, x)) for box, x in tensor.value.pieces)
                        )
                    except Unsupported:  # a division by zero came to light
                        continue
                    evaluator.largest = 0.0
                    value = evaluator.form(again)
                    text = difference(
                        expected[k].value, np.where(np.isnan(value), expected[k].value, value), evaluator.largest
                    )
                    if text is not None:
                        text = f"{name}: {text}"
                        break
        except Unsupported:  # nested sums with too many points
            figures.unsure += 1
            continue
        except Exception as problem:
            import traceback

            return Failure("crash", program.ending_at(k), seed, "".join(traceback.format_exception(problem)[-6:]))
        if text is not None:
            if evaluator.overflow or (kind == "value" and not stable(program, seed, k)):
                figures.unsure += 1
                continue
            return Failure(kind, program.ending_at(k), seed, text)
    failure = compare_pairs(program, seed, store, forms, expected, figures) if deep else None
    if failure is None and (atoms := escaped(store)):
        return Failure("facts", program, seed, f"atoms {atoms} mention bound variables that nothing in them binds")
    return failure


def same(store: Store, f: Form, g: Form) -> bool:
    """Structural equality of two forms of one shape over common axes."""
    if f == g:
        return True
    try:
        from tantamount.calculus.compare import equal
    except ImportError:
        a, c = aligned(store, [f, g])
        return a == c
    return equal(store, f, g) is None


def compare_pairs(
    program: Program,
    seed: int,
    store: Store,
    forms: Sequence[Tensor | None],
    expected: Sequence[Tensor],
    figures: Figures,
) -> Failure | None:
    other = seed + 1_000_003
    second: list[Tensor] | None = None
    for j in range(len(forms)):
        for k in range(j):
            x, y = forms[j], forms[k]
            if x is None or y is None or x.shape != y.shape:
                continue
            a = np.asarray(expected[j].value, dtype=np.float64)
            c = np.asarray(expected[k].value, dtype=np.float64)
            known = ~np.isnan(a) & ~np.isnan(c)
            alike = known.any() and bool(np.allclose(a[known], c[known], rtol=1e-9, atol=1e-9))
            try:
                equal = same(store, x.value, y.value)
            except Exception as problem:
                import traceback

                return Failure(
                    "crash", program, seed, f"compare t{k} t{j}\n" + "".join(traceback.format_exception(problem)[-6:])
                )
            if equal:
                figures.pairs_equal += 1
            if equal == alike and not equal:
                continue
            try:
                second = second or run_reference(program, other)
            except Unusable:
                return None
            a, c = (np.asarray(second[t].value, dtype=np.float64) for t in (j, k))
            known = ~np.isnan(a) & ~np.isnan(c)
            apart = known & ~(np.abs(a - c) <= ABSOLUTE + RELATIVE * np.abs(c))
            if equal and known.any() and apart.any() and stable(program, other, j) and stable(program, other, k):
                text = f"t{j} and t{k} have equal forms but differ: {a[apart][:3]} {c[apart][:3]}"
                text += f"\n{program.ending_at(j)}\n    and\n{program.ending_at(k)}"
                return Failure("equal", program, other - 1_000_003, text)
            if (
                not equal
                and known.any()
                and not apart.any()
                and alike
                and agree(program, (j, k), (seed + 17, seed + 18, seed + 19))
            ):
                names = sorted(
                    program.steps[t - len(program.inputs)].operator if t >= len(program.inputs) else "input"
                    for t in (j, k)
                )
                key = " = ".join(names)
                figures.incomplete[key] += 1
                text = f"{program.ending_at(j)}\n   = t{k} =\n{program.ending_at(k)}"
                if len(text) < len(figures.examples.get(key, "x" * 100000)):
                    figures.examples[key] = text
    return None


def check_mutant(r: Random, program: Program, seed: int, figures: Figures) -> Failure | None:
    """A mutant with an equal form must have equal values, on this and on other data."""
    if not program.steps:
        return None
    program = program.ending_at(len(program.inputs) + len(program.steps) - 1)  # every step matters to the last tensor
    pool = run_reference(program, seed)
    if (mutant := mutated(r, program, pool, seed)) is None:
        return None
    store = Calculus()
    symbolic = Symbolic(store, Trace(assume_indices=True))
    try:
        x, y = run_symbolic(program, symbolic)[-1], run_symbolic(mutant, symbolic)[-1]
        if x is None or y is None or x.shape != y.shape:
            return None
        figures.mutants += 1
        if not same(store, x.value, y.value):
            return None
    except Exception as problem:
        import traceback

        return Failure("crash", mutant, seed, "".join(traceback.format_exception(problem)[-6:]))
    figures.mutants_equal += 1
    for other in (seed, seed + 1_000_003, seed + 17, seed + 18):
        try:
            a, c = (np.asarray(run_reference(p, other)[-1].value, dtype=np.float64) for p in (program, mutant))
        except Unusable:
            continue
        known = ~np.isnan(a) & ~np.isnan(c)
        if np.allclose(a[known], c[known], rtol=1e-6, atol=1e-6):
            continue
        if all(stable(p, other, len(p.inputs) + len(p.steps) - 1) for p in (program, mutant)):
            text = f"has the form of\n{mutant}\nbut {a[known][:4]} is not {c[known][:4]}"
            return Failure("mutant", program, other, text)
    return None


def agree(program: Program, tensors: tuple[int, int], seeds: Sequence[int]) -> bool:
    """Whether two tensors have equal values on each of these data."""
    for seed in seeds:
        try:
            pool = run_reference(program, seed)
        except Unusable:
            continue
        a, c = (np.asarray(pool[t].value, dtype=np.float64) for t in tensors)
        if not np.allclose(a, c, rtol=1e-9, atol=1e-9, equal_nan=True):
            return False
    return True


def without(program: Program, k: int, instead: int) -> Program:
    """The program without step k; what used its result uses tensor ``instead``."""
    gone = len(program.inputs) + k
    steps = [s for j, s in enumerate(program.steps) if j != k]
    return Program(
        program.inputs,
        tuple(
            Step(s.operator, tuple(instead if o == gone else o - (o > gone) for o in s.operands), s.attributes)
            for s in steps
        ),
    )


def shrink(failure: Failure) -> Failure:
    """Fewer steps with a failure of the same kind: drop steps whose result can be replaced by an earlier operand."""
    best = failure
    changed = True
    while changed and len(best.program.steps) > 1:
        changed = False
        n = len(best.program.inputs)
        for k in range(len(best.program.steps) - 1, -1, -1):
            for instead in reversed(range(n + k)):
                if instead not in best.program.steps[k].operands:
                    continue
                smaller = without(best.program, k, instead)
                try:
                    found = check(
                        smaller,
                        best.seed,
                        Figures(),
                        deep=best.kind == "equal" or "distributed" in best.text or "refreshed" in best.text,
                    )
                except Exception:
                    continue
                if found is not None and found.kind == best.kind:
                    best = found
                    changed = True
                    break
            if changed:
                break
    return best


def fuzz(programs: int, seed: int, deep_every: int = 1, stop_at: int = 10, effort: float = 1.0) -> Figures:
    """Random programs (see ``random_programs``), judged; it ends where ``stop_at`` of them failed. ``effort``: as of
    :func:`check`."""
    figures = Figures()
    for k, (number, r, program, pool) in enumerate(random_programs(programs, seed)):
        failure = check(program, number, figures, pool, deep=k % deep_every == 0, effort=effort)
        if failure is None and k % deep_every == 0:
            failure = check_mutant(r, program, number, figures)
        if failure is not None:
            figures.failures.append(failure if failure.kind == "mutant" else shrink(failure))
            if len(figures.failures) >= stop_at:
                break
    return figures


__all__ = ["Failure", "Figures", "check", "fuzz", "shrink"]
