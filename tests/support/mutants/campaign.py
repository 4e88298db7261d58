"""Many mutants of many jobs: what execution says, what the prover says, and where the two are at odds."""

from __future__ import annotations

import random
import signal
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tantamount import read_job
from tantamount.answers import refine
from tantamount.errors import UserError
from tantamount.execution.cross_check import proved_claim
from tantamount.ir.job import Job
from tantamount.reduction import NotReduced, reduce_job
from tantamount.samples.mutants.edits import Proposal, refused
from tantamount.samples.mutants.job_kinds import job_mutants, with_all_groups
from tantamount.samples.mutants.kinds import node_mutants
from tantamount.verdict import Report, Verdict

from .classify import DIFFERENT, EQUAL, UNDECIDED, UNDEFINED, Subject, executes, subject_of

__all__ = ["Outcome", "Task", "prepare", "proposals", "run_task", "tasks"]

DISCARDED, CRASHED, LATE = "discarded", "crashed", "late"


@dataclass(frozen=True)
class Task:
    """``count`` mutants of one job: those at ``first, first + 1, ...`` of its list."""

    path: str
    seed: int
    first: int
    count: int
    seconds: float  # for one run of the prover


@dataclass(frozen=True)
class Outcome:
    """One mutant. ``classes`` and ``verdicts`` by output; ``said`` is the job's verdict, ``discarded``, ``crashed`` or
    ``late``; ``problem`` says why."""

    job: str
    path: str
    number: int
    kind: str
    what: str
    said: str
    classes: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    proving: float = 0.0  # CPU seconds
    judging: float = 0.0

    @property
    def discarded(self) -> bool:
        return self.said == DISCARDED

    @property
    def truth(self) -> str:
        """The worst class of an output."""
        found = set(self.classes.values())
        return next((c for c in (DIFFERENT, UNDEFINED, UNDECIDED) if c in found), EQUAL if found else UNDECIDED)

    @property
    def unsound(self) -> tuple[str, ...]:
        """Outputs that are different and were proved. Where the mutant is undefined and the specification is not,
        the proof must have said so: an assumption about domains."""
        domain = "assumes domains" in self.problem
        return tuple(
            name
            for name, verdict in self.verdicts.items()
            if verdict == "PROVED"
            and (self.classes.get(name) == DIFFERENT or (self.classes.get(name) == UNDEFINED and not domain))
        )

    @property
    def slandered(self) -> tuple[str, ...]:
        """Outputs that are equal and were refuted."""
        return tuple(n for n, v in self.verdicts.items() if v == "REFUTED" and self.classes.get(n) == EQUAL)

    def json(self) -> dict[str, Any]:
        return asdict(self) | {"truth": self.truth}


# ------------------------------------------------------------------------------------------------ jobs
@dataclass(frozen=True)
class Prepared:
    """A job that is proved and executes, with its mutants in the order in which they are taken."""

    name: str
    subject: Subject
    proposals: tuple[Proposal, ...]
    skipped: str = ""


def prepare(path: str, seed: int, seconds: float = 30.0) -> Prepared:
    """``skipped`` says why a job has no mutants: it is not proved, or it cannot be executed."""
    name = _name(path)
    nothing = Subject(None, None, ())  # type: ignore[arg-type]
    try:
        with _within(seconds):
            job = read_job(path)
            report = refine(job)
            if report.verdict is not Verdict.PROVED:
                return Prepared(name, nothing, (), report.verdict.value)
            job = _pinned(job, report)
            subject = subject_of(job)
            if subject.skipped and (smaller := _smaller(job)) is not None:
                job = smaller
                subject = subject_of(job)
    except UserError as problem:
        return Prepared(name, nothing, (), f"not read: {problem.code}: {problem.found}"[:160])
    except _Late:
        return Prepared(name, nothing, (), f"more than {seconds} s")
    except Exception as problem:
        return Prepared(name, nothing, (), f"crashed: {problem!r}"[:300])
    if subject.skipped:
        return Prepared(name, subject, (), f"not executed: {subject.skipped}")
    return Prepared(name, subject, tuple(proposals(job, seed)))


def _smaller(job: Job) -> Job | None:
    """The job at reduced shapes, if it is proved as well: its mutants stand for the job's."""
    try:
        smaller = reduce_job(job).job
    except NotReduced:
        return None
    return smaller if refine(smaller).verdict is Verdict.PROVED else None


def _name(path: str) -> str:
    place = Path(path)
    return place.parent.name if place.stem in ("job", "ok") else f"{place.parent.name}/{place.stem}"


def _pinned(job: Job, report: Report) -> Job:
    """The job with every inferred relation made an expectation, so that mutants are held to it."""
    outputs = dict(job.outputs)
    for found in report.outputs:
        if outputs[found.name].infer:
            outputs[found.name] = proved_claim(job, found).relation
    return replace(job, outputs=outputs)


def proposals(job: Job, seed: int) -> Iterator[Proposal]:
    """All mutants: kind after kind in turn (all rewrites are one kind), in random order, so that any prefix is a fair
    sample."""
    job = with_all_groups(job)
    kinds: dict[str, list[Proposal]] = defaultdict(list)
    for proposal in (*node_mutants(job, seed), *job_mutants(job, seed)):
        kinds[proposal.kind.split(":")[0]].append(proposal)
    random_ = random.Random(f"{seed} {Path(job.path).parent.name}")
    order = random_.sample(sorted(kinds), len(kinds))
    for kind in order:
        random_.shuffle(kinds[kind])
    while order:
        for kind in order:
            yield kinds[kind].pop()
        order = [kind for kind in order if kinds[kind]]


@lru_cache(maxsize=2)
def _prepared(path: str, seed: int) -> Prepared:
    return prepare(path, seed)


def tasks(sizes: dict[str, int], seed: int, mutants: int, seconds: float, chunk: int = 40) -> list[Task]:
    """``mutants`` shared out among jobs with ``sizes[path]`` mutants each: small jobs give all, large ones alike."""
    share: dict[str, int] = dict.fromkeys(sizes, 0)
    left = mutants
    while left > 0:
        open_ = [path for path in sizes if share[path] < sizes[path]]
        if not open_:
            break
        each = max(1, left // len(open_))
        for path in open_:
            more = min(each, sizes[path] - share[path], left)
            share[path] += more
            left -= more
    return [
        Task(path, seed, first, min(chunk, count - first), seconds)
        for path, count in share.items()
        for first in range(0, count, chunk)
    ]


# ------------------------------------------------------------------------------------------------ running
class _Late(BaseException):
    """The time limit of one run. No ``Exception``, so that nobody catches it by accident."""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """CPU seconds of this process."""

    def stop(signum: int, frame: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run_task(task: Task) -> list[Outcome]:
    """The outcomes of a task's mutants."""
    prepared = _prepared(task.path, task.seed)
    return [
        run_mutant(prepared, task.path, number, task.seconds)
        for number in range(task.first, min(task.first + task.count, len(prepared.proposals)))
    ]


def run_mutant(prepared: Prepared, path: str, number: int, seconds: float) -> Outcome:
    """One mutant made, judged by execution, and given to the prover."""
    proposal = prepared.proposals[number]

    def outcome(said: str, **rest: Any) -> Outcome:
        return Outcome(prepared.name, path, number, proposal.kind, proposal.what, said, **rest)

    try:
        mutant = refused(proposal.build)
    except Exception:
        return outcome(CRASHED, problem=f"type check: {traceback.format_exc(limit=-4)}")
    if isinstance(mutant, str):
        return outcome(DISCARDED, problem=mutant)
    start = time.process_time()
    problem = ""
    classes: dict[str, str] = {}
    try:
        with _within(seconds):
            judged = executes(prepared.subject, mutant)
            if proposal.kind.startswith("rewrite:") and isinstance(judged, dict):
                # equal by construction; what differs is rounding: (a + b)^2 - (a - b)^2 cancels
                judged = {name: EQUAL if found == DIFFERENT else found for name, found in judged.items()}
        classes, problem = (judged, "") if isinstance(judged, dict) else ({}, judged)
    except _Late:
        problem = "executing takes too long"
    except Exception:
        return outcome(CRASHED, problem=f"execution: {traceback.format_exc(limit=-6)}")
    middle = time.process_time()
    verdicts: dict[str, str] = {}
    try:
        with _within(seconds):
            report = refine(mutant)
        said = report.verdict.value
        verdicts = {output.name: output.verdict.value for output in report.outputs}
        if any(a.name == "domain" for a in report.assumptions):
            problem += " assumes domains"
    except UserError as error:
        if not classes or set(classes.values()) == {UNDECIDED}:
            return outcome(DISCARDED, problem=f"{error.code}: {error.found}")
        said, problem = CRASHED, f"refused, though it executes: {error}"
    except _Late:
        said, problem = LATE, f"more than {seconds} s"
    except Exception:
        said, problem = CRASHED, traceback.format_exc(limit=-4)
    end = time.process_time()
    return outcome(
        said, classes=classes, verdicts=verdicts, problem=problem.strip(), proving=end - middle, judging=middle - start
    )


# ------------------------------------------------------------------------------------------------ figures
@dataclass(frozen=True)
class Figures:
    """What all outcomes come to."""

    outcomes: Sequence[Outcome]

    def of(self, truth: str) -> list[Outcome]:
        return [o for o in self.outcomes if not o.discarded and o.truth == truth]

    @property
    def mutants(self) -> list[Outcome]:
        return [o for o in self.outcomes if not o.discarded]

    @property
    def unsound(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.unsound]

    @property
    def slandered(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.slandered]

    @property
    def crashed(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.said == CRASHED]

    @property
    def unproved(self) -> list[Outcome]:
        """Equivalent, but not proved."""
        return [o for o in self.of(EQUAL) if o.said != "PROVED"]

    def table(self, by: str) -> list[tuple[str, Counter[str]]]:
        """Counts by ``kind`` or ``job``: ``mutants``, ``discarded``, the classes, and what was proved of each."""
        rows: dict[str, Counter[str]] = defaultdict(Counter)
        for o in self.outcomes:
            row = rows[getattr(o, by)]
            if o.discarded:
                row["discarded"] += 1
                continue
            row["mutants"] += 1
            row[o.truth] += 1
            row[f"{o.truth} {o.said}"] += 1
            row["unsound"] += bool(o.unsound)
        return sorted(rows.items())
