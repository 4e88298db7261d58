"""Expert gradients divided by the number of an expert's copies instead of the number of data-parallel ranks.

Four data-parallel ranks, two experts: each expert lives on two ranks and processes the tokens of two. Its gradient is
the mean over all four ranks' losses. Dividing by the two copies that take part in the all-reduce makes it twice too
large, whatever the learning rate is tuned to.

Seen in DeepSpeed (#5259, #5618); torchtitan had one of its kind (#1551).

    python examples/gallery/expert_gradient_scale.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

import tantamount as tt

COPIES, EXPERTS, TOKENS, WIDTH = 2, 2, 8, 4
RANKS = COPIES * EXPERTS
X, VALUE, CHOICE = torch.empty(TOKENS, WIDTH), torch.empty(TOKENS, WIDTH), torch.zeros(TOKENS, dtype=torch.long)


def worth(expert: nn.Linear, mine: Tensor, x: Tensor, value: Tensor) -> Tensor:
    """What an expert contributes: its result, weighed, for the tokens that chose it."""
    return (expert(x) * value * mine[:, None]).sum()


def sequential(experts: nn.ModuleList):
    def step(x: Tensor, value: Tensor, choice: Tensor) -> None:
        total = sum(worth(expert, choice == number, x, value) for number, expert in enumerate(experts))
        (total / RANKS).backward()  # the mean of the ranks' losses

    return step


def check(*, broken: bool = False) -> tt.Report:
    rows = TOKENS // RANKS

    def build(rank: int):
        mesh = init_device_mesh("cpu", (COPIES, EXPERTS), mesh_dim_names=("copy", "ep"))
        expert = nn.Linear(WIDTH, WIDTH, bias=False)

        def gathered(part: Tensor) -> Tensor:
            whole = part.new_empty(EXPERTS * rows, *part.shape[1:])
            dist.all_gather_into_tensor(whole, part, group=mesh["ep"].get_group())
            return whole

        def step(x: Tensor, value: Tensor, choice: Tensor) -> None:
            worth(expert, gathered(choice) == rank % EXPERTS, gathered(x), gathered(value)).backward()
            dist.all_reduce(expert.weight.grad, group=mesh["copy"].get_group())
            expert.weight.grad.div_(COPIES if broken else RANKS)

        return step, (X[:rows], VALUE[:rows], CHOICE[:rows])

    def copies(number: int, name: str) -> dict[str, object]:
        """Expert ``number`` lives on two ranks."""
        first, second = (f'rank({number + copy * EXPERTS}, "{name}")' for copy in range(COPIES))
        return {"relation": first, "equal": [f"{first} == {second}"]}

    experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(EXPERTS))
    inputs: dict[str, object] = {key: ["Shard(0)", "Shard(0)"] for key in ("x", "value", "choice")}
    inputs |= {f"{e}.weight": copies(e, "weight") for e in range(EXPERTS)}
    return tt.refine(
        tt.capture(sequential(experts), (X, VALUE, CHOICE)),
        tt.capture_ranks(build, RANKS, mesh={"copy": COPIES, "ep": EXPERTS}),
        inputs=inputs,
        outputs={f"grad {e}.weight": copies(e, "grad weight") for e in range(EXPERTS)},
    )


if __name__ == "__main__":
    print(check().verdict.value, "as it should be\n")
    print(check(broken=True))
