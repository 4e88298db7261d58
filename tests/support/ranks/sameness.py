"""What a program decides by which object a tensor is, or by where its memory lies."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from support.ranks.cases import Built, batch, case, linear

SAMENESS = "tensors as objects"


class Kept:
    """The tensors of a layer and of its optimizer, in every place that a program may keep them."""

    def __init__(self) -> None:
        self.layer = linear()
        self.layer.register_buffer("scale", torch.tensor([2.0, 3.0]))
        self.layer.again = self.layer.weight
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=0.5, momentum=0.5)
        weight, bias = self.layer.weight, self.layer.bias
        self.listed, self.tupled, self.grouped = [weight, bias], (bias,), {weight, bias}
        self.by_tensor = {weight: 2.0, bias: 3.0}
        self.by_number = {id(weight): 4.0, id(bias): 5.0}
        self.buffers = dict(self.layer.named_buffers())
        self.reference, self.references = weakref.ref(weight), WeakTensorKeyDictionary({bias: 7.0})


def told(name: str, **options: Any) -> Callable[[Any], Any]:
    """Add a question: the layer's output is multiplied by 2 if the answer is true, by a number if it is one."""

    def add(ask: Callable[[Kept], float]) -> Any:
        @case(SAMENESS, name, **options)
        def build(rank: int) -> Built:
            kept = Kept()
            question = ask

            def step(x: Tensor) -> None:
                answer = question(kept)
                (kept.layer(x) * (2.0 if answer is True else 1.0 if answer is False else answer)).sum().backward()
                kept.optimizer.step()
                kept.optimizer.zero_grad()

            return Built(step, (batch(rank),), {"": kept.layer}, (kept.optimizer,))

        return ask

    return add


told("is, of a list")(lambda kept: kept.listed[0] is kept.layer.weight)
told("is not, of a tuple")(lambda kept: kept.tupled[0] is not kept.layer.weight)
told("is, tied")(lambda kept: kept.layer.again is kept.listed[0])
told("is, of param_groups")(lambda kept: kept.optimizer.param_groups[0]["params"][1] is kept.layer.bias)
told("is, of a dict of buffers")(lambda kept: kept.buffers["scale"] is kept.layer.scale)
told("id() as a key")(lambda kept: kept.by_number[id(kept.layer.bias)])
told("hash()")(lambda kept: hash(kept.layer.weight) == id(kept.listed[0]))
told("key of a dict")(lambda kept: kept.by_tensor[next(kept.layer.parameters())])
told("member of a set")(lambda kept: kept.layer.bias in kept.grouped and kept.layer.scale not in kept.grouped)
told("in, of a list, by identity")(lambda kept: any(p is kept.layer.bias for p in kept.listed[:1]))
told("in, where it is the first")(lambda kept: kept.layer.weight in kept.listed)
told("weakref.ref")(lambda kept: kept.reference() is kept.layer.weight)
told("WeakTensorKeyDictionary")(lambda kept: kept.references[kept.layer.bias])
told("key of the optimizer's state")(lambda kept: kept.layer.weight in kept.optimizer.state)
told("index of the parameter")(lambda kept: 1.0 + [id(p) for p in kept.listed].index(id(kept.layer.bias)))
told("isinstance nn.Parameter")(lambda kept: [isinstance(p, nn.Parameter) for p in (*kept.listed, kept.layer.scale)][2])

told("_base, of a parameter and of its view")(
    lambda kept: kept.layer.weight._base is None and kept.layer.weight[0]._base is kept.listed[0]
)

for each, ask in {
    "data_ptr()": lambda kept: kept.listed[0].data_ptr() == kept.layer.weight.data_ptr(),
    "storage.data_ptr()": lambda kept: kept.layer.weight.untyped_storage().data_ptr() != 0,
    "_version": lambda kept: float(kept.layer.weight._version),
    "is_set_to": lambda kept: kept.listed[0].is_set_to(kept.layer.weight),
}.items():
    told(each, refused="capture-state")(ask)


@case(SAMENESS, "is, of an argument that a dict holds, and in a hook")
def _(rank: int) -> Built:
    layer, x = linear(), batch(rank).requires_grad_()
    held = {"x": x}

    def scale(parameter: Tensor) -> None:
        parameter.grad.mul_(3.0 if parameter is layer.weight else 5.0)

    layer.weight.register_post_accumulate_grad_hook(scale)
    layer.register_forward_hook(lambda m, args, y: y * 2 if args[0] is held["x"] else y)
    return Built(lambda y: (layer(y) ** 2).sum().backward(), (x,), {"": layer})


@case(SAMENESS, "gradient from before, kept and made zero")
def _(rank: int) -> Built:
    layer = linear()
    layer.weight.grad = torch.full((2, 3), 2.0)
    kept = layer.weight.grad

    def step(x: Tensor) -> Any:
        layer.weight.grad.zero_()
        (layer(x) ** 2).sum().backward()
        layer.weight.grad.mul_(2.0 if layer.weight.grad is kept else 3.0)
        return kept + 1

    return Built(step, (batch(rank),), {"": layer})


@case(SAMENESS, "class of its own")
def _(rank: int) -> Built:
    class Scaled(nn.Parameter):
        def twice(self) -> Tensor:
            return self * 2

    layer = linear()
    layer.weight = Scaled(layer.weight.detach())

    def step(x: Tensor) -> None:
        weight: Any = layer.weight
        (x @ (weight.twice() if isinstance(weight, Scaled) else weight).t()).sum().backward()

    return Built(step, (batch(rank),), {"": layer})


@case(SAMENESS, "another tensor with the memory of a parameter", refused="capture-state")
def _(rank: int) -> Built:
    layer = linear()
    alias = layer.weight.detach()

    def step(x: Tensor) -> Tensor:
        with torch.no_grad():
            layer.weight.mul_(2)
        return x @ alias.t()

    return Built(step, (batch(rank),), {"": layer})


@case(SAMENESS, "another tensor with a part of the memory of an argument", refused="capture-state")
def _(rank: int) -> Built:
    x = batch(rank)
    first = x[:1]

    def step(x: Tensor) -> Tensor:
        x.mul_(2)
        return x + first

    return Built(step, (x,))


@case(SAMENESS, "is_leaf of an argument that was computed", refused="capture-state")
def _(rank: int) -> Built:
    return Built(lambda x: x * 2 if x.is_leaf else x + 0, (batch(rank).requires_grad_() * 2,))


@case(SAMENESS, "_base of an argument that is a view", refused="capture-state")
def _(rank: int) -> Built:
    return Built(lambda x: x * 2 if x._base is None else x + 0, (batch(rank, 4, 3)[:2],))
