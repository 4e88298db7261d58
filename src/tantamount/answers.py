"""What users of the Python interface get: reports that can show and save themselves.

The layer above proofs, reports and certificates; the command line and the pytest plugin stand on it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from tantamount.effort import Effort, effort_of
from tantamount.ir.job import Job
from tantamount.limits import Limits
from tantamount.proof import Progress
from tantamount.refinement import Captured, Refinement, job_of, refine_job, whole_proof
from tantamount.verdict import Picture

__all__ = ["Answer", "NotProved", "refine"]


@dataclass(frozen=True)
class Answer(Refinement):
    """A report that can show and save itself. What it keeps of the proof for that is not pickled."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "proof": None, "subject": None}

    def __str__(self) -> str:
        return self.text().rstrip("\n")

    def text(self) -> str:
        """The report as the command line prints it."""
        from tantamount.report.text import text

        return text(self)

    def picture(self) -> Picture | None:
        """Both programs with what was found about their tensors, to be drawn; ``None`` if no single proof is behind
        this report, or the report was pickled. What was proved in pieces is proved as a whole for it."""
        from tantamount.proof.picture import draw_picture

        proof = whole_proof(self)
        return None if proof is None else draw_picture(proof)

    def raise_if_not_proved(self) -> Answer:
        """This report if everything is proved; else raise :class:`NotProved`, whose text is the report."""
        if not self.proved:
            raise NotProved(self)
        return self

    def certificate(self) -> dict[str, Any]:
        """What ``tantamount check`` checks (docs/certificates.md). Raises :class:`UserError` unless all is proved."""
        from tantamount.certificate.write import certificate_of

        return certificate_of(self, self.subject)

    def save_certificate(self, path: str | Path) -> None:
        """Write the certificate. Raises :class:`UserError` unless all is proved and the file can be written."""
        from tantamount.certificate.write import save_certificate

        save_certificate(self, self.subject, Path(path))

    def save(self, path: str | Path) -> None:
        """Write the report: ``.json`` (tantamount-report/1), ``.html`` or ``.txt``. Raises :class:`UserError`."""
        from tantamount.report.saving import save

        save(self, Path(path), self.picture)


class NotProved(AssertionError):
    """Raised where a proof was wanted. ``report`` has the whole answer."""

    def __init__(self, report: Answer) -> None:
        super().__init__(str(report))
        self.report = report


def refine(
    job: Job | Captured,
    implementation: object = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    assume: Mapping[str, Any] | None = None,
    strict: bool = False,
    fold: bool | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
    effort: str | float | Effort = "normal",
    timeout: float | None = None,
    memory: int | None = None,
    so_far: Callable[[Answer], None] | None = None,
) -> Answer:
    """Prove that the implementation refines the specification, output by output, or show where it does not.

    Either ``refine(job)``, or ``refine(specification, implementation)`` with captured programs; then ``inputs`` and
    ``outputs`` state relations (``{"layers.*.up.weight": "Shard(0)"}``) where the capture does not know them, and
    ``assume`` what a job's ``[assume]`` would.
    ``strict`` refuses assumptions other than real arithmetic; ranks are mesh axes where their graphs are isomorphic,
    unless ``fold`` is ``False`` (or that proves nothing, and one by one they can be proved).
    ``progress(phase, done, total)`` is told of every node.
    ``limits`` (default: those of the environment) bound what is executed in search of a counterexample, ``effort``
    every other search: ``low``, ``normal``, ``high``, or how many times the normal effort. After ``timeout`` seconds,
    or when this process holds more than ``memory`` megabytes, the verdict on what is not proved by then is UNKNOWN;
    ``so_far`` is told the answer as it would be if the work ended now, whenever more is proved under such a limit.
    Of programs with size symbols, all sizes are meant (docs/symbolic-sizes.md).
    Raises :class:`UserError` if the job contradicts itself or the ranks' collectives do not match."""
    subject = job_of(job, implementation, inputs=inputs, outputs=outputs, assume=assume)
    spent = effort if isinstance(effort, Effort) else effort_of(effort, timeout, memory)
    return _answer(
        refine_job(
            subject,
            strict=strict,
            fold=fold,
            progress=progress,
            limits=limits,
            effort=spent,
            so_far=None if so_far is None else partial(_tell, so_far),
        )
    )


def _tell(so_far: Callable[[Answer], None], found: Refinement) -> None:
    so_far(_answer(found))


def _answer(found: Refinement) -> Answer:
    return Answer(**{field.name: getattr(found, field.name) for field in fields(found)})
