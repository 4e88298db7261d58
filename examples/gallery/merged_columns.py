"""A merged gate and up projection, cut as if it were one matrix.

The checkpoint stacks the gate and the up projection into one matrix. Cut in half as it lies, rank 0 gets the whole
gate and rank 1 the whole up projection; each then takes the halves of its part for gate and up. All shapes are right.
The loader is part of the captured program here: every rank gets the checkpoint and takes its part.

Seen in vLLM, for OLMo (#3775).

    python examples/gallery/merged_columns.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import silu

import tantamount as tt

RANKS, WIDTH, HIDDEN = 2, 6, 8
X, GATE_UP, DOWN = torch.empty(5, WIDTH), torch.empty(2 * HIDDEN, WIDTH), torch.empty(WIDTH, HIDDEN)


def mlp(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = (x @ gate_up.t()).chunk(2, dim=-1)
    return (silu(gate) * up) @ down.t()


def check(*, broken: bool = False) -> tt.Report:
    def build(rank: int):
        def load(gate_up: Tensor) -> Tensor:
            if broken:
                return gate_up.chunk(RANKS, dim=0)[rank]
            gate, up = gate_up.chunk(2, dim=0)
            return torch.cat([gate.chunk(RANKS, dim=0)[rank], up.chunk(RANKS, dim=0)[rank]])

        def tensor_parallel(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
            y = mlp(x, load(gate_up), down)
            dist.all_reduce(y)
            return y

        return tensor_parallel, (X, GATE_UP, DOWN[:, : HIDDEN // RANKS])

    return tt.refine(
        tt.capture(mlp, (X, GATE_UP, DOWN)),
        tt.capture_ranks(build, RANKS, mesh={"tp": RANKS}),
        inputs={"down": "Shard(1)"},
    )


if __name__ == "__main__":
    print(check().verdict.value, "as it should be\n")
    print(check(broken=True))
