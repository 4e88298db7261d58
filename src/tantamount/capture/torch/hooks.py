"""Hooks of tensors, of the nodes that accumulate their gradients, of modules and of optimizers.

While a program is traced its tensors have the contents of fake ones, and PyTorch calls the hooks that contents have, so
that those of the true contents (of "originals") have to be carried over to the stand-ins. Every
hook of a tensor is one of four kinds, and every kind is a dictionary that PyTorch keeps, whatever registered it:
``register_multi_grad_hook`` and ``functools.partial`` included. Hooks of modules and of optimizers run by themselves,
for modules and optimizers are the program's own.
"""

# pyright: basic
from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from tantamount.capture.torch.sources import defined_at
from tantamount.capture.torch.standins import StandIns
from tantamount.errors import UserError

__all__ = ["Carried", "carry", "check_same_hooks", "forget", "registered", "registered_since", "without_step_hooks"]

_OPTIMIZERS = importlib.import_module("torch.optim.optimizer")  # torch.optim hides it
_Hooks = Mapping[int, Callable[..., Any]]


@dataclass(frozen=True)
class _Kind:
    """One kind of hooks: how they are called, the dictionary of those of a tensor (``None``: it has never had one),
    and how one is registered."""

    name: str
    hooks: Callable[[Tensor, Any], _Hooks | None]  # given the tensor, and its node if it is a leaf
    register: Callable[[Tensor, Callable[..., Any]], Any]


def _node(tensor: Tensor) -> Any:
    return get_gradient_edge(tensor).node


def _probed(method: str) -> Callable[[Tensor, Any], _Hooks | None]:
    """The hooks of a node: PyTorch shows their dictionary only to those who register one."""

    def hooks(_: Tensor, node: Any) -> _Hooks | None:
        handle = getattr(node, method)(_nothing)
        found = handle.hooks_dict_ref()
        handle.remove()
        return found

    return hooks


def _nothing(*_: Any) -> None:
    return None


_KINDS = (
    _Kind("Tensor.register_hook", lambda x, _: x._backward_hooks, lambda x, hook: x.register_hook(hook)),
    _Kind(
        "AccumulateGrad.register_prehook", _probed("register_prehook"),
        lambda x, hook: _node(x).register_prehook(hook),
    ),
    _Kind(
        "Tensor.register_post_accumulate_grad_hook", lambda x, _: x._post_accumulate_grad_hooks,
        lambda x, hook: x.register_post_accumulate_grad_hook(hook),
    ),
    _Kind("AccumulateGrad.register_hook", _probed("register_hook"), lambda x, hook: _node(x).register_hook(hook)),
)  # fmt: skip


@dataclass(frozen=True)
class _Hook:
    kind: str
    tensor: str
    function: Callable[..., Any]

    def __str__(self) -> str:
        return f"{self.kind} of {self.tensor}: {defined_at(self.function)}"


@dataclass
class Carried:
    """The hooks that stand-ins have from their originals. ``runs`` counts how often each hook ran, ``events`` how often
    a hook of its kind had to run: what PyTorch told a hook of our own of the same kind on the same tensor."""

    hooks: dict[tuple[int, str], list[tuple[int, _Hook]]] = field(default_factory=dict)
    runs: Counter[tuple[int, str, int]] = field(default_factory=Counter)
    events: Counter[tuple[int, str]] = field(default_factory=Counter)
    nodes: list[Any] = field(default_factory=list)  # the stand-ins' nodes live as long as their hooks should

    def begin(self) -> None:
        """Count anew: a call begins."""
        self.runs.clear()
        self.events.clear()

    def check(self) -> None:
        """Raise :class:`UserError` for a hook that did not run as often as it had to."""
        for place, hooks in self.hooks.items():
            for key, hook in hooks:
                if self.runs[*place, key] != self.events[place]:
                    raise UserError(
                        "capture-hook", place=str(hook),
                        found=f"a hook that ran {self.runs[*place, key]} times where its gradient came "
                        f"{self.events[place]} times",
                        needed="a hook that a trace can follow", hint="do in the step itself what the hook does",
                    )  # fmt: skip


def carry(stand_ins: StandIns, tensors: Sequence[tuple[str, Tensor, Tensor]]) -> Carried:
    """Register the hooks of originals on their stand-ins: ``tensors`` are names, originals and stand-ins.

    A hook that the original loses while the trace runs (one that removes itself) is gone for the stand-in, too."""
    carried = Carried()
    for index, (name, original, stand_in) in enumerate(tensors):
        if not (stand_in.requires_grad and original.requires_grad and stand_in.is_leaf):
            continue
        node, own = _node(original) if original.is_leaf else None, _node(stand_in)
        if node is not None:
            stand_ins.add_nodes(node, own)
        carried.nodes.append(own)
        for kind in _KINDS:
            hooks = kind.hooks(original, node) if original.is_leaf or kind is _KINDS[0] else None
            if not hooks:
                continue
            place = index, kind.name
            carried.hooks[place] = [(key, _Hook(kind.name, name, function)) for key, function in hooks.items()]
            kind.register(stand_in, _counted(carried.events, place))
            for key in list(hooks):
                kind.register(stand_in, _follows(stand_ins, hooks, key, carried.runs, place))
    return carried


def _counted(events: Counter[tuple[int, str]], place: tuple[int, str]) -> Callable[..., None]:
    def count(*_: Any) -> None:
        events[place] += 1

    return count


def _follows(
    stand_ins: StandIns, hooks: _Hooks, key: int, runs: Counter[tuple[int, str, int]], place: tuple[int, str]
) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        runs[*place, key] += 1
        hook = hooks.get(key)
        if hook is None:  # removed since
            return None
        with stand_ins.on():
            return stand_ins.of(hook(*args))

    return run


# ------------------------------------------------------------------------------ what a run leaves behind
def registered(
    tensors: Sequence[tuple[str, Tensor]],
    modules: Mapping[str, nn.Module],
    optimizers: Sequence[torch.optim.Optimizer],
) -> dict[tuple[str, int], Callable[..., Any]]:
    """All hooks of these tensors, modules and optimizers, and PyTorch's global ones, by what they are registered on and
    their number there. Call it where no :class:`StandIns` is on."""
    found: dict[tuple[str, int], Callable[..., Any]] = {}
    for name, tensor in tensors:
        if not tensor.requires_grad:
            continue
        node = _node(tensor) if tensor.is_leaf else None
        for kind in _KINDS if tensor.is_leaf else _KINDS[:1]:
            _note(found, f"{kind.name} of {name}", kind.hooks(tensor, node))
    for owner, hooks in _tables(modules, optimizers):
        _note(found, owner, hooks)
    return found


def forget(
    hooks: Iterable[tuple[str, int]], modules: Mapping[str, nn.Module], optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    """Take hooks of modules and optimizers, and global ones, away: ``hooks`` are keys of :func:`registered`."""
    tables = dict(_tables(modules, optimizers))
    for owner, key in hooks:
        if owner in tables:
            tables[owner].pop(key, None)


def _tables(
    modules: Mapping[str, nn.Module], optimizers: Sequence[torch.optim.Optimizer]
) -> Iterator[tuple[str, dict[int, Callable[..., Any]]]]:
    for prefix, root in modules.items():
        for name, module in root.named_modules():
            for attribute, hooks in vars(module).items():
                if _is_of_calls(attribute, hooks):
                    yield f"{attribute} of {prefix}{name}" if prefix + name else attribute, hooks
    for k, optimizer in enumerate(optimizers):
        for attribute, hooks in vars(optimizer).items():
            if _is_of_calls(attribute, hooks):
                yield f"{attribute} of optimizer {k}", hooks
    for owner in (nn.modules.module, _OPTIMIZERS):
        for attribute, hooks in vars(owner).items():
            if _is_global(attribute, hooks):
                yield attribute, hooks


def _is_of_calls(name: str, value: Any) -> bool:
    """True if an attribute is a table of hooks that calls run, and not those of saving and loading."""
    return name.endswith("_hooks") and "state_dict" not in name and isinstance(value, dict)


def _is_global(name: str, value: Any) -> bool:
    return name.startswith("_global_") and name.endswith("_hooks") and isinstance(value, dict)


def _note(found: dict[tuple[str, int], Callable[..., Any]], owner: str, hooks: _Hooks | None) -> None:
    for key, function in (hooks or {}).items():
        found[owner, key] = function


def registered_since(
    before: Mapping[tuple[str, int], Callable[..., Any]],
    after: Mapping[tuple[str, int], Callable[..., Any]],
) -> dict[tuple[str, int], Callable[..., Any]]:
    """The hooks of one result of :func:`registered` that are not in an earlier one: those that a call has left.

    Raises :class:`UserError` for a hook that is in the earlier one only, and for a new one of a node, which may be gone
    before the next call."""
    check_same_hooks({key: hook for key, hook in before.items() if key not in after}, {})
    new = {key: hook for key, hook in after.items() if key not in before}
    check_same_hooks({}, {key: hook for key, hook in new.items() if key[0].startswith("AccumulateGrad.")})
    return new


def check_same_hooks(before: Mapping[Any, Callable[..., Any]], after: Mapping[Any, Callable[..., Any]]) -> None:
    """Raise :class:`UserError` for a hook that is among one of two results of :func:`registered` only: the next call
    would run other hooks than this one."""
    for key in (*(after.keys() - before.keys()), *(before.keys() - after.keys())):
        added = key in after
        raise UserError(
            "capture-hook", place=f"{key[0]}: {defined_at((after if added else before)[key])}",
            found=f"a hook that the call {'registers and leaves there' if added else 'takes away'}: the next call does "
            "something else",
            needed="hooks that are the same before and after a call",
            hint="register it before the capture" if added else "remove it before the capture",
        )  # fmt: skip


@contextmanager
def without_step_hooks(optimizer: torch.optim.Optimizer) -> Generator[None]:
    """The optimizer without hooks around its steps, its own and those of all optimizers."""
    own = (getattr(optimizer, name, {}) for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"))
    tables = [*own, *(hooks for name, hooks in vars(_OPTIMIZERS).items() if _is_global(name, hooks))]
    saved = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    try:
        yield
    finally:
        for table, hooks in zip(tables, saved, strict=True):
            table.update(hooks)
