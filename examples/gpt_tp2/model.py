"""The programs of this example, and how their graphs were made: ``python model.py`` (needs PyTorch; the demo does not).

One GPT block with its loss, on one device and on two ranks with Megatron's tensor, sequence and vocabulary parallelism.
Activations are [sequence, batch, hidden]; weights are [out, in].
"""

import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed._functional_collectives import all_gather_single, all_reduce, reduce_scatter_single
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.proxy import _register_stack_trace_anchor
from torch.testing._internal.distributed.fake_pg import FakeStore

SEQUENCE, BATCH, HIDDEN, HEADS, VOCABULARY, RANKS = 8, 2, 16, 4, 32, 2
HEAD = HIDDEN // HEADS
Function = Callable[..., Tensor]
Traced = TypeVar("Traced", bound=Callable[..., object])


def traced(function: Traced) -> Traced:
    """Have the graphs record the lines of this function."""
    _register_stack_trace_anchor(function)
    return function


@traced
def attention(x: Tensor, wqkv: Tensor, wo: Tensor, heads: int) -> Tensor:
    """Causal self-attention over ``heads`` heads: x [s, b, h] -> [s, b, h], a partial sum if heads are missing."""
    s, b, _ = x.shape
    q, k, v = F.linear(x, wqkv).reshape(s, b, 3, heads, HEAD).permute(2, 1, 3, 0, 4).unbind(0)
    scores = q @ k.transpose(-1, -2) / math.sqrt(HEAD)
    later = torch.ones(s, s, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(later, -math.inf), -1)
    return F.linear((weights @ v).permute(2, 0, 1, 3).reshape(s, b, heads * HEAD), wo)


@traced
def mlp(x: Tensor, up: Tensor, up_bias: Tensor, down: Tensor) -> Tensor:
    return F.linear(F.gelu(F.linear(x, up, up_bias)), down)


@traced
def specification(
    ids: Tensor,
    labels: Tensor,
    table: Tensor,
    norm1: Tensor,
    wqkv: Tensor,
    wo: Tensor,
    norm2: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
) -> Tensor:
    x = F.embedding(ids, table)
    x = x + attention(F.layer_norm(x, [HIDDEN], norm1), wqkv, wo, HEADS)
    x = x + mlp(F.layer_norm(x, [HIDDEN], norm2), up, up_bias, down) + down_bias
    chances = torch.log_softmax(F.linear(x, table).reshape(-1, VOCABULARY), -1)
    return -chances.gather(1, labels.reshape(-1, 1)).mean()


def implementation(rank: int) -> Function:
    shard = VOCABULARY // RANKS
    low, high = rank * shard, (rank + 1) * shard
    tp = dist.group.WORLD

    @traced
    def in_shard(ids: Tensor) -> tuple[Tensor, Tensor]:
        outside = (ids < low) | (ids >= high)
        return (ids - low).masked_fill(outside, 0), outside

    @traced
    def gather(x: Tensor) -> Tensor:
        return all_gather_single(x, 0, tp)

    @traced
    def scatter(x: Tensor) -> Tensor:
        return reduce_scatter_single(x, "sum", 0, tp)

    @traced
    def block(
        ids: Tensor,
        labels: Tensor,
        table: Tensor,
        norm1: Tensor,
        wqkv: Tensor,
        wo: Tensor,
        norm2: Tensor,
        up: Tensor,
        up_bias: Tensor,
        down: Tensor,
        down_bias: Tensor,
    ) -> Tensor:
        local, outside = in_shard(ids)
        x = scatter(F.embedding(local, table).masked_fill(outside.unsqueeze(-1), 0.0))
        x = x + scatter(attention(gather(F.layer_norm(x, [HIDDEN], norm1)), wqkv, wo, HEADS // RANKS))
        x = x + scatter(mlp(gather(F.layer_norm(x, [HIDDEN], norm2)), up, up_bias, down)) + down_bias
        logits = F.linear(gather(x), table).reshape(-1, shard)
        return vocabulary_parallel_loss(logits, labels.reshape(-1))

    @traced
    def vocabulary_parallel_loss(logits: Tensor, labels: Tensor) -> Tensor:
        shifted = logits - all_reduce(logits.amax(-1), "max", tp).unsqueeze(-1)
        local, outside = in_shard(labels)
        chosen = shifted.gather(1, local.unsqueeze(-1)).squeeze(-1).masked_fill(outside, 0.0)
        total = all_reduce(shifted.exp().sum(-1), "sum", tp)
        return (total.log() - all_reduce(chosen, "sum", tp)).mean()

    return block


def inputs(ranks: int) -> dict[str, Tensor]:
    """One rank's inputs: what is sharded has one ``ranks``-th of the whole."""
    integers = torch.zeros(SEQUENCE, BATCH, dtype=torch.int64)
    return {
        "ids": integers,
        "labels": integers.clone(),
        "table": torch.zeros(VOCABULARY // ranks, HIDDEN),
        "norm1": torch.zeros(HIDDEN),
        "wqkv": torch.zeros(3 * HIDDEN // ranks, HIDDEN),
        "wo": torch.zeros(HIDDEN, HIDDEN // ranks),
        "norm2": torch.zeros(HIDDEN),
        "up": torch.zeros(4 * HIDDEN // ranks, HIDDEN),
        "up_bias": torch.zeros(4 * HIDDEN // ranks),
        "down": torch.zeros(HIDDEN, 4 * HIDDEN // ranks),
        "down_bias": torch.zeros(HIDDEN),
    }


def encoded(value: object) -> object:
    """An argument as fx-nodes/1 writes it."""
    if isinstance(value, torch.fx.Node):
        return {"node": value.name}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": value.type}
    if isinstance(value, (torch.layout, torch.memory_format)):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, (list, tuple)):
        return [encoded(item) for item in value]
    return value


def source(node: torch.fx.Node) -> str | None:
    """The innermost line of this file that made the node."""
    lines = (node.stack_trace or "").splitlines()
    for place, code in reversed(list(pairwise(lines))):
        if f'"{__file__}"' in place:
            return f"{place.strip().replace(__file__, 'model.py')} | {code.strip()}"
    return None


def save(path: Path, origin: str, rank: int | None, function: Function, arguments: dict[str, Tensor]) -> None:
    graph = make_fx(function, record_stack_traces=True)(*arguments.values()).graph
    graph.eliminate_dead_code()
    rows = []
    for placeholder, name in zip(graph.find_nodes(op="placeholder"), arguments, strict=True):
        placeholder._rename(name)
    for node in graph.nodes:
        if node.op == "output":
            outputs = [{"name": "loss", "node": node.args[0].name}]
            continue
        meta = node.meta.get("val", node.meta.get("tensor_meta"))
        single = hasattr(meta, "shape")
        row = {
            "name": node.name,
            "op": node.op,
            "target": node.name if node.op == "placeholder" else str(node.target),
            "args": encoded(node.args) if node.op != "placeholder" else [],
            "kwargs": {key: encoded(item) for key, item in node.kwargs.items()},
            "shape": list(meta.shape) if single else None,
            "dtype": str(meta.dtype).removeprefix("torch.") if single else None,
        }
        place = source(node)
        rows.append(json.dumps({**row, "stack": place} if place else row))
    head = f'{{"format": "fx-nodes/1", "rank": {json.dumps(rank)}, "origin": {json.dumps(origin)},\n"nodes": [\n'
    path.write_text(head + ",\n".join(rows) + f'\n],\n"outputs": {json.dumps(outputs)}}}\n')


def main() -> None:
    folder = Path(__file__).parent
    save(folder / "spec.json", "a GPT block on one device", None, specification, inputs(1))
    for rank in range(RANKS):
        dist.init_process_group("fake", rank=rank, world_size=RANKS, store=FakeStore())
        save(
            folder / f"rank{rank}.json",
            f"a GPT block, rank {rank} of {RANKS}",
            rank,
            implementation(rank),
            inputs(RANKS),
        )
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
