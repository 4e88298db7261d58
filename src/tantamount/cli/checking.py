"""Checking jobs: one here, several in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tantamount.cli import terminal
from tantamount.cli.runners import runner
from tantamount.effort import MEMORY, TIMEOUT, Effort, Stopped, effort_of, stopping
from tantamount.errors import UserError
from tantamount.report.outcomes import ENVIRONMENT, Failure, Outcome, failure
from tantamount.verdict import LimitHit, Report, Statistics, Verdict

if TYPE_CHECKING:
    from tantamount.work.pool import Lost

__all__ = ["GRACE", "Options", "allow", "check", "check_all", "load", "lost", "stopped", "why_lost"]

GRACE = 5.0  # seconds that a process may take to stop by itself when its time is over
_HEADROOM = 256 * 2**20  # bytes mapped but not held, for the report of a process that has used its memory up


@dataclass(frozen=True, slots=True)
class Options:
    """The options of checking jobs. ``pages``: where the page of a job is written, by its path; ``certificate``: where
    that of the only job is; ``engine``: which one answers; ``rules``: files of rules, ``accept_tested``: those that are
    only tested count; ``accept``: declared approximations that are allowed. ``effort``, ``timeout`` (seconds) and
    ``memory`` (megabytes) are those of one job."""

    strict: bool = False
    allow_outside: bool = False
    operators: tuple[Path, ...] = ()
    pages: Mapping[Path, Path] = field(default_factory=dict[Path, Path])
    effort: str = "normal"
    timeout: float | None = None
    memory: int | None = None
    certificate: Path | None = None
    engine: str = "calculus"
    rules: tuple[Path, ...] = ()
    accept_tested: bool = False
    accept: tuple[str, ...] = ()

    @property
    def limited(self) -> bool:
        """True if time or memory of a job are limited."""
        return self.timeout is not None or self.memory is not None

    def start(self) -> Effort:
        """The effort of a job whose time begins now. Raises :class:`UserError`."""
        return effort_of(self.effort, self.timeout, self.memory)


def load(files: Sequence[Path]) -> None:
    """The operators that the files of ``--operators`` declare."""
    if files:
        from tantamount.ops.declare import load_operators

        for file in files:
            load_operators(file)


def check(
    path: Path,
    options: Options,
    progress: terminal.Progress | None = None,
    tell: Callable[[Report], None] | None = None,
) -> Outcome:
    """One job, in this process, where the operators are loaded already. ``tell`` is told what is known so far, where
    time or memory are limited. Raises nothing but interruptions."""
    try:
        effort = options.start()
        from tantamount.answers import refine
        from tantamount.capture.job import read_job

        _refuse_what_shells_leave(path)
        more: dict[str, Any] = {}
        if effort.limited or effort.factor != 1:
            more["effort"] = effort
        if effort.limited and tell is not None:
            more["so_far"] = tell
        if options.engine != "calculus":
            more["engine"] = options.engine
        if options.rules:
            more["rules"] = options.rules
        if options.accept_tested:
            more["accept_tested"] = True
        if options.accept:
            more["accept"] = options.accept
        with stopping(effort):
            job = read_job(path, allow_outside=options.allow_outside)
        report = refine(job, strict=options.strict, progress=progress, **more)
        if path in options.pages:  # here, where both programs still are
            report.save(options.pages[path])
        if options.limited and options.certificate is not None and report.proved:
            report.save_certificate(options.certificate)
        return report
    except Stopped as stop:
        return stopped(str(path), stop, "while it was read")
    except Exception as problem:
        if isinstance(problem, MemoryError) and options.memory is not None:
            return stopped(str(path), Stopped(MEMORY, f"{options.memory} MB"), "while it was read")
        return failure(str(path), problem, f"while checking {path}")


def check_all(
    paths: Sequence[Path], options: Options, workers: int | None, ray: str | None = None
) -> Iterator[Outcome]:
    """Every job, in the order given: one alone in this process, several in ``workers`` processes (default: one for
    every core), and so is one whose time or memory is limited: that process can be ended whatever it does. A job whose
    process dies has a :class:`Failure` like any other. ``ray``: the address of the cluster that has the processes."""
    if len(paths) == 1 and not options.limited and ray is None:
        with terminal.progress(str(paths[0])) as progress:
            outcome = check(paths[0], options, progress)
        yield outcome
        return
    from tantamount.work import pool

    with terminal.queue(len(paths)) as display:

        def watch(done: int, running: Sequence[Path]) -> None:
            display.show(done, [str(path) for path in running])

        outcomes = runner(ray)(
            partial(_work, options=options),
            paths,
            workers or (pool.cores() if ray is None else None),
            watch=watch,
            tells=options.limited,
            seconds=None if options.timeout is None else options.timeout + GRACE,
            preload=("tantamount.cli.preloaded",),
        )
        for path, outcome in zip(paths, outcomes, strict=True):
            with display.paused():
                yield (
                    lost(str(path), outcome, options.timeout, options.memory)
                    if isinstance(outcome, pool.Lost)
                    else outcome
                )


def _work(path: Path, tell: Callable[[Report], None] | None = None, *, options: Options) -> Outcome:
    try:
        load(options.operators)
        if options.memory is not None:
            allow(options.memory)
    except Exception as problem:
        return failure(str(path), problem, f"while loading operators for {path}")
    return check(path, options, tell=tell)


def allow(megabytes: int) -> None:
    """Let this process have no more than that: what it asks for beyond it is refused, instead of taken from others."""
    try:
        import resource
    except ImportError:  # no such limits on this system
        return
    pages = [int(n) for n in Path("/proc/self/statm").read_text(encoding="ascii").split()[:2]]
    mapped, held = (n * resource.getpagesize() for n in pages)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + max(0, megabytes * 10**6 - held) + _HEADROOM, hard))


def stopped(job: str, stop: Stopped, when: str) -> Report:
    """The report on a job of which nothing is known."""
    text = f"{stop} {when}"
    nothing = Statistics(0, 0, 0, False, 0, 0, {}, 0)
    hit = LimitHit(stop.limit, stop.allowed)
    return Report(
        job, Verdict.UNKNOWN, (), 0, (), (), None, None, nothing,
        notes=(text,), limits=(hit,), stopped=stop.limit,
    )  # fmt: skip


def _ended(job: str, stop: Stopped, so_far: object) -> Report:
    """The report on a job whose process had to be ended: what it told last."""
    known = stopped(job, stop, "and the process had to be ended")
    if not isinstance(so_far, Report):
        return known
    outputs = tuple(o if o.verdict is not Verdict.UNKNOWN else replace(o, reason=str(stop)) for o in so_far.outputs)
    return replace(
        so_far, outputs=outputs, notes=(*so_far.notes, *known.notes), limits=(*known.limits, *so_far.limits),
        stopped=stop.limit,
    )  # fmt: skip


def lost(job: str, process: Lost, timeout: float | None, memory: int | None) -> Outcome:
    """The outcome of a job whose process is lost: because its time (seconds) or memory (megabytes) ran out, or so."""
    why = why_lost(job, process, timeout, memory)
    return why if isinstance(why, Failure) else _ended(job, why, process.so_far)


def why_lost(job: str, process: Lost, timeout: float | None, memory: int | None) -> Stopped | Failure:
    """The limit, of time (seconds) or memory (megabytes), for which a process was ended; or that it was lost."""
    if process.overdue:
        return Stopped(TIMEOUT, f"{timeout:g} s")
    if memory is not None and process.exit_code < 0:
        return Stopped(MEMORY, f"{memory} MB")
    return Failure(
        job=job,
        exit_code=ENVIRONMENT,
        code="process-lost",
        place=f"while checking {job}",
        found=f"the process that checked it was {process}",
        needed="a process that is left to finish; nothing was proved or refuted",
        hint="SIGKILL is what the system does when memory runs out: --workers 1 needs less of it",
    )


def _refuse_what_shells_leave(path: Path) -> None:
    """A folder, or a pattern that matched nothing: what was meant is clear, so it is said."""
    if path.is_dir():
        jobs = len(list(path.glob("*.toml")))
        if (path / "plan.toml").is_file():
            raise UserError(
                "file-kind", place=str(path), found="the folder of a plan", needed="job files",
                hint=f"tantamount plan verify {path}",
            )  # fmt: skip
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
