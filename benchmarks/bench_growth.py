"""How the cost of a verdict grows: with layers, ranks, width, microbatches, stages; of right programs, and wrong ones.

    python benchmarks/bench_growth.py [--quick] [--only WORD] [--runs N] [--write]

Whole ``tantamount refine`` processes on generated models (``tests/support/equal_layers.py``, ``training_steps.py``,
``ring_attention.py``). Seconds are CPU seconds, beyond those of the smallest process and of reading; the exponent is
the slope of their logarithm over that of the size. ``--quick``: the first three sizes of each series. ``--runs``: of so
many of each job the cheapest counts. ``--write``: the table and the pictures of docs/performance.md. Exits with 1 if a
verdict is not the expected one or an exponent exceeds its bound.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import log
from pathlib import Path
from types import FrameType

import numpy as np
from bench_refine import ROOT, Cost, measure

sys.path.insert(0, str(ROOT / "tests"))

from support.equal_layers import layered_files
from support.gpt_layers import gpt_files
from support.ring_attention import ring_attention_files
from support.training_steps import Steps, training_step_files
from tantamount import read_job
from tantamount.refinement.job import refine_job

FLOOR = 0.1  # CPU seconds: what is less is mostly noise
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
Make = Callable[[Path], Path]


@dataclass(frozen=True)
class Series:
    """Jobs of one kind by size, with the largest exponent that their cost may grow with, and their verdict."""

    name: str
    points: tuple[tuple[int, Make], ...]
    bound: float
    verdict: str = "PROVED"


def layers(n: int, **how: object) -> Make:
    return lambda folder: layered_files(folder, n, **how)  # type: ignore[arg-type]


def step(**how: object) -> Make:
    return lambda folder: training_step_files(folder, Steps(**how))  # type: ignore[arg-type]


def ring(n: int) -> Make:
    return lambda folder: ring_attention_files(folder, n)


def gpt(n: int, **how: int) -> Make:
    return lambda folder: gpt_files(folder, n, **how)


def wrong(n: int, **how: object) -> Make:
    """Layers one of which multiplies by another number."""

    def change(k: int, text: str) -> str:
        return text.replace("mul(t1, 3)", "mul(t1, 3.5)") if k == 1 else text

    return layers(n, rank=change, **how)


SERIES = (
    Series("layers (tp 8)", tuple((n, layers(n, tp=8)) for n in (1, 4, 8, 16, 32, 64)), 0.5),
    Series(
        "layers that all differ",
        tuple(
            (n, layers(n, rank=(d := lambda k, text: text.replace("0.125", f"0.{k + 1}5")), whole=d))
            for n in (4, 8, 16, 32, 64)
        ),
        1.1,
    ),
    Series(
        "layers, training step (tp 2, dp 2)", tuple((n, step(layers=n, tp=2, dp=2)) for n in (1, 2, 4, 8, 16, 32, 64)),
        0.5,
    ),
    Series(
        "layers, training step with moments",
        tuple((n, step(layers=n, tp=2, dp=2, adam=True)) for n in (1, 2, 4, 8, 16, 32, 64)),
        0.5,
    ),
    Series("layers, GPT (tp 8)", tuple((n, gpt(n, tp=8)) for n in (1, 4, 8, 16, 32, 64)), 0.5),
    Series("ranks, GPT (tp, 8 layers)", tuple((n, gpt(8, tp=n)) for n in (2, 4, 8, 16, 32)), 0.1),
    Series(
        "ranks (tp 8 x dp, 20 layers)",
        tuple((n, layers(20, tp=8, dp=n // 8)) for n in (8, 64, 512, 4096, 8192)),
        0.1,
    ),
    Series(
        "ranks, training step (tp 8 x dp, 2 layers)",
        tuple((n, step(layers=2, tp=8, dp=n // 8)) for n in (8, 64, 512, 4096, 8192)),
        0.1,
    ),
    Series("ranks (tp, 20 layers)", tuple((n, layers(20, tp=n)) for n in (2, 8, 64, 512)), 0.1),
    Series("width (20 layers)", tuple((n, layers(20, width=n)) for n in (64, 256, 1024, 8192)), 0.05),
    Series("microbatches (4 layers)", tuple((n, step(layers=4, mb=n)) for n in (2, 4, 8, 16, 32, 64)), 0.3),
    Series(
        "microbatches in both programs (4 layers)",
        tuple((n, step(layers=4, mb=n, spec_mb=True)) for n in (2, 4, 8, 16, 32, 64)),
        0.3,
    ),
    Series(
        "stages (16 layers, 4 microbatches, tp 2, dp 2)",
        tuple((n, step(layers=16, pp=n, mb=4, tp=2, dp=2)) for n in (1, 2, 4, 8)),
        0.3,
    ),
    Series("causal ring attention, ranks", tuple((n, ring(n)) for n in (2, 4, 8, 16)), 2.1),
    Series("width, a wrong layer of 4", tuple((n, wrong(4, width=n)) for n in (64, 256, 768, 4096)), 0.1, "REFUTED"),
    Series("layers, one of them wrong", tuple((n, wrong(n)) for n in (4, 8, 16, 32)), 1.1, "REFUTED"),
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """The cost of one process, and the CPU seconds of reading its job."""

    cost: Cost
    reading: float


def cost_of(make: Make, runs: int = 1) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        job = make(Path(folder))
        cost = min((measure(job) for _ in range(runs)), key=lambda one: one.seconds)
        begun = time.process_time()
        read_job(job)
        return Measured(cost, time.process_time() - begun)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of the line through the logarithms."""
    x, y = np.log(sizes), np.log([max(s, FLOOR) for s in seconds])
    return float(np.polyfit(x, y, 1)[0])


# ---------------------------------------------------------------------------------------------- pictures
def bars(costs: Sequence[tuple[int, Measured]], name: str) -> str:
    """An SVG picture of the phases of some processes: a bar for each, CPU seconds to the right."""
    kinds = (("start-up and printing", "#9aa5b1"), ("reading", "#5b8def"), ("proving", "#2f9e44"))
    most = max(found.cost.seconds for _, found in costs)
    rows: list[str] = []
    for k, (size, found) in enumerate(costs):
        cost, read = found.cost, found.reading
        parts = (max(0.0, cost.seconds - cost.proving - read), read, cost.proving)
        x, y = 90.0, 40 + 26 * k
        rows.append(f'<text x="80" y="{y + 14}" text-anchor="end">{size}</text>')
        for part, (_, colour) in zip(parts, kinds, strict=True):
            width = 480 * part / most
            rows.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="18" fill="{colour}"/>')
            x += width
        rows.append(f'<text x="{x + 6:.1f}" y="{y + 14}">{cost.seconds:.2f} s</text>')
    for k, (what, colour) in enumerate(kinds):
        rows.append(f'<rect x="{90 + 170 * k}" y="8" width="12" height="12" fill="{colour}"/>')
        rows.append(f'<text x="{107 + 170 * k}" y="18">{what}</text>')
    height = 50 + 26 * len(costs)
    label = f"CPU seconds by phase: {name}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 680 {height}" font-family="sans-serif" font-size="12" '
        f'role="img" aria-label="{escape(label)}"><rect width="680" height="{height}" fill="white"/>'
        f"<g>{''.join(rows)}</g></svg>\n"
    )


def samples(job: Path) -> Counter[tuple[str, ...]]:
    """The stacks of our functions that a millisecond of CPU time each was spent in, from reading to the verdict."""
    found: Counter[tuple[str, ...]] = Counter()

    def note(_: int, frame: FrameType | None) -> None:
        stack: list[str] = []
        while frame is not None:
            module = frame.f_globals.get("__name__", "")
            if module.startswith("tantamount."):
                stack.append(f"{module.removeprefix('tantamount.')}.{frame.f_code.co_name}")
            frame = frame.f_back
        found[tuple(reversed(stack))] += 1

    signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    try:
        refine_job(read_job(job))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return found


def flames(found: Counter[tuple[str, ...]], depth: int = 14) -> str:
    """A flame graph as SVG: callers above what they call, as wide as the time that is spent in them."""
    total = sum(found.values())
    colours = ("#f08c00", "#f59f00", "#e8590c", "#fab005", "#ff922b")
    rows: list[str] = []

    def draw(stacks: Counter[tuple[str, ...]], level: int, x: float) -> None:
        names: Counter[str] = Counter()
        for stack, count in stacks.items():
            if len(stack) > level:
                names[stack[level]] += count
        for name, count in sorted(names.items()):
            width = 960 * count / total
            if width >= 2 and level < depth:
                y = 4 + 18 * level
                colour = colours[sum(map(ord, name)) % len(colours)]
                share = f"{100 * count / total:.0f} %"
                rows.append(f'<g><title>{escape(name)}: {share}</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
                            f'height="17" fill="{colour}" stroke="white" stroke-width="0.5"/>')  # fmt: skip
                letters = int(width / 6)
                short = name if len(name) <= letters else name.rpartition(".")[2]
                if len(short) <= letters:
                    rows.append(f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(short)}</text>')
                rows.append("</g>")
                draw(Counter({s: n for s, n in stacks.items() if s[level : level + 1] == (name,)}), level + 1, x)
            x += width

    draw(found, 0, 4.0)
    height = 12 + 18 * depth
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 968 {height}" font-family="sans-serif" font-size="10" '
        f'role="img" aria-label="Flame graph of a proof of 64 layers">'
        f'<rect width="968" height="{height}" fill="white"/>{"".join(rows)}</svg>\n'
    )


def write_page(lines: Sequence[str], deep: Sequence[tuple[int, Measured]]) -> None:
    """Put the table into the page, and the pictures beside it."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    table = [
        "",
        "| series | size | verdict | CPU s | reading | proving | MiB |",
        "|---|---|---|---|---|---|---|",
        *lines,
        "",
    ]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(table) + f"\n{END}{rest.split(END)[1]}")
    images = PAGE.parent / "images"
    (images / "performance-phases.svg").write_text(bars(deep, "layers (tp 8)"))
    with tempfile.TemporaryDirectory() as folder:
        (images / "performance-flames.svg").write_text(flames(samples(layered_files(Path(folder), 126, tp=8))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only the first three sizes of each")
    parser.add_argument("--only", default="", help="series with this word")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md and its pictures")
    parser.add_argument("--runs", type=int, default=1, help="of each job, on a machine that is shared")
    options = parser.parse_args()
    broken: list[str] = []
    lines: list[str] = []
    deep: list[tuple[int, Measured]] = []
    print(f"{'what':<48}{'size':>6}{'verdict':>9}{'CPU s':>8}{'read s':>8}{'prove s':>9}{'MiB':>6}")
    for series in SERIES:
        if options.only not in series.name:
            continue
        sizes: list[int] = []
        seconds: list[float] = []
        for size, make in series.points[:3] if options.quick else series.points:
            found = cost_of(make, options.runs)
            cost, read = found.cost, found.reading
            deep += [(size, found)] if series is SERIES[0] else []
            verdict = cost.report.get("verdict", "-")
            figures = f"{cost.seconds:>8.2f}{read:>8.2f}{cost.proving:>9.2f}{cost.memory / 2**20:>6.0f}"
            print(f"{series.name:<48}{size:>6}{verdict:>9}{figures}", flush=True)
            row = (series.name if not sizes else "", size, verdict, f"{cost.seconds:.2f}", f"{read:.2f}",
                   f"{cost.proving:.2f}", f"{cost.memory / 2**20:.0f}")  # fmt: skip
            lines.append("| " + " | ".join(map(str, row)) + " |")
            sizes.append(size)
            seconds.append(cost.proving)
            if verdict != series.verdict:
                broken.append(f"{series.name} {size}: {verdict}, not {series.verdict}")
        slope = exponent(sizes, seconds)
        print(f"{series.name:<48}{'':>6}  exponent {slope:.2f} (at most {series.bound})", flush=True)
        lines.append(f"| | | | | exponent | {slope:.2f} | |")
        if slope > series.bound and log(sizes[-1] / sizes[0]) > 0:
            broken.append(f"{series.name}: the exponent is {slope:.2f}, at most {series.bound}")
    if options.write:
        write_page(lines, deep)
    for sentence in broken:
        print(f"BOUND BROKEN: {sentence}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
