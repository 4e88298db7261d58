"""Mistakes in a plan at its full size: are they refuted, where they are, and at what cost?

    python benchmarks/plan_mutants.py [COUNT] [SEED]

The plan is Llama-3 405B on 8192 ranks as ``tantamount plan new`` writes it (PyTorch). Every mutant is verified as it is
written; parts that no mutant touches are proved once. CPU seconds are those of what the mistake costs, reading the plan
included. None may be PROVED.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from functools import partial
from itertools import islice
from pathlib import Path

from tantamount.capture import new_plan
from tantamount.effort import Effort
from tantamount.ir.text import format_graph
from tantamount.plan.mutants import plan_mutants, write_mutant
from tantamount.plan.parts import Part
from tantamount.plan.prove import part_checker
from tantamount.plan.read import read_plan
from tantamount.plan.result import PartReport, PlanReport
from tantamount.plan.verify import verify
from tantamount.refinement.job import refine_differing, refine_job
from tantamount.verdict import Verdict

DEGREES = {
    "dp": 64, "tp": 8, "pp": 16, "microbatches": 16, "batch": 1024, "seq": 8192, "schedule": "1f1b", "chunks": 1,
    "optimizer": "adamw",
}  # fmt: skip


def main() -> int:
    count, seed = (int(x) for x in [*sys.argv[1:], "40", "0"][:2])
    folder = Path(tempfile.mkdtemp())
    plan = new_plan("llama3-405b", {}, DEGREES, folder / "plan")
    known: dict[str, PartReport] = {}
    effort = Effort()
    check = part_checker(
        partial(refine_job, effort=effort, doubtful=True), effort, partial(refine_differing, effort=effort)
    )

    def remembered(part: Part) -> PartReport:
        job = part.job
        graphs = {id(graph): graph for graph in (job.specification, *job.implementation)}
        key = repr((job.mesh, job.inputs, job.outputs, [format_graph(graph) for graph in graphs.values()]))
        if key not in known:
            known[key] = check(part)
        return known[key]

    print(verify(read_plan(plan), remembered).verdict.value)
    verdicts: Counter[str] = Counter()
    located, most = 0, 0.0
    for number, mutant in enumerate(islice(plan_mutants(read_plan(plan), seed), count)):
        path = write_mutant(mutant, plan, folder / str(number))
        begun = time.process_time()
        report = verify(read_plan(path), remembered)
        took = time.process_time() - begun
        found = mutant.place in wrong_places(report)
        located, most = located + found, max(most, took)
        verdicts[report.verdict.value] += 1
        where = "" if found else f"  but at {', '.join(wrong_places(report))}"
        print(f"{report.verdict.value:<8} {took:5.1f}  {mutant.kind}: {mutant.what}{where}", flush=True)
    print(f"{dict(verdicts)}, {located} located, at most {most:.1f} CPU s")
    return int(verdicts[Verdict.PROVED.value] > 0)


def wrong_places(report: PlanReport) -> list[str]:
    """What of a plan is not right, as mutants name it."""
    found = [part.part for part in report.parts if part.verdict is not Verdict.PROVED]
    found += ["stages"] if report.ownership else []
    found += ["schedule"] if report.schedule else []
    return [*found, "joints"] if any(joint.problem for joint in report.joints) else found


if __name__ == "__main__":
    sys.exit(main())
