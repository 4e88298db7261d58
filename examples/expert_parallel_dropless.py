"""Expert parallelism that drops nothing: each expert gets the tokens that chose it, however many there are.

Every rank gathers all tokens, has those that chose its experts pass through them (``torch.where`` says which), and the
results are summed where the tokens came from. Sizes that data decide are captured as whole tensors beside the choice.
In the broken twin a rank numbers its experts from 0.

    python examples/expert_parallel_dropless.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, TOKENS, WIDTH, HIDDEN, EXPERTS, CHOSEN = 2, 3, 4, 6, 4, 2


def gathered(x: Tensor) -> Tensor:
    whole = x.new_empty(RANKS * x.shape[0], *x.shape[1:])
    dist.all_gather_into_tensor(whole, x.contiguous())
    return whole


def scattered(x: Tensor) -> Tensor:
    part = x.new_empty(x.shape[0] // RANKS, *x.shape[1:])
    dist.reduce_scatter_tensor(part, x.contiguous())
    return part


class Gather(torch.autograd.Function):
    """Tokens of all ranks on each of them; the gradient is a sum over the ranks."""

    @staticmethod
    def forward(_, x: Tensor) -> Tensor:
        return gathered(x)

    @staticmethod
    def backward(_, grad: Tensor) -> Tensor:
        return scattered(grad)


class Scatter(torch.autograd.Function):
    """The sum over the ranks, of which each has its tokens."""

    @staticmethod
    def forward(_, x: Tensor) -> Tensor:
        return scattered(x)

    @staticmethod
    def backward(_, grad: Tensor) -> Tensor:
        return gathered(grad)


class Mixture(nn.Module):
    """The experts from ``first`` on, ``experts`` of them. ``x``: tokens, width."""

    def __init__(self, experts: int, first: int = 0) -> None:
        super().__init__()
        self.router = nn.Parameter(torch.randn(WIDTH, EXPERTS))
        self.up = nn.Parameter(torch.randn(experts, WIDTH, HIDDEN))
        self.down = nn.Parameter(torch.randn(experts, HIDDEN, WIDTH))
        self.first = first

    def forward(self, x: Tensor) -> Tensor:
        weight, chosen = (x @ self.router).softmax(-1).topk(CHOSEN)
        y = torch.zeros_like(x)
        for k, (up, down) in enumerate(zip(self.up, self.down, strict=True)):
            token, choice = torch.where(chosen == self.first + k)
            done = nn.functional.silu(x[token] @ up) @ down
            y = y.index_add(0, token, done * weight[token, choice, None])
        return y


class ParallelMixture(Mixture):
    def forward(self, x: Tensor) -> Tensor:
        return Scatter.apply(super().forward(Gather.apply(x)))


def step(model: Mixture):
    def run(x: Tensor) -> Tensor:
        y = model(x)
        y.square().sum().backward()
        if isinstance(model, ParallelMixture):
            dist.all_reduce(model.router.grad)  # of every token, what the experts of this rank make of it
        return y

    return run


def check(*, broken: bool = False) -> tt.Report:
    def build(rank: int):
        experts = EXPERTS // RANKS
        return step(ParallelMixture(experts, 0 if broken else rank * experts)), (torch.randn(TOKENS, WIDTH),)

    return tt.refine(
        tt.capture(step(Mixture(EXPERTS)), (torch.randn(RANKS * TOKENS, WIDTH),)),
        tt.capture_ranks(build, RANKS, mesh={"ep": RANKS}),
        inputs={"x": "Shard(0)", "up": "Shard(0)", "down": "Shard(0)"},
        outputs={"output": "Shard(0)", "grad up": "Shard(0)", "grad down": "Shard(0)"},
    )


if __name__ == "__main__":
    print(check().raise_if_not_proved())
    print(check(broken=True))
