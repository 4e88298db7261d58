"""A norm over all features, computed on each rank's own features.

Queries are normalised over the whole hidden dimension before they are cut into heads. Under tensor parallelism a rank
has some of the columns only: the mean of squares has to be taken over all of them, which needs an all-reduce. Without
it each rank divides by a norm of its own.

Seen in vLLM, for OLMoE (#8747); a review of transformers' tensor-parallel plans discusses it (#44668).

    python examples/gallery/shard_norm.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

import tantamount as tt

RANKS, WIDTH, HIDDEN, EPSILON = 2, 6, 16, 1e-6
X, WEIGHT, SCALE = torch.empty(5, WIDTH), torch.empty(HIDDEN, WIDTH), torch.empty(HIDDEN)


def query(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    q = x @ weight.t()
    return q * torch.rsqrt(q.square().mean(-1, keepdim=True) + EPSILON) * scale


def check(*, broken: bool = False) -> tt.Report:
    def build(rank: int):
        def column_parallel(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
            q = x @ weight.t()
            squares = q.square().mean(-1, keepdim=True)
            if not broken:
                dist.all_reduce(squares, op=dist.ReduceOp.AVG)
            return q * torch.rsqrt(squares + EPSILON) * scale

        return column_parallel, (X, WEIGHT[: HIDDEN // RANKS], SCALE[: HIDDEN // RANKS])

    return tt.refine(
        tt.capture(query, (X, WEIGHT, SCALE)),
        tt.capture_ranks(build, RANKS, mesh={"tp": RANKS}),
        inputs={"weight": "Shard(0)", "scale": "Shard(0)"},
        outputs={"output": "Shard(1)"},
    )


if __name__ == "__main__":
    print(check().verdict.value, "as it should be\n")
    print(check(broken=True))
