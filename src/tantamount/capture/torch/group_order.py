"""Process groups of the same ranks, which a graph does not tell apart: all their members must call them in one order.

A graph calls a group by the axes of the mesh that its ranks lie along, so that two groups of the same ranks are one
group in it, whose calls meet in the order of each rank. In truth calls of one group meet: where one rank reduces ``x``
with the first group and ``y`` with the second, and another one does it the other way round, ``x`` meets ``y``.
Groups of the same ranks are told by the order in which they were made, which is one for all ranks.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import fx

from tantamount.errors import UserError

__all__ = ["check_order_of_groups"]

_Members = tuple[int, ...]
_Key = tuple[object, ...]  # what meets in its order: collectives of some ranks, messages from one of them to another


def check_order_of_groups(ranks: Sequence[tuple[fx.Graph, Mapping[str, _Members]]]) -> None:
    """Raise :class:`UserError` for groups of the same ranks that ranks call in different orders. ``ranks``: the graph
    of every rank, and the members of its process groups by name, in the order in which they were made."""
    called: dict[_Key, tuple[int, list[int]]] = {}
    for rank, (graph, groups) in enumerate(ranks):
        mine: dict[_Key, list[int]] = {}
        for key, number in _calls(graph, groups, rank):
            mine.setdefault(key, []).append(number)
        for key, numbers in mine.items():
            other, before = called.setdefault(key, (rank, numbers))
            for a, b in zip(before, numbers, strict=False):
                if a != b:
                    members: object = key[0]
                    raise UserError(
                        "capture-collective", place=f"process groups of the ranks {members}",
                        found=f"group number {a + 1} of these on rank {other} where rank {rank} has number {b + 1}",
                        needed="groups of the same ranks that all of them call in one order",
                        hint="a call meets those of the same group alone; use one group, or one order",
                    )  # fmt: skip


def _calls(graph: fx.Graph, groups: Mapping[str, _Members], rank: int) -> Iterator[tuple[_Key, int]]:
    """The keys of what the calls of a rank meet, each with the number of its group among those of the same ranks."""
    same: dict[_Members, list[str]] = {}
    for name, members in groups.items():
        same.setdefault(members, []).append(name)
    for node in graph.nodes:
        if node.op != "call_function" or "c10d" not in str(node.target):
            continue
        arguments = (*node.args, *node.kwargs.values())
        name = next((one for one in arguments if isinstance(one, str) and one in groups), None)
        if name is None:
            continue
        members = groups[name]
        number = same[members].index(name)
        what = str(node.target)
        if "isend" in what or "irecv" in what:
            posts = [("isend" if "isend" in what else "irecv", node.args[1], node.args[2])]
        elif "batch_p2p_ops" in what:
            posts = list(zip(*node.args[:3], strict=True))
        else:
            yield (members,), number
            continue
        for kind, peer, tag in posts:
            ends = (rank, members[peer]) if kind == "isend" else (members[peer], rank)
            yield (members, *ends, tag), number
