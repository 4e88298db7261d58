"""Campaigns on several backends side by side, and a table of what came of them.

    python benchmarks/fuzz_campaigns.py inductor-cuda=9 xla-gpu=4 eager-cuda=1 --seconds 400 --out DIR

Each backend has so many workers (default 1) and the same seconds. When they are over, the reproducer of every finding
is run in a fresh process. In DIR are then table.txt (backend, versions, cases, cases/s, findings by kind, the seconds
after which the first one was there; below it each finding with its message and whether its bug was there again) and
campaigns.tar.gz (logs, findings). Folders of campaigns are kept in --work, where the same command goes on with them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tantamount.fuzz.backends import backends
from tantamount.fuzz.backends.base import Hosted
from tantamount.fuzz.findings import Finding, read_findings, replay
from tantamount.fuzz.triage import rows


@dataclass(frozen=True)
class Asked:
    """One campaign: its backend, workers, Python, folder."""

    backend: str
    workers: int
    python: str
    folder: Path

    def start(self, seed: int, seconds: float, more: list[str]) -> subprocess.Popen[bytes]:
        """The campaign as a process; what it tells goes into ``told.txt`` in its folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tantamount", "fuzz", "run", "--backend", self.backend, "--seed", str(seed)]
        command += ["--seconds", str(seconds), "--workers", str(self.workers), "--out", str(self.folder), *more]
        command += ["--python", f"{self.backend}={self.python}"] if self.python else []
        with (self.folder / "told.txt").open("ab") as told:
            return subprocess.Popen(command, stdout=told, stderr=told, start_new_session=True)

    def versions(self) -> dict[str, str]:
        """The versions of the compiler, or why it does not start; none of what is part of Tantamount."""
        if not backends()[self.backend].install:
            return {}
        hosted = Hosted(backends()[self.backend], self.python)
        versions, problem = hosted.asked()
        hosted.close()
        return versions or {"missing": problem}

    def cases(self) -> int:
        """The cases that were run to their end."""
        return sum(path.read_bytes().count(b"\n") for path in self.folder.glob("log-*.jsonl"))


def ended(process: subprocess.Popen[bytes], until: float) -> float:
    """Wait for a campaign, interrupt it when it is late, and kill it when that does not help; when it ended."""
    for signal_, longer in ((signal.SIGINT, 10.0), (signal.SIGKILL, 10.0)):
        try:
            process.wait(max(0.1, until - time.time()))
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal_)
            until = time.time() + longer
    return time.time()


def table(asked: list[Asked], spent: dict[str, float], start: float, states: dict[Path, str]) -> str:
    """The table, and the findings below it."""
    lines = ["| backend | versions | workers | seconds | cases | cases/s | findings | alike | first after |"]
    lines.append("|" + "---|" * 9)
    below: list[str] = []
    for one in asked:
        found = read_findings(one.folder)
        told = rows(one.folder)
        kinds = Counter(row.kind for row in told if not row.like)
        times = sorted((row.folder / "finding.json").stat().st_mtime - start for row in found)
        seconds, cases = spent[one.backend], one.cases()
        lines.append(
            f"| {one.backend} | {', '.join(f'{k} {v}' for k, v in one.versions().items())} | {one.workers} "
            f"| {seconds:.0f} | {cases} | {cases / seconds:.2f} "
            f"| {', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items())) or 'none'} "
            f"| {sum(bool(row.like) for row in told)} "
            f"| {f'{times[0]:.0f} s' if times else '-'} |"
        )
        for row in found:
            first = (str(row.data["message"]).splitlines() or [""])[0][:200]
            below.append(f"{states.get(row.folder, 'not run'):>8}  {row.signature}\n          {first}")
    return "\n".join([*lines, "", *below]) + "\n"


def confirmed(findings: list[Finding], pythons: dict[str, str], workers: int, until: float) -> dict[Path, str]:
    """What the reproducer of each finding says in a fresh process, of as many as there is time for."""

    def one(finding: Finding) -> tuple[Path, str]:
        left = until - time.time()
        state = replay(finding, left, pythons.get(finding.backend, "")) if left > 5 else "not run"
        return finding.folder, state

    with ThreadPoolExecutor(workers) as pool:
        return dict(pool.map(one, findings))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("backends", nargs="+", metavar="BACKEND[=WORKERS]")
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--grace", type=float, default=40, help="seconds to finish what is being made small")
    parser.add_argument("--replays", type=float, default=80, help="seconds for the reproducers")
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 1, help="reproducers at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--python", action="append", default=[], metavar="BACKEND=PATH")
    parser.add_argument("--more", action="append", default=[], metavar="WORD", help="for `tantamount fuzz run`")
    options = parser.parse_args()
    pythons = dict(item.split("=", 1) for item in options.python)
    work = options.work or Path(tempfile.mkdtemp())
    options.out.mkdir(parents=True, exist_ok=True)
    asked: list[Asked] = []
    for item in options.backends:
        name, _, count = item.partition("=")
        asked.append(Asked(name, int(count or 1), pythons.get(name, ""), work / name))
    start = time.time()
    running = {one.backend: one.start(options.seed, options.seconds, options.more) for one in asked}
    with ThreadPoolExecutor(len(running)) as pool:
        until = start + options.seconds + options.grace
        spent = dict(zip(running, pool.map(lambda p: ended(p, until) - start, running.values()), strict=True))
    findings = [row for one in asked for row in read_findings(one.folder)]
    states = confirmed(findings, pythons, options.parallel, time.time() + options.replays)
    text = table(asked, spent, start, states)
    (options.out / "table.txt").write_text(text)
    with tarfile.open(options.out / "campaigns.tar.gz", "w:gz") as packed:
        packed.add(work, "campaigns")
    states_of = Counter(states.values())
    print(text, json.dumps({"reproducers": states_of, "started": start}), sep="\n")


if __name__ == "__main__":
    main()
