"""Operators that PyTorch runs as one kernel, or compiles, traced as what they are defined to be."""

# pyright: basic
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from tantamount.capture.torch.block_masks import BlockMasks
from tantamount.capture.torch.placements import local_part

__all__ = ["CHECKED", "as_defined"]


@contextmanager
def as_defined() -> Iterator[None]:
    """Within it ``flex_attention`` is PyTorch's own mathematical definition, its functions applied to every score: its
    gradients are those of the operators that it is made of; blocks that kernels skip must be those of its functions
    (:mod:`tantamount.capture.torch.block_masks`). Recurrent layers are their cells, one after the other."""
    flex: Any = sys.modules.get("torch.nn.attention.flex_attention")
    with torch.backends.mkldnn.flags(enabled=False):
        if flex is None:  # nobody can call it
            yield
            return
        masks = BlockMasks()
        replaced = {**_REPLACED, "flex_attention_hop": _defined(masks)}
        replaced |= {name: masks.recorded(getattr(flex, name)) for name in _MAKERS}
        before = {name: getattr(flex, name) for name in replaced}
        for name, value in replaced.items():
            setattr(flex, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(flex, name, value)


def _one_hot(*args: Any, **kwargs: Any) -> Tensor:
    """``one_hot``, which eager stops at classes out of range. A trace records comparisons only, which give zeros there:
    so the classes are looked up, too, in a table that nothing uses."""
    tensor, *rest = (*args, *(value for name, value in kwargs.items() if name != "num_classes"))
    number = kwargs.get("num_classes", rest[0] if rest else -1)
    if isinstance(number, int) and number > 0:
        torch.ops.aten.embedding.default(torch.zeros(number, 1), local_part(tensor)[0])
    return torch.ops.aten.one_hot.default(tensor, number)


_torch: Any = torch  # PyTorch's types do not know all that programs call
_aten = torch.ops.aten
# by what PyTorch tells modes of
CHECKED = dict.fromkeys((_torch._C._nn.one_hot, _aten.one_hot, _aten.one_hot.default), _one_hot)


def _defined(masks: BlockMasks) -> Callable[..., Any]:
    """The mathematical definition, of block masks that it is the meaning of."""

    def attention(
        query: Tensor, key: Tensor, value: Tensor, score: Any, mask: Any, scale: float, options: Any, *rest: Any
    ) -> Any:
        masks.check(query, key, mask, options)
        module = sys.modules["torch._higher_order_ops.flex_attention"]
        return module.math_attention(query, key, value, score, mask, scale, options, *rest)

    return attention


def _any_device(*_: Any, **__: Any) -> None:
    """PyTorch has no kernel for gradients on CPUs; the definition needs none."""


_MAKERS = ("_create_sparse_block_from_block_mask", "_create_empty_block_mask")
_REPLACED: dict[str, Any] = {
    "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True,  # else the call is compiled
    "_validate_device": _any_device,
}
