"""The tests that take a part of their cases in ``make test``, with all of them.

    python benchmarks/bench_tests.py [-n WORKERS]

Which these are, is found: the files that import ``support.amount``. Exit code 1 if a test fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def files() -> list[Path]:
    """The tests that say how many of their cases they take."""
    return [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "support.amount" in path.read_text()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", default="auto", help="worker processes")
    workers = parser.parse_args().n
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", "worksteal", "--durations", "20"]
    environment = os.environ | {"TANTAMOUNT_TESTS": "all"}
    return min(1, subprocess.run([*command, *map(str, files())], cwd=ROOT, env=environment, check=False).returncode)


if __name__ == "__main__":
    sys.exit(main())
