"""What verifying training plans costs: Llama-3 at real sizes, and one size of the plan after the other made larger.

    python benchmarks/bench_plans.py [--quick]

Every plan is written by ``tantamount plan new`` (PyTorch), then verified by another process, whose CPU seconds and
memory are told, start-up and reading included. All must be PROVED.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PLAIN: dict[str, Any] = {"dp": 8, "tp": 4, "pp": 4, "microbatches": 8, "batch": 64, "seq": 4096, "optimizer": "adamw"}
PLANS: dict[str, tuple[str, dict[str, int], dict[str, Any]]] = {
    "llama3-8b": ("llama3-8b", {}, {**PLAIN}),
    "llama3-70b": (
        "llama3-70b", {},
        {**PLAIN, "dp": 16, "tp": 8, "pp": 8, "microbatches": 16, "batch": 256, "seq": 8192},
    ),
    "llama3-405b": (
        "llama3-405b", {},
        {**PLAIN, "dp": 64, "tp": 8, "pp": 16, "microbatches": 16, "batch": 1024, "seq": 8192},
    ),
    "405b interleaved": (
        "llama3-405b", {},
        {**PLAIN, "dp": 64, "tp": 8, "pp": 16, "microbatches": 16, "batch": 1024, "seq": 8192,
         "schedule": "interleaved", "chunks": 2},
    ),
    "8b, 128 layers": ("llama3-8b", {"layers": 128}, {**PLAIN}),
    "8b, dp 128": ("llama3-8b", {}, {**PLAIN, "dp": 128, "batch": 1024}),
    "8b, 64 microbatches": ("llama3-8b", {}, {**PLAIN, "microbatches": 64, "batch": 512}),
    "8b, pp 32": ("llama3-8b", {}, {**PLAIN, "pp": 32, "microbatches": 32, "batch": 256}),
    "8b, tp 8": ("llama3-8b", {}, {**PLAIN, "tp": 8}),
    "8b, batch 512": ("llama3-8b", {}, {**PLAIN, "batch": 512}),
    "8b, seq 65536": ("llama3-8b", {}, {**PLAIN, "seq": 65536}),
    "8b, hidden 16384": ("llama3-8b", {"hidden": 16384}, {**PLAIN}),
    "8b, 128 heads": ("llama3-8b", {"heads": 128, "kv_heads": 8, "hidden": 8192}, {**PLAIN}),
}  # fmt: skip


def main() -> int:
    names = list(PLANS)[: 3 if "--quick" in sys.argv else None]
    print(f"{'plan':<22} {'ranks':>7} {'CPU s':>7} {'MB':>6}  verdict")
    wrong = 0
    for name in names:
        model, sizes, degrees = PLANS[name]
        with tempfile.TemporaryDirectory() as folder:
            options = [x for key, n in {**sizes, **degrees}.items() for x in (f"--{key.replace('_', '-')}", str(n))]
            new = [sys.executable, "-m", "tantamount", "plan", "new", model, "-o", folder, *options]
            subprocess.run(new, capture_output=True, check=True)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "tantamount", "plan", "verify", str(Path(folder) / "plan.toml")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        verdict, megabytes = done.stdout.split()[0], done.stdout.split()[-2]
        ranks = degrees["dp"] * degrees["tp"] * degrees["pp"]
        wrong += verdict != "PROVED"
        print(f"{name:<22} {ranks:>7} {seconds:>7.1f} {megabytes:>6}  {verdict}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
