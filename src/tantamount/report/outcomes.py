"""The outcome of a job: a report, or the reason why there is none."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from dataclasses import dataclass

from tantamount.errors import UserError, cut, environment_fault
from tantamount.verdict import Report

__all__ = ["ENVIRONMENT", "INTERNAL", "USAGE", "Failure", "Outcome", "failure", "worst_exit"]

USAGE = 2
INTERNAL = 4
ENVIRONMENT = 5
_SEVERITY = (0, 3, 1, USAGE, ENVIRONMENT, INTERNAL)


@dataclass(frozen=True, slots=True)
class Failure:
    """A job without a verdict, as plain data: its input is wrong (``exit_code`` 2), or it is not to blame: we are (4),
    or the machine (5).

    The texts are those of :class:`UserError`. With exit code 4 ``found`` is ``Type: text`` of an exception, and
    ``trace`` its traceback.
    """

    job: str
    exit_code: int
    code: str
    place: str
    found: str
    needed: str
    hint: str = ""
    trace: str = ""

    def __str__(self) -> str:
        return str(UserError(self.code, place=self.place, found=self.found, needed=self.needed, hint=self.hint))


Outcome = Report | Failure


def failure(job: str, problem: BaseException, place: str) -> Failure:
    """The failure that an exception means; ``place`` says where a bug of ours showed."""
    if isinstance(problem, UserError):
        return Failure(job, USAGE, problem.code, problem.place, problem.found, problem.needed, problem.hint)
    if isinstance(problem, MemoryError):
        traceback.clear_frames(problem.__traceback__)  # gives back what the job had, so that this can be told
    fault = environment_fault(problem, place, every=True)
    if fault is not None:
        return Failure(job, ENVIRONMENT, fault.code, fault.place, fault.found, fault.needed, fault.hint)
    text = cut(str(problem)).splitlines()
    return Failure(
        job=job,
        exit_code=INTERNAL,
        code="internal",
        place=place,
        found=f"{type(problem).__name__}: {text[0] if text else '(no text)'}",
        needed="this is a bug of Tantamount, not of your files; nothing was proved or refuted",
        hint="please report it with the version, the command line and, if you can share them, the files",
        trace="".join(traceback.format_exception(problem)),
    )


def worst_exit(codes: Iterable[int]) -> int:
    """The exit code of several jobs: the first of 4, 5, 2, 1, 3, 0 that one of them has."""
    return max(codes, key=_SEVERITY.index, default=0)
