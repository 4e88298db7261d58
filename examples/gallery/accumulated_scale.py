"""Gradient accumulation that rescales what it has already scaled.

Gradients of two steps of two micro-batches each are accumulated. A schedule that divides the whole buffer by the
number of micro-batches after every step divides the first step's gradients twice. Nothing looks wrong: the older step
just counts half.

Seen in torchtitan (#1732); DeepSpeed had a variant in which every pipeline stage scales again (#8152).

    python examples/gallery/accumulated_scale.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import tantamount as tt

STEPS, MICRO = 2, 2
X, WANTED = torch.empty(8, 6), torch.empty(8, 3)


def loss_of(model: nn.Module, x: Tensor, wanted: Tensor) -> Tensor:
    return (model(x) - wanted).square().mean()


def whole(model: nn.Module):
    def step(x: Tensor, wanted: Tensor) -> None:
        loss_of(model, x, wanted).backward()

    return step


def accumulated(model: nn.Module, *, broken: bool):
    def step(x: Tensor, wanted: Tensor) -> None:
        for xs, targets in zip(x.chunk(STEPS), wanted.chunk(STEPS), strict=True):
            for x_part, target in zip(xs.chunk(MICRO), targets.chunk(MICRO), strict=True):
                scale = STEPS if broken else STEPS * MICRO
                (loss_of(model, x_part, target) / scale).backward()
            if broken:
                for parameter in model.parameters():
                    parameter.grad.div_(MICRO)

    return step


def check(*, broken: bool = False) -> tt.Report:
    return tt.refine(
        tt.capture(whole(nn.Linear(6, 3)), (X, WANTED)),
        tt.capture(accumulated(nn.Linear(6, 3), broken=broken), (X, WANTED)),
    )


if __name__ == "__main__":
    print(check().verdict.value, "as it should be\n")
    print(check(broken=True))
