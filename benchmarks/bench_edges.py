"""Every sample of every operator with infinities, NaN, signed zeros and huge numbers among its operands, against eager.

    python benchmarks/bench_edges.py [--draws 6] [--seed 1]

First the values: the definition computes what eager does, or a table says that it does not, and why. Then what the
normal form's record says of an operand that is infinite, NaN or 0 somewhere: it has to be true of eager. Prints both
tables. Exit code 1 if a call differs without being in the table, or a claim is not true.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.aten_agreement import edge_of
from support.edges import INFECTIONS, at_edges, samples, untrue_records


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=6, help="of the operands of every sample")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    started = time.process_time()
    kinds: Counter[str] = Counter()
    pinned: Counter[str] = Counter()
    wrong: list[str] = []
    for sample in samples():
        for call, outcome in at_edges(sample, options.draws, options.seed):
            kinds[outcome.kind] += 1
            if outcome.kind == "undefined":
                pinned[edge_of(call.target) or "float64 left the reals"] += 1
            if outcome.kind == "different":
                wrong.append(f"{call}: {outcome.text}")
    print(f"values: {dict(kinds)} in {time.process_time() - started:.0f} CPU s; different as the table says:")
    for why, count in pinned.most_common():
        print(f"  {count:6}  {why}")
    started, count = time.process_time(), 0
    for sample in samples():
        count += 1
        wrong += untrue_records(sample, seed=options.seed)
    seconds = time.process_time() - started
    print(f"records: {count} samples, {len(INFECTIONS)} ways to be infinite, in {seconds:.0f} CPU s")
    print(f"{len(wrong)} wrong", *wrong[:20], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
