"""Point-to-point messages as edges of the data flow: what a rank receives is what another one sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.job import Job
from tantamount.ops.calls import operator_of
from tantamount.ops.execute import Environment
from tantamount.ops.messages import RECEIVE, Post, Postbox

__all__ = ["Messages", "group_of", "messages_of", "sends"]

Place = tuple[int, str]  # a rank and the name of a node of its graph


@dataclass(frozen=True)
class Messages:
    """``sent`` has, of the nodes whose result was received, what was sent; ``together`` of every node that sends or
    receives those on the other side: neither can be computed alone."""

    sent: Mapping[Place, Place]
    together: Mapping[Place, tuple[Place, ...]]

    @property
    def sends(self) -> frozenset[Place]:
        """The nodes that post messages, or pick the result of one of several, and receive nothing by it."""
        return frozenset(self.together.keys() - self.sent.keys())

    def times(self, job: Job) -> Mapping[Place, int]:
        """The positions of all nodes in the graphs of their ranks, later where they wait for what is sent later: what
        is received comes after what was sent, whatever the rank does before."""
        found: dict[Place, int] = {}
        graphs = [list(graph.nodes) for graph in job.implementation]
        done, last, moved = [0] * len(graphs), [-1] * len(graphs), True
        while moved:
            moved = False
            for rank, nodes in enumerate(graphs):
                while done[rank] < len(nodes):
                    place = (rank, nodes[done[rank]].name)
                    source = self.sent.get(place, place)
                    if source != place and source not in found:
                        break
                    last[rank] = found[place] = max(last[rank], found.get(source, -1)) + 1
                    done[rank] += 1
                    moved = True
        return found


def messages_of(job: Job, postbox: Postbox, environments: Sequence[Environment]) -> Messages:
    """The messages of one execution, which left them in the postbox."""
    sent: dict[Place, Place] = {}
    together: dict[Place, dict[Place, None]] = {}
    for place, posts in postbox.posts.items():
        for post in posts:
            partner = postbox.partner(post)
            if partner is None:
                continue
            together.setdefault(place, {})[partner.rank, partner.node] = None
            if post.node != place[1]:  # one of the results of a node that posts several
                together[place][post.rank, post.node] = None
            if post.kind == RECEIVE and len(posts) == 1:
                source = _sent(job, partner, environments)
                if source is not None:
                    sent[place] = source
    return Messages(sent, {place: tuple(some) for place, some in together.items()})


def _sent(job: Job, post: Post, environments: Sequence[Environment]) -> Place | None:
    """The tensor that a post sends."""
    refs = list(references(job.implementation[post.rank].by_name[post.node]))
    same = [ref for ref in refs if environments[post.rank].get(ref) is post.tensor]
    return (post.rank, same[0]) if same else None


def sends(graph: Graph) -> bool:
    """True if a rank sends or receives messages."""
    calls = (node for node in graph.nodes if node.op == "call" and node.target != "getitem")
    return any(operator_of(graph, node).peer_parameter is not None for node in calls)


def group_of(graph: Graph, node: Node) -> str | None:
    """The process group of a collective call."""
    if node.op != "call" or node.target == "getitem":
        return None
    row = operator_of(graph, node)
    if row.group_parameter is None or row.peer_parameter is not None:
        return None
    at = list(row.signature.parameters).index(row.group_parameter)
    name = node.kwargs.get(row.group_parameter, node.args[at] if at < len(node.args) else None)
    return name if isinstance(name, str) else None
