"""Packed sequences whose documents see each other once attention is spread over ranks.

Several documents are packed into one sequence; a token attends to earlier tokens of its own document. The parallel
kernel knows about causality only, so a document also attends to the ones before it. With one document per sequence,
as in most tests, the two agree.

Seen in axolotl (#3608), where losses were 1.8 times what they should have been.

    python examples/gallery/packed_documents.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

import tantamount as tt

RANKS, LENGTH, WIDTH = 2, 8, 4
Q, K, V = (torch.empty(LENGTH, WIDTH) for _ in range(3))
DOCUMENT = torch.zeros(LENGTH, dtype=torch.long)


def attention(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    scores = (q @ k.t() / WIDTH**0.5).masked_fill(~seen, float("-inf"))
    return scores.softmax(-1) @ v


def sequential(q: Tensor, k: Tensor, v: Tensor, document: Tensor) -> Tensor:
    positions = torch.arange(LENGTH)
    causal = positions[:, None] >= positions[None, :]
    return attention(q, k, v, causal & (document[:, None] == document[None, :]))


def gathered(part: Tensor) -> Tensor:
    whole = torch.empty(LENGTH, WIDTH)
    dist.all_gather_into_tensor(whole, part)
    return whole


def check(*, broken: bool = False) -> tt.Report:
    rows = LENGTH // RANKS

    def build(rank: int):
        def context_parallel(q: Tensor, k: Tensor, v: Tensor, document: Tensor) -> Tensor:
            mine = torch.arange(rank * rows, (rank + 1) * rows)
            seen = mine[:, None] >= torch.arange(LENGTH)[None, :]
            if not broken:
                own = document[rank * rows : (rank + 1) * rows]
                seen = seen & (own[:, None] == document[None, :])
            return attention(q, gathered(k), gathered(v), seen)

        return context_parallel, (Q[:rows], K[:rows], V[:rows], DOCUMENT)

    return tt.refine(
        tt.capture(sequential, (Q, K, V, DOCUMENT)),
        tt.capture_ranks(build, RANKS, mesh={"cp": RANKS}),
        inputs=dict.fromkeys("qkv", "Shard(0)"),
        outputs={"output": "Shard(0)"},
    )


if __name__ == "__main__":
    print(check().verdict.value, "as it should be\n")
    print(check(broken=True))
