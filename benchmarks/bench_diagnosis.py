"""Is the line named that is wrong, and in the right words? Generated mistakes in captured programs.

    python benchmarks/bench_diagnosis.py --mutants 40 --seed 1 [--only KIND] [--json FILE] JOB.toml example.py ...

A script is one of ``examples/``: what its ``check`` would refine is the program.

A mistake (``samples/mutants/mistakes.py``) knows what was done where. Of each that is REFUTED the table says whether
the place that the report names is the right one (``exact``), at most four edges of the data flow away (``block``), or
somewhere else; whether the kind of difference is one that describes the mistake; whether a hint is given, and whether
one is misleading: about another place, or another kind; and the CPU seconds of the answer, and how many times those of
proving the program without the mistake.

Even seeds are kept for figures that are published: whoever changes the diagnosis looks at odd ones only.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import tantamount
from tantamount import read_job
from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Ref, references
from tantamount.ir.job import Job
from tantamount.refinement.job import job_of, refine_job
from tantamount.samples.mutants.edits import NotAProgram, changed
from tantamount.samples.mutants.mistakes import Mistake, distances, mistakes
from tantamount.verdict import Mismatch, Report, Verdict

BLOCK = 4  # edges
EXACT, NEAR, ELSEWHERE, NOWHERE = "exact", "block", "elsewhere", "nowhere"
LATE = "late"


@dataclass(frozen=True)
class Row:
    """One mistake and what was said of it."""

    job: str
    kind: str
    what: str
    place: str
    said: str
    words: bool
    hint: str
    headline: str
    seconds: float
    proof: float

    @property
    def misled(self) -> bool:
        """A hint that is about another place, or another kind of mistake."""
        return bool(self.hint) and not (self.place == EXACT and self.words)


def _own_half(job: Job) -> Job:
    """Rank 1 takes its own half of the logits' gradient."""
    return changed(job, frozenset([1]), "clone_11", lambda _, node: (replace(node, args=(Ref("getitem_5"),)),))


# captures that are wrong, and what is right
_REPAIRED: dict[str, Callable[[Job], Job]] = {"hf_llama_tp2_train": _own_half}


class _Late(BaseException):
    """The time limit; no ``Exception``, so that nobody catches it by accident."""


def within(seconds: float, work: Callable[[], Report]) -> Report | None:
    """The result, or ``None`` after that many CPU seconds."""

    def stop(signum: int, frame: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return work()
    except _Late:
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def programs(path: Path) -> Iterator[tuple[str, Job]]:
    """The job of a file, or those that a script would refine, with their names."""
    if path.suffix != ".py":
        name = path.parent.name
        yield name, _REPAIRED.get(name, lambda job: job)(read_job(path))
        return
    found: list[Job] = []

    def kept(*args: Any, **kwargs: Any) -> None:
        found.append(job_of(*args, **kwargs))

    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")  # before JAX is used
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    before, tantamount.refine = tantamount.refine, kept
    try:
        module.check()
    finally:
        tantamount.refine = before
    for job in found:
        yield path.stem, job


def called(graph: Graph, name: str) -> str:
    """A node, or the one of which it is one of several results: the line is the same."""
    while name in graph.by_name and graph.by_name[name].target == "getitem":
        name = next(iter(references(graph.by_name[name])))
    return name


def placed(job: Job, mistake: Mistake, found: Mismatch) -> str:
    """How near the named place is to the mistake."""
    graph = job.implementation[min(mistake.ranks)]
    places = [*mistake.places, *(called(graph, name) for name in mistake.places)]
    away = distances(graph, places).get(found.implementation)
    return ELSEWHERE if away is None or away > BLOCK else EXACT if away == 0 else NEAR


def judged(name: str, mistake: Mistake, proof: float, seconds: float) -> Row | None:
    """What is said of a mistake; ``None`` if it is none (no valid job, or none that changes an output)."""
    try:
        job = mistake.build()
    except (NotAProgram, UserError):
        return None
    start = time.process_time()
    try:
        report = within(seconds, lambda: refine_job(job))
    except UserError:
        return None
    spent = time.process_time() - start
    if report is None:
        return Row(name, mistake.kind.name, mistake.what, NOWHERE, LATE, False, "", "", spent, proof)
    if report.verdict is not Verdict.REFUTED:
        return None
    found = report.mismatch
    if found is None:
        return Row(name, mistake.kind.name, mistake.what, NOWHERE, "", False, "", "", spent, proof)
    words = found.kind in mistake.kind.kinds
    place = placed(job, mistake, found)
    return Row(
        name, mistake.kind.name, mistake.what, place, found.kind, words, found.hint, found.headline, spent, proof
    )


def survey(path: Path, count: int, seed: int, seconds: float, only: str) -> list[Row]:
    """The rows of one file."""
    return [row for name, job in programs(path) for row in of_job(name, job, count, seed, seconds, only)]


def of_job(name: str, job: Job, count: int, seed: int, seconds: float, only: str) -> list[Row]:
    """The rows of one job."""
    start = time.process_time()
    if refine_job(job).verdict is not Verdict.PROVED:
        print(f"{name}: is not proved as it is", file=sys.stderr)
        return []
    proof = time.process_time() - start
    print(f"{name}: proved in {proof:.2f} s", flush=True)
    found: list[Row] = []
    todo = [one for one in mistakes(job, seed) if not only or one.kind.name == only]
    for mistake in todo:
        if len(found) >= count:
            break
        row = judged(name, mistake, proof, seconds)
        if row is not None:
            found.append(row)
            print(f"{row.place:<10}{row.said:<11}{row.seconds:6.2f} s {name} {row.kind}: {row.what}")
            print(f"          {row.headline[:300]} | {row.hint}", flush=True)
    return found


def table(rows: Sequence[Row]) -> list[str]:
    """The score, kind by kind."""
    lines = [
        f"{'':<18}{'of':>5}{EXACT:>8}{NEAR:>8}{ELSEWHERE:>11}{NOWHERE:>9}{'words':>7}{'hints':>7}{'misled':>8}{'s':>7}{'/proof':>8}"
    ]
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        kinds[row.kind].append(row)
    for kind, some in [*sorted(kinds.items()), ("all", list(rows))]:
        at = Counter(row.place for row in some)
        middle = sorted(row.seconds for row in some)[len(some) // 2] if some else 0.0
        ratio = max((row.seconds / max(row.proof, 1e-3) for row in some), default=0.0)
        lines.append(
            f"{kind:<18}{len(some):>5}{at[EXACT]:>8}{at[NEAR]:>8}{at[ELSEWHERE]:>11}{at[NOWHERE]:>9}"
            f"{sum(row.words for row in some):>7}{sum(bool(row.hint) for row in some):>7}"
            f"{sum(row.misled for row in some):>8}{middle:>7.1f}{ratio:>8.1f}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="+", type=Path)
    parser.add_argument("--mutants", type=int, default=10, help="of each job")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for one answer")
    parser.add_argument("--only", default="", help="one class of mistakes")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [
        row
        for path in options.jobs
        for row in survey(path, options.mutants, options.seed, options.seconds, options.only)
    ]
    print("\n".join(["", *table(rows)]))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
