"""A router whose weight gradient is not reduced under sequence parallelism.

The router of a mixture of experts is replicated, and every rank routes the tokens of its part of the sequence. Its
gradient is a sum over all tokens, so over all ranks. Somebody has to add the parts up; if nobody does, every rank
updates its copy by its own part and the copies drift apart. Losses look right for a long time.

Seen in Megatron-LM (#599); torchtitan had one of its kind (#2387).

    python examples/gallery/router_gradient.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, TOKENS, WIDTH, EXPERTS = 2, 8, 6, 4
X, VALUE = torch.empty(TOKENS, WIDTH), torch.empty(TOKENS, EXPERTS)


def routing(router: nn.Linear, finish) -> object:
    def step(x: Tensor, value: Tensor) -> Tensor:
        weights = router(x).softmax(-1)
        loss = (weights * value).sum()
        loss.backward()
        finish(router)
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    def build(rank: int):
        router = nn.Linear(WIDTH, EXPERTS, bias=False)

        def finish(router: nn.Linear) -> None:
            if not broken:
                dist.all_reduce(router.weight.grad)

        return routing(router, finish), (X[: TOKENS // RANKS], VALUE[: TOKENS // RANKS])

    return tt.refine(
        tt.capture(routing(nn.Linear(WIDTH, EXPERTS, bias=False), lambda router: None), (X, VALUE)),
        tt.capture_ranks(build, RANKS, mesh={"sp": RANKS}),
        inputs={"x": "Shard(0)", "value": "Shard(0)"},
        outputs={"output": 'Partial("sum")'},
    )


if __name__ == "__main__":
    print(check().verdict.value, "as it should be\n")
    print(check(broken=True))
