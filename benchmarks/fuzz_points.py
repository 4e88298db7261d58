"""Verdicts on random pairs of programs that differ at single numbers, or nowhere, judged by PyTorch eager: comparisons,
maxima, quotients, orders, masks, random numbers.

    python benchmarks/fuzz_points.py --programs 2000 --seed 1

Prints the verdicts, and the pairs that are refuted though eager finds no difference on the counterexample, or proved
though it finds one. Exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.points import differs, inputs_of, judged, pair_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unknown", type=int, default=0, help="show this many pairs that are UNKNOWN")
    options = parser.parse_args()
    verdicts: Counter[str] = Counter()
    open_pairs: Counter[str] = Counter()
    wrong: list[str] = []
    started = time.process_time()
    for k in range(options.programs):
        seed = options.seed * 1_000_000 + k
        with TemporaryDirectory() as folder:
            verdict, problem = judged(seed, Path(folder))
        verdicts[verdict.name] += 1
        if problem:
            wrong.append(f"seed {seed}: {problem}")
        if verdict.name == "UNKNOWN":
            ours, theirs = pair_of(seed)
            found = any(differs(ours, theirs, given) for given in inputs_of(seed))
            open_pairs["differ in eager" if found else "equal in eager"] += 1
            if sum(open_pairs.values()) <= options.unknown:
                print(f"---- UNKNOWN, seed {seed}, {'differ' if found else 'equal'}\n{ours.text}\n{theirs.text}")
        if (k + 1) % 250 == 0:
            print(f"{k + 1} pairs, {len(wrong)} contradicted: {dict(verdicts)}", flush=True)
    spent = time.process_time() - started
    shown = ", ".join(f"{name} {count}" for name, count in sorted(verdicts.items()))
    print(f"{options.programs} pairs in {spent:.0f} s of CPU: {shown}")
    print(f"UNKNOWN: {', '.join(f'{count} {name}' for name, count in sorted(open_pairs.items())) or 'none'}")
    print(f"{len(wrong)} verdicts that eager contradicts")
    for text in wrong[:20]:
        print(f"==== {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
