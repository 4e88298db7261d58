"""The programs whose graphs lie beside this file. Reading material: nothing imports it.

Two layers on one device, and the same two layers tensor-parallel: rank r has half of the columns of ``w1`` and half of
the rows of ``w2``, so what it computes from them is a partial sum.
"""

import torch
from torch import Tensor
from torch.distributed._functional_collectives import all_reduce


def specification(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    hidden = torch.relu(torch.addmm(b1, x, w1))
    return torch.mm(hidden, w2) + b2


def implementation(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    hidden = torch.relu(torch.addmm(b1, x, w1))
    total = all_reduce(torch.mm(hidden, w2), "sum", "tp")
    return total + b2


def wrong(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    hidden = torch.relu(torch.addmm(b1, x, w1))
    partial = torch.mm(hidden, w2) + b2  # every rank adds the bias, and the sum over ranks has it twice
    return all_reduce(partial, "sum", "tp")
