"""Programs whose normal forms could grow without end, and every captured graph against itself: none may take long.

    python benchmarks/bench_adversarial.py [--only WORD] [--seconds 5]

The pairs are those of ``tests/support/adversarial.py``; captured graphs are those in the folder ``TANTAMOUNT_SHARED``
(``../shared`` beside the checkout). Beyond reading its graphs (at least 1 s of it), no pair may take more than
``--seconds`` of CPU time; equal programs must be PROVED, a graph and itself in twice the time of reading them. Exit
code 1 where one is not.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.adversarial import Pair, pairs
from support.jobs import job_files
from tantamount import read_job
from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.refinement.job import refine_job

ROOT = Path(__file__).resolve().parents[1]
_WALL = 60.0  # seconds until one is given up, whatever else the machine does


@dataclass(frozen=True)
class Cost:
    """CPU seconds of reading a job and of the rest, the verdict, and the bounds that were hit."""

    name: str
    reading: float
    proving: float
    verdict: str
    limits: str


def measured(name: str, path: Path) -> Cost:
    """The cost of one job. What cannot be read has the error's code for a verdict."""
    begun = time.process_time()
    try:
        job = read_job(path)
    except TantamountError as problem:
        return Cost(name, time.process_time() - begun, 0.0, getattr(problem, "code", "error"), "")
    read = time.process_time()
    found = refine_job(job, effort=Effort(seconds=_WALL))
    limits = ", ".join(limit.name for limit in found.limits)
    return Cost(name, read - begun, time.process_time() - read, found.verdict.value, limits)


def of_pair(pair: Pair) -> Cost:
    """The cost of a pair of programs."""
    tables = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"'
    with tempfile.TemporaryDirectory() as folder:
        return measured(pair.name, job_files(Path(folder), pair.first, [pair.second], tables, {"r": 1}, {}))


def of_graph(graph: Path, name: str) -> Cost | None:
    """The cost of a captured graph against itself; ``None`` for what needs more than the graph to be read, or
    communicates with other ranks."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(graph, folder)
        job = Path(folder) / "job.toml"
        groups: list[str] = []
        for _ in range(8):  # process groups by the names that the graph calls them
            lines = "\n".join(f'"{group}" = ["r"]' for group in groups)
            job.write_text(
                f'format = "job/1"\n[spec]\ngraph = "{graph.name}"\n[impl]\ngraphs = ["{graph.name}"]\n'
                f"mesh = {{ r = 1 }}\n[impl.groups]\n{lines}\n"
                '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
                '[assume]\nconstants = "same name, same value"\ndropout = "same mask"\n'
            )
            try:
                read_job(job)
                break
            except TantamountError as problem:
                found = re.search(r"process group '([^']*)'", str(problem))
                if found is None or found[1] in groups:
                    return None
                groups.append(found[1])
        return measured(name, job)


def graphs() -> Iterator[tuple[Path, str]]:
    """The specifications of the captured jobs."""
    shared = Path(os.environ.get("TANTAMOUNT_SHARED") or ROOT.parent / "shared")
    for folder in ("jobs", "plans", "bugs", "pairs"):
        for path in sorted((shared / folder).glob("*/*.gz")):
            if path.name.endswith((".json.gz", ".hlo.gz")) and path.stat().st_size < 1 << 20:
                yield path, f"{folder}/{path.parent.name}/{path.name}: itself"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names with this word")
    parser.add_argument("--seconds", type=float, default=5.0, help="CPU time beyond reading")
    options = parser.parse_args()
    broken: list[str] = []
    print(f"{'programs':<70}{'verdict':<12}{'read s':>8}{'prove s':>9}  bounds that were hit")

    def show(cost: Cost, most: float, proved: bool, wrong: bool = False) -> None:
        print(f"{cost.name:<70}{cost.verdict:<12}{cost.reading:>8.2f}{cost.proving:>9.2f}  {cost.limits}", flush=True)
        if cost.proving > most:
            broken.append(f"{cost.name} takes {cost.proving:.1f} s, at most {most:.1f}")
        if proved and cost.verdict != "PROVED":
            broken.append(f"{cost.name} is {cost.verdict}, not PROVED")
        if wrong and cost.verdict == "PROVED":
            broken.append(f"{cost.name} is PROVED, and wrong")

    for pair in pairs():
        if options.only in pair.name:
            cost = of_pair(pair)
            show(cost, options.seconds, pair.equal, pair.wrong)
    for path, name in graphs():
        if options.only in name:
            cost = of_graph(path, name)
            if cost is not None:
                show(cost, max(1.0, 2 * cost.reading), False)
    for sentence in broken:
        print(f"BOUND BROKEN: {sentence}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
