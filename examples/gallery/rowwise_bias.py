"""A row-parallel linear layer whose bias is added on every rank before the all-reduce.

Each rank multiplies its columns of the input by its columns of the weight; the sum over ranks is the product. A bias
that is added before the sum is added once per rank. Shapes fit, and with a bias of zero, as after many
initialisations, so do the values.

Seen in Hugging Face's text-generation-inference (#1036), PaddlePaddle (#35186) and slapo (#10).

    python examples/gallery/rowwise_bias.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import linear

import tantamount as tt

RANKS = 2
X, WEIGHT, BIAS = torch.empty(5, 8), torch.empty(6, 8), torch.empty(6)


def sequential(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return linear(x, weight, bias)


def check(*, broken: bool = False) -> tt.Report:
    def build(rank: int):
        def row_parallel(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            if broken:
                y = linear(x, weight, bias)
                dist.all_reduce(y)
                return y
            y = linear(x, weight)
            dist.all_reduce(y)
            return y + bias

        return row_parallel, (X[:, ::RANKS], WEIGHT[:, ::RANKS], BIAS)

    return tt.refine(
        tt.capture(sequential, (X, WEIGHT, BIAS)),
        tt.capture_ranks(build, RANKS, mesh={"tp": RANKS}),
        inputs={"x": "Shard(1)", "weight": "Shard(1)"},
    )


if __name__ == "__main__":
    print(check().verdict.value, "as it should be\n")
    print(check(broken=True))
