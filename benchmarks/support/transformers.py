"""Models of the ``transformers`` library under its own tensor-parallel plans: forward and backward of small random
configurations, on one device and on two ranks. The twin forgets the last all-reduce of the backward pass."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from benchmarks.support.rows import absent, head, row, timed

from support.transformer_models import MODELS, capture_pair, without_all_reduce
from tantamount import refine


def section() -> Iterator[str]:
    """One row per model."""
    installed = importlib.util.find_spec("transformers") is not None
    yield "## Models of transformers 5.23, two ranks"
    yield ""
    yield from head("model")
    for name, layers in (*((name, 1) for name in MODELS), ("llama", 4)):
        label = f"{name}, {layers} layer{'s' * (layers > 1)}"
        if not installed:
            yield absent(label, "transformers is not installed here")
            continue
        (specification, ranks), taken = timed(lambda name=name, layers=layers: capture_pair(name, layers))
        nodes = f"{len(specification.graph.nodes)} and {len(ranks.programs[0].graph.nodes)} nodes"
        twin = refine(specification, without_all_reduce(ranks))
        yield row(f"{label}, {nodes}", taken, refine(specification, ranks), twin)
