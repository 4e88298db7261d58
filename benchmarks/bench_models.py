"""Models of the ``transformers`` library under its own tensor-parallel plans: captured, proved, and a broken twin.

    python benchmarks/bench_models.py [MODEL ...] [--layers N]

Forward and backward of small random configurations, on one device and on two ranks. The twin forgets the last
all-reduce of the backward pass. Times are CPU seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.transformer_models import MODELS, capture_pair, without_all_reduce
from tantamount import refine


def main() -> None:
    """Print one row of a Markdown table per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--layers", type=int, default=1)
    arguments = parser.parse_args()
    print("| model | nodes | capture | verdict | outputs | refine | twin | place of the twin's bug | refine |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in arguments.models:
        started = time.process_time()
        specification, ranks = capture_pair(name, arguments.layers)
        captured = time.process_time()
        report = refine(specification, ranks)
        proved = time.process_time()
        twin = refine(specification, without_all_reduce(ranks))
        done = time.process_time()
        place = twin.mismatch.implementation_source or twin.mismatch.specification_source if twin.mismatch else None
        count = sum(output.verdict.value == "PROVED" for output in report.outputs)
        nodes = f"{len(specification.graph.nodes)}, {len(ranks.programs[0].graph.nodes)}"
        where = f"{Path(place.file).name}:{place.line} {place.function}" if place is not None else ""
        print(
            f"| {name} | {nodes} | {captured - started:.1f} | {report.verdict.value} "
            f"| {count} of {len(report.outputs)} "
            f"| {proved - captured:.2f} | {twin.verdict.value} | {where} | {done - proved:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
