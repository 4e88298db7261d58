"""The oracle, which finds what differs: every form on every backend against the exact interpreter, and the forms
against each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tantamount.fuzz.backends.base import Backend, Compiler, Deviation, Outcome
from tantamount.fuzz.cases import Case, Form
from tantamount.ir.graph import Graph, references
from tantamount.ops.algebra import Tensor
from tantamount.semantics.exact import plain

__all__ = [
    "Failure",
    "Verdicts",
    "causes",
    "compare",
    "compare_outputs",
    "every_time",
    "first_level",
    "first_pass",
    "judge",
    "message_pattern",
    "outputs_differ",
    "signature",
]

_SLACK = 4.0  # of error bounds, which assume one rounding for each term
_REPEATED = 2  # runs of a program that failed, to see that it fails each time


@dataclass(frozen=True)
class Failure:
    """One form that a backend gets wrong. ``kind``: ``wrong``, ``crash`` (the process died), ``refused`` (an exception
    when compiling), ``raised`` (when running), ``overdue``, ``unstable`` (not each time); ``output``: the number of the
    first wrong one; ``where``: an index in it; ``level``: the first level at which it fails; ``first``: the first pass
    with which it fails, if passes can be switched off and it does not fail without any."""

    backend: str
    kind: str
    form: Form
    level: str
    message: str = ""
    output: int = 0
    where: tuple[int, ...] = ()
    expected: Any = None
    got: Any = None
    first: str = ""


@dataclass(frozen=True)
class Verdicts:
    """The findings of each way of comparing alone: simplest against most complex, original against the reference, and
    all forms against the reference and each other."""

    pair: bool
    reference: bool
    all: bool


def _array(outcome: Outcome, k: int) -> np.ndarray:
    return np.asarray(outcome.outputs[k])


def outputs_differ(a: np.ndarray, b: np.ndarray, error: float) -> tuple[int, ...] | None:
    """An index at which two arrays differ by more than a bound (0: at all; 0 and -0 are equal); ``None`` if there is
    none. Shapes that differ differ at ``()``."""
    if a.shape != b.shape:
        return ()
    if a.dtype.kind in "iub" and b.dtype.kind in "iub":
        wrong = a != b
    else:
        with np.errstate(all="ignore"):
            x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
            wrong = ~((x == y) | (np.abs(x - y) <= _SLACK * error) | (np.isnan(x) & np.isnan(y)))
    if not wrong.any():
        return None
    return tuple(int(k) for k in np.argwhere(wrong)[0]) if wrong.ndim else ()


def _kind(outcome: Outcome) -> str:
    return {"died": "crash", "overdue": "overdue"}.get(
        outcome.status, "raised" if outcome.phase == "run" else "refused"
    )


def compare(backend: Backend, form: Form, outcome: Outcome, level: str = "") -> Failure | None:
    """The failure that an outcome is, against the exact interpreter; of several wrong outputs that of the first."""
    return next(compare_outputs(backend, form, outcome, level), None)


def compare_outputs(backend: Backend, form: Form, outcome: Outcome, level: str = "") -> Iterator[Failure]:
    """The failures of an outcome against the exact interpreter: one for every wrong output."""
    level = level or backend.level
    if outcome.status == "unsupported":
        return
    if not outcome.ok:
        yield Failure(backend.name, _kind(outcome), form, level, outcome.message)
        return
    if len(outcome.outputs) != len(form.expected):
        message = f"{len(outcome.outputs)} outputs, {len(form.expected)} expected"
        yield Failure(backend.name, "wrong", form, level, message)
        return
    for k, expected in enumerate(form.expected):
        array, wanted = _array(outcome, k), plain(expected)
        if outcome.dtypes[k] != expected.dtype.label:
            message = f"elements of type {outcome.dtypes[k]}, {expected.dtype.label} expected"
            yield Failure(backend.name, "wrong", form, level, message, k)
            continue
        where = outputs_differ(array, wanted, _rounding(expected))
        if where is not None:
            if array.shape != wanted.shape:
                message = f"shape {list(array.shape)}, {list(wanted.shape)} expected"
                yield Failure(backend.name, "wrong", form, level, message, k)
                continue
            got, right = array[where].item(), wanted[where].item()
            bound = f" ± {_rounding(expected):.3g}" if expected.value.error else ""
            message = f"output {k} at {list(where)}: {got!r}, {right!r}{bound} expected"
            yield Failure(backend.name, "wrong", form, level, message, k, where, right, got)


def causes(failures: Sequence[Failure]) -> list[Failure]:
    """Of the failures of one program those that no other one explains: outputs that are computed of no wrong one."""
    if len(failures) < 2:
        return list(failures)
    graph = failures[0].form.graph
    wrong = {graph.outputs[failure.output].node for failure in failures}
    behind: set[str] = set()  # nodes that are computed of wrong ones
    for node in graph.nodes:
        if any(name in wrong or name in behind for name in references(node)):
            behind.add(node.name)
    first = [failure for failure in failures if graph.outputs[failure.output].node not in behind]
    return list({graph.outputs[failure.output].node: failure for failure in reversed(first)}.values())[::-1]


def _rounding(x: Tensor) -> float:
    return float(x.value.error)


def judge(case: Case, outcomes: Mapping[str, Outcome], backend: Backend) -> tuple[list[Failure], Verdicts]:
    """The failures of a case on one backend, form by form, and what each comparison alone would have found."""
    failures = [
        failure
        for form in case.forms if form.name in outcomes
        for failure in causes([*compare_outputs(backend, form, outcomes[form.name])])
    ]  # fmt: skip
    failed = {failure.form.name for failure in failures}
    by_name = {form.name: form for form in case.forms}
    low = by_name.get("simplest", case.forms[0])
    high = by_name.get("complex", case.forms[0])
    pair = _pair_differs(low, high, outcomes)
    return failures, Verdicts(pair, "original" in failed, bool(failed))


def _pair_differs(a: Form, b: Form, outcomes: Mapping[str, Outcome]) -> bool:
    if a is b or a.name not in outcomes or b.name not in outcomes:
        return False
    x, y = outcomes[a.name], outcomes[b.name]
    if not (x.ok and y.ok):
        return x.ok != y.ok and "unsupported" not in (x.status, y.status)
    return any(
        outputs_differ(_array(x, k), _array(y, k), _rounding(a.expected[k]) + _rounding(b.expected[k])) is not None
        for k in range(len(a.expected))
    )


def excused(failure: Failure, rows: Sequence[Deviation]) -> bool:
    """True for a failure that a declared deviation explains: by its message, if it names operators only where one of
    them is in the graph."""
    targets = {node.target for node in failure.form.graph.nodes}
    return any(
        row.messages and any(text in failure.message for text in row.messages)
        and (not row.operators or targets & {*row.operators})
        for row in rows
    )  # fmt: skip


def every_time(compiler: Compiler, failure: Failure) -> bool:
    """True if a program fails in the same way when it is compiled and run again, as often as that is tried."""
    for _ in range(1 if failure.kind == "overdue" else _REPEATED):
        outcome = compiler.run(failure.form.graph, failure.form.inputs, failure.level)
        found = compare(compiler.backend, failure.form, outcome, failure.level)
        if found is None or found.kind != failure.kind:
            return False
    return True


def first_level(compiler: Compiler, form: Form, kind: str) -> str:
    """The least optimised level at which a form fails in this way; the default level if only that does."""
    for level in compiler.backend.levels[:-1]:
        failure = compare(compiler.backend, form, compiler.run(form.graph, form.inputs, level), level)
        if failure is not None and failure.kind == kind:
            return level
    return compiler.backend.level


def first_pass(compiler: Compiler, form: Form, kind: str, level: str) -> str:
    """The pass from which on a form fails in this way: with it and all passes before it, it fails, and without it and
    all after it, it does not. Empty where it fails without any pass, or there are none that can be switched off."""
    passes = compiler.backend.passes

    def fails(count: int) -> bool:
        """With the first ``count`` passes alone; a wrong result also where it cannot be computed with so few."""
        outcome = compiler.run(form.graph, form.inputs, level, passes[count:])
        failure = compare(compiler.backend, form, outcome, level)
        return failure is not None and (failure.kind == kind or (kind == "wrong" and not outcome.ok))

    if not passes or fails(0) or not fails(len(passes)):
        return ""
    low, high = 0, len(passes)  # it does not fail with ``low`` passes, and fails with ``high``
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return passes[high - 1]


def message_pattern(message: str) -> str:
    """A message without what differs from case to case: numbers, names, paths, quoted text. Of a compiler that called
    another one the first error of that, too."""
    text, *rest = message.splitlines() or [""]
    inner = next((line for line in rest if " error: " in line), "")
    text = f"{text}: {inner.partition(' error: ')[2]}" if inner else text
    text = re.sub(r"output \d+ at .*", "output differs", text)
    text = re.sub(
        r"'[^']*'|‘[^’]*’|\"[^\"]*\"|/\S+|\b[tvxcn]\d+\b|0x[0-9a-f]+|-?\d[\d.,e+-]*|\[[^\]]*\]|\{[^}]*\}", "_", text
    )
    return re.sub(r"[\s_]+", " ", text).strip()[:120]


def operators(graph: Graph) -> list[str]:
    """The operators of a graph with the element types of their results."""
    return [
        f"{node.target.removeprefix('aten.').split('.')[0]}:{node.type.dtype.label if node.type else '*'}"
        for node in graph.nodes
        if node.op == "call" and node.target != "getitem"
    ]


def signature(failure: Failure) -> str:
    """The key of a minimal failure that tells one bug from another: backend, kind, level, pass, operators with element
    types, and the message without numbers where there is no wrong value."""
    words = operators(failure.form.graph)
    if not words:
        words = sorted({node.type.dtype.label for node in failure.form.graph.nodes if node.type is not None})
    rest = "" if failure.kind == "wrong" else f" {message_pattern(failure.message)}"
    level = f"{failure.level}/{failure.first}" if failure.first else failure.level
    return f"{failure.backend} {failure.kind} {level} {' '.join(words)}{rest}".strip()
