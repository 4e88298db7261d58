"""Numbers that Megatron-Core reads from tensors, which stay in tensors here: norms, and what is computed of them."""

# pyright: basic
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tantamount.errors import InternalError

__all__ = ["Norm", "NumbersAreTensors", "Root", "Settled", "l2_norm"]


def l2_norm(chunk: int, flag: Any, lists: list[list[Tensor]], per_tensor: bool) -> tuple[Tensor, None]:
    """The result of Apex's and Transformer Engine's kernel: the norm of all elements of all tensors."""
    squares = [(tensor * tensor).sum() for tensors in lists for tensor in tensors]
    return torch.stack(squares).sum().sqrt().reshape(1), None


class NumbersAreTensors(TorchFunctionMode):
    """A number that is read from a tensor stays in it; and Megatron is told the type that a tensor has on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.item:
            return args[0].reshape(())
        if func is Tensor.type and len(args) == 1 and not kwargs:
            return func(*args).replace("torch.", "torch.cuda.")
        return func(*args, **(kwargs or {}))


class Norm:
    """A norm whose number is not known, as ``clip_grad_by_total_norm_fp32`` uses one."""

    def __init__(self, value: Tensor) -> None:
        self.value = value

    def __add__(self, other: float) -> Norm:
        return Norm(self.value + other)

    def __rtruediv__(self, other: float) -> _Coefficient:
        return _Coefficient(other / self.value)


class Settled(Norm):
    """The norm of which it is known by what it has gradients multiplied: 1, or less."""

    def __add__(self, other: float) -> Norm:
        return self

    def __rtruediv__(self, other: float) -> _Coefficient:
        return _Coefficient(self.value, settled=True)


class Root:
    """A norm that is squared next."""

    def __init__(self, squared: Tensor) -> None:
        self.squared = squared

    def __pow__(self, exponent: float) -> Tensor:
        if exponent != 2.0:
            raise InternalError(f"a norm to the power of {exponent}")
        return self.squared.clone()


class _Coefficient:
    """A coefficient by which gradients are multiplied if it is less than 1: that is multiplying by it, or by 1 if it is
    not."""

    def __init__(self, value: Tensor, *, settled: bool = False) -> None:
        self.value = value if settled else torch.clamp(value, max=1.0)

    def __lt__(self, other: float) -> bool:
        if other != 1.0:
            raise InternalError(f"a coefficient that is compared with {other}")
        return True

    def __rmul__(self, other: Any) -> Any:
        return other * self.value
