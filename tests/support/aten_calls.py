"""The ATen calls that a piece of PyTorch code makes, with the operands and results of each, as eager executes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = ["Call", "called", "recorded"]


@dataclass(frozen=True)
class Call:
    """``overload(*args, **kwargs)`` gave ``result``. Operands are as they were before the call."""

    overload: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any

    @property
    def target(self) -> str:
        return str(self.overload)

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [x for x in pytree.tree_leaves((self.args, dict(self.kwargs))) if isinstance(x, torch.Tensor)]

    def __str__(self) -> str:
        parts = [_shown(item) for item in self.args] + [f"{key}={_shown(item)}" for key, item in self.kwargs.items()]
        return f"{self.target}({', '.join(parts)})"


def _shown(item: Any) -> str:
    if isinstance(item, torch.Tensor):
        return f"{str(item.dtype).removeprefix('torch.')}{list(item.shape)}"
    if isinstance(item, (list, tuple)):
        return f"[{', '.join(map(_shown, item))}]"
    return str(item)


def called(overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """The call made, with copies of the operands where the operator overwrites some."""
    kept: tuple[Any, dict[str, Any]] = (tuple(args), dict(kwargs))
    if overload._schema.is_mutable:
        kept = pytree.tree_map_only(torch.Tensor, torch.clone, kept)
    return Call(overload, kept[0], kept[1], overload(*args, **kwargs))


class _Decomposed(TorchDispatchMode):
    """Every operator that is left below autograd, of forward and backward: what ``make_fx`` would write down."""

    def __init__(self, each: Callable[[Call], None]) -> None:
        super().__init__()
        self.each = each

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = called(func, args, kwargs or {})
        self.each(call)
        return call.result


class _Composite(TorchFunctionMode):
    """Every operator that PyTorch would decompose, as the code calls it: what ``torch.export`` keeps."""

    def __init__(self, each: Callable[[Call], None]) -> None:
        super().__init__()
        self.each = each

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        overload = composite(getattr(func, "__name__", ""), args, kwargs or {})
        if overload is not None:
            with torch._C.DisableTorchFunction(), torch.no_grad(), _disable_current_modes():
                copies = pytree.tree_map_only(torch.Tensor, lambda x: x.detach().clone(), (args, kwargs or {}))
                try:
                    call: Call | None = called(overload, *_as_recorded(overload, *copies))
                except (
                    RuntimeError,
                    TypeError,
                    IndexError,
                    KeyError,
                    NotImplementedError,
                ):  # the code is about to see it, too
                    call = None
                if call is not None:
                    self.each(call)
        return func(*args, **(kwargs or {}))


def composite(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch._ops.OpOverload | None:
    """The overload of ``aten.<name>`` that takes these arguments, if it is one that PyTorch decomposes."""
    packet = getattr(torch.ops.aten, name, None) if name and not name.startswith("__") else None
    if packet is None or not isinstance(packet, torch._ops.OpOverloadPacket):
        return None
    try:
        found = torch._C._jit_resolve_packet(f"aten::{name}", *args, **kwargs)
        overload = getattr(packet, found or "default")
        decomposed = overload.has_kernel_for_dispatch_key("CompositeImplicitAutograd")
    except (RuntimeError, AttributeError, TypeError):
        return None
    return overload if decomposed else None


def _as_recorded(
    overload: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as a graph has them: one number where a list is meant is a list."""

    def listed(argument: Any, value: Any) -> Any:
        wanted = str(argument.type).removeprefix("Optional[").removesuffix("]")
        return [value] if wanted == "List[int" and isinstance(value, int) else value

    schema = overload._schema.arguments
    by_name = {argument.name: argument for argument in schema}
    positional = tuple(listed(argument, value) for argument, value in zip(schema, args, strict=False))
    return positional, {key: listed(by_name[key], value) for key, value in kwargs.items()}


def recorded(run: Callable[[], Any], each: Callable[[Call], None]) -> Any:
    """What ``run()`` returns; ``each`` is told every call that it makes, composite operators as a whole and again as
    what they decompose into."""
    with _Composite(each), _Decomposed(each):
        return run()
