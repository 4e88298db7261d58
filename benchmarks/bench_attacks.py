"""Families of PyTorch functions that agree on easy inputs and differ at ties, masked rows, ends of integer types, edges
of domains, kinks, where memory is shared, or by hooks: verdicts on their pairs, judged by PyTorch eager.

    python benchmarks/bench_attacks.py [--every 1] [--start 0] [--only SUBSTRING]

Every ordered pair of a family that differs in eager is given to ``refine``, and every function with one that is equal
to it. Prints a table, and what is wrong: pairs that are PROVED and differ, and pairs that are REFUTED and are equal on
the counterexample. Exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import torch

from support.attacks.all_families import FAMILIES
from support.attacks.judge import Table, judge
from tantamount.verdict import Verdict

_VERDICTS = (Verdict.PROVED, Verdict.REFUTED, Verdict.UNKNOWN)


def main() -> int:
    """Judge all families, print the table and what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="only one of so many pairs")
    parser.add_argument("--start", type=int, default=0, help="from this pair on")
    parser.add_argument("--only", default="", help="families with this in their group or name")
    options = parser.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    tables: list[Table] = []
    print("| class | family | functions | differ: proved | refuted | unknown | equal: proved | refuted | unknown |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for family in FAMILIES:
        if options.only in f"{family.group}: {family.name}":
            table = judge(family, options.every, options.start)
            counts = [str(table.count(differ, verdict)) for differ in (True, False) for verdict in _VERDICTS]
            print(f"| {family.group} | {family.name} | {len(family.programs)} | {' | '.join(counts)} |", flush=True)
            tables.append(table)
    sums = [sum(table.count(differ, v) for table in tables) for differ in (True, False) for v in _VERDICTS]
    print(f"| all | | {sum(len(t.family.programs) for t in tables)} | {' | '.join(map(str, sums))} |")
    wrong = [one for table in tables for one in table.wrong]
    for table in tables:
        for label, why in table.refused.items():
            print(f"refused: {label}: {why[:120]}")
    for one in wrong:
        print(f"WRONG {one.text}: {one.wrong}")
    print(f"{sum(sums)} pairs, {len(wrong)} wrong, {time.process_time() - started:.0f} CPU s")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
