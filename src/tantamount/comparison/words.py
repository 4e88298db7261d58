"""A report in words for two programs of which neither is the other's specification: ``first`` and ``second``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TypeVar

from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.ops.functionalized import unwrapped
from tantamount.verdict import Assumption, Mismatch, OutputReport, Report

__all__ = ["SIDES", "as_given", "in_words_of_two", "problem_of_two"]

SIDES = ("first", "second")

R = TypeVar("R", bound=Report)

# whole words only: tensors and files may have such names, within others
_WORDS = tuple(
    (re.compile(rf"(?<![\w./\-]){pattern}(?![\w/\-]|\.\w)"), to)
    for pattern, to in (
        ("an implementation input", "an input of the second program"),
        ("the specification's", "the first program's"),
        ("the implementation's", "the second program's"),
        ("of the specification", "of the first program"),
        ("of the implementation", "of the second program"),
        ("the specification", "the first program"),
        ("the implementation", "the second program"),
        ("specification", "first program"),
        ("implementation", "second program"),
        ("on rank 0,", "in the second program,"),
        ("rank 0 has", "the second program has"),
    )
)


def as_given(mismatch: Mismatch, first: Graph, second: Graph) -> Mismatch:
    """The mismatch at nodes that the given programs have: one that stands for a part of an operator, such as ``softplus
    logarithm``, is told at that operator."""
    one, other = _given(first, mismatch.specification), _given(second, mismatch.implementation)
    if (one, other) == (mismatch.specification, mismatch.implementation):
        return mismatch
    mine, theirs = first.by_name.get(one), second.by_name.get(other)
    return replace(
        mismatch,
        specification=one,
        implementation=other,
        operator=mismatch.operator if mine is None else unwrapped(mine.target, mine.args),
        implementation_operator=mismatch.implementation_operator
        if theirs is None
        else unwrapped(theirs.target, theirs.args),
    )


def _given(graph: Graph, name: str) -> str:
    """The name of the given node that one stands for: of one ``NODE WORDS`` that is none, ``NODE``."""
    shorter = name
    while shorter and shorter not in graph.by_name:
        shorter = shorter.rpartition(" ")[0]
    return shorter or name


def in_words_of_two(report: R) -> R:
    """The same report, with all that is prose in it about a first and a second program."""
    mismatch = report.mismatch
    return replace(
        report,
        outputs=tuple(map(_output, report.outputs)),
        assumptions=tuple(Assumption(a.name, _said(a.text), a.places) for a in report.assumptions),
        mismatch=None if mismatch is None else _mismatch(mismatch),
        notes=tuple(map(_said, report.notes)),
        sides=SIDES,
    )


def problem_of_two(problem: UserError) -> UserError:
    """The same error, with all that is prose in it about a first and a second program."""
    needed, hint = (_said(text) for text in (problem.needed, problem.hint))
    return UserError(problem.code, place=problem.place, found=_said(problem.found), needed=needed, hint=hint)


_LABELS = tuple(
    (re.compile(rf"(?<![\w./\-]){old}:(?= )"), f"{new}:")
    for old, new in (("specification", "first"), ("implementation", "second"))
)
_RANK = re.compile(r"(?<=\w) on rank 0(?!\w)")


def _said(text: str) -> str:
    for pattern, to in (*_LABELS, *_WORDS):
        text = pattern.sub(to, text)
    return _RANK.sub(" in the second program", text)


def _output(output: OutputReport) -> OutputReport:
    return replace(output, reason=_said(output.reason), notes=tuple(map(_said, output.notes)))


def _mismatch(mismatch: Mismatch) -> Mismatch:
    return replace(
        mismatch,
        difference=_said(mismatch.difference),
        equations=tuple(map(_said, mismatch.equations)),
        headline=_said(mismatch.headline),
        hint=_said(mismatch.hint),
        rank=None,
    )
