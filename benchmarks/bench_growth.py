"""How the cost of a proof grows: with layers, ranks and width of a model, whole ``tantamount refine`` processes.

Usage: python benchmarks/bench_growth.py [--quick]. The models are generated: layers of normalised rows, two matrices
under tensor parallelism and a residual, on a mesh of data and tensor parallel ranks. Seconds are CPU seconds, without
those of the smallest process and of reading; the exponent is the slope of their logarithm over that of the size. Exits
with 1 if a verdict is not PROVED or an exponent exceeds its bound.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from math import log
from pathlib import Path

import numpy as np
from bench_refine import READING, ROOT, Cost, measure

sys.path.insert(0, str(ROOT / "tests"))

from support.equal_layers import layered_files

FLOOR = 0.1  # CPU seconds: what is less is mostly noise
SERIES: dict[str, tuple[tuple[dict[str, int], ...], float]] = {
    "layers": (tuple({"layers": n, "tp": 8} for n in (4, 8, 16, 32, 64)), 0.5),
    "ranks (tp 8 x dp)": (tuple({"layers": 20, "tp": 8, "dp": n // 8} for n in (8, 64, 512, 4096, 8192)), 0.1),
    "ranks (tp)": (tuple({"layers": 20, "tp": n} for n in (2, 8, 64, 512)), 0.1),
    "width": (tuple({"layers": 20, "width": n} for n in (64, 256, 1024, 8192)), 0.05),
}


def cost_of(how: dict[str, int]) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        return measure(layered_files(Path(folder), **how))


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of the line through the logarithms."""
    x, y = np.log(sizes), np.log([max(s, FLOOR) for s in seconds])
    return float(np.polyfit(x, y, 1)[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only the first three sizes of each")
    quick = parser.parse_args().quick
    broken: list[str] = []
    print(f"{'what':<20}{'size':>8}{'verdict':>10}{'CPU s':>8}{'read s':>8}{'prove s':>9}{'MiB':>7}")
    for what, (points, bound) in SERIES.items():
        sizes: list[int] = []
        seconds: list[float] = []
        for how in points[:3] if quick else points:
            cost = cost_of(how)
            size = how["tp"] * how.get("dp", 1) if "ranks" in what else how[what]
            verdict = cost.report.get("verdict", "-")
            read = cost.report.get("statistics", {}).get("seconds", {}).get(READING, 0.0)
            figures = f"{cost.seconds:>8.2f}{read:>8.2f}{cost.proving:>9.2f}{cost.memory / 2**20:>7.0f}"
            print(f"{what:<20}{size:>8}{verdict:>10}{figures}", flush=True)
            sizes.append(size)
            seconds.append(cost.proving)
            if verdict != "PROVED":
                broken.append(f"{what} {size}: {verdict}")
        slope = exponent(sizes, seconds)
        print(f"{what:<20}{'':>8}  exponent {slope:.2f} (at most {bound})")
        if slope > bound and log(sizes[-1] / sizes[0]) > 0:
            broken.append(f"{what}: the exponent is {slope:.2f}, at most {bound}")
    for sentence in broken:
        print(f"BOUND BROKEN: {sentence}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
