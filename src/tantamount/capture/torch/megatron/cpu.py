"""Substitutes for what Megatron-Core takes from CUDA while a model is built and traced, on a machine that has none.

Nothing here computes anything that a model computes: it says which device is the current one, and which generator
random numbers are drawn from. Three things are replaced: ``WrappedTorchNorm`` refuses sequence parallelism, which its
counterparts of Apex and Transformer Engine support by marking their parameters, and so does the one here; routers do
not move their weights; and what is kept on the GPU for all models is made anew: the default causal mask, the angles of
rotary embeddings, and memory for results, which nothing is read from.
"""

# pyright: basic
from __future__ import annotations

import copy
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

__all__ = ["without_cuda"]


@contextmanager
def without_cuda() -> Generator[None]:
    """Megatron-Core finds the CPU where it looks for the GPU."""
    cpu = torch.device("cpu")
    with ExitStack() as stack:
        for owner, name, value in (
            (torch.cuda, "current_device", lambda: cpu),
            (torch.cuda, "Stream", _Stream),
            (torch.cuda, "Event", _Stream),
            (torch.cuda, "current_stream", _Stream),
            (torch.cuda, "stream", lambda _: nullcontext()),
            (torch.cuda, "synchronize", lambda *_: None),
            (torch.cuda.nvtx, "range_push", lambda *_: None),
            (torch.cuda.nvtx, "range_pop", lambda *_: None),
        ):
            stack.enter_context(patch.object(owner, name, value))
        stack.enter_context(_OnCpu())
        fused_softmax = import_module("megatron.core.fusions.fused_softmax")
        tracker = import_module("megatron.core.tensor_parallel.random").CudaRNGStatesTracker
        wrapped = import_module("megatron.core.transformer.torch_norm").WrappedTorchNorm
        moe_utils = import_module("megatron.core.transformer.moe.moe_utils")
        buffers = import_module("megatron.core.utils").GlobalMemoryBuffer
        rotary = import_module("megatron.core.models.common.embeddings.rotary_pos_embedding").RotaryEmbedding
        router = import_module("megatron.core.transformer.moe.router").Router
        mask = fused_softmax.get_default_causal_mask
        for owner, name, value in (
            (tracker, "fork", lambda *_, **__: nullcontext()),
            (buffers, "get_tensor", _new_memory),
            (wrapped, "__new__", _norm(wrapped.__new__)),
            (router, "gating", _gating),
            (fused_softmax, "get_default_causal_mask", getattr(mask, "__wrapped__", mask)),
            (rotary, "forward", getattr(rotary.forward, "__wrapped__", rotary.forward)),
        ):
            stack.enter_context(patch.object(owner, name, value))
        # a tensor of the same numbers that is no view: made by rebinding .data, which a trace cannot follow
        utils = import_module("megatron.core.utils")
        stack.enter_context(patch.object(utils, "_kernel_make_viewless_tensor", lambda inp, _: inp.clone()))
        # a warning that is given once
        linear = import_module("megatron.core.tensor_parallel.layers").linear_with_grad_accumulation_and_async_allreduce
        stack.enter_context(patch.object(linear, "warned", True, create=True))
        # read where Transformer Engine is absent, and not defined there
        stack.enter_context(patch.object(moe_utils, "te_general_gemm", None, create=True))
        yield


def _gating(self: Any, x: Tensor) -> Tensor:
    """The logits of a router, as ``Router.gating`` computes them once its weights are on the device."""
    product = import_module("megatron.core.transformer.moe.moe_utils").router_gating_linear
    dtype = {"fp32": torch.float32, "fp64": torch.float64}.get(self.config.moe_router_dtype, x.dtype)
    return product(x, self.weight, self.bias, dtype)


def _new_memory(_: Any, tensor_shape: Any, dtype: torch.dtype, name: str, *more: Any, **options: Any) -> Tensor:
    """Memory for results: that of an earlier call would be a tensor which that call made."""
    return torch.empty(tensor_shape, dtype=dtype)


class _Stream:
    """A queue of work in which nothing ever waits."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def wait_stream(self, *_: Any) -> None: ...

    def wait_event(self, *_: Any) -> None: ...

    def record_event(self, *_: Any) -> _Stream:
        return self

    def synchronize(self) -> None: ...


class _OnCpu(TorchFunctionMode):
    """Calls that name the device ``"cuda"`` mean the CPU. And numbers that the program itself has put into a tensor can
    be read from it: how many tokens each expert gets, if that is fixed."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, tuple[Tensor, int, list[int]]] = {}  # numbers in a tensor, while it has this version

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.cuda:
            return args[0]
        numbers = self._numbers(args[0]) if func in (Tensor.item, Tensor.unbind) else []
        if numbers and func is Tensor.item:
            return numbers[0]
        kwargs = {key: _moved(value) if key == "device" else value for key, value in (kwargs or {}).items()}
        kwargs.pop("pin_memory", None)
        result = func(*(_moved(value) for value in args), **kwargs)
        if func is torch.full and result.dim() == 1 and isinstance(args[1], int):
            self._remember(result, [args[1]] * len(result))
        elif numbers:
            for part, number in zip(result, numbers, strict=True):
                self._remember(part, [number])
        return result

    def _remember(self, tensor: Tensor, numbers: list[int]) -> None:
        self._known[id(tensor)] = tensor, tensor._version, numbers

    def _numbers(self, tensor: Tensor) -> list[int]:
        _, version, numbers = self._known.get(id(tensor), (None, -1, list[int]()))
        return numbers if version == tensor._version else []


def _moved(value: Any) -> Any:
    named = value == "cuda" if isinstance(value, str) else isinstance(value, torch.device) and value.type == "cuda"
    return torch.device("cpu") if named else value


def _norm(original: Any) -> staticmethod[Any, nn.Module]:
    """The same norm, with its parameters marked as Megatron's other norms mark theirs."""

    def build(cls: type, config: Any, *args: Any, **kwargs: Any) -> nn.Module:
        plain = copy.copy(config)
        plain.sequence_parallel = False
        norm = original(cls, plain, *args, **kwargs)
        for parameter in norm.parameters():
            parameter.sequence_parallel = config.sequence_parallel
        return norm

    return staticmethod(build)
