"""Cost of whole ``tantamount refine`` processes on captured graphs, with the bounds that must hold.

Usage: python benchmarks/bench_refine.py [--runs N] [JOB.toml ...]. Without jobs: the captured Megatron-LM graphs in the
folder ``TANTAMOUNT_SHARED`` (``../shared`` beside the checkout). Of N runs the cheapest counts.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
JOBS = {"gpt_tp2_l1": 0, "gpt_tp4_l1": 0, "gpt_tp2_l2": 0, "bug6_grad_accumulation": 1}  # with their exit codes
SECONDS = 1.5  # CPU, gpt_tp2_l1, whole process
MEMORY = 200 * 2**20
READING = "read"  # the phase that is not the prover's


@dataclass(frozen=True)
class Cost:
    """One process: exit code, CPU seconds (user and system), peak resident bytes, and its own report."""

    exit_code: int
    seconds: float
    memory: int
    report: dict[str, Any]

    @property
    def proving(self) -> float:
        """CPU seconds in the prover, without start-up and reading."""
        phases: dict[str, float] = self.report.get("statistics", {}).get("seconds", {})
        return sum(seconds for phase, seconds in phases.items() if phase != READING)


@cache
def _bytecode() -> str:
    """A folder with the bytecode of the package, as every installation has it."""
    folder = tempfile.mkdtemp(prefix="bytecode-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environment = os.environ | {"PYTHONPYCACHEPREFIX": folder}
    subprocess.run([sys.executable, "-m", "compileall", "-qq", str(ROOT / "src")], env=environment, check=True)
    return folder


def measure(job: Path) -> Cost:
    """Run one job in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        command = [sys.executable, "-m", "tantamount", "refine", "--allow-outside", "--json", str(out), str(job)]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": _bytecode()}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        process = os.posix_spawn(sys.executable, command, environment, file_actions=silent)
        _, status, usage = os.wait4(process, 0)
        report = json.loads(out.read_text())["jobs"][0] if out.exists() else {}
    scale = 1 if sys.platform == "darwin" else 1024
    return Cost(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale, report)


def broken_bounds(costs: dict[str, Cost]) -> list[str]:
    """The bounds that do not hold, one sentence each. The cost of a wrong answer is no cost."""
    found = [
        f"{name} exits with {costs[name].exit_code}, not {code}"
        for name, code in JOBS.items()
        if name in costs and costs[name].exit_code != code
    ]
    base = costs.get("gpt_tp2_l1")
    if base is None:
        return found
    if base.seconds > SECONDS:
        found.append(f"gpt_tp2_l1 takes {base.seconds:.2f} s, at most {SECONDS}")
    if base.memory > MEMORY:
        found.append(f"gpt_tp2_l1 takes {base.memory / 2**20:.0f} MiB, at most {MEMORY / 2**20:.0f}")
    for name, factor in (("gpt_tp4_l1", 1.3), ("gpt_tp2_l2", 1.4)):
        if name in costs and costs[name].seconds > factor * base.seconds:
            found.append(f"{name} takes {costs[name].seconds / base.seconds:.2f} times gpt_tp2_l1, at most {factor}")
    if "gpt_tp4_l1" in costs and base.proving and costs["gpt_tp4_l1"].proving > 1.3 * base.proving:
        ratio = costs["gpt_tp4_l1"].proving / base.proving
        found.append(f"proving gpt_tp4_l1 takes {ratio:.2f} times proving gpt_tp2_l1, at most 1.3")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("jobs", nargs="*", type=Path)
    options = parser.parse_args()
    shared = Path(os.environ.get("TANTAMOUNT_SHARED") or ROOT.parent / "shared") / "jobs"
    jobs = {job.parent.name: job for job in options.jobs} or {name: shared / name / "job.toml" for name in JOBS}
    present = {name: job for name, job in jobs.items() if job.is_file()}
    for name in jobs.keys() - present.keys():
        print(f"{name}: absent ({jobs[name]}), not measured")
    costs: dict[str, Cost] = {}
    print(f"{'job':<26}{'verdict':<10}{'exit':>5}{'CPU s':>8}{'MiB':>7}{'proving s':>11}  phases")
    for name, job in present.items():
        cost = min((measure(job) for _ in range(max(1, options.runs))), key=lambda cost: cost.seconds)
        costs[name] = cost
        phases = cost.report.get("statistics", {}).get("seconds", {})
        shown = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in phases.items())
        verdict = cost.report.get("verdict", "-")
        figures = f"{cost.exit_code:>5}{cost.seconds:>8.2f}{cost.memory / 2**20:>7.0f}{cost.proving:>11.2f}"
        print(f"{name:<26}{verdict:<10}{figures}  {shown}", flush=True)
    broken = broken_bounds(costs)
    for sentence in broken:
        print(f"BOUND BROKEN: {sentence}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
