"""Expert parallelism with a capacity: every rank has its tokens and its experts, an all-to-all brings them together.

As in GShard, tokens form groups, one per rank here; an expert takes at most ``CAPACITY`` tokens of a group, the rest
pass by. The single-device model has all groups and all experts. The broken twin multiplies by the router's weights on
the way to the experts instead of on the way back, which is not the same, for experts are not linear.

    python examples/expert_parallel.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, TOKENS, WIDTH, HIDDEN, EXPERTS, CAPACITY = 2, 6, 8, 16, 4, 2


class Exchange(torch.autograd.Function):
    """Part k along dimension 0 goes to rank k; what arrives is stacked in the ranks' order. Its own transpose."""

    @staticmethod
    def forward(_, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        dist.all_to_all_single(y, x.contiguous())
        return y

    @staticmethod
    def backward(_, grad: Tensor) -> Tensor:
        return Exchange.forward(None, grad)


class Mixture(nn.Module):
    """``x``: groups, tokens of a group, width. ``experts``: how many of them are here."""

    def __init__(self, experts: int, *, broken: bool = False) -> None:
        super().__init__()
        self.router = nn.Parameter(torch.randn(WIDTH, EXPERTS))
        self.up = nn.Parameter(torch.randn(experts, WIDTH, HIDDEN))
        self.down = nn.Parameter(torch.randn(experts, HIDDEN, WIDTH))
        self.broken = broken

    def forward(self, x: Tensor) -> Tensor:
        weight, chosen = (x @ self.router).softmax(-1).max(-1)
        expert = nn.functional.one_hot(chosen, EXPERTS)
        place = (expert.cumsum(1) - 1).unsqueeze(-1) == torch.arange(CAPACITY)  # of a token in an expert's buffer
        dispatch = expert.unsqueeze(-1) * place.to(x.dtype)  # groups, tokens, experts, capacity
        combine = dispatch * weight[..., None, None]
        sent = torch.einsum("gtec,gtd->egcd", combine if self.broken else dispatch, x)
        return torch.einsum("gtec,egcd->gtd", dispatch if self.broken else combine, self.at_experts(sent))

    def at_experts(self, x: Tensor) -> Tensor:
        """``x``: experts, groups, capacity, width."""
        hidden = torch.einsum("egcd,edh->egch", x, self.up)
        return torch.einsum("egch,ehd->egcd", nn.functional.gelu(hidden), self.down)


class ParallelMixture(Mixture):
    def at_experts(self, x: Tensor) -> Tensor:
        arrived = Exchange.apply(x.view(RANKS, -1, CAPACITY, WIDTH))  # groups, experts of this rank, capacity, width
        done = super().at_experts(arrived.transpose(0, 1)).transpose(0, 1)
        return Exchange.apply(done).reshape(EXPERTS, 1, CAPACITY, WIDTH)


def step(model: nn.Module):
    def run(x: Tensor, target: Tensor) -> Tensor:
        loss = (model(x) - target).square().sum()
        loss.backward()
        return loss

    return run


def ranks_step(model: nn.Module):
    def run(x: Tensor, target: Tensor) -> Tensor:
        loss = step(model)(x, target)
        dist.all_reduce(model.router.grad)  # experts are on one rank: their gradients are whole
        dist.all_reduce(loss)
        return loss

    return run


def check(*, broken: bool = False) -> tt.Report:
    def build(rank: int):
        local = torch.randn(1, TOKENS, WIDTH)
        return ranks_step(ParallelMixture(EXPERTS // RANKS, broken=broken)), (local, local)

    groups = torch.randn(RANKS, TOKENS, WIDTH)
    return tt.refine(
        tt.capture(step(Mixture(EXPERTS)), (groups, groups)),
        tt.capture_ranks(build, RANKS, mesh={"ep": RANKS}),
        inputs={"x": "Shard(0)", "target": "Shard(0)", "up": "Shard(0)", "down": "Shard(0)"},
        outputs={"grad up": "Shard(0)", "grad down": "Shard(0)"},
    )


if __name__ == "__main__":
    print(check().raise_if_not_proved())
    print(check(broken=True))
