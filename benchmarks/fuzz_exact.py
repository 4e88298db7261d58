"""The exact interpreter against eager PyTorch: random single calls of every operator that is generated, of narrow
floats and all integers, these often at the ends of their types; bit for bit where no order of computing rounds.

    python benchmarks/fuzz_exact.py [--calls 4000] [--seed 1]

Exits with 1 if one differs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import torch

from tantamount.fuzz.backends import backends
from tantamount.fuzz.backends.base import Outcome, policy_of
from tantamount.fuzz.cases import Form
from tantamount.fuzz.generate import Sample, generate
from tantamount.fuzz.goals import LEAVES, Goal
from tantamount.fuzz.oracle import compare
from tantamount.fuzz.samplers import SAMPLERS
from tantamount.ir.types import DType, Kind

DTYPES = (DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64)


def difference(sample: Sample) -> str:
    """What eager gives otherwise; empty if nothing."""
    backend = backends()["eager"]
    space: dict[str, Any] = {}
    exec(backend.emit(sample.graph), space)
    given = [
        torch.from_numpy(np.array(sample.inputs[node.name])).to(getattr(torch, node.type.dtype.label))
        for node in sample.graph.inputs
    ]
    form = Form("original", sample.graph, sample.inputs, tuple(sample.values[o.node] for o in sample.graph.outputs))
    found = space["program"](*given)
    arrays = tuple((y.float() if y.dtype is torch.bfloat16 else y).numpy() for y in found)
    dtypes = tuple(str(y.dtype).removeprefix("torch.") for y in found)
    failure = compare(backend, form, Outcome("ok", arrays, dtypes))
    return "" if failure is None else failure.message


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    policy = replace(policy_of([backends()["eager"]]), nodes=(1, 1))
    random, counted, operators = Random(options.seed), Counter[str](), Counter[str]()
    index, wrong, start = 0, 0, time.process_time()
    while sum(operators.values()) < options.calls:
        index += 1
        target, dtype = random.choice([*SAMPLERS]), random.choice(DTYPES)
        ends = dtype.kind is Kind.INT and random.random() < 0.6
        sample = generate(options.seed, index, policy, [Goal(random.choice(LEAVES), target, dtype, ends=ends)])
        calls = [node for node in sample.graph.nodes if node.op == "call"]
        if not calls:
            continue
        counted[dtype.label] += len(calls)
        operators.update(node.target for node in calls)
        if message := difference(sample):
            wrong += 1
            print(f"program {index}: {[(node.target, node.args, str(node.type)) for node in calls]}: {message}")
    print(f"{sum(operators.values())} calls of {len(operators)} operators ({dict(counted)}): {wrong} differ")
    print(f"{time.process_time() - start:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
