"""Point-to-point messages: what ranks post, and which send belongs to which receive.

A send and a receive are posted when their nodes are reached, and complete when both are there. The k-th send of a
channel (process group, source, destination, tag) belongs to its k-th receive. A node that reads the result of either
waits until it is complete; so does the end of the program. This is the strict reading: a program that needs sends to be
buffered is one that may hang.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tantamount.errors import UserError
from tantamount.ir.graph import Node, Ref, references
from tantamount.ir.mesh import Mesh
from tantamount.ops.algebra import Tensor

__all__ = ["Channel", "Post", "Postbox", "posts_of"]

SEND, RECEIVE = "isend", "irecv"


@dataclass(frozen=True, slots=True)
class Channel:
    """Messages that keep their order. ``members``: the group's ranks; ``source`` and ``destination`` are ranks."""

    members: tuple[int, ...]
    source: int
    destination: int
    tag: int


@dataclass(frozen=True, slots=True)
class Post:
    """One side of one message. ``number`` counts those of its kind in the channel; ``tensor`` is what is sent, or the
    buffer that is received into; ``place`` says where the node is."""

    rank: int
    node: str
    kind: str
    channel: Channel
    number: int
    tensor: Tensor
    place: str

    def __str__(self) -> str:
        c = self.channel
        direction = f"to rank {c.destination}" if self.kind == SEND else f"from rank {c.source}"
        tag = f", tag {c.tag}" if c.tag else ""
        return f"{self.kind} {self.node} {direction}{tag} (number {self.number + 1} of its kind)"


@dataclass(frozen=True, slots=True)
class Open:
    """A node whose result is not complete: one message's, or those of ``several``."""

    node: Node
    posts: tuple[Post, ...]
    several: bool


@dataclass
class Postbox:
    """All messages of one run. ``open`` has the nodes of every rank whose results are not complete, ``posts`` by rank
    and node the messages of which all nodes have results."""

    mesh: Mesh
    sent: dict[Channel, list[Post]] = field(default_factory=dict[Channel, list[Post]])
    received: dict[Channel, list[Post]] = field(default_factory=dict[Channel, list[Post]])
    open: dict[int, dict[str, Open]] = field(default_factory=dict[int, dict[str, Open]])
    posts: dict[tuple[int, str], tuple[Post, ...]] = field(default_factory=dict[tuple[int, str], tuple[Post, ...]])

    def post(
        self, rank: int, node: Node, kind: str, group: str, peer: int, tag: int, tensor: Tensor, place: str
    ) -> Post:
        """One side of a message; ``peer`` is a position in the group. Raises :class:`UserError` if there is none."""
        members = self.mesh.members(group, rank)
        if not 0 <= peer < len(members):
            raise UserError(
                "message-peer", place=place, found=f"peer {peer} in a process group of {len(members)} ranks",
                needed="the peer's position in the group",
                hint="peers are positions in the group, not numbers of ranks",
            )  # fmt: skip
        ends = (rank, members[peer]) if kind == SEND else (members[peer], rank)
        channel = Channel(members, *ends, tag)
        side = (self.sent if kind == SEND else self.received).setdefault(channel, [])
        side.append(Post(rank, node.name, kind, channel, len(side), tensor, place))
        return side[-1]

    def add(self, rank: int, node: Node, posts: tuple[Post, ...], several: bool) -> None:
        """The node's results are those of the posts, once they are complete."""
        self.posts[rank, node.name] = posts
        self.open.setdefault(rank, {})[node.name] = Open(node, posts, several)

    def take(self, rank: int, node: Node) -> bool:
        """True if ``node`` is an item of the results of several messages that are not complete: it is one, too."""
        source, index = node.args if len(node.args) == 2 and not node.kwargs else (None, None)
        entry = self.open.get(rank, {}).get(source.name) if isinstance(source, Ref) else None
        if entry is None or not entry.several or not isinstance(index, int) or isinstance(index, bool):
            return False
        if not -len(entry.posts) <= index < len(entry.posts):
            return False
        self.add(rank, node, (entry.posts[index],), False)
        return True

    def awaited(self, rank: int, node: Node | None) -> list[str]:
        """The nodes of this rank that are not complete, among those that ``node`` reads (``None``: all)."""
        waiting = self.open.get(rank)
        if not waiting:
            return []
        if node is None:
            return list(waiting)
        return [name for name in dict.fromkeys(references(node)) if name in waiting]

    def partner(self, post: Post) -> Post | None:
        """The other side of the message, if it is there. Raises :class:`UserError` if the two do not fit."""
        others = (self.received if post.kind == SEND else self.sent).get(post.channel, [])
        if post.number >= len(others):
            return None
        other = others[post.number]
        send, receive = (post, other) if post.kind == SEND else (other, post)
        a, b = send.tensor.type, receive.tensor.type
        if a.dtype is not b.dtype or prod(a.shape) != prod(b.shape):
            raise UserError(
                "message-mismatch", place=receive.place,
                found=f"a buffer {b} on rank {receive.rank} for {a}, which {send.node} sends on rank {send.rank}",
                needed="as many elements of the same type", hint=f"the send: {send.place}",
            )  # fmt: skip
        return other

    def complete(self, rank: int, name: str) -> tuple[Node, bool, list[tuple[Post, Tensor | None]]] | None:
        """The node, whether it has several results, and per post the message (``None`` for a send), taken off ``open``;
        ``None`` if a message is missing."""
        entry = self.open[rank][name]
        found: list[tuple[Post, Tensor | None]] = []
        for post in entry.posts:
            partner = self.partner(post)
            if partner is None:
                return None
            found.append((post, partner.tensor if post.kind == RECEIVE else None))
        del self.open[rank][name]
        return entry.node, entry.several, found

    def missing(self, rank: int, node: Node | None) -> list[Post]:
        """The posts whose other side is missing, among those that ``node`` waits for."""
        found = [post for name in self.awaited(rank, node) for post in self.open[rank][name].posts]
        return [post for k, post in enumerate(found) if post not in found[:k] and self.partner(post) is None]


def posts_of(arguments: Mapping[str, Any]) -> tuple[list[tuple[str, int, int, Tensor]], bool]:
    """The messages of a node, as kind, peer, tag and tensor; and True if it has one result per message."""
    if "op_list" in arguments:
        rows: Sequence[Sequence[Any]] = [arguments[key] for key in ("op_list", "peer_list", "tag_list", "tensors")]
        return list(zip(*rows, strict=True)), True
    peer = arguments["dst"] if "dst" in arguments else arguments["src"]
    kind = SEND if "dst" in arguments else RECEIVE
    return [(kind, peer, arguments["tag"], arguments["tensor"])], False
