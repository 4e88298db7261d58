"""Pairs of implementations of one model: the verdicts of ``compare``, what they rest on, and mutants of those proved.

    python benchmarks/compare_pairs.py [--mutants 4] [--seed 1] [--seconds 60] [NAME ...]

Pairs are the jobs in the folder ``pairs`` of ``TANTAMOUNT_SHARED``. A mutant is one change of the second program that
type-checks; it is different if the two, executed on five random inputs, differ by more than a millionth of the largest
element. Exit code 1 if a different one was PROVED.
"""

from __future__ import annotations

import argparse
import os
import random
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
from tantamount.samples.mutants.edits import Proposal, refused
from tantamount.samples.mutants.kinds import node_mutants
from tantamount.semantics.interpret import interpret, random_inputs
from tantamount.semantics.survey import survey

SHARED = Path(os.environ.get("TANTAMOUNT_SHARED", Path(__file__).resolve().parents[2] / "shared"))
ASSUMED = ("mask-literals", "rounded-constants", "softplus-threshold")
DIFFERENT = 1e-6


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


def mutants(job: Job, count: int, seed: int) -> Iterator[tuple[Proposal, Job]]:
    """Some mutants that differ."""
    proposals = node_mutants(job, seed)
    random.Random(seed).shuffle(proposals)
    for proposal in proposals:
        mutant = refused(proposal.build)
        if isinstance(mutant, str):
            continue
        try:
            if not differ(job.implementation[0], mutant.implementation[0]):
                continue
        except TantamountError:
            continue
        yield proposal, mutant
        count -= 1
        if not count:
            return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="pairs; default: all")
    parser.add_argument("--mutants", type=int, default=0, help="of every pair that is proved")
    parser.add_argument("--seed", type=int, default=1)
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
    for path in folders:
        job = read_job(path)
        begun = time.process_time()
        answer = compare(job, timeout=options.seconds)
        seconds = time.process_time() - begun
        assumed = ", ".join(one.name for one in answer.assumptions if one.name in ASSUMED)
        counts[answer.verdict.value] = counts.get(answer.verdict.value, 0) + 1
        print(f"{path.parent.name:42} {answer.verdict.value:8} {seconds:6.2f} s  {assumed}", flush=True)
        for proposal, mutant in (
            mutants(job, options.mutants, options.seed) if answer.proved and options.mutants else ()
        ):
            found = compare(mutant, timeout=options.seconds)
            key = f"mutants {found.verdict.value}"
            counts[key] = counts.get(key, 0) + 1
            if found.proved:
                wrong += 1
                print(f"  PROVED although it differs: {proposal.what}", flush=True)
    print(counts)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
