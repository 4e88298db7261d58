"""Megatron-Core's GPTModel (RMSNorm, grouped heads, gated units), forward, backward and reduction of gradients."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.support.rows import absent, head, refining, row, timed

_EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "megatron_core.py"


def section() -> Iterator[str]:
    """One row per way to be parallel, and per size."""
    yield "## GPT of Megatron-Core 0.16.1"
    yield ""
    yield "[The example](../examples/megatron_core.py). Where parameters are is read off Megatron's checkpoints."
    yield ""
    yield from head("model")
    example = _example()
    for name, sizes, twin in _rows(example):
        if example is None:
            yield absent(name, "megatron-core is not installed here")
            continue
        report, taken = timed(lambda sizes=sizes: example.check(**sizes))
        yield row(name, taken - refining(report), report, None if twin is None else example.check(**sizes | twin))


def _rows(example: Any) -> Iterator[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    plain = {"sequence": False}
    no_reduce = {"breaking": getattr(example, "forgets_backward_all_reduce", None)}
    summed = {"reduce": getattr(example, "sums_over_replicas", None)}
    yield "TP2, 1 layer; twin: no all-reduce in the backward pass of a column-parallel layer", plain, no_reduce
    yield "TP2+SP, 1 layer; twin: gradients of norms not reduced", {}, {"broken": True}
    yield "TP2xDP2, 1 layer; twin: gradients summed, not averaged", plain | {"data": 2}, summed
    yield "TP2+SP, 4 layers", {"layers": 4}, None
    yield "TP2+SP, 1 layer, hidden size 256", {"hidden": 256}, None


def _example() -> Any:
    if importlib.util.find_spec("megatron") is None:
        return None
    warnings.simplefilter("ignore")
    found = importlib.util.spec_from_file_location("example_megatron_core", _EXAMPLE)
    if found is None or found.loader is None:
        return None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
