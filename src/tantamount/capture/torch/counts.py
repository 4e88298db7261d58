"""``torch.bincount`` with a ``minlength``, recorded as sums at so many places.

Its result is longer where an element is larger, so its size is one that data decide, which nobody means who gives a
``minlength``: tokens are counted for every expert. What is recorded is ``zeros(minlength).scatter_add(0, x, 1)``. That
the elements are below ``minlength`` is, as of every index, an obligation of an implementation and an assumption about a
specification that is printed (``index-range``).
"""

# pyright: basic
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Counts"]

aten = torch.ops.aten


class Counts(TorchDispatchMode):
    """To be entered before what notes the origin of nodes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if func is not aten.bincount.default:
            return func(*args, **given)
        x, weights, length = _arguments(*args, **given)
        if length < 1 or x.dim() != 1 or (weights is not None and weights.shape != x.shape):
            return func(*args, **given)
        if weights is None:
            weights = torch.ones_like(x, dtype=torch.int64)
        elif weights.dtype not in (torch.float32, torch.float64):
            weights = weights.to(torch.float64)
        places = torch.zeros(length, dtype=weights.dtype, device=x.device)
        return places.scatter_add(0, x.to(torch.int64), weights)


def _arguments(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> tuple[Tensor, Tensor | None, int]:
    return self, weights, minlength
