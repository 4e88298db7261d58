"""Exchanged contents: a program's own tensors, as the same objects, compute what a trace records.

A program may keep a tensor in many places (a module, a list, the key of a dict, the cell of a closure, a weak
reference, what a library holds), and may compare it by identity with that of another place. No copy can stand in for it
in all of them. So the objects stay, and what they are changes: while a program is traced, each of its tensors has the
class, the attributes and the memory of the fake tensor of that input, and the fake tensor has those of it.
"""

# pyright: basic
from __future__ import annotations

import copyreg
import functools
import types
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from tantamount.errors import UserError

__all__ = ["exchanged"]

_swap_memory = torch._C._swap_tensor_impl  # a trace refuses programs that call it
_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # fields of the object; PyTorch calls those of the memory


@contextmanager
def exchanged(pairs: Sequence[tuple[str, Tensor, Tensor]]) -> Generator[None]:
    """While this lasts the two tensors of every pair (after its name) have each other's contents; no tensor is in two
    pairs. Raises :class:`UserError` for a tensor whose contents cannot go to another object."""
    done: list[tuple[Tensor, Tensor]] = []
    try:
        for name, one, other in pairs:
            try:
                _exchange(one, other)
            except (RuntimeError, TypeError) as problem:
                raise UserError(
                    "capture-parameter", place=name, found=f"a tensor of class {type(one).__qualname__}: {problem}",
                    needed="a tensor that a fake one of its shape can take the place of, as the same Python object",
                    hint="a plain torch.Tensor or nn.Parameter",
                ) from problem  # fmt: skip
            done.append((one, other))
        yield
    finally:
        for one, other in reversed(done):
            _exchange(one, other)


def _exchange(one: Any, other: Any) -> None:
    """Exchange class, attributes, slots, hooks and memory of two tensors; all of it, or nothing and an exception."""
    kinds = type(one), type(other)
    slots = [sorted(set(copyreg._slotnames(kind))) for kind in kinds]  # pyright: ignore[reportAttributeAccessIssue]
    if slots[0] != slots[1]:
        raise TypeError("its class has slots of its own")
    hooks = [[getattr(tensor, name) for name in _HOOKS] for tensor in (one, other)]
    _swap_memory(one, other)
    try:
        one.__class__ = _as_well(kinds[1], kinds[0])
        other.__class__ = kinds[0]
    except TypeError:
        one.__class__ = kinds[0]
        _swap_memory(one, other)
        raise
    one.__dict__, other.__dict__ = other.__dict__, one.__dict__
    for name in slots[0]:
        values = [getattr(tensor, name, _ABSENT) for tensor in (one, other)]
        for tensor, value in zip((one, other), reversed(values), strict=True):
            if value is not _ABSENT:
                setattr(tensor, name, value)
            elif hasattr(tensor, name):
                delattr(tensor, name)
    for tensor, now, before in ((one, hooks[1], hooks[0]), (other, hooks[0], hooks[1])):
        for name, new, old in zip(_HOOKS, now, before, strict=True):
            if new is not old:
                setattr(tensor, name, new)  # the memory that came along gets them anew


@functools.cache
def _as_well(fake: type, own: type) -> type:
    """The class of fake tensors that are of a user's class of tensors, too: ``isinstance`` says so."""
    if fake is not FakeTensor or issubclass(FakeTensor, own) or own in (nn.Parameter, FakeTensor):
        return fake
    return types.new_class(own.__name__, (FakeTensor, own))


_ABSENT: Any = object()
