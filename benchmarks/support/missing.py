"""What has no row in the tables above, and why."""

from __future__ import annotations

from collections.abc import Iterator

_MISSING = (
    (
        "experts of Megatron-Core (EP2, all-to-all with a capacity)",
        "captured forward and backward, but `refine` does not end: a rank's experts see tokens of several microbatches "
        "in one tensor, and no tensor of the specification is that",
        "cuts (docs/design/cut-points.md) of a tensor that is made of parts of several specification tensors",
    ),
    (
        "Megatron-Core's all-gather dispatcher, and its pipeline and context parallelism",
        "the dispatcher selects tokens by a mask, so that data decide sizes; the others are not tried",
        "sizes from values in captures; a schedule as `build`; attention of Transformer Engine for context parallelism",
    ),
    (
        "experts without a capacity (dropless)",
        "sizes of messages depend on values, which a capture on fake tensors does not have",
        "sizes that are tensors' values in the graph, and a calculus of ranges with such bounds",
    ),
    (
        "causal ring attention with load balancing: gradients on more than two ranks, or under projections and a loss",
        "UNKNOWN, executions agree: squares and products of attention results are multiplied out, which takes too long",
        "terms compared factor by factor in a cell, before anything is multiplied out",
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
