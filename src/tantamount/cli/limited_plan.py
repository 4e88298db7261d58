"""A plan verified in a process of its own, which can be ended whatever it does: where time or memory are limited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tantamount.cli.checking import GRACE, allow, why_lost
from tantamount.effort import MEMORY, Stopped
from tantamount.plan.result import PlanReport
from tantamount.report.outcomes import Failure, failure
from tantamount.verdict import Verdict

__all__ = ["verify_limited"]


def verify_limited(
    path: Path, timeout: float | None, memory: int | None, more: Mapping[str, Any], *, page: bool = False
) -> tuple[PlanReport, str] | Failure:
    """The report on a plan, and its page if that is asked for (else an empty text); or what went wrong.

    Of the plan's parts nothing more is known after ``timeout`` seconds or with more than ``memory`` megabytes; if its
    process had to be ended, nothing is known of the plan. ``more`` are further arguments of
    :func:`tantamount.verify_plan`."""
    from tantamount.work.pool import Lost, run_all

    work = partial(_work, timeout=timeout, memory=memory, page=page, more=dict(more))
    preload = ("tantamount.cli.preloaded", "tantamount.plan.prove")
    seconds = None if timeout is None else timeout + GRACE
    (found,) = run_all(work, [path], 1, seconds=seconds, preload=preload)
    if not isinstance(found, Lost):
        return found
    why = why_lost(str(path), found, timeout, memory)
    return why if isinstance(why, Failure) else _nothing(path, why, page)


def _work(
    path: Path, *, timeout: float | None, memory: int | None, more: Mapping[str, Any], page: bool
) -> tuple[PlanReport, str] | Failure:
    try:
        if memory is not None:
            allow(memory)
        from tantamount.answers import verify_plan
        from tantamount.plan.page import plan_page

        report = verify_plan(path, timeout=timeout, memory=memory, **more)
        return replace(report, subject=None), plan_page(report) if page else ""
    except Exception as problem:
        if isinstance(problem, MemoryError) and memory is not None:
            return _nothing(path, Stopped(MEMORY, f"{memory} MB"), page)
        return failure(str(path), problem, f"while verifying {path}")


def _nothing(path: Path, why: Stopped, page: bool) -> tuple[PlanReport, str]:
    """The report on a plan of which nothing is known."""
    from tantamount.plan.page import plan_page

    report = PlanReport(
        plan=str(path), name=path.stem, verdict=Verdict.UNKNOWN, mesh={}, microbatches=0, pieces=0, stages=0,
        schedule_name="", parts=(), joints=(), ownership=(), schedule=(), assumptions=(),
        notes=(f"{why}, and the process had to be ended: nothing is known of the plan",), seconds={}, megabytes=0.0,
    )  # fmt: skip
    return report, plan_page(report) if page else ""
