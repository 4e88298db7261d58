"""Integers of 8 and 16 bits against eager PyTorch: every operator at the ends of the types, and random expressions.

    python benchmarks/fuzz_integers.py --pairs 20000 --seed 1

First the table: every sample of every operator with operands of int8, uint8 and int16, compared bit for bit. Then pairs
of random expressions of mixed types, of which the second is the first with a cast put in, left out or moved: the
reference interpreter has eager's values, the form evaluates to them, and equal forms are equal in eager. Exit code 1 if
anything is not so.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.integers import fuzz
from support.narrow import cases, outcome

_EXPECTED = ("agrees", "fails", "refused", "undefined")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--draws", type=int, default=3, help="of the operands of every sample")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    started = time.process_time()
    table: Counter[str] = Counter()
    wrong: list[str] = []
    for case in cases():
        for draw in range(options.draws):
            found = outcome(case, options.seed + draw)
            table[found if found in _EXPECTED else "disagrees"] += 1
            if found not in _EXPECTED:
                wrong.append(f"{case}: {found}")
    print(f"operators: {dict(table)} in {time.process_time() - started:.0f} CPU seconds")
    started = time.process_time()
    figures = fuzz(options.pairs, options.seed)
    seconds = time.process_time() - started
    print(
        f"expressions: {figures.pairs} pairs in {seconds:.0f} CPU seconds, {figures.equal} equal on all inputs tried,"
    )
    print(f"  {figures.proved} with equal forms, {len(figures.wrong)} wrong; skipped: {dict(figures.skipped)}")
    for text in (*wrong, *figures.wrong)[:20]:
        print(text)
    return 1 if wrong or figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
