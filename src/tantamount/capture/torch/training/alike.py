"""Modules that are the same but for the values of their tensors, so that one capture stands for all of them."""

# pyright: basic
from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["structure_of"]

_INNER = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
_OF_FILES = (  # hooks that run when weights are written and read
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, slice, range)


def structure_of(module: nn.Module) -> Hashable:
    """Everything that what a module computes may depend on, but the values of parameters and buffers: classes, shapes,
    dtypes, attributes. Modules of equal structure run the same program. An object that cannot be looked into counts as
    equal to itself alone, so modules that hold different ones are not taken for alike."""
    return _Reader(module).structure()


class _Reader:
    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.paths = {id(child): name for name, child in module.named_modules(remove_duplicate=False)}
        self.seen: dict[int, int] = {}

    def structure(self) -> Hashable:
        return tuple(
            (name, self.paths[id(child)], type(child), self._own(child))
            for name, child in self.module.named_modules(remove_duplicate=False)
        )

    def _own(self, module: nn.Module) -> Hashable:
        tensors = tuple(
            (kind, name, None if tensor is None else self._tensor(tensor))
            for kind, table in (("parameter", module._parameters), ("buffer", module._buffers))
            for name, tensor in table.items()
        )
        attributes = {key: value for key, value in vars(module).items() if key not in _INNER and key not in _OF_FILES}
        return tensors, self._table(attributes)

    def _tensor(self, tensor: Tensor) -> Hashable:
        """Type, shape and place; and which other tensor of the module it is, if weights are tied."""
        first = self.seen.setdefault(id(tensor), len(self.seen))
        marks = self._table({key: value for key, value in vars(tensor).items() if key != "_is_param"})
        return (
            type(tensor), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.requires_grad,
            tensor.device.type, first, marks,
        )  # fmt: skip

    def _table(self, table: Mapping[Any, Any]) -> Hashable:
        return tuple((self._value(key), self._value(value)) for key, value in table.items())

    def _value(self, value: Any) -> Hashable:
        if isinstance(value, _PLAIN):
            return type(value), repr(value)
        if isinstance(value, nn.Module):
            return "module", self.paths.get(id(value), id(value))
        if isinstance(value, Tensor):
            return "tensor", id(value)  # its numbers become a part of the program
        if isinstance(value, list | tuple | set | frozenset) and type(value).__module__ == "builtins":
            items = sorted(map(repr, value)) if isinstance(value, set | frozenset) else [self._value(x) for x in value]
            return type(value), tuple(items)
        if id(value) in self.seen:
            return "again", self.seen[id(value)]
        if isinstance(value, dict):
            return type(value), self._table(value)
        if isinstance(value, partial):
            return "partial", self._value(value.func), self._value(value.args), self._table(value.keywords)
        if is_dataclass(value) and not isinstance(value, type) and not callable(value):
            self.seen[id(value)] = len(self.seen)
            return type(value), tuple((f.name, self._value(getattr(value, f.name, None))) for f in fields(value))
        if isinstance(value, type) or not hasattr(value, "__dict__") or callable(value):
            return "object", id(value)
        self.seen[id(value)] = len(self.seen)
        return type(value), self._table(vars(value))
