"""Mutants of every proved pair: is one that differs ever PROVED, and how many that do not differ are not?

    python benchmarks/mutants.py --mutants 3200 --seed 1 --workers 2 [--json FILE] [--out FOLDER] [JOB.toml ...]

Every proved job (captured ones in the folder ``TANTAMOUNT_SHARED``, the examples, and the small golden jobs) is mutated
systematically; every mutant that type-checks is judged by execution (``tests/support/mutants/classify.py`` says how)
and given to the prover. Exit code 1 if a different one was PROVED, an equal one REFUTED, or the prover crashed:
each of these is printed and written to the folder as a job of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.mutants import corpus
from support.mutants.campaign import LATE, Figures, Outcome, Prepared, Task, prepare, run_task, tasks
from support.mutants.classify import DIFFERENT, EQUAL, UNDECIDED, UNDEFINED
from support.mutants.reproducer import write_mutant

SECONDS = 30.0  # for one mutant


def survey(job: tuple[str, int]) -> tuple[str, int, str]:
    """A job's name, how many mutants it has, and why it has none."""
    found: Prepared = prepare(*job)
    return found.name, len(found.proposals), found.skipped


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", type=Path, help="default: all that are known")
    parser.add_argument("--jobs", dest="only", default="", help="only jobs whose folder has one of these names (a,b,c)")
    parser.add_argument("--mutants", type=int, default=3200, help="proposals in all, discarded ones included")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for one run of the prover")
    parser.add_argument("--json", type=Path, help="all outcomes and figures")
    parser.add_argument("--out", type=Path, default=Path("build/mutants"), help="where reproducers are written")
    options = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(options.workers) as pool:
        paths = options.jobs or [*corpus.captured(), *corpus.examples(), *corpus.small(Path(folder))]
        if options.only:
            paths = [path for path in paths if path.parent.name in options.only.split(",")]
        surveys = pool.map(survey, [(str(path), options.seed) for path in paths])
        sizes: dict[str, int] = {}
        for path, (name, size, skipped) in zip(paths, surveys, strict=True):
            if skipped:
                print(f"no mutants of {name}: {skipped}", flush=True)
            else:
                sizes[str(path)] = size
        todo = tasks(sizes, options.seed, options.mutants, options.seconds)
        figures = Figures(collect(pool.map(run_task, todo), todo))
        spent = time.perf_counter() - started
        if options.json:
            save(figures, spent, options)
        bad = broken(figures.outcomes)
        written = {id(outcome): write(outcome, options) for outcome in bad}
    show(figures, spent, len(sizes), len(paths))
    for outcome in bad:
        print(f"==== {sentence(outcome)}\n{outcome.problem}\n     reproducer: {written[id(outcome)]}")
    return 1 if bad else 0


def collect(results: Iterable[list[Outcome]], todo: Sequence[Task]) -> list[Outcome]:
    """All outcomes; what must not be is said at once."""
    found: list[Outcome] = []
    for k, outcomes in enumerate(results, 1):
        found += outcomes
        for outcome in broken(outcomes):
            print(f"!! {sentence(outcome)}", flush=True)
        if sys.stdout.isatty() or k % 10 == 0:
            print(f"{k} of {len(todo)} tasks, {len(found)} mutants", flush=True)
    return found


def broken(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [o for o in outcomes if o.unsound or o.slandered or o.said == "crashed"]


def sentence(o: Outcome) -> str:
    fault = "DIFFERENT BUT PROVED" if o.unsound else "EQUAL BUT REFUTED" if o.slandered else o.said.upper()
    names = ", ".join(o.unsound or o.slandered)
    return f"{fault} {names} | {o.job}: {o.kind}: {o.what} | {o.said}, {o.classes}"


def write(o: Outcome, options: argparse.Namespace) -> str:
    """Where the mutant is now a job of its own, or why it is not."""
    folder = options.out / f"{o.job.replace('/', '_')}_{o.number}"
    try:
        return str(write_mutant(folder, prepare(o.path, options.seed).proposals[o.number].build(), sentence(o)))
    except Exception as problem:
        return f"not written: {problem!r}"


def save(figures: Figures, spent: float, options: argparse.Namespace) -> None:
    totals = {"seed": options.seed, "seconds": round(spent, 1), "mutants": len(figures.mutants)}
    outcomes = [o.json() for o in figures.outcomes]
    options.json.write_text(json.dumps({"totals": totals, "outcomes": outcomes}, indent=1))


# ------------------------------------------------------------------------------------------------ tables
COLUMNS = ("mutants", "discarded", DIFFERENT, UNDEFINED, EQUAL, UNDECIDED)


def show(figures: Figures, spent: float, jobs: int, known: int) -> None:
    for by in ("job", "kind"):
        print(f"\n{by:<44}" + "".join(f"{c:>11}" for c in COLUMNS) + f"{'refuted':>11}{'unproved':>11}{'unsound':>9}")
        for name, row in figures.table(by):
            line(name, row)
    total = sum((row for _, row in figures.table("job")), Counter[str]())
    line("total", total)
    print(f"\n{len(figures.mutants)} mutants of {jobs} jobs ({known} known) in {spent:.0f} s")
    wrong, equal, unproved = figures.of(DIFFERENT), figures.of(EQUAL), figures.unproved
    said = Counter(o.said for o in wrong)
    print(f"different: {len(wrong)}, of which {len(figures.unsound)} PROVED somewhere; whole jobs: {dict(said)}")
    print(f"undefined where the specification is not: {len(figures.of(UNDEFINED))}")
    for what, part in (("equal", equal), ("rewrites among them", [o for o in equal if o.kind.startswith("rewrite")])):
        proved = sum(o.said == "PROVED" for o in part)
        print(f"{what}: {len(part)}, proved {proved} ({100 * proved / max(1, len(part)):.1f} %)")
    print(f"equal but refuted: {len(figures.slandered)}; crashes: {len(figures.crashed)}")
    undecided = figures.of(UNDECIDED)
    print(f"undecided by execution: {len(undecided)}: {dict(Counter(o.said for o in undecided))}")
    print(f"beyond the time limit: {sum(o.said == LATE for o in figures.outcomes)}")
    for what, seconds in (
        ("the prover", [o.proving for o in figures.mutants]),
        ("execution", [o.judging for o in figures.mutants]),
    ):
        if seconds:
            print(f"CPU seconds of {what}: mean {sum(seconds) / len(seconds):.3f}, max {max(seconds):.2f}")
    print("\nequal but not proved, by kind:")
    kinds = Counter(o.kind for o in unproved)
    for kind, count in kinds.most_common():
        print(f"  {count:4d} {kind}")
        for o in [o for o in unproved if o.kind == kind][:4]:
            print(f"         {o.job}: {o.what[:150]} ({o.said})")
    print("\nundecided by execution:")
    for o in undecided:
        print(f"  {o.job}: {o.kind}: {o.what[:120]} ({o.said}) {o.problem[:100]}")


def line(name: str, row: Counter[str]) -> None:
    unproved = sum(n for key, n in row.items() if key.startswith(f"{EQUAL} ") and not key.endswith("PROVED"))
    cells = "".join(f"{row[c]:>11}" for c in COLUMNS)
    print(f"{name:<44}{cells}{row[f'{DIFFERENT} REFUTED']:>11}{unproved:>11}{row['unsound']:>9}")


if __name__ == "__main__":
    raise SystemExit(main())
