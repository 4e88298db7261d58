"""What has no row in the tables above, and why."""

from __future__ import annotations

from collections.abc import Iterator

_MISSING = (
    (
        "Megatron-Core's dispatchers without a capacity (with one: `examples/megatron_experts.py`)",
        "messages are split by counts that data decide, which is refused; tokens that every rank gathers are not "
        "(`examples/expert_parallel_dropless.py`)",
        "sizes of messages that are values of tensors",
    ),
    (
        "Megatron-Core's context parallelism and distributed optimizer, groups and biases of its routers",
        "attention of Transformer Engine, which needs a GPU; state that is cut where no placement cuts; sums of scores "
        "that are minus infinity outside of the chosen groups",
        "a definition of that attention; relations of flat buffers; what a sum of such scores is known to be above",
    ),
    (
        "causal ring attention with load balancing under projections and a loss",
        "not proved: squares and products of attention results are multiplied out, which takes too long. Attention "
        "itself is proved forward and backward, for more CPU seconds with every rank ([figures](performance.md))",
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
