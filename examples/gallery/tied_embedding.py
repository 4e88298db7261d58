"""A tied embedding in a pipeline whose two gradients are never added.

The first stage looks tokens up in the table, the last one multiplies by it: one parameter, two copies. Its gradient
is the sum of what the two stages leave, so the stages must all-reduce it. Without that, each copy is updated by half
of the truth.

Seen in Megatron-LM (b57265556e) and torchtitan (#3174); DeepSpeed reduced once per tied layer (#7534).

    python examples/gallery/tied_embedding.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import tantamount as tt

VOCABULARY, WIDTH, LENGTH = 8, 6, 5
TOKENS, LABELS = torch.zeros(LENGTH, dtype=torch.long), torch.zeros(LENGTH, dtype=torch.long)


def sequential(table: nn.Embedding):
    def step(tokens: Tensor, labels: Tensor) -> Tensor:
        hidden = table(tokens).tanh()
        loss = cross_entropy(hidden @ table.weight.t(), labels)
        loss.backward()
        return loss

    return step


def first_stage(table: nn.Embedding, finish):
    def step(tokens: Tensor, labels: Tensor) -> None:
        hidden = table(tokens).tanh()
        dist.send(hidden.detach(), 1)
        grad = torch.empty_like(hidden)
        dist.recv(grad, 1)
        hidden.backward(grad)
        finish(table)

    return step


def last_stage(table: nn.Embedding, finish):
    def step(tokens: Tensor, labels: Tensor) -> Tensor:
        hidden = torch.empty(LENGTH, WIDTH)
        dist.recv(hidden, 0)
        hidden.requires_grad_()
        loss = cross_entropy(hidden @ table.weight.t(), labels)
        loss.backward()
        dist.send(hidden.grad, 0)
        finish(table)
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    def finish(table: nn.Embedding) -> None:
        if not broken:
            dist.all_reduce(table.weight.grad)

    def build(rank: int):
        table = nn.Embedding(VOCABULARY, WIDTH)
        stage = first_stage if rank == 0 else last_stage
        return stage(table, finish), (TOKENS, LABELS)

    return tt.refine(
        tt.capture(sequential(nn.Embedding(VOCABULARY, WIDTH)), (TOKENS, LABELS)),
        tt.capture_ranks(build, 2, mesh={"pp": 2}),
    )


if __name__ == "__main__":
    print(check().verdict.value, "as it should be\n")
    print(check(broken=True))
