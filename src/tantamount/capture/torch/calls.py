"""One call as every call: what a program changes beside tensors must not change what it computes."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from tantamount.capture.torch.hooks import check_same_hooks, forget, registered, registered_since
from tantamount.capture.torch.python_state import roots_of, watch
from tantamount.capture.torch.state import State
from tantamount.errors import UserError

__all__ = ["Call", "same_at_every_call"]

_Hooks = Mapping[tuple[str, int], Callable[..., Any]]


@dataclass(frozen=True)
class Call:
    """One call as it was traced: its graph, and the hooks of tensors that this call and those before it registered and
    left there."""

    graph: fx.GraphModule
    left: _Hooks


def same_at_every_call(
    trace: Callable[[], Call], function: Any, tensors: Mapping[str, Tensor], state: State, place: str
) -> fx.GraphModule:
    """The graph of ``trace``, each run of which is the call after the last one.

    If a call changes state of Python, or registers hooks and leaves them there, it is traced once more from there, and
    must record the same graph, leave the same state, and register no more; then every later call does. State of Python
    and hooks are afterwards what they were. Raises :class:`UserError` for a call whose next call may do something
    else."""
    originals = _of_tensors(tensors)
    before = {**originals, **_of_others(state)}
    named = [(f"hook {owner}", hook) for (owner, _), hook in before.items()]
    watched = watch([*roots_of(function, state.modules), *named])
    described = watched.described()
    try:
        first = trace()
        now = _of_tensors(tensors)
        check_same_hooks(originals, now)
        left = {**registered_since(before, {**now, **_of_others(state)}), **first.left}
        changed = watched.changed(described)
        if changed or left:
            named += [(f"hook {owner}", hook) for (owner, _), hook in left.items()]
            again = watch([*roots_of(function, state.modules), *named])
            start = again.described()
            second = trace()
            now = {**_of_tensors(tensors), **_of_others(state)}
            check_same_hooks({**before, **left}, {**now, **second.left})
            end = again.described()
            still = [name for name in (*start, *end) if start.get(name, "") != end.get(name, "")]
            if still or not _same(first.graph, second.graph):
                if not still:
                    check_same_hooks({}, left)
                raise UserError(
                    "capture-state", place=place,
                    found=f"a call that changes {_listed(still or changed)}: the next one may compute something else",
                    needed="a function that does the same at every call",
                    hint="make what counts or remembers an argument or a buffer, or keep it out of what is captured",
                )  # fmt: skip
        return first.graph
    finally:
        watched.restore()
        forget(_of_others(state).keys() - before.keys(), state.modules, state.optimizers)


def _of_tensors(tensors: Mapping[str, Tensor]) -> dict[tuple[str, int], Callable[..., Any]]:
    """The hooks of tensors. PyTorch shows those of a node only to who registers one: ask once, and keep the answer."""
    return registered(list(tensors.items()), {}, ())


def _of_others(state: State) -> dict[tuple[str, int], Callable[..., Any]]:
    """The hooks of modules and optimizers, and PyTorch's global ones."""
    return registered((), state.modules, state.optimizers)


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
