"""One call as every call: what a program changes beside tensors must not change what it computes."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from tantamount.capture.torch.hooks import check_same_hooks, registered
from tantamount.capture.torch.python_state import roots_of, watch
from tantamount.capture.torch.state import State
from tantamount.errors import UserError

__all__ = ["same_at_every_call"]

_Pass = tuple[fx.GraphModule, list[Tensor]]


def same_at_every_call(
    trace: Callable[[], _Pass], function: Any, tensors: Mapping[str, Tensor], state: State, place: str
) -> _Pass:
    """The result of ``trace``: a graph, and the tensors that it was recorded on.

    If the call changes state of Python, it is traced once more from there, and must record the same graph and leave the
    same state; then every later call does. State of Python is afterwards what it was. Raises :class:`UserError` for a
    call that leaves hooks behind, and for one whose next call may do something else."""
    before = _hooks(tensors, state)
    named = [(f"hook {owner}", hook) for (owner, _), hook in before.items()]
    watched = watch([*roots_of(function, state.modules), *named])
    described = watched.described()
    try:
        found = trace()
        check_same_hooks(before, _hooks(tensors, state))
        changed = watched.changed(described)
        if changed:
            again = watch([*roots_of(function, state.modules), *named])
            left = again.described()
            repeated = trace()
            others = again.described()
            still = [name for name in (*left, *others) if left.get(name, "") != others.get(name, "")]
            if still or not _same(found[0], repeated[0]):
                raise UserError(
                    "capture-state", place=place,
                    found=f"a call that changes {_listed(still or changed)}: the next one may compute something else",
                    needed="a function that does the same at every call",
                    hint="make what counts or remembers an argument or a buffer, or keep it out of what is captured",
                )  # fmt: skip
        return found
    finally:
        watched.restore()


def _hooks(tensors: Mapping[str, Tensor], state: State) -> dict[tuple[str, int], Callable[..., Any]]:
    return registered(list(tensors.items()), state.modules, state.optimizers)


def _same(first: fx.GraphModule, second: fx.GraphModule) -> bool:
    """True if two graphs call the same operators with the same arguments, constants included."""
    if str(first.graph) != str(second.graph):
        return False
    constants = [str(node.target) for node in first.graph.nodes if node.op == "get_attr"]
    return all(_equal(getattr(first, name), getattr(second, name)) for name in constants)


def _equal(a: Any, b: Any) -> bool:
    """True if two constants are one object, or tensors of the same numbers: each call makes its own."""
    if a is b or not (type(a) is type(b) is Tensor) or (a.dtype, a.shape) != (b.dtype, b.shape):
        return a is b
    with unset_fake_temporarily():
        return torch.equal(a, b)


def _listed(names: list[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - 4} more" if len(unique) > 4 else ""
    return ", ".join(unique[:4]) + more
