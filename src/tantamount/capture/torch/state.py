"""What a program closes over: parameters, buffers and optimizer state, as named inputs of its graph.

Inside the trace, modules and optimizers see stand-ins; afterwards they are as they were.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import stateless

__all__ = ["Entry", "State", "collect"]


@dataclass(frozen=True)
class Entry:
    """One tensor of the state. ``aliases`` are the other names of the same tensor (tied weights)."""

    name: str
    tensor: Tensor
    trainable: bool
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """Modules (by the prefix of their names), optimizers, and the tensors of both in a fixed order."""

    modules: Mapping[str, nn.Module]
    optimizers: Sequence[torch.optim.Optimizer]
    entries: tuple[Entry, ...]
    of_optimizer: tuple[tuple[int, Tensor, str], ...]  # which optimizer, which parameter's state, its key

    def names(self) -> dict[int, str]:
        """The name of every tensor of the state by identity."""
        return {id(entry.tensor): entry.name for entry in self.entries}

    @contextmanager
    def replaced(self, tensors: Mapping[str, Tensor]) -> Generator[None]:
        """Modules and optimizers with ``tensors`` (by name) in place of their own."""
        with ExitStack() as stack:
            for prefix, module in self.modules.items():
                own = {name.removeprefix(prefix): tensor for name, tensor in self._all(tensors, prefix)}
                stack.enter_context(stateless._reparametrize_module(module, own))
            stand_in = {id(entry.tensor): tensors[entry.name] for entry in self.entries}
            for optimizer in self.optimizers:
                stack.enter_context(_swapped(optimizer, stand_in))
            yield

    def _all(self, tensors: Mapping[str, Tensor], prefix: str) -> Iterator[tuple[str, Tensor]]:
        state = {id(tensor) for _, tensor, _ in self.of_optimizer}
        for entry in self.entries:
            if id(entry.tensor) in state and not entry.trainable:
                continue
            for name in (entry.name, *entry.aliases):
                if name.startswith(prefix) and not name.startswith(_OPTIMIZER):
                    yield name, tensors[entry.name]


_OPTIMIZER = "optimizer:"


def collect(modules: Mapping[str, nn.Module], optimizers: Sequence[torch.optim.Optimizer]) -> State:
    """The state of modules and optimizers. Tied weights are one entry, named as the module names them first."""
    found: dict[int, tuple[str, Tensor, bool, list[str]]] = {}
    for prefix, module in modules.items():
        named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
        for name, tensor in named:
            full = prefix + name
            if id(tensor) in found:
                found[id(tensor)][3].append(full)
            else:
                trainable = isinstance(tensor, nn.Parameter) and tensor.requires_grad
                found[id(tensor)] = (full, tensor, trainable, [])
    names = {key: name for key, (name, *_) in found.items()}
    keys: list[tuple[int, Tensor, str]] = []
    for k, optimizer in enumerate(optimizers):
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, Tensor) and id(value) not in found:
                    owner = names.get(id(parameter), f"parameter {len(keys)}")
                    label = _OPTIMIZER if k == 0 else f"{_OPTIMIZER}{k}:"
                    found[id(value)] = (f"{label}{owner}.{key}", value, False, [])
                    keys.append((k, parameter, key))
    entries = tuple(Entry(name, tensor, trainable, tuple(rest)) for name, tensor, trainable, rest in found.values())
    return State(modules, tuple(optimizers), entries, tuple(keys))


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
