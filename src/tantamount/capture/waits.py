"""Asynchronous collectives of graphs: what a program does with their memory between issue and wait.

A collective of ``_c10d_functional`` returns at once; what it gives is there once ``wait_tensor`` has returned. Between
the two a program may compute whatever does not touch that memory: nothing may read what is being written (of the
collectives that overwrite their operand, that is the operand and every view of it), and nothing may overwrite what is
being sent. A graph has values and no time: read as it stands, such a race would be gone. So it is refused.

A graph that waits for none of its collectives of one operator has synchronous ones (as people write them, or other
frameworks; PyTorch records no waits for ``all_reduce_coalesced``). One that waits for some of them says that it means
asynchronous ones, and must wait for all that it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tantamount.capture.inplace import is_in_place, is_view, overwritten, shares_memory
from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.validate import node_place

__all__ = ["check_waits"]

_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd")
_WAITS = ("wait_tensor", "_wrap_tensor_autograd")  # the second waits where its result is first used
_INTO = ("irecv",)  # its operand is the buffer that it writes


def check_waits(graph: Graph) -> None:
    """Raise :class:`UserError` ``capture-race`` for a program that reads what a collective still writes, or overwrites
    what one still sends."""
    waited = {_waited(graph, node) for node in graph.nodes if _exchange(node) in _WAITS}
    if waited:
        _Race(graph, waited).check()


def _exchange(node: Node) -> str:
    """The name of the collective, or of the wait, that a node is; empty for another one."""
    parts = node.target.split(".")
    return parts[1] if node.op == "call" and len(parts) > 1 and parts[0] in _NAMESPACES else ""


def _waited(graph: Graph, node: Node) -> str:
    """The name of the collective that a wait is for: what it reads was made of its result without computing."""
    while not (name := _exchange(node)) or name in _WAITS:
        used = references(node)
        if not used:
            return ""
        node = graph.by_name[used[0]]
    return name.rstrip("_")


@dataclass(frozen=True)
class _Begun:
    """A collective that is under way, and the memory that it writes and reads."""

    node: Node
    written: set[str]
    read: set[str]


class _Race:
    """Follows a program: in which memory values lie (named by the node that it was made by), and what is under way."""

    def __init__(self, graph: Graph, waited: Collection[str]) -> None:
        self.graph = graph
        self.waited = waited  # the names of the collectives that are asynchronous
        self.memory: dict[str, str] = {}
        self.begun: list[_Begun] = []
        self.lists: dict[str, Node] = {}  # collectives with several results, each of which is waited for by itself

    def check(self) -> None:
        for node in self.graph.nodes:
            self._take(node)
        for output in self.graph.outputs:
            self._read(output.node, f"{self.graph.path}: output {output.name}")

    def _take(self, node: Node) -> None:
        name, used = _exchange(node), list(dict.fromkeys(references(node)))
        place = node_place(self.graph.path, node)
        self.memory[node.name] = node.name
        if name in _WAITS:
            at = self.memory[node.name] = self.memory[used[0]]
            self.begun = [one for one in self.begun if at not in one.written]
        elif node.target == "getitem" and used[0] in self.lists:
            self._begin(self.lists[used[0]], node, used[:0], ())
        else:
            shared = bool(used) and not name and shares_memory(node.target)
            if shared:
                self.memory[node.name] = self.memory[used[0]]
            for one in used[1:] if shared and is_view(node.target) else used:  # a view reads nothing
                self._read(one, place)
            changed = overwritten(node) if node.op == "call" and is_in_place(node.target) else []
            for one in changed:
                self._overwrite(one, place)
            if changed:
                self.memory[node.name] = self.memory[changed[0]]
            if name:
                self._begin(node, node, used, changed or (used if name in _INTO else ()))

    def _begin(self, collective: Node, node: Node, used: Sequence[str], changed: Sequence[str]) -> None:
        if _exchange(collective).rstrip("_") not in self.waited:
            return
        if _exchange(collective).rstrip("_").endswith("coalesced") and collective is node:
            self.lists[node.name] = node
        written = {self.memory[one] for one in (node.name, *changed)}
        self.begun.append(_Begun(collective, written, {self.memory[one] for one in used} - written))

    def _read(self, name: str, place: str) -> None:
        for one in self.begun:
            if self.memory[name] in one.written:
                raise _wrong(place, one.node, "read")

    def _overwrite(self, name: str, place: str) -> None:
        for one in self.begun:
            if self.memory[name] in one.read:
                raise _wrong(place, one.node, "overwritten")


def _wrong(place: str, collective: Node, what: str) -> UserError:
    return UserError(
        "capture-race", place=place,
        found=f"a tensor of {collective.target}, {collective.name}, {what} before the program has waited for it",
        needed="wait_tensor of the collective that was started first",
    )  # fmt: skip
