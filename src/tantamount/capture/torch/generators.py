"""Which draws of a call are the same numbers, read off the state of the random generator that they are drawn in.

A generator is a function of its state: an operator that draws numbers from a state, with operands of the same shapes,
strides and types and with the same attributes, draws the same numbers whenever the generator is in that state, and
leaves it in the same state. Activation checkpointing lives on that: ``checkpoint`` saves the state before a block, and
with ``preserve_rng_state`` (the default) puts it back before it computes the block once more.

Fake tensors draw nothing and leave the generator as it is. So while a call is traced, every operator that draws moves
PyTorch's generator for the CPU on by hand: to a state that nobody has seen, the same one whenever the same operator
draws from the same state. The program saves, forks, seeds and restores states as it always does; whatever state it is
in when it draws says which draw that is. Where the numbers that are taken depend on values (``poisson``), the next
state is a new one each time.

Draws of one state by one operator become one node of the graph (:func:`merged`). Other draws from one state (of
other shapes, say) have something in common that nobody promises: they stay numbers of their own.
"""

# pyright: basic
from __future__ import annotations

import operator
import secrets
from collections import Counter
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import traceback
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = ["Draws", "merged"]

_RANDOM = torch.Tag.nondeterministic_seeded
_aten = torch.ops.aten
# operators that take as many numbers as they have elements, whatever the values of their operands are
_NAMES = {
    "bernoulli", "bernoulli_", "cauchy", "cauchy_", "exponential", "exponential_", "geometric", "geometric_",
    "log_normal", "log_normal_", "native_dropout", "normal", "normal_", "normal_functional", "rand", "rand_like",
    "randint", "randint_like", "randn", "randn_like", "random", "random_", "randperm", "uniform", "uniform_",
}  # fmt: skip
_COUNTED = {f"aten::{name}" for name in _NAMES}
_OF_TENSORS = ("Tensor", "Tensor_generator")  # of randint_like: the range is a value, and says how much is taken
# those of them, as values, whose result depends on nothing but the state and the attributes: operands lend their shape
_BLIND = {
    _aten.bernoulli.p, _aten.cauchy.default, _aten.exponential.default, _aten.geometric.default,
    _aten.log_normal.default, _aten.normal_functional.default, _aten.rand.default, _aten.rand_like.default,
    _aten.randint.default, _aten.randint.low, _aten.randint_like.default, _aten.randint_like.low_dtype,
    _aten.randn.default, _aten.randn_like.default, _aten.random.default, getattr(_aten.random, "from"),
    _aten.random.to, _aten.randperm.default, _aten.uniform.default,
}  # fmt: skip
_WORDS, _TOKEN = 24, 4  # the byte where the words of the state of a CPU generator begin, and how many are replaced


class Draws(TorchDispatchMode):
    """Marks every operator that draws numbers with the state of the generator that it draws from, for :func:`merged`.

    To be entered before what notes the origin of nodes. The generator is afterwards as it was before."""

    def __init__(self) -> None:
        super().__init__()
        self._states: dict[bytes, int] = {}
        self._next: dict[tuple[int, Any], bytes] = {}
        self._count = 0
        self._before = b""

    def __enter__(self) -> Draws:
        self._before = _state()
        return super().__enter__()

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        _set(self._before)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if not _draws(func) or given.get("generator") is not None:
            return func(*args, **given)
        self._count += 1
        meta: dict[str, Any] = traceback.current_meta
        noted: dict[str, Any] = dict(meta.get("custom") or {})
        leaves = pytree.tree_leaves((args, given))
        if {x.device.type for x in leaves if isinstance(x, Tensor)} <= {"cpu", "meta"} and _on_cpu(given):
            noted["draw"] = (self._moved_on(func, args, given), self._count)
        old = meta.get("custom")
        meta["custom"] = noted
        try:
            return func(*args, **given)
        finally:
            if old is None:
                meta.pop("custom", None)
            else:
                meta["custom"] = old

    def _moved_on(self, func: Any, args: Any, kwargs: Any) -> int:
        """The number of the generator's state; afterwards it is in the next one."""
        now = _state()
        number = self._states.setdefault(now, len(self._states))
        counted = func._schema.name in _COUNTED and func._overloadname not in _OF_TENSORS
        what = (str(func), _signature(args, kwargs)) if counted else self._count
        after = self._next.get((number, what))
        if after is None:
            after = self._next[number, what] = _unseen(now)
        _set(after)
        return number


def _draws(func: Any) -> bool:
    """True if an operator is declared to draw numbers."""
    return isinstance(func, torch._ops.OpOverload) and _RANDOM in func.tags


def _on_cpu(kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    return device is None or torch.device(device).type in ("cpu", "meta")


def _signature(args: Any, kwargs: Any) -> tuple[str, ...]:
    """The attributes, and shapes, strides and types of operands."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    return str(structure), *(
        f"{tuple(x.shape)} {x.stride()} {x.dtype} {x.device}" if isinstance(x, Tensor) else repr(x) for x in leaves
    )


def _state() -> bytes:
    with _disable_current_modes(), unset_fake_temporarily():
        return torch.default_generator.get_state().numpy().tobytes()


def _set(state: bytes) -> None:
    with _disable_current_modes(), unset_fake_temporarily():
        torch.default_generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _unseen(state: bytes) -> bytes:
    """A state of the CPU's generator that it was never in, with the same initial seed."""
    words = b"".join(secrets.token_bytes(4) + bytes(4) for _ in range(_TOKEN))  # of 32 bits in 64
    return state[:_WORDS] + words + state[_WORDS + len(words) :]


def merged(graph: fx.Graph) -> None:
    """Make draws of the same numbers one node: the first of them."""
    marked = [(node, mark) for node in graph.nodes if (mark := _mark(node)) is not None]
    calls = Counter(count for _, (_, count) in marked)
    first: dict[Any, fx.Node] = {}
    for node, (state, count) in marked:
        if calls[count] > 1:  # one call that became several operators: which of them draws first is not known
            continue
        if node.target in _BLIND:
            known = first.setdefault((state, node.target, _of_node(node)), node)
            if known is not node:
                node.replace_all_uses_with(known)
        elif node.target is _aten.native_dropout.default and node.args[2] is not False and node.args[1] < 1:
            known = first.setdefault((state, node.target, _of_node(node)), node)
            if known is not node:
                _with_mask_of(graph, node, known)


def _mark(node: fx.Node) -> tuple[int, int] | None:
    """The state that a node draws from, and the number of the call; ``None`` for nodes that draw nothing, or from a
    generator that was not watched."""
    if node.op != "call_function" or not _draws(node.target):
        return None
    return (node.meta.get("custom") or {}).get("draw")


def _of_node(node: fx.Node) -> tuple[str, ...]:
    values = pytree.tree_map(lambda x: x.meta["val"] if isinstance(x, fx.Node) else x, (node.args, dict(node.kwargs)))
    return _signature(*values)


def _with_mask_of(graph: fx.Graph, node: fx.Node, known: fx.Node) -> None:
    """Let a dropout drop what another one drops: it is ``x mask / (1 - p)``, and its mask that of the other one."""
    given: tuple[Any, ...] = node.args
    x, p = given[:2]
    value, kept = node.meta["val"]
    with graph.inserting_before(node):
        mask = graph.call_function(operator.getitem, (known, 1))
        dropped = graph.call_function(_aten.native_dropout_backward.default, (x, mask, 1 / (1 - p)))
    mask.meta, dropped.meta = {**node.meta, "val": kept}, {**node.meta, "val": value}
    for user in list(node.users):
        user.replace_all_uses_with(mask if user.args[1] else dropped)
