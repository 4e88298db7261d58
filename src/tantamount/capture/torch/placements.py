"""DTensors as what a graph of one rank knows: a local tensor, and where it lies on the mesh."""

# pyright: basic
from __future__ import annotations

import functools
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor

__all__ = ["Layout", "index_arithmetic_outside", "local_part", "rewrapped"]


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


@contextmanager
def index_arithmetic_outside() -> Generator[None]:
    """Strided shards compute their indices with tensors; inside a trace that would be part of the program."""
    if not dist.is_available():
        yield
        return
    from torch.distributed.tensor.placement_types import _StridedShard
    from torch.utils._python_dispatch import _disable_current_modes

    original = _StridedShard.__dict__["local_shard_size_and_offset"]

    @functools.wraps(original)
    def outside(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return original(*args, **kwargs)

    _StridedShard.local_shard_size_and_offset = outside
    try:
        yield
    finally:
        _StridedShard.local_shard_size_and_offset = original
