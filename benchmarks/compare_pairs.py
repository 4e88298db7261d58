"""Pairs of implementations of one model: the verdicts of ``compare``, what they rest on, and mutants of those proved.

    python benchmarks/compare_pairs.py [--write docs/compare.md] [--mutants 4] [--seed 1] [--seconds 60] [NAME ...]

Pairs are the jobs in the folder ``pairs`` of ``TANTAMOUNT_SHARED``. A mutant is one mistake in the second program that
type-checks (another number, tensor, part, function, order, a step too few or too many); it is different if the two,
executed on five random inputs, differ by more than a millionth of the largest element. The place that is named is right
(``exact``), at most four edges of the data flow away (``block``), ``elsewhere``, or there is none (``nowhere``). Exit
code 1 if a different one was PROVED. ``--budget`` ends the mutants after that many CPU seconds in all.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tantamount.answers import compare
from tantamount.capture.job import read_job
from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.samples.mutants.edits import refused
from tantamount.samples.mutants.mistakes import Mistake, distances, mistakes
from tantamount.semantics.interpret import interpret, random_inputs
from tantamount.semantics.survey import survey
from tantamount.verdict import Report

SHARED = Path(os.environ.get("TANTAMOUNT_SHARED", Path(__file__).resolve().parents[2] / "shared"))
ASSUMED = ("mask-literals", "rounded-constants", "softplus-threshold")
DIFFERENT = 1e-6
BLOCK = 4  # edges
SPECIAL = (  # rules that a pair needs because it is written in two ways
    "chosen-elements", "cleared-denominators", "common-cells", "compared-maxima", "equal-arguments", "found-once",
    "inverse-orders", "lifted-look-ups", "lifted-selections", "multiplying-out", "some-mask-holds", "sorted-counts",
    "sums-of-angles",
    "tanh-as-exponentials", "tidy-extremes", "unrolled-sums", "variances",
)  # fmt: skip
BEGIN, END = "<!-- pairs -->", "<!-- end of pairs -->"
HEADER = (
    "| pair | relations | verdict | assumptions beyond `refine` | rules beyond the normal form | CPU s |",
    "|---|---|---|---|---|---|",
)


def values(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """The outputs of a program on random inputs."""
    inputs = random_inputs(graph, seed, survey(graph).index_bounds)
    done = interpret(graph, inputs, constants=0)
    return {output.name: done.array(output.node) for output in graph.outputs}


def differ(one: Graph, other: Graph) -> bool:
    """True if two programs with the same inputs differ on random ones by more than rounding."""
    for seed in range(5):
        a, b = values(one, seed), values(other, seed)
        for name in a:
            finite = np.isfinite(a[name]) & np.isfinite(b[name])
            scale = max(1.0, float(np.abs(a[name][finite]).max(initial=0.0)))
            if (np.isfinite(a[name]) & ~np.isfinite(b[name])).any():
                return True
            if (np.abs(a[name][finite] * 1.0 - b[name][finite]) > DIFFERENT * scale).any():
                return True
    return False


def mutants(job: Job, count: int, seed: int) -> Iterator[tuple[Mistake, Job]]:
    """Some mutants that differ."""
    for mistake in mistakes(job, seed):
        mutant = refused(mistake.build)
        if isinstance(mutant, str):
            continue
        try:
            if not differ(job.implementation[0], mutant.implementation[0]):
                continue
        except TantamountError:
            continue
        yield mistake, mutant
        count -= 1
        if not count:
            return


def place_of(job: Job, mistake: Mistake, found: Report) -> str:
    """How near the named place is to the mistake."""
    if found.mismatch is None:
        return "nowhere"
    away = distances(job.implementation[0], [*mistake.places]).get(found.mismatch.implementation)
    return "elsewhere" if away is None or away > BLOCK else "exact" if away == 0 else "block"


def row_of(name: str, job: Job, answer: Report, seconds: float) -> str:
    """A row of the table: relations, the verdict, what it assumes, the rules that fired most."""
    given = len(job.inputs)
    assumed = ", ".join(one.name for one in answer.assumptions if one.name in ASSUMED)
    special = [rule for rule in answer.statistics.rules if rule in SPECIAL]
    wanted = len(job.specification.inputs)
    return (
        f"| {name} | {given} of {wanted} | {answer.verdict.value} | {assumed} | {', '.join(special)} | {seconds:.2f} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="pairs; default: all")
    parser.add_argument("--mutants", type=int, default=0, help="of every pair that is proved")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="a page that has a table of pairs")
    parser.add_argument("--cheap", type=float, default=1e9, help="CPU s of a proof: mutants of more are left out")
    parser.add_argument("--budget", type=float, default=1e9, help="CPU s for the verdicts on all mutants")
    parser.add_argument("--seconds", type=float, default=60.0, help="for one verdict")
    options = parser.parse_args()
    folders = [
        one
        for one in sorted((SHARED / "pairs").glob("*/job.toml"))
        if not options.names or one.parent.name in options.names
    ]
    if not folders:
        print(f"no pairs in {SHARED / 'pairs'}: nothing is measured")
        return 0
    wrong, counts = 0, dict[str, int]()
    rows = list[str]()
    left = options.budget
    for path in folders:
        job = read_job(path)
        begun = time.process_time()
        answer = compare(job, timeout=options.seconds)
        seconds = time.process_time() - begun
        assumed = ", ".join(one.name for one in answer.assumptions if one.name in ASSUMED)
        counts[answer.verdict.value] = counts.get(answer.verdict.value, 0) + 1
        print(f"{path.parent.name:42} {answer.verdict.value:8} {seconds:6.2f} s  {assumed}", flush=True)
        rows.append(row_of(path.parent.name, job, answer, seconds))
        tried = answer.proved and options.mutants and seconds <= options.cheap
        for mistake, mutant in mutants(job, options.mutants, options.seed) if tried else ():
            begun = time.process_time()
            found = compare(mutant, timeout=options.seconds)
            left -= time.process_time() - begun
            place = place_of(mutant, mistake, found)
            for key in ("mutants", f"mutants {found.verdict.value}", f"place {place}"):
                counts[key] = counts.get(key, 0) + 1
            if found.proved:
                wrong += 1
                print(f"  PROVED although it differs: {mistake.what}", flush=True)
            elif place not in ("exact", "block"):
                print(f"  {found.verdict.value} {place}: {mistake.what}", flush=True)
            if left < 0:
                break
        if left < 0:
            break
    print(counts)
    if options.write is not None and not options.names:
        text = options.write.read_text()
        head, _, rest = text.partition(BEGIN)
        _, _, tail = rest.partition(END)
        if not tail:
            raise SystemExit(f"{options.write}: no table of pairs in it")
        options.write.write_text(head + BEGIN + "\n" + "\n".join((*HEADER, *rows)) + "\n" + END + tail)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
