"""What has no row in the tables above, and why."""

from __future__ import annotations

from collections.abc import Iterator

_MISSING = (
    (
        "experts without a capacity (dropless)",
        "sizes of messages depend on values, which a capture on fake tensors does not have",
        "sizes that are tensors' values in the graph, and a calculus of ranges with such bounds",
    ),
    (
        "`DistributedDataParallel`",
        "it reduces gradients in C++, out of sight of every tracer",
        "nothing: average in the step, or `fully_shard`, as the capture's message says",
    ),
)


def section() -> Iterator[str]:
    """One row per thing that is missing."""
    yield "## What is missing"
    yield ""
    yield "| what | why | what it would take |"
    yield "|---|---|---|"
    for what, why, takes in _MISSING:
        yield f"| {what} | {why} | {takes} |"
