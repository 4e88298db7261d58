"""Attention of DTensors on CPUs: PyTorch can shard the accelerators' kernels, but not the CPU's."""

# pyright: basic
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode

__all__ = ["ShardedAttention"]


# by itself: torch.nn.functional's name for it is replaced while context parallelism is on
_ATTENTION: Any = torch._C._nn.scaled_dot_product_attention  # pyright: ignore[reportAttributeAccessIssue]


class ShardedAttention(TorchFunctionMode):
    """Runs attention of DTensors that are on a CPU with the flash-attention kernel of accelerators: it has a sharding
    rule and, on fake tensors, results; both kernels compute the same."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is _ATTENTION and _is_sharded(args):
            found = _flash(*args, **kwargs)
            return func(*args, **kwargs) if found is None else found
        return func(*args, **kwargs)


def _is_sharded(args: Any) -> bool:
    if not dist.is_available() or not args:
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(args[0], DTensor) and args[0].device.type == "cpu"


def _flash(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """``None`` for what the kernel does not do."""
    if attn_mask is not None or enable_gqa or query.dim() != 4:
        return None
    results = torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, dropout_p, is_causal, False, scale=scale
    )
    return results[0]
