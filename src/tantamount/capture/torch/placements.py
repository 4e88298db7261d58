"""DTensors as what a graph of one rank knows: a local tensor, and where it lies on the mesh."""

# pyright: basic
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor

__all__ = ["Layout", "local_part", "rewrapped"]


@dataclass(frozen=True)
class Layout:
    """The specification of a DTensor: mesh, placements, global shape. Equal layouts mean the same thing."""

    spec: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The global shape."""
        return tuple(self.spec.shape)


def local_part(tensor: Tensor) -> tuple[Tensor, Layout | None]:
    """The tensor of this rank, and the layout of the whole if it is a part of one. Asynchronous results are waited
    for."""
    if dist.is_available():
        from torch.distributed._functional_collectives import AsyncCollectiveTensor
        from torch.distributed.tensor import DTensor

        if isinstance(tensor, AsyncCollectiveTensor):
            tensor = tensor.wait()
        if isinstance(tensor, DTensor):
            local, _ = local_part(tensor._local_tensor)
            return local, Layout(tensor._spec)
    return tensor, None


def rewrapped(tensor: Tensor, layout: Layout | None) -> Tensor:
    """The DTensor again."""
    if layout is None:
        return tensor
    from torch.distributed.tensor import DTensor

    return DTensor(tensor, layout.spec, requires_grad=False)
