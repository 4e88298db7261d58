"""Checking jobs: one here, several in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tantamount.cli import pool, terminal
from tantamount.cli.process import reserve
from tantamount.errors import UserError
from tantamount.report.outcomes import ENVIRONMENT, Failure, Outcome, failure

__all__ = ["Options", "check", "check_all", "load"]


@dataclass(frozen=True, slots=True)
class Options:
    """How jobs are checked. ``pages``: where the page of a job is written, by its path."""

    strict: bool = False
    allow_outside: bool = False
    operators: tuple[Path, ...] = ()
    pages: Mapping[Path, Path] = field(default_factory=dict[Path, Path])


def load(files: Sequence[Path]) -> None:
    """The operators that the files of ``--operators`` declare."""
    if files:
        from tantamount.ops.declare import load_operators

        for file in files:
            load_operators(file)


def check(path: Path, options: Options, progress: terminal.Progress | None = None) -> Outcome:
    """One job, in this process, where the operators are loaded already. Raises nothing but interruptions."""
    try:
        from tantamount.answers import refine

        reserve()
        from tantamount.capture.job import read_job

        _refuse_what_shells_leave(path)
        job = read_job(path, allow_outside=options.allow_outside)
        report = refine(job, strict=options.strict, progress=progress)
        if path in options.pages:  # here, where both programs still are
            report.save(options.pages[path])
        return report
    except Exception as problem:
        return failure(str(path), problem, f"while checking {path}")


def check_all(paths: Sequence[Path], options: Options, workers: int | None) -> Iterator[Outcome]:
    """Every job, in the order given: one alone in this process, several in ``workers`` processes (default: one for
    every core). A job whose process dies has a :class:`Failure` like any other."""
    if len(paths) == 1:
        with terminal.progress(str(paths[0])) as progress:
            outcome = check(paths[0], options, progress)
        yield outcome
        return
    with terminal.queue(len(paths)) as display:
        outcomes = pool.run_all(
            partial(_work, options=options),
            paths,
            workers or pool.cores(),
            watch=lambda done, running: display.show(done, [str(path) for path in running]),
            preload=(
                "tantamount.cli.main",
                "tantamount.cli.checking",
                "tantamount.capture.job",
                "tantamount.answers",
            ),
        )
        for path, outcome in zip(paths, outcomes, strict=True):
            with display.paused():
                yield _lost(path, outcome) if isinstance(outcome, pool.Lost) else outcome


def _work(path: Path, options: Options) -> Outcome:
    try:
        load(options.operators)
    except Exception as problem:
        return failure(str(path), problem, f"while loading operators for {path}")
    return check(path, options)


def _lost(path: Path, lost: pool.Lost) -> Failure:
    return Failure(
        job=str(path),
        exit_code=ENVIRONMENT,
        code="process-lost",
        place=f"while checking {path}",
        found=f"the process that checked it was {lost}",
        needed="a process that is left to finish; nothing was proved or refuted",
        hint="SIGKILL is what the system does when memory runs out: --workers 1 needs less of it",
    )


def _refuse_what_shells_leave(path: Path) -> None:
    """A folder, or a pattern that matched nothing: what was meant is clear, so it is said."""
    if path.is_dir():
        jobs = len(list(path.glob("*.toml")))
        raise UserError(
            "file-kind",
            place=str(path),
            found=f"a folder with {jobs} files *.toml",
            needed="job files",
            hint=f"tantamount refine {path / '*.toml'}" if jobs else "",
        )
    if any(character in path.name for character in "*?") and not path.exists():
        raise UserError(
            "file-unreadable",
            place=str(path),
            found="no file matches this pattern",
            needed="job files",
            hint="a shell passes a pattern on as it is if nothing matches it",
        )
