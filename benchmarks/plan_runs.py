"""Small plans, every way of spreading that ``plan new`` has, carried out on numbers: what every rank has after a step,
by the plan's schedule, against what one device has.

    python benchmarks/plan_runs.py [NAME...]

A plan that is proved must not differ. Plans with shared parameters are left out: what carries plans out does not know
them (benchmarks/plan_flat.py does); so are those that are proved up to an approximation, which do differ.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from plan_ways import WAYS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.plan_run import run_plan
from tantamount.answers import verify_plan
from tantamount.capture.torch.llama.plan import write_plan
from tantamount.capture.torch.llama.spread import Degrees
from tantamount.plan.read import read_plan

ROUNDING = 1e-9


def main() -> int:
    wrong = 0
    for way, (shape, degrees) in WAYS.items():
        if degrees.get("tied") or degrees.get("aux_over") == "batch" or (sys.argv[1:] and way not in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            spread = Degrees(**{**degrees, "dispatch": degrees.get("ep", 1) > 1})
            path = write_plan(Path(folder), way, shape, spread)
            report = verify_plan(path)
            begun = time.process_time()
            off = max(run_plan(read_plan(path)).values())
            took = time.process_time() - begun
        wrong += report.proved and not off < ROUNDING
        print(f"{report.verdict.value:<8} differs by {off:.1e}  {took:5.1f} CPU s  {way}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
