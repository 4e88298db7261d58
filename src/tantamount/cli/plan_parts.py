"""Parts of a plan proved in processes of their own, here or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tantamount.cli.checking import GRACE
from tantamount.cli.runners import runner
from tantamount.errors import UserError
from tantamount.plan.parts import Part
from tantamount.plan.result import PartReport
from tantamount.report.outcomes import USAGE, Failure, failure
from tantamount.verdict import OutputReport, Verdict

__all__ = ["PartsApart"]


@dataclass(frozen=True)
class PartsApart:
    """How parts are proved apart: ``workers`` at a time (``None``: as many as the cluster has CPUs), on the Ray cluster
    at the address ``ray`` or else on this machine. ``effort``, ``timeout`` (seconds) and ``memory`` (megabytes) are
    those of one part, ``engine`` is asked about it. ``told(part, done, total)`` hears of parts that are under way."""

    workers: int | None
    ray: str | None
    effort: str = "normal"
    timeout: float | None = None
    memory: int | None = None
    told: Callable[[str, int, int], None] | None = None
    engine: str = "calculus"

    def __call__(self, path: Path, parts: Sequence[Part]) -> Iterator[PartReport]:
        """A report on every part of the plan at ``path``, in order. Each process reads the plan, so that what it names
        must be there on every node. A part whose process is lost is UNKNOWN, with the reason. Raises
        :class:`UserError` for a cluster that does not answer."""
        from tantamount.work.pool import Lost, cores

        names = [part.name for part in parts]

        def watch(done: int, running: Sequence[str]) -> None:
            if self.told is not None and running:
                self.told(running[0], done, len(names))

        found = runner(self.ray)(
            partial(_work, path=path, effort=self.effort, timeout=self.timeout, memory=self.memory, engine=self.engine),
            names,
            self.workers or (cores() if self.ray is None else None),
            watch=watch,
            seconds=None if self.timeout is None else self.timeout + GRACE,
            preload=("tantamount.cli.preloaded", "tantamount.plan.prove"),
        )
        for part, one in zip(parts, found, strict=True):
            if isinstance(one, Failure):
                if one.exit_code == USAGE:
                    raise UserError(one.code, place=one.place, found=one.found, needed=one.needed, hint=one.hint)
                yield _unknown(part, f"{one.place}: {one.found}")
            else:
                yield _unknown(part, f"its process {one}") if isinstance(one, Lost) else one


def _unknown(part: Part, reason: str) -> PartReport:
    outputs = tuple(
        OutputReport(name, Verdict.UNKNOWN, None, expected.text, reason) for name, expected in part.job.outputs.items()
    )
    return PartReport(part.name, Verdict.UNKNOWN, outputs, (), 1, 1, 0, 0.0)


def _work(
    name: str, *, path: Path, effort: str, timeout: float | None, memory: int | None, engine: str
) -> PartReport | Failure:
    """The report on one part of a plan, in a process of its own."""
    try:
        from tantamount.answers import verify_part

        return verify_part(path, name, effort=effort, timeout=timeout, memory=memory, engine=engine)
    except Exception as problem:
        return failure(str(path), problem, f"while proving {name} of {path}")
