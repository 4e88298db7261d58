"""A plan of 64 stages on a Ray cluster of this machine: wall time with one node, with two, and with one of two nodes
killed half-way; and without Ray, for comparison.

    python benchmarks/cluster_times.py [FOLDER]

Needs Ray (``pip install 'tantamount[ray]'``), and PyTorch for the plan (``tantamount plan new``), unless FOLDER has
one. Every node has one CPU. Verdicts must be the same. A cluster's start is not counted; that of the command is.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

NEW = [
    "llama3-70b", "--layers", "128", "--dp", "2", "--tp", "8", "--pp", "64", "--microbatches", "128", "--batch", "256",
]  # fmt: skip


def _verified(path: Path, *more: str) -> tuple[float, str]:
    """Wall seconds of a verdict, and its lines on parts without their times."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "tantamount", "plan", "verify", str(path), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [line.split()[:5] for line in done.stdout.splitlines() if re.search(r"(PROVED|REFUTED|UNKNOWN)  ", line)]
    if not rows:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return time.monotonic() - begun, str(rows)


def main() -> int:
    from ray.cluster_utils import Cluster

    root = Path(__file__).resolve().parents[1]
    os.environ["PYTHONPATH"] = os.pathsep.join((str(root / "src"), str(root / "tests")))
    folder = Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp())
    path = folder / "plan.toml"
    if not path.exists():
        subprocess.run([sys.executable, "-m", "tantamount", "plan", "new", *NEW, "-o", str(folder)], check=True)
    found = {"without Ray": _verified(path)}
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        found["one node"] = _verified(path, "--ray", cluster.address)
        node = cluster.add_node(num_cpus=1)
        found["two nodes"] = _verified(path, "--ray", cluster.address)
        killer = threading.Timer(found["two nodes"][0] / 2, lambda: cluster.remove_node(node, allow_graceful=False))
        killer.start()
        found["one of two nodes killed half-way"] = _verified(path, "--ray", cluster.address)
        killer.join()
    finally:
        cluster.shutdown()
    print("| where | wall s |\n|---|---|")
    for where, (seconds, _) in found.items():
        print(f"| {where} | {seconds:.1f} |", flush=True)
    return int(len({rows for _, rows in found.values()}) > 1)


if __name__ == "__main__":
    sys.exit(main())
