"""Soundness of the calculus on random programs: normal form = reference interpreter, equal forms = equal tensors.

    python benchmarks/fuzz_calculus.py --programs 100000 --seed 1 --workers 2

Prints the figures, what the calculus refuses, which equal tensors have different forms, and the first failures, each
with its smallest program. Exit code 1 if there is a failure.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.agreement import Figures, fuzz

CHUNK = 500


def run(job: tuple[int, int, int]) -> Figures:
    seed, programs, deep_every = job
    return fuzz(programs, seed, deep_every=deep_every, stop_at=5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--deep-every", type=int, default=4, help="every n-th program also compares pairs of forms")
    parser.add_argument(
        "--incomplete", type=int, default=0, help="show this many kinds of equal tensors with unequal forms"
    )
    options = parser.parse_args()
    chunks = -(-options.programs // CHUNK)
    jobs = [
        (options.seed * 100_000 + k, min(CHUNK, options.programs - k * CHUNK), options.deep_every)
        for k in range(chunks)
    ]
    total = Figures()
    started = time.perf_counter()
    with ProcessPoolExecutor(options.workers) as pool:
        for k, figures in enumerate(pool.map(run, jobs), 1):
            total.add(figures)
            if sys.stdout.isatty():
                print(f"\r{k}/{chunks} chunks, {len(total.failures)} failures", end="", flush=True)
    spent = time.perf_counter() - started
    print(
        f"\n{total.programs} programs, {total.tensors} tensors, {total.elements} elements compared in {spent:.0f} s"
        f" ({options.workers} workers)"
    )
    print(f"{len(total.failures)} failures; {total.pairs_equal} pairs of equal forms confirmed on other data")
    print(f"{total.mutants} mutants, {total.mutants_equal} with the form of the original: all confirmed on other data")
    print(
        f"{total.unsure} tensors too near a tie or an overflow to tell; {total.undefined} forms undefined"
        " at elements that a mask or an index passes over"
    )
    print(f"{sum(total.unsupported.values())} operators refused:")
    for text, count in total.unsupported.most_common(10):
        print(f"  {count:6d}  {text}")
    kinds = sum(total.incomplete.values())
    print(f"{kinds} pairs of tensors that agree on five inputs but have different forms, by last operators:")
    for text, count in total.incomplete.most_common(20):
        print(f"  {count:6d}  {text}")
    for text, _ in total.incomplete.most_common(options.incomplete):
        print(f"---- {text}\n{total.examples[text]}")
    for seconds, program in total.slowest[:3]:
        print(f"---- slow: {seconds:.2f} s\n{program}")
    for failure in total.failures[:10]:
        print(f"==== {failure}")
    return 1 if total.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
