"""What a program closes over: parameters, buffers and optimizer state, as named inputs of its graph.

Inside the trace, modules and optimizers see stand-ins; afterwards they are as they were.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import stateless

__all__ = ["Entry", "State", "collect", "digest"]

_OPTIMIZER = "optimizer:"


def digest(tensor: Tensor) -> str | None:
    """A digest of a tensor's numbers; ``None`` where they are not known (DTensors, fake and meta tensors)."""
    if type(tensor) is not Tensor or tensor.device.type == "meta":
        return None
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    numbers = tensor.detach().cpu().to(torch.float64 if tensor.is_floating_point() else torch.int64)
    return sha256(numbers.contiguous().numpy().tobytes()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """One tensor of the state. ``aliases`` are the other names of the same tensor (tied weights)."""

    name: str
    tensor: Tensor
    trainable: bool
    aliases: tuple[str, ...] = ()

    @property
    def computed(self) -> bool:
        """Whether it is a buffer: programs compute its value where they are built, while parameters may be anything."""
        return not isinstance(self.tensor, nn.Parameter) and not self.name.startswith(_OPTIMIZER)


@dataclass(frozen=True)
class State:
    """Modules (by the prefix of their names), optimizers, and the tensors of both in a fixed order."""

    modules: Mapping[str, nn.Module]
    optimizers: Sequence[torch.optim.Optimizer]
    entries: tuple[Entry, ...]

    def names(self) -> dict[int, str]:
        """The name of every tensor of the state by identity."""
        return {id(entry.tensor): entry.name for entry in self.entries}

    @contextmanager
    def replaced(self, tensors: Mapping[str, Tensor]) -> Generator[None]:
        """Modules and optimizers with ``tensors`` (by name) in place of their own."""
        with ExitStack() as stack:
            names = self.names()
            for module in self.modules.values():
                own = {name: tensors[names[id(tensor)]] for name, tensor in _tensors(module)}
                stack.enter_context(stateless._reparametrize_module(module, own))
            stand_in = {id(entry.tensor): tensors[entry.name] for entry in self.entries}
            for optimizer in self.optimizers:
                stack.enter_context(_swapped(optimizer, stand_in))
            yield


def collect(modules: Mapping[str, nn.Module], optimizers: Sequence[torch.optim.Optimizer]) -> State:
    """The state of modules and optimizers. Tied weights are one entry, named as the module names them first."""
    found: dict[int, tuple[str, Tensor, bool, list[str]]] = {}
    for prefix, module in modules.items():
        for name, tensor in _tensors(module):
            full = prefix + name
            if id(tensor) in found:
                found[id(tensor)][3].append(full)
            else:
                trainable = isinstance(tensor, nn.Parameter) and tensor.requires_grad
                found[id(tensor)] = (full, tensor, trainable, [])
    names = {key: name for key, (name, *_) in found.items()}
    for k, optimizer in enumerate(optimizers):
        _initialise(optimizer)
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, Tensor) and id(value) not in found:
                    owner = names.get(id(parameter), f"parameter {len(found)}")
                    label = _OPTIMIZER if k == 0 else f"{_OPTIMIZER}{k}:"
                    found[id(value)] = (f"{label}{owner}.{key}", value, False, [])
    entries = tuple(Entry(name, tensor, trainable, tuple(rest)) for name, tensor, trainable, rest in found.values())
    return State(modules, tuple(optimizers), entries)


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]


def _initialise(optimizer: torch.optim.Optimizer) -> None:
    """State for an optimizer that has none, so that what is captured is any step and not just the first one.

    One step with gradients of zero and a learning rate of zero leaves parameters as they are."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state or any(parameter.grad is not None for parameter in parameters):
        return
    rates = [group.get("lr") for group in optimizer.param_groups]
    try:
        for parameter in parameters:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if "lr" in group:
                group["lr"] = torch.tensor(0.0) if isinstance(rate, Tensor) else 0.0
        optimizer.step()
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            if "lr" in group:
                group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)


@contextmanager
def _swapped(optimizer: torch.optim.Optimizer, stand_in: Mapping[int, Tensor]) -> Generator[None]:
    """The optimizer over stand-ins, on the path that a trace can follow: one tensor at a time, steps as tensors."""
    groups = [dict(group) for group in optimizer.param_groups]
    state = optimizer.state
    new_state: dict[Any, dict[str, Any]] = {}
    for parameter, values in state.items():
        key = stand_in.get(id(parameter), parameter)
        new_state[key] = {k: stand_in.get(id(v), v) if isinstance(v, Tensor) else v for k, v in values.items()}
    step = optimizer.step

    def traced_step(*args: Any, **kwargs: Any) -> Any:
        before = torch.compiler._is_compiling_flag
        torch.compiler._is_compiling_flag = True  # capturable optimizers insist on CUDA otherwise
        try:
            return step(*args, **kwargs)
        finally:
            torch.compiler._is_compiling_flag = before

    try:
        for group in optimizer.param_groups:
            group["params"] = [stand_in.get(id(p), p) for p in group["params"]]
            group.update({k: v for k, v in (("capturable", True), ("foreach", False), ("fused", False)) if k in group})
        optimizer.state = type(state)(dict)
        optimizer.state.update(new_state)
        optimizer.step = traced_step
        yield
    finally:
        del optimizer.step
        optimizer.state = state
        for group, saved in zip(optimizer.param_groups, groups, strict=True):
            group.clear()
            group.update(saved)
