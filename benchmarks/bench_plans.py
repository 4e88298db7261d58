"""What verifying training plans costs: models at real sizes, and one size of the plan after the other made larger.

    python benchmarks/bench_plans.py [--quick] [--write] [NAME...]

Every plan is written by ``tantamount plan new`` (PyTorch), then verified by another process, whose CPU seconds and
memory are told, start-up and reading included. All must be PROVED. ``--write`` puts the table into docs/plan.md.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from math import log, prod
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
    "405b, sp, zero 1, tied, recompute": (
        "llama3-405b", {},
        {**PLAIN, "dp": 64, "tp": 8, "pp": 16, "microbatches": 16, "batch": 1024, "seq": 8192, "sp": True, "zero": 1,
         "tied": True, "recompute": True},
    ),
    "8b, zero 3, cp 4, sp": (
        "llama3-8b", {}, {**PLAIN, "zero": 3, "cp": 4, "sp": True, "seq": 32768},
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


SWEEPS = {  # a plan that is larger in one size than the first, and how many times
    "8b, 128 layers": ("layers", 4), "8b, dp 128": ("dp", 16), "8b, 64 microbatches": ("microbatches", 8),
    "8b, pp 32": ("pp", 8), "8b, tp 8": ("tp", 2), "8b, batch 512": ("global batch", 8),
    "8b, seq 65536": ("sequence", 16), "8b, hidden 16384": ("hidden", 4), "8b, 128 heads": ("heads", 4),
}  # fmt: skip
BEGIN, END = "<!-- measured by benchmarks/bench_plans.py -->", "<!-- end of what was measured -->"
DOCS = Path(__file__).resolve().parents[1] / "docs" / "plan.md"


def main() -> int:
    named = [name for name in sys.argv[1:] if not name.startswith("--")]
    names = named or list(PLANS)[: 3 if "--quick" in sys.argv else None]
    head = "| plan | ranks | operators that it stands for | different parts | CPU s | MB | verdict |"
    rows = [head, "|---|---|---|---|---|---|---|"]
    wrong = 0
    print(*rows, sep="\n")
    for name in names:
        rows.append(_row(name))
        wrong += "| PROVED |" not in rows[-1]
        print(rows[-1], flush=True)
    took = {row.split(" | ")[0].removeprefix("| "): float(row.split(" | ")[4]) for row in rows[2:]}
    grown = [
        f"{size} {log(took[name] / took['llama3-8b']) / log(times):.2f}"
        for name, (size, times) in SWEEPS.items()
        if name in took and "llama3-8b" in took
    ]
    if grown:
        rows += ["", f"Exponents (CPU seconds grow as the size to that power): {', '.join(grown)}."]
        print(rows[-1])
    if "--write" in sys.argv:
        text = DOCS.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        DOCS.write_text(before + "\n".join((BEGIN, "", *rows, "", END)) + rest.split(END)[1], encoding="utf-8")
    return 1 if wrong else 0


def _row(name: str) -> str:
    model, sizes, degrees = PLANS[name]
    with tempfile.TemporaryDirectory() as folder:
        options: list[str] = []
        for key, value in {**sizes, **degrees}.items():
            options += [f"--{key.replace('_', '-')}", *([] if value is True else [str(value)])]
        new = [sys.executable, "-m", "tantamount", "plan", "new", model, "-o", folder, *options]
        subprocess.run(new, capture_output=True, check=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = Path(folder) / "report.json"
        command = [sys.executable, "-m", "tantamount", "plan", "verify", f"{folder}/plan.toml", "--json", str(out)]
        subprocess.run(command, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        report = json.loads(out.read_text(encoding="utf-8"))
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ranks, nodes = prod(report["mesh"].values()), sum(part["nodes"] for part in report["parts"])
    return (
        f"| {name} | {ranks:,} | {nodes:,} | {len(report['parts'])} | {seconds:.2f} | {report['megabytes']:.0f} | "
        f"{report['verdict']} |"
    )


if __name__ == "__main__":
    sys.exit(main())
