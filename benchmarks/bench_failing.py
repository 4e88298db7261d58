"""What a wrong program costs beside the right one: CPU seconds of the answer, and how many times those of the proof.

    python benchmarks/bench_failing.py [--only PART] [--mutants 12] [--seconds 60]

Known bugs beside their repairs, a captured training step of transformers, mistakes in Megatron's GPT, and a wrong layer
of four at several widths. The goal is three times the proof, and never more than ten seconds and three times the proof.
The last column compares whole processes: to both is added what a process takes that proves one layer, beside the proof,
and to the answer what loading what looks for differences takes. Answers are given as in the process of a command: one
thread for products, and few looks for cycles (see ``tantamount.__main__``).
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

from bench_diagnosis import SECONDS, TIMES, within
from bench_growth import layers, wrong
from bench_refine import measure
from mistaken_programs import SHARED, Program
from mistaken_programs import captured as right_job

from tantamount import read_job
from tantamount.errors import UserError
from tantamount.ir.job import Job
from tantamount.refinement.job import refine_job
from tantamount.samples.mutants.edits import NotAProgram
from tantamount.samples.mutants.mistakes import mistakes
from tantamount.verdict import Report

Pair = tuple[str, Job, Job]  # a name, what is wrong, what is right


@dataclass(frozen=True)
class Row:
    """One wrong program. ``place`` is the node that is named."""

    name: str
    failing: float
    proof: float
    verdict: str
    place: str
    beside: float = 0.0  # CPU seconds that a process takes beside the answer
    loading: float = 0.0  # and those for loading what looks for differences

    @property
    def times(self) -> float:
        """How many times those of the proof the CPU seconds of the answer are."""
        return self.failing / max(self.proof, 1e-3)

    @property
    def whole(self) -> float:
        """The same, of whole processes."""
        return (self.failing + self.beside + self.loading) / (self.proof + self.beside)

    @property
    def over(self) -> bool:
        """True where it took more than ten seconds and three times the proof."""
        return self.failing > SECONDS + TIMES * self.proof


def bugs(mutants: int) -> Iterator[Pair]:
    for path in sorted((SHARED.parent / "bugs").glob("*/bug.toml")):
        yield path.parent.name, read_job(path), read_job(path.with_name("ok.toml"))


def captured(mutants: int) -> Iterator[Pair]:
    for name in ("hf_llama_tp2_train", "llama_hlo_tp2_l1"):
        path = SHARED / name / "job.toml"
        broken = SHARED / f"{name}_broken" / "job.toml"
        if path.exists():
            right = right_job(Program(name, path.parent))
            yield name, read_job(broken if broken.exists() else path), right


def gpt(mutants: int) -> Iterator[Pair]:
    for name in ("gpt_tp2_l1", "gpt_tp2_l2"):
        if not (SHARED / name).exists():
            continue
        right = read_job(SHARED / name / "job.toml")
        found = 0
        for mistake in mistakes(right, 1):
            if found >= mutants // 2:
                break
            try:
                yield f"{name}: {mistake.kind.name} {mistake.node}", mistake.build(), right
            except (NotAProgram, UserError):
                continue
            found += 1


def widths(mutants: int) -> Iterator[Pair]:
    with tempfile.TemporaryDirectory() as folder:
        for width in (64, 256, 768, 4096):
            jobs: list[Job] = []
            for name, make in (("wrong", wrong(4, width=width)), ("right", layers(4, width=width))):
                here = Path(folder) / f"{name}{width}"
                here.mkdir()
                jobs.append(read_job(make(here)))
            yield f"a wrong layer of 4, {width} wide", jobs[0], jobs[1]


PARTS = {"bugs": bugs, "captured": captured, "gpt": gpt, "widths": widths}


def seconds_of(job: Job, most: float) -> tuple[float, Report | None]:
    gc.collect()
    gc.freeze()  # what other answers left is none of this one's
    start = time.process_time()
    report = within(most, lambda: refine_job(job))
    return time.process_time() - start, report


def beside() -> float:
    """The CPU seconds that a process takes that proves a layer, less those of the proof."""
    with tempfile.TemporaryDirectory() as folder:
        cost = min((measure(layers(1)(Path(folder))) for _ in range(3)), key=lambda one: one.seconds)
        return cost.seconds - cost.proving


_LOADING = """
import time, tantamount.refinement.job
start = time.process_time()
import tantamount.diagnosis.localise, tantamount.execution.reduced
print(time.process_time() - start)
"""


def loading() -> float:
    """The CPU seconds that a process takes to load what only wrong programs need."""
    run = [sys.executable, "-c", _LOADING]
    return min(float(subprocess.run(run, check=True, capture_output=True, text=True).stdout) for _ in range(3))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument("--mutants", type=int, default=12, help="of Megatron's GPT")
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU seconds for one answer")
    options = parser.parse_args()
    rows: list[Row] = []
    proofs: dict[int, float] = {}
    gc.set_threshold(200_000, 20, 20)
    start, loaded = beside(), loading()
    print(f"beside the proof {start:.2f} s, loading {loaded:.2f} s")
    for part in [options.only] if options.only else list(PARTS):
        for name, failing, right in PARTS[part](options.mutants):
            if id(right) not in proofs or part != "gpt":
                proofs[id(right)] = seconds_of(right, options.seconds)[0]
            spent, report = seconds_of(failing, options.seconds)
            verdict = "late" if report is None else report.verdict.value
            place = report.mismatch.implementation if report is not None and report.mismatch is not None else ""
            row = Row(name, spent, proofs[id(right)], verdict, place, start, 0.0 if verdict == "PROVED" else loaded)
            rows.append(row)
            mark = " OVER" if row.over else ""
            print(
                f"{row.name[:56]:<58}{row.failing:>7.2f}{row.proof:>7.2f}{row.times:>7.1f}{row.whole:>6.1f}"
                f" {row.verdict:<9}{place}{mark}",
                flush=True,
            )
    if rows:
        print(f"{len(rows)} wrong programs: {sum(row.failing for row in rows):.1f} s")
        for what, ratios in (
            ("answers", sorted(row.times for row in rows)),
            ("whole processes", sorted(row.whole for row in rows)),
        ):
            few = sum(one <= TIMES for one in ratios)
            print(f"{what}: median {ratios[len(ratios) // 2]:.1f} times the proof, {few} within {TIMES:g} times")
        print(f"{sum(row.over for row in rows)} over {SECONDS:g} s and {TIMES:g} times")
    return 1 if any(row.over for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
