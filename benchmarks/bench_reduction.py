"""Wrong layers of a transformer, refined at their own sizes and at reduced ones: what is refuted there is refuted here.

    python benchmarks/bench_reduction.py

Prints the wrong programs that are caught less at reduced sizes; exit code 1 if there are any.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.layers import MUTANTS, caught_less


def main() -> int:
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        found = list(caught_less(Path(folder), MUTANTS))
    for line in found:
        print(line)
    print(f"{len(MUTANTS)} wrong programs, {len(found)} caught less, {time.process_time() - started:.0f} CPU s")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
