"""ZeRO stage 1 by hand: every rank has all parameters, but only its part of the optimizer's state.

The step reduces and scatters the gradients, updates the rank's shard of every parameter with AdamW (or SGD), and
gathers the new parameters. Parameters are replicated before and after; the optimizer's state is sharded. The broken
twin updates with its gradient and its state the shard of its neighbour.

    python examples/zero1.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, WIDTH, BATCH = 2, 8, 4
OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.1),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, weight_decay=0.1),
}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x)))


class Shards(nn.Module):
    """What the optimizer of a rank updates: the rows of every parameter that are the rank's."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        for layer, module in model.named_children():
            self.add_module(layer, nn.Module())
            for name, parameter in module.named_parameters():
                rows = nn.Parameter(parameter.detach().chunk(RANKS)[0].clone())
                getattr(self, layer).register_parameter(name, rows)


def training(model: nn.Module, optimizer: torch.optim.Optimizer):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


def ranks_training(model: nn.Module, shards: nn.Module, optimizer: torch.optim.Optimizer, owner: int):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        with torch.no_grad():
            pairs = [(p, shards.get_parameter(name)) for name, p in model.named_parameters()]
            for parameter, shard in pairs:
                shard.grad = torch.empty_like(shard)
                dist.reduce_scatter_tensor(shard.grad, parameter.grad, op=dist.ReduceOp.AVG)
                shard.copy_(parameter.chunk(RANKS)[owner])
            optimizer.step()
            for parameter, shard in pairs:
                dist.all_gather_into_tensor(parameter, shard)
        return loss

    return step


def check(*, broken: bool = False, optimizer: str = "adamw") -> tt.Report:
    def batch(size: int) -> tuple[Tensor, Tensor]:
        return torch.randn(size, WIDTH), torch.randn(size, WIDTH)

    new_optimizer = OPTIMIZERS[optimizer]
    sequential = Model()

    def build(rank: int):
        model = Model()
        shards = Shards(model)
        owner = (rank + 1) % RANKS if broken else rank
        step = ranks_training(model, shards, new_optimizer(shards.parameters()), owner)
        return step, batch(BATCH // RANKS), {"modules": {"": model, "shards": shards}}

    inputs = {"x": "Shard(0)", "target": "Shard(0)"}
    outputs = {
        "output": 'Partial("avg")',
        "grad *": 'Partial("avg")',
    }  # backward() leaves the gradient of a rank's part
    if optimizer == "adamw":  # the number of the step is the same everywhere
        step = {"name": "optimizer:shards.*.step", "placement": "Replicate()"}
        inputs["optimizer:*.step"], outputs["new optimizer:*.step"] = step, {**step, "name": f"new {step['name']}"}
    inputs["optimizer:*"] = {"name": "optimizer:shards.*", "placement": "Shard(0)"}  # all else is about the rank's rows
    outputs["new optimizer:*"] = {"name": "new optimizer:shards.*", "placement": "Shard(0)"}
    return tt.refine(
        tt.capture(training(sequential, new_optimizer(sequential.parameters())), batch(BATCH)),
        tt.capture_ranks(build, RANKS, mesh={"dp": RANKS}),
        inputs=inputs,
        outputs=outputs,
    )


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    check(optimizer="sgd").raise_if_not_proved()
    print()
    print(check(broken=True))
