"""Rewrite rules as jobs, with numbers and for all sizes: a table of verdicts, and what is not as it should be.

A rule is a folder with ``job.toml`` (sizes that are numbers), ``symbolic.toml`` (sizes that are symbols) and perhaps
``generic.toml`` (the same symbols, captured at other sizes: no verdict may depend on that). A folder whose name ends in
``_wrong`` holds a rule that is none. PROVED for all sizes means all of them: what is left of the sizes makes it PART.

python benchmarks/rewrite_rules.py FOLDER [--only NAME ...] [--kind job|symbolic|generic] [--seconds 60] [--table FILE]
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from tantamount.capture.job import read_job
from tantamount.errors import UserError
from tantamount.refinement import refine_job

KINDS = ("job", "symbolic", "generic")


def verdict_of(path: Path, seconds: float) -> tuple[str, str, float]:
    """The verdict on a job, why where it is open, and the seconds of work."""
    start = time.process_time()
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of work, not of waiting for other processes
    try:
        report = refine_job(read_job(path))
    except UserError as problem:
        return "ERROR", f"{problem.code}: {problem.found}", time.process_time() - start
    except TimeoutError:
        return "TIMEOUT", f"after {seconds:g} s", time.process_time() - start
    except Exception as problem:
        return "CRASH", f"{type(problem).__name__}: {problem}", time.process_time() - start
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    verdict = report.verdict.value
    left = [a.text for a in report.assumptions if a.name == "sizes-covered"]
    why = "; ".join([*(o.reason for o in report.outputs if o.reason), *left])
    return ("PART" if verdict == "PROVED" and left else verdict), why, time.process_time() - start


def _late(*_: object) -> None:
    raise TimeoutError


def main() -> int:
    """Exits with 1 if a rule that is wrong is PROVED or PART, or if anything is not as wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--kind", choices=KINDS, nargs="*", default=list(KINDS))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    counts: Counter[tuple[str, bool, str]] = Counter()
    bad = 0
    for folder in sorted(path for path in options.folder.iterdir() if path.is_dir()):
        if options.only and not any(folder.name.startswith(name) for name in options.only):
            continue
        wrong = folder.name.endswith("_wrong")
        for kind in options.kind:
            if not (folder / f"{kind}.toml").exists():
                continue
            verdict, why, seconds = verdict_of(folder / f"{kind}.toml", options.seconds)
            counts[kind, wrong, verdict] += 1
            bad += verdict != ("REFUTED" if wrong else "PROVED")
            line = f"{folder.name:22} {kind:9} {verdict:9} {seconds:6.1f}s"
            line += "" if verdict in ("PROVED", "REFUTED") else f"  {why[:400]}"
            print(line, flush=True)
            if options.table is not None:
                with options.table.open("a") as table:
                    table.write(line + "\n")
    for (kind, wrong, verdict), count in sorted(counts.items()):
        print(f"{kind:9} {'wrong' if wrong else 'right':6} {verdict:9} {count}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
