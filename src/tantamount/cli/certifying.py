"""Certificates of the jobs that the command line proves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tantamount.cli.terminal import error
from tantamount.errors import UserError
from tantamount.report.outcomes import Failure, Outcome
from tantamount.writing import check_writable

__all__ = ["certify", "check_certifiable"]


def check_certifiable(jobs: Sequence[Path], path: Path) -> None:
    """Raise :class:`UserError` if no certificate can be written, before anything is proved."""
    if len(jobs) != 1:
        raise UserError(
            "certificate-jobs",
            place=f"--certificate {path}",
            found=f"{len(jobs)} jobs",
            needed="one job",
        )
    check_writable(path, "--certificate")


def certify(outcome: Outcome, path: Path) -> None:
    """Write the certificate of a proof; of anything else say that there is none."""
    if isinstance(outcome, Failure):
        return
    from tantamount.answers import Answer  # takes as long to import as a small job to prove

    if isinstance(outcome, Answer) and outcome.proved:
        if outcome.subject is not None:  # else the process that proved it has written it
            outcome.save_certificate(path)
    else:
        error(f"no certificate was written to {path}: the verdict is {outcome.verdict.value}")
