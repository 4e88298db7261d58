"""``torch.bincount`` with a ``minlength``, recorded as counts of so many numbers.

Its result is longer where an element is larger, so its size is one that data decide, which nobody means who gives a
``minlength``: tokens are counted for every expert. What is recorded has ``minlength`` elements. A proof has to show of
both programs that no element is larger: of a specification it is not assumed.
"""

# pyright: basic
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Counts"]

aten = torch.ops.aten


@torch.library.custom_op("tantamount::counts", mutates_args=())
def _counts(x: Tensor, weights: Tensor | None, minlength: int) -> Tensor:
    return torch.bincount(x, weights, minlength)[:minlength].clone()


@_counts.register_fake
def _(x: Tensor, weights: Tensor | None, minlength: int) -> Tensor:
    return x.new_empty(minlength, dtype=torch.int64 if weights is None else weights.dtype)


class Counts(TorchDispatchMode):
    """To be entered before what notes the origin of nodes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if func is not aten.bincount.default:
            return func(*args, **given)
        x, weights, length = _arguments(*args, **given)
        unknown = length < 1 or x.dim() != 1 or type(x.shape[0]) is not int
        if unknown or x.dtype not in (torch.int32, torch.int64) or (weights is not None and weights.shape != x.shape):
            return func(*args, **given)
        if weights is not None and weights.dtype not in (torch.float32, torch.float64):
            weights = weights.to(torch.float64)
        return torch.ops.tantamount.counts(x, weights, length)


def _arguments(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> tuple[Tensor, Tensor | None, int]:
    return self, weights, minlength
