"""Campaigns: cases of a seed one after the other on some backends, differences made small and told apart.

What a campaign has done is in its folder: ``campaign.json`` (what was asked), ``log-N.jsonl`` (one line per case and
worker; a line is written when its case is done), and a folder per finding. A campaign that was ended goes on where it
stopped: cases that have a line are not run again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, cast

from tantamount.capture.fields import shown
from tantamount.capture.readers import read_graph
from tantamount.errors import InternalError, UserError
from tantamount.fuzz.backends import backends
from tantamount.fuzz.backends.base import Backend, Compiler, Deviation, Hosted, Outcome, deviations, policy_of
from tantamount.fuzz.backends.planted import Planted
from tantamount.fuzz.cases import Case, Maker
from tantamount.fuzz.draft import Policy
from tantamount.fuzz.findings import NoRecord, read_findings, read_record, resembles, save, slug
from tantamount.fuzz.models import Models
from tantamount.fuzz.oracle import (
    Failure,
    every_time,
    excused,
    first_level,
    first_pass,
    judge,
    message_pattern,
    signature,
)
from tantamount.fuzz.samplers import SAMPLERS
from tantamount.fuzz.shrink import Shrunk, shrink
from tantamount.fuzz.steering import Coverage
from tantamount.ir.graph import Graph
from tantamount.reduction.reduce import NotReduced
from tantamount.rules.record import proved_rules
from tantamount.rules.rule import Rule
from tantamount.semantics.reference import Array
from tantamount.work.pool import Lost, run_all

__all__ = ["Campaign", "Progress", "Setup", "part", "run_campaign", "started"]


@dataclass(frozen=True)
class Setup:
    """The request for a campaign: backends by name, the seed, the cases ``first`` to ``first + count`` (``None``: no
    end), seconds in all, which of how many workers this one is, names of deviations that are not applied (``without``)
    or applied although they are off (``hidden``), forms at random per case. ``operators`` and ``dtypes``: only these,
    by name (``amax``, ``int8``). ``graphs``: files of graphs that cases are cut out of, instead of random ones."""

    backends: tuple[str, ...]
    seed: int = 0
    first: int = 0
    count: int | None = None
    seconds: float | None = None
    worker: int = 0
    workers: int = 1
    without: tuple[str, ...] = ()
    randoms: int = 1
    pythons: Mapping[str, str] = field(default_factory=dict[str, str])
    known: frozenset[str] = frozenset()
    hidden: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    graphs: tuple[str, ...] = ()


@dataclass
class Progress:
    """The progress of a campaign. ``outside``: seconds that were not the compilers'; ``pairs``: what each comparison
    alone found."""

    cases: int = 0
    forms: int = 0
    failures: int = 0
    findings: int = 0
    seconds: float = 0.0
    compiling: float = 0.0
    making: float = 0.0
    skipped: int = 0
    seen: Counter[str] = field(default_factory=Counter[str])
    coverage: Coverage = field(default_factory=Coverage)
    new: list[str] = field(default_factory=list[str])

    def told(self) -> dict[str, Any]:
        """The numbers, as plain data."""
        return {
            "cases": self.cases, "forms": self.forms, "failures": self.failures, "findings": self.findings,
            "seconds": self.seconds,
            "busy": self.seconds, "compiling": self.compiling, "making": self.making, "skipped": self.skipped,
            **self.coverage.counts, "new": list(self.new),
        }  # fmt: skip


def narrowed(setup: Setup) -> Policy:
    """The policy of the programs that the setup leaves. Raises :class:`UserError` for operators and types that there
    are not."""
    policy = Policy()
    if setup.operators:
        found = {target for target in SAMPLERS for name in setup.operators if target.split(".")[1] == name}
        unknown = [name for name in setup.operators if not any(target.split(".")[1] == name for target in found)]
        if unknown:
            raise UserError("fuzz-policy", place="--operators", found=unknown[0], needed="operators that are generated")
        policy = replace(policy, targets=frozenset(found))
    if setup.dtypes:
        dtypes = tuple(dtype for dtype in policy.dtypes if dtype.label in setup.dtypes)
        unknown = sorted({*setup.dtypes} - {dtype.label for dtype in dtypes})
        if unknown:
            raise UserError(
                "fuzz-policy", place="--dtypes", found=unknown[0], needed="element types that are generated"
            )
        policy = replace(policy, dtypes=dtypes)
    return policy


def started(name: str, python: str = "") -> Compiler:
    """A backend, ready to be asked. Raises :class:`UserError` for one that there is not."""
    if name not in backends():
        raise UserError(
            "fuzz-backend", place="--backend", found=name, needed=f"one of {', '.join(backends())}",
            hint="`tantamount fuzz backends` lists them",
        )  # fmt: skip
    return Planted() if name == "planted" else Hosted(backends()[name], python)


@dataclass(frozen=True)
class _Timed:
    """A backend whose time is counted, that for making failures small included."""

    compiler: Compiler
    progress: Progress

    @property
    def backend(self) -> Backend:
        return self.compiler.backend

    def run(
        self,
        graph: Graph,
        inputs: Mapping[str, Array],
        level: str = "",
        disabled: Sequence[str] = (),
        show: bool = False,
    ) -> Outcome:
        """See :class:`tantamount.fuzz.backends.base.Compiler`."""
        start = time.perf_counter()
        try:
            return self.compiler.run(graph, inputs, level, disabled, show)
        finally:
            self.progress.compiling += time.perf_counter() - start

    def versions(self) -> dict[str, str]:
        """See :class:`tantamount.fuzz.backends.base.Compiler`."""
        return self.compiler.versions()

    def close(self) -> None:
        """See :class:`tantamount.fuzz.backends.base.Compiler`."""
        self.compiler.close()


@dataclass
class Campaign:
    """One worker's part of a campaign."""

    setup: Setup
    folder: Path
    rules: Mapping[str, Rule]
    compilers: Sequence[Compiler] = ()
    policy: Policy | None = None
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        names = self.setup.backends
        started_here = self.compilers or [started(name, self.setup.pythons.get(name, "")) for name in names]
        self.compilers = [_Timed(compiler, self.progress) for compiler in started_here]
        asked = [compiler.backend for compiler in self.compilers]
        policy = policy_of(asked, self.policy or narrowed(self.setup), self.setup.without, self.setup.hidden)
        source = Models([read_graph(file) for file in self.setup.graphs], policy).sample if self.setup.graphs else None
        self.maker = Maker(policy, self.rules, self.setup.randoms, source)
        self.excuses = {
            b.name: [
                row
                for row in deviations(b.name)
                if row.name not in self.setup.without and (row.on or row.name in self.setup.hidden)
            ]
            for b in asked
        }
        self.rough: dict[
            str, str
        ] = {}  # what a failure looks like before it is made small -> the folder of its finding
        self.found = read_findings(self.folder) if self.folder.is_dir() else []
        self.signatures = {finding.signature for finding in self.found}

    # ------------------------------------------------------------------ cases
    def indices(self) -> Iterator[int]:
        """The cases of this worker that have no line yet."""
        done = _done(self.folder)
        index = self.setup.first + self.setup.worker
        while self.setup.count is None or index < self.setup.first + self.setup.count:
            if index not in done:
                yield index
            index += self.setup.workers

    def run(self, tell: Callable[[Progress], None] = lambda _: None) -> Progress:
        """Run the cases until they, or the seconds, are over."""
        self.folder.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        path = self.folder / f"log-{self.setup.worker}.jsonl"
        torn = path.is_file() and not path.read_text(errors="replace").endswith("\n")
        for line in _lines(path):
            with suppress(ValueError, TypeError, AttributeError):  # a damaged line steers nothing
                self.progress.coverage.restore(line)
        with path.open("a") as log:
            log.write("\n" if torn else "")  # after a line that was not written to its end
            for index in self.indices():
                self.progress.seconds = time.monotonic() - start
                if self.setup.seconds is not None and self.progress.seconds >= self.setup.seconds:
                    break
                line = self.one(index)
                log.write(json.dumps(line) + "\n")
                log.flush()
                self.progress.seconds = time.monotonic() - start
                tell(self.progress)
        return self.progress

    def close(self) -> None:
        """End the backends."""
        for compiler in self.compilers:
            compiler.close()

    def one(self, index: int) -> dict[str, Any]:
        """Run one case on every backend; what is told of it."""
        before = time.perf_counter()
        line: dict[str, Any] = {"case": index}
        coverage, random = self.progress.coverage, Random(f"{self.setup.seed}/{index}/goals")
        goals = () if self.setup.graphs else coverage.goals(self.maker.policy, random)
        try:
            case = self.maker.case(self.setup.seed, index, goals, coverage.taste())
        except (InternalError, NotReduced) as problem:
            self.progress.skipped += 1
            return {**line, **coverage.add((), (), goals), "problem": str(problem)}
        self.progress.making += time.perf_counter() - before
        self.progress.cases += 1
        self.progress.forms += len(case.forms)
        kernels: set[str] = set()
        for compiler in self.compilers:
            outcomes = self._outcomes(compiler, case, random.random() < compiler.backend.shown)
            for outcome in outcomes.values():
                kernels.update(f"{compiler.backend.name} {kernel}" for kernel in outcome.kernels)
            found, _ = judge(case, outcomes, compiler.backend)
            rows: list[Deviation] = self.excuses[compiler.backend.name]
            failures = [failure for failure in found if not excused(failure, rows)]
            if failures:
                line.setdefault("failures", {})[compiler.backend.name] = self._all_told(failures, compiler, case)
        return {**line, **coverage.add([form.graph for form in case.forms], sorted(kernels), goals)}

    def _outcomes(self, compiler: Compiler, case: Case, show: bool) -> dict[str, Outcome]:
        return {form.name: compiler.run(form.graph, form.inputs, show=show) for form in case.forms}

    def _all_told(self, failures: Sequence[Failure], compiler: Compiler, case: Case) -> list[str]:
        """The folders of the findings of a case's failures. An output that is wrong in several forms is made small in
        one of them, the smallest."""
        self.progress.failures += len({failure.form.name for failure in failures})
        told: dict[tuple[str, int | str], str] = {}
        for failure in sorted(failures, key=lambda failure: len(failure.form.graph.nodes)):
            key = (failure.kind, failure.output if failure.kind == "wrong" else message_pattern(failure.message))
            if key not in told:
                told[key] = self._told(failure, compiler, case)
        return list(told.values())

    def _told(self, failure: Failure, compiler: Compiler, case: Case) -> str:
        """The folder of a failure's finding, which is made if it is a new one."""
        rough = _rough(failure)
        if self.progress.seen[rough] >= 6 and rough in self.rough:  # seen often enough: not made small once more
            return self.rough[rough]
        self.progress.seen[rough] += 1
        if every_time(compiler, failure):
            small = shrink(failure, compiler, policy=self.maker.policy)
            smallest = small.failure
            level = first_level(compiler, smallest.form, smallest.kind)
            smallest = replace(smallest, level=level)
            smallest = replace(smallest, first=first_pass(compiler, smallest.form, smallest.kind, level))
        else:  # it stays as it is: a smaller program may fail no more by chance
            small, level = Shrunk(replace(failure, kind="unstable"), 0), failure.level
            smallest = small.failure
        sign = signature(smallest)
        name = slug(sign)
        self.rough[rough] = name
        if sign in self.signatures or sign in self.setup.known:
            return name
        again = compiler.run(smallest.form.graph, smallest.form.inputs, level)
        self.signatures.add(sign)
        saved = save(
            smallest, compiler.backend, compiler.versions(), self.folder, case.seed, case.index,
            form=failure.form.name, compilations=small.compilations, again=again.status,
        )  # fmt: skip
        if not any(resembles(saved, other) for other in self.found):
            self.progress.findings += 1
            self.progress.new.append(sign)
        self.found.append(saved)
        return name


def _rough(failure: Failure) -> str:
    """A signature of a failure that was not made small yet: what can be told of it without running it again."""
    graph = failure.form.graph
    if failure.kind != "wrong":
        return f"{failure.backend} {failure.kind} {message_pattern(failure.message)}"
    node = graph.by_name[graph.outputs[failure.output].node]
    return f"{failure.backend} wrong {node.target} {node.type}"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log; not that of a worker that was killed while it wrote."""
    if path.is_file():
        for text in path.read_text(errors="replace").splitlines():
            with suppress(ValueError, RecursionError):
                line = json.loads(text)
                if isinstance(line, dict):
                    yield cast("dict[str, Any]", line)


def _done(folder: Path) -> set[int]:
    return {
        line["case"]
        for path in folder.glob("log-*.jsonl")
        for line in _lines(path)
        if isinstance(line.get("case"), int)
    }


def _agreed(folder: Path, setup: Setup) -> None:
    """Write what was asked, or see that it is what was asked before. Raises :class:`UserError` if it is not."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "campaign.json"
    asked = {
        key: value
        for key, value in asdict(setup).items()
        if key in ("backends", "seed", "without", "hidden", "randoms", "operators", "dtypes", "graphs")
    }
    asked = json.loads(json.dumps({"format": "tantamount-campaign/1", **asked}))
    if path.is_file():
        try:
            before = read_record(path)
        except NoRecord as problem:
            raise UserError(
                "campaign-other", place=str(path), found=str(problem), needed="what a campaign wrote",
                hint="choose another --out",
            ) from None  # fmt: skip
        if before != asked:
            raise UserError(
                "campaign-other", place=str(path),
                found=f"a campaign of {_told(before.get('backends'))} with seed {shown(before.get('seed'))}",
                needed="the same options as before", hint="choose another --out",
            )  # fmt: skip
    else:
        path.write_text(json.dumps(asked, indent=1) + "\n")


def _told(names: object) -> str:
    return str(cast("list[object]", names))[:80] if isinstance(names, list) else shown(names)


def part(asked: tuple[Setup, Path, Mapping[str, Rule] | None], tell: Callable[[Any], None]) -> dict[str, Any]:
    """One worker's part, told as plain data while it goes on, and at its end."""
    setup, folder, rules = asked
    campaign = Campaign(setup, folder, proved_rules() if rules is None else rules)
    last = time.monotonic()

    def now_and_then(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= 1:
            last = time.monotonic()
            tell(progress.told())

    try:
        return campaign.run(now_and_then).told()
    finally:
        campaign.close()


def _starts(name: str, python: str) -> None:
    """See that a backend starts. Raises :class:`UserError` if it does not, or there is none of that name."""
    compiler = started(name, python)
    problem = compiler.asked()[1] if isinstance(compiler, Hosted) else ""
    compiler.close()
    if problem:
        raise UserError(
            "fuzz-missing", place=name, found=problem, needed="a Python in which it starts",
            hint=f"{compiler.backend.install}; or --python {name}=PATH",
        )  # fmt: skip


def run_campaign(
    setup: Setup,
    folder: Path,
    rules: Mapping[str, Rule],
    tell: Callable[[dict[str, Any]], None] = lambda _: None,
    run_parts: Callable[..., Iterator[Any]] | None = None,
) -> dict[str, Any]:
    """Run a campaign, in processes of its own if it has several workers; what came of it, as plain data. Several
    workers have the rules of the library, and so have those of ``run_parts``, which is
    :func:`tantamount.work.pool.run_all` or does the same elsewhere. Raises :class:`UserError` where the folder has
    another campaign."""
    for name in setup.backends:
        _starts(name, setup.pythons.get(name, ""))
    narrowed(setup)
    _agreed(folder, setup)
    if setup.workers == 1 and run_parts is None:
        return part((setup, folder, rules), tell)
    parts = [(replace(setup, worker=k), folder, None) for k in range(setup.workers)]
    total: dict[str, Any] = {}
    for found in (run_parts or run_all)(part, parts, setup.workers, tells=True):
        if isinstance(found, Lost):
            total.setdefault("lost", []).append(str(found))
            found = found.so_far or Progress().told()
        for key, value in found.items():
            longest = key in ("seconds", "pairs", "cells", "kernels")
            total[key] = value if key not in total else max(total[key], value) if longest else total[key] + value
    return total
