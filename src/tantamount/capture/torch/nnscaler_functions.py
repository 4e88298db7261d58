"""The functions of nnScaler's runtime that generated segments call: what each computes, as its source says."""

# pyright: basic
from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["RUNTIME"]


def _multiref(tensor: Tensor, times: int) -> Any:
    return tensor if times == 1 else (tensor,) * times


def _embedding(input: Tensor, weight: Tensor, padding_idx: int | None, start: int, stop: int) -> Tensor:  # noqa: A002
    """Rows of a part of a table; tokens of other parts have zeros."""
    if stop - start != weight.shape[0]:
        raise ValueError(f"a table of {weight.shape[0]} rows for tokens {start} to {stop}")
    padding = padding_idx - start if padding_idx is not None and start <= padding_idx < stop else None
    outside = (input < start) | (input >= stop)
    rows = F.embedding((input.long() - start).masked_fill(outside, 0), weight, padding)
    return rows.masked_fill(outside.unsqueeze(-1), 0.0)


def _dropout(input: Tensor, p: float = 0.5, inplace: bool = False) -> Tensor:  # noqa: A002
    if p != 0:
        raise ValueError(f"nndropout with p={p}: what it draws is not followed")
    return input


def _convolved(dimensions: int) -> Callable[..., Tensor]:
    """nnScaler's convolution in so many dimensions, which pads by itself."""

    def run(
        input: Tensor,  # noqa: A002
        weight: Tensor,
        bias: Any,
        stride: Any,
        padding: Sequence[int],
        dilation: Any,
        groups: int = 1,
    ) -> Tensor:
        pads = list(padding)
        half = len(pads) // 2
        pads = pads[half:] + pads[:half] if dimensions == 2 else [pads[-1 - k // 2] for k in range(2 * len(pads))]
        padded = F.pad(input, pads, "constant", 0)
        made = F.conv2d if dimensions == 2 else F.conv3d
        return made(padded, weight, bias, stride=stride, dilation=dilation, groups=groups)

    return run


def _created(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of nnScaler's that makes a tensor from numbers."""

    def run(*args: Any, requires_grad: bool = False, pin_memory: bool = False, **kwargs: Any) -> Tensor:
        if requires_grad:
            raise ValueError("a tensor that requires a gradient and is no parameter")
        return make(*args, **kwargs)

    return run


def _set_item(tensor: Tensor, *rest: Any) -> Tensor:
    *where, value = rest
    tensor[where[0] if len(where) == 1 else tuple(where)] = value
    return tensor


def _chosen(condition: Any, first: Any, second: Any) -> Any:
    if not isinstance(condition, bool):
        raise ValueError(f"a choice by a {type(condition).__name__}")
    return first if condition else second


def _accumulated(*tensors: Tensor) -> Tensor:
    return functools.reduce(operator.add, tensors)


def _layer_norm(input: Tensor, weight: Any, bias: Any, normalized_shape: Any, eps: float = 1e-05) -> Tensor:  # noqa: A002
    return F.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


RUNTIME: Mapping[str, Callable[..., Any]] = {
    "identity": lambda tensor: tensor,
    "anchor": lambda name: None,
    "multiref": _multiref,
    "accum": _accumulated,
    "fullslice": lambda input, *slicers: input[tuple(slicers)],  # noqa: A006
    "embedding": _embedding,
    "layer_norm": _layer_norm,
    "to": lambda tensor, dtype_or_device: (
        tensor.to(dtype_or_device) if isinstance(dtype_or_device, torch.dtype) else tensor
    ),
    "index_select": lambda input, index, dim: torch.index_select(input, dim, index),  # noqa: A006
    "einsum": lambda *operands, equation: torch.einsum(equation, *operands),
    "stack": lambda *tensors, dim=0: torch.stack(tensors, dim),
    "cat": lambda *tensors, dim=0: torch.cat(tensors, dim),
    "ifexpr": _chosen,
    "print_time": lambda content: None,
    "nndropout": _dropout,
    "conv2d": _convolved(2),
    "conv3d": _convolved(3),
    "setitem": _set_item,
    "arange": _created(torch.arange),
    "linspace": _created(torch.linspace),
    "tensor": _created(torch.tensor),
    "zeros": _created(torch.zeros),
    "ones": _created(torch.ones),
    "full": _created(torch.full),
}
