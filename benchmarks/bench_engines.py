"""Both engines on the same jobs: do they agree, and what does each cost?

Usage: python benchmarks/bench_engines.py [--seconds N] [--json OUT] [JOB.toml | PLAN.toml ...]. Without arguments: the
jobs of examples/, and the jobs, bug pairs and small plans of the folder ``TANTAMOUNT_SHARED`` (``../shared`` beside the
checkout). Every answer is asked for in a process of its own that may take N seconds of CPU time.

A contradiction is PROVED by the calculus and REFUTED by the other, or REFUTED by the calculus and equal at reduced
shapes: a bug of one of them (or a difference that the reduction hides). The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tantamount.answers import refine
from tantamount.capture.job import read_job
from tantamount.errors import UserError
from tantamount.ir.job import Job
from tantamount.plan.read import read_plan
from tantamount.smt.solver import load_z3

ROOT = Path(__file__).resolve().parent.parent
LIMIT = "limit"  # of CPU time
CONTRADICTIONS = {("PROVED", "REFUTED"), ("REFUTED", "EQUAL AT REDUCED SHAPES")}
SIDES = {"PROVED": "EQUAL AT REDUCED SHAPES", "REFUTED": "REFUTED"}


@dataclass(frozen=True)
class Answer:
    """A verdict (or :data:`LIMIT`, or the code of an error), CPU seconds, and of the second engine its figures."""

    verdict: str
    seconds: float
    note: str = ""
    elements: int = 0
    by_expression: int = 0
    by_solver: int = 0
    questions: int = 0
    stages: int = 0


@dataclass(frozen=True)
class Row:
    """One job under both engines."""

    job: str
    calculus: Answer
    smt: Answer

    @property
    def outcome(self) -> str:
        pair = (self.calculus.verdict, self.smt.verdict)
        if pair in CONTRADICTIONS:
            return "CONTRADICTION"
        if SIDES.get(pair[0]) == pair[1]:
            return "agree"
        return "limit" if LIMIT in pair else "open"


def default_jobs() -> Iterator[Path]:
    yield from sorted(ROOT.glob("examples/*/*.toml"))
    shared = Path(os.environ.get("TANTAMOUNT_SHARED", ROOT.parent / "shared"))
    for pattern in ("bugs/*/ok.toml", "bugs/*/bug.toml", "jobs/*/job.toml", "plans/*/job.toml"):
        yield from sorted(shared.glob(pattern))


def jobs_of(path: Path) -> Iterator[tuple[str, Job]]:
    name = "/".join(path.with_suffix("").parts[-2:])
    try:
        if path.name.startswith("plan"):
            for part in read_plan(path).parts.values():
                yield f"{name}:{part.name}", part.job
        else:
            yield name, read_job(path, allow_outside=True)
    except UserError as problem:
        print(f"{name}: not read: {problem.code}", file=sys.stderr)


def ask(job: Job, engine: str, seconds: int) -> Answer:
    """One engine's answer, from a fork of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        os.write(writing, json.dumps(_answer(job, engine)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, _, usage = os.wait4(child, 0)
    cost = usage.ru_utime + usage.ru_stime
    return Answer(seconds=cost, **json.loads(text)) if text else Answer(LIMIT, cost)


def _answer(job: Job, engine: str) -> dict[str, object]:
    try:
        report = refine(job, engine=engine)
    except UserError as problem:
        return {"verdict": problem.code}
    except Exception as problem:  # a bug of ours is a row, too
        return {"verdict": "bug", "note": f"{type(problem).__name__}: {problem}"[:200]}
    found = report.elementwise
    first = next((o.reason for o in report.outputs if o.verdict is report.verdict and o.reason), "")
    out: dict[str, object] = {"verdict": report.verdict.value, "note": first.splitlines()[0][:160] if first else ""}
    if found is not None:
        out |= {key: getattr(found, key) for key in ("elements", "by_expression", "by_solver", "questions")}
        out["stages"] = len(found.stages)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load_z3()  # once, for all forks
    rows: list[Row] = []
    print(f"{'job':<44} {'calculus':<10} {'CPU s':>6}  {'smt':<24} {'CPU s':>6}  outcome")
    for path in options.jobs or default_jobs():
        for name, job in jobs_of(path):
            row = Row(name, *(ask(job, engine, options.seconds) for engine in ("calculus", "smt")))
            rows.append(row)
            a, b = row.calculus, row.smt
            print(
                f"{name[-44:]:<44} {a.verdict:<10} {a.seconds:>6.1f}  {b.verdict:<24} {b.seconds:>6.1f}  {row.outcome}"
                + (f": {b.note}" if row.outcome not in ("agree", "limit") else ""),
                flush=True,
            )
    counts = Counter(row.outcome for row in rows)
    finished = sum(row.smt.verdict != LIMIT for row in rows)
    print(f"{len(rows)} jobs, {finished} finished: {dict(counts)}")
    print(f"CPU s: calculus {sum(r.calculus.seconds for r in rows):.0f}, smt {sum(r.smt.seconds for r in rows):.0f}")
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) | {"outcome": row.outcome} for row in rows], indent=1))
    return int(counts["CONTRADICTION"] > 0)


if __name__ == "__main__":
    sys.exit(main())
