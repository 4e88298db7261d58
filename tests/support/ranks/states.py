"""What a program changes beside gradients: buffers, parameters, memory, state of Python."""

from __future__ import annotations

import itertools
import random
from typing import Any

import torch
from torch import Tensor, nn

from support.ranks.cases import Built, batch, case, linear
from support.ranks.hooks import program

BUFFERS = "buffers"
PARAMETERS = "parameters"
GRADIENTS = "gradients"
PYTHON = "state of Python"


class Buffered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(3))
        self.layer = linear()


@case(BUFFERS, "BatchNorm in training")
def _(rank: int) -> Built:
    layer = nn.Sequential(nn.BatchNorm1d(3), linear())
    return Built(lambda x: layer(x).detach() + 0, (batch(rank, 4, 3),), {"": layer})


@case(BUFFERS, "written in place")
def _(rank: int) -> Built:
    module = Buffered()

    def step(x: Tensor) -> None:
        module.mean.mul_(0.5).add_(x.mean(0))

    return Built(step, (batch(rank),), {"": module})


@case(BUFFERS, "replaced: self.mean = ...")
def _(rank: int) -> Built:
    module = Buffered()

    def step(x: Tensor) -> Tensor:
        module.mean = module.mean * 0.5 + x.mean(0)
        return module.mean * 2

    return Built(step, (batch(rank),), {"": module})


@case(BUFFERS, "made by the call", refused="capture-state")
def _(rank: int) -> Built:
    module = Buffered()

    def step(x: Tensor) -> Tensor:
        if not hasattr(module, "last"):
            module.register_buffer("last", x * 0)
        module.last.add_(x)
        return module.last + 0

    return Built(step, (batch(rank),), {"": module})


@case(BUFFERS, "a tensor that the function closes over, written", refused="capture-state")
def _(rank: int) -> Built:
    total = torch.zeros(3)

    def step(x: Tensor) -> Tensor:
        total.add_(x.mean(0))
        return total + 0

    return Built(step, (batch(rank),))


# -------------------------------------------------------------------------------------------- parameters
def updated(name: str, **options: Any) -> Any:
    """Add an update of the parameters of a layer, which a list holds, after a backward pass."""

    def add(update: Any) -> Any:
        @case(PARAMETERS, name, **options)
        def build(rank: int) -> Built:
            layer = linear()
            parameters = list(layer.parameters())

            def step(x: Tensor) -> Any:
                (layer(x) ** 2).sum().backward()
                return update(layer, parameters, x)

            return Built(step, (batch(rank),), {"": layer})

        return update

    return add


@updated("no_grad, in place")
def _(layer: nn.Module, parameters: list[Tensor], x: Tensor) -> None:
    with torch.no_grad():
        for p in parameters:
            p -= 0.5 * p.grad


@updated("p.data.add_")
def _(layer: nn.Module, parameters: list[Tensor], x: Tensor) -> None:
    for p in parameters:
        p.data.add_(p.grad, alpha=-0.5)


@updated("p.detach().copy_")
def _(layer: nn.Module, parameters: list[Tensor], x: Tensor) -> None:
    for p in layer.parameters():
        p.detach().copy_(p - 0.5 * p.grad)


@updated("p.data = ...")
def _(layer: nn.Module, parameters: list[Tensor], x: Tensor) -> Any:
    for p in parameters:
        p.data = p.data - 0.5 * p.grad
    return layer(x).detach() + 0


@updated("p.data = other values, and back again")
def _(layer: nn.Module, parameters: list[Tensor], x: Tensor) -> Any:
    kept = [p.data for p in parameters]
    for p in parameters:
        p.data = p.data * 2
    y = layer(x).detach() + 0
    for p, data in zip(parameters, kept, strict=True):
        p.data = data
    return y, layer(x).detach() + 0


@updated("p.data = part of a flat tensor, which is then written")
def _(layer: nn.Module, parameters: list[Tensor], x: Tensor) -> Any:
    flat = torch.cat([p.data.reshape(-1) for p in parameters])
    place = 0
    for p in parameters:
        p.data = flat[place : place + p.numel()].view_as(p)
        place += p.numel()
    flat.mul_(3)
    return layer(x).detach() + 0


@updated("p.set_")
def _(layer: nn.Module, parameters: list[Tensor], x: Tensor) -> Any:
    with torch.no_grad():
        for p in parameters:
            p.set_(p - 0.5 * p.grad)
    return layer(x).detach() + 0


@updated("torch.utils.swap_tensors", refused="capture", run=False)
def _(layer: nn.Module, parameters: list[Tensor], x: Tensor) -> None:
    torch.utils.swap_tensors(layer.bias, nn.Parameter(layer.bias.detach() * 2))


@updated("p.untyped_storage().fill_", refused="capture-state", run=False)
def _(layer: nn.Module, parameters: list[Tensor], x: Tensor) -> None:
    parameters[0].untyped_storage().fill_(0)


@updated("replaced: module.weight = nn.Parameter(...)", refused="capture-state")
def _(layer: nn.Module, parameters: list[Tensor], x: Tensor) -> None:
    layer.weight = nn.Parameter(layer.weight.detach() * 2)


@updated("p.requires_grad_(False), and back again")
def _(layer: nn.Module, parameters: list[Tensor], x: Tensor) -> None:
    layer.weight.requires_grad_(False)
    (layer(x) ** 2).sum().backward()
    layer.weight.requires_grad_(True)


@case(PARAMETERS, "of no known module", refused="capture-parameter")
def _(rank: int) -> Built:
    weight = torch.ones(3, requires_grad=True)

    def step(x: Tensor) -> None:
        (x * weight).sum().backward()

    return Built(step, (batch(rank),))


@case(PARAMETERS, "through autograd.Function.apply, from a list")
def _(rank: int) -> Built:
    layer = linear()
    weights = [layer.weight]

    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            ctx.save_for_backward(x, w)
            return x @ w.t()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Any:
            x, w = ctx.saved_tensors
            return gradients[0] @ w, gradients[0].t() @ x

    def step(x: Tensor) -> None:
        Times.apply(x, weights[0]).sum().backward()

    return Built(step, (batch(rank),), {"": layer})


@case(PARAMETERS, "optimizer whose step replaces its state")
def _(rank: int) -> Built:
    class Slow(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            with torch.no_grad():
                for p in self.param_groups[0]["params"]:
                    state = self.state[p]
                    state["mean"] = 0.5 * state.get("mean", torch.zeros_like(p)) + p.grad
                    p.sub_(self.param_groups[0]["lr"] * state["mean"])

    layer = linear()
    optimizer = Slow(layer.parameters(), {"lr": 0.5})

    def step(x: Tensor) -> None:
        (layer(x) ** 2).sum().backward()
        optimizer.step()

    return Built(step, (batch(rank),), {"": layer}, (optimizer,))


@case(PARAMETERS, "optimizer that counts its steps with a number", refused="capture-state")
def _(rank: int) -> Built:
    class Counting(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            with torch.no_grad():
                for p in self.param_groups[0]["params"]:
                    self.state[p]["step"] = self.state[p].get("step", 0) + 1
                    p.sub_(p.grad / self.state[p]["step"])

    layer = linear()
    optimizer = Counting(layer.parameters(), {"lr": 0.5})

    def step(x: Tensor) -> None:
        (layer(x) ** 2).sum().backward()
        optimizer.step()

    return Built(step, (batch(rank),), {"": layer}, (optimizer,))


@case(PARAMETERS, "scheduler.step() inside", refused="capture-state")
def _(rank: int) -> Built:
    layer = linear()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step(x: Tensor) -> None:
        (layer(x) ** 2).sum().backward()
        optimizer.step()
        scheduler.step()

    return Built(step, (batch(rank),), {"": layer}, (optimizer,))


@case(PARAMETERS, "a scheduler outside")
def _(rank: int) -> Built:
    layer = linear()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    layer.scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step(x: Tensor) -> None:
        (layer(x) ** 2).sum().backward()
        optimizer.step()

    return Built(step, (batch(rank),), {"": layer}, (optimizer,))


# --------------------------------------------------------------------------------------------- gradients
def with_gradient(layer: nn.Module, rank: int) -> nn.Module:
    for parameter in layer.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)
    return layer


@case(GRADIENTS, "accumulated by two backward passes, retain_graph")
def _(rank: int) -> Built:
    layer = linear()

    def step(x: Tensor) -> None:
        loss = (layer(x) ** 2).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    return Built(step, (batch(rank),), {"": layer})


@case(GRADIENTS, "there before the call, taken away by it")
def _(rank: int) -> Built:
    layer = with_gradient(linear(), rank)

    def step(x: Tensor) -> None:
        layer.zero_grad()
        (layer(x) ** 2).sum().backward()

    return Built(step, (batch(rank),), {"": layer})


@case(GRADIENTS, "there before the call, made zero by it")
def _(rank: int) -> Built:
    layer = with_gradient(linear(), rank)

    def step(x: Tensor) -> None:
        layer.zero_grad(set_to_none=False)
        (layer(x) ** 2).sum().backward()

    return Built(step, (batch(rank),), {"": layer})


@case(GRADIENTS, "there before the call, added to", refused="capture-gradient")
def _(rank: int) -> Built:
    return program(with_gradient(linear(), rank), rank)


@case(GRADIENTS, "through an argument that was computed", refused="capture-gradient")
def _(rank: int) -> Built:
    layer = linear()
    start = batch(rank).requires_grad_()
    inner = program(layer, rank)
    return Built(inner.function, (start * 2,), {"": layer})


@case(GRADIENTS, "put there by hand, and views of one flat tensor")
def _(rank: int) -> Built:
    layer = linear()

    def step(x: Tensor) -> None:
        flat = torch.zeros(8)
        layer.weight.grad, layer.bias.grad = flat[:6].view(2, 3), flat[6:]
        (layer(x) ** 2).sum().backward()
        flat.mul_(2)

    return Built(step, (batch(rank),), {"": layer})


# -------------------------------------------------------------------------------------- state of Python
class Counter:
    total = 0


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = linear()
        self.calls = 0
        self.last: Tensor | None = None
        self.history: list[Tensor] = []
        self.mode = "train"


def python(name: str, **options: Any) -> Any:
    """Add a step of a module that keeps state of Python."""

    def add(run: Any) -> Any:
        @case(PYTHON, name, **options)
        def build(rank: int) -> Built:
            module = Stateful()
            return Built(lambda x: run(module, x), (batch(rank),), {"": module})

        return run

    return add


@python("a counter", refused="capture-state")
def _(module: Stateful, x: Tensor) -> Tensor:
    module.calls += 1
    return x if module.calls % 4 else x * 2


@python("a counter of a class", refused="capture-state")
def _(module: Stateful, x: Tensor) -> Tensor:
    Counter.total += 1
    return x * Counter.total


SETTINGS = {"scale": 1.0}


@python("a table of the module that the code is in", refused="capture-state")
def _(module: Stateful, x: Tensor) -> Tensor:
    SETTINGS["scale"] *= 2
    return x * SETTINGS["scale"]


@python("a list that grows", refused="capture-state")
def _(module: Stateful, x: Tensor) -> Tensor:
    module.history.append(x.detach())
    return x + 1


@python("an attribute that holds a tensor of the call before", refused="capture-state")
def _(module: Stateful, x: Tensor) -> Tensor:
    y = x if module.last is None else x + module.last
    module.last = y.detach()
    return y + 0


@python("an attribute that is written and never read", alone=True)
def _(module: Stateful, x: Tensor) -> Tensor:
    module.last = module.layer(x).detach()
    module.mode = "eval"
    return x * 3


@python("an attribute that the call sets first and then reads", alone=True)
def _(module: Stateful, x: Tensor) -> Tensor:
    module.last = x * 2
    module.mode = "eval"
    return module.last + (1 if module.mode == "eval" else 2)


@python("a tensor that only the first call makes", refused="capture-state")
def _(module: Stateful, x: Tensor) -> Tensor:
    if module.last is None:
        module.last = torch.ones(3)
    return x * module.last


NUMBERS = itertools.count()


@python("an iterator", refused="capture-state")
def _(module: Stateful, x: Tensor) -> Tensor:
    return x * next(NUMBERS)


@python("Python's random numbers", refused="capture-state")
def _(module: Stateful, x: Tensor) -> Tensor:
    return x if random.random() < 0.5 else x * 2


@python("an attribute of a parameter", refused="capture-state")
def _(module: Stateful, x: Tensor) -> Tensor:
    weight: Any = module.layer.weight
    weight.calls = getattr(weight, "calls", 0) + 1
    return x * weight.calls
