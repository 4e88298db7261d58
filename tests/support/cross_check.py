"""A job proved, and what is proved executed."""

from __future__ import annotations

from tantamount.correspond.alignment import align
from tantamount.effort import effort_of
from tantamount.execution import cross_check as execution
from tantamount.execution.cross_check import CrossCheck
from tantamount.ir.job import Job
from tantamount.limits import Limits
from tantamount.proof import Options, prove

__all__ = ["cross_check"]


def cross_check(job: Job, *, fold: bool | None = None, effort: str = "normal") -> CrossCheck:
    """What executions say of everything that is proved of a job with that effort."""
    proof = prove(job, Options(fold=fold, align=align, effort=effort_of(effort)))
    return execution.cross_check(proof, proof.check(), tuple(proof.relations().values()), Limits())
