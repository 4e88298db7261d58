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

Draws of one state by one operator become one node of the graph (:func:`merged`). Other draws from one state (of other
shapes, of other probabilities) have something in common too, and so has what is drawn after them: as numbers of their
own they would be those of a program that never puts the state back. A program with such draws is refused.
"""

# pyright: basic
from __future__ import annotations

import operator
import secrets
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import traceback
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tantamount.errors import UserError

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
        self._by: dict[int, tuple[Any, str]] = {}  # the first operator that draws from a state
        self._count = 0
        self.shared: list[str] = []  # pairs of operators that draw other numbers from one state
        self._before = b""

    def __enter__(self) -> Draws:
        self._before = _state()
        return super().__enter__()

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        _set(self._before)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if not _draws(func) or not _of_default(given.get("generator")):
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
        first, name = self._by.setdefault(number, (what, str(func)))
        if first != what:
            self.shared.append(f"{name} and {func}")
        after = self._next.get((number, what))
        if after is None:
            after = self._next[number, what] = _unseen(now)
        _set(after)
        return number


def _draws(func: Any) -> bool:
    """True if an operator is declared to draw numbers."""
    return isinstance(func, torch._ops.OpOverload) and _RANDOM in func.tags


def _of_default(generator: Any) -> bool:
    """True for PyTorch's own generator for the CPU, under whatever object of Python it is given."""
    return generator is None or generator._cdata == getattr(torch.default_generator, "_cdata")  # noqa: B009 - that stubs do not tell


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


def merged(graph: fx.Graph, shared: Sequence[str], place: str) -> None:
    """Make draws of the same numbers one node: the first of them. Raises :class:`UserError` for other draws that have
    numbers in common: those that are found here, and the ``shared`` ones of :class:`Draws`."""
    marked = [(node, mark) for node in graph.nodes if (mark := _mark(node)) is not None]
    calls = Counter(count for _, (_, count) in marked)
    first: dict[Any, fx.Node] = {}
    own: list[tuple[fx.Node, int, int]] = []
    values = _Values()
    for node, (state, count) in marked:
        dropout = node.target is _aten.native_dropout.default
        if dropout and (node.args[2] is False or node.args[1] >= 1):  # all are kept, or none
            continue
        # one call that became several operators: which of them draws first is not known
        if calls[count] == 1 and node.kwargs.get("generator") is None:
            blind = dropout or node.target in _BLIND
            known = first.setdefault((state, node.target, _of_node(node), None if blind else values.read(node)), node)
            if known is not node:
                if dropout:
                    _with_mask_of(graph, node, known)
                else:
                    node.replace_all_uses_with(known)
                continue
        own.append((node, state, count))
    _check_apart(graph, own, shared, place)


class _Values:
    """Numbers of nodes: those that compute the same of the same have the same one."""

    def __init__(self) -> None:
        self._of: dict[fx.Node, int] = {}
        self._known: dict[Any, int] = {}

    def read(self, node: fx.Node) -> str:
        """The text that says how a node is computed: equal texts stand for equal values."""
        open_ = list(node.all_input_nodes)
        while open_:
            one = open_[-1]
            missing = [] if one in self._of else [x for x in one.all_input_nodes if x not in self._of]
            open_ += missing
            if not missing:
                self._number(open_.pop())
        return self._text(node)

    def _text(self, node: fx.Node) -> str:
        return repr(pytree.tree_map(lambda x: ("node", self._of[x]) if isinstance(x, fx.Node) else x, (
            node.args, dict(node.kwargs)
        )))  # fmt: skip

    def _number(self, node: fx.Node) -> None:
        target: Any = node.target
        key: Any = None
        if target is operator.getitem or (_from_aten(target) and not _draws(target) and not target._schema.is_mutable):
            key = (target, self._text(node)) if "empty" not in str(target) else None
        self._of.setdefault(node, self._known.setdefault(key or node, len(self._known)))


def _from_aten(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and target.namespace == "aten"


def _check_apart(graph: fx.Graph, own: Sequence[tuple[fx.Node, int, int]], shared: Sequence[str], place: str) -> None:
    """Raise :class:`UserError` where two draws that the program uses have numbers in common."""
    used = _used(graph)
    live = [(node, state, count) for node, state, count in own if node in used]
    found = list(shared) if len({count for _, _, count in live}) > 1 else []
    by: dict[int, tuple[fx.Node, int]] = {}
    for node, state, count in live:
        other, number = by.setdefault(state, (node, count))
        if number != count:
            found.append(f"{other.target} and {node.target}")
    if found:
        raise UserError(
            "capture", place=place,
            found=f"draws of other numbers from one state of the random generator ({found[0]})",
            needed="draws from states of their own, or the same draws, of the same operands, from the same state",
            hint="what such draws have in common is not known: draw once, and use the numbers twice",
        )  # fmt: skip


def _used(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that the graph's results are computed from."""
    found: set[fx.Node] = set()
    open_ = [
        node for node in graph.nodes if node.op == "output" or str(node.target).startswith(("_c10d", "aten.copy_"))
    ]
    while open_:
        node = open_.pop()
        if node not in found:
            found.add(node)
            open_ += node.all_input_nodes
    return found


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
