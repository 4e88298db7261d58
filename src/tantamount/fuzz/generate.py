"""Random graphs with inputs and the exact value of every node, each from a seed and an index alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tantamount.fuzz.draft import Draft, Policy
from tantamount.fuzz.samplers import SAMPLERS
from tantamount.ir.graph import Graph, Node, Output, references
from tantamount.ops.algebra import Tensor
from tantamount.semantics.reference import Array

__all__ = ["Sample", "generate", "pruned"]


@dataclass(frozen=True)
class Sample:
    """A typed graph, one array per input (bfloat16 in float32), and the value of every node."""

    seed: int
    index: int
    graph: Graph
    inputs: dict[str, Array]
    values: dict[str, Tensor]


def generate(seed: int, index: int, policy: Policy | None = None) -> Sample:
    """The graph number ``index`` of a seed under a policy: always the same one."""
    policy = policy or Policy()
    draft = Draft(Random(f"{seed}/{index}"), policy)
    r = draft.random
    rows = [row for name, row in SAMPLERS.items() if policy.targets is None or name in policy.targets]
    favoured = {row.target: r.choice((0.2, 1.0, 1.0, 3.0)) for row in rows}  # every graph has a taste of its own
    weights = [row.weight * favoured[row.target] for row in rows]
    for _ in range(r.choice((1, 2, 2, 3))):
        draft.leaf(draft.shape(), r.choice(draft.dtypes), constant=False)
    fewest, most = policy.nodes
    wanted = min(most, fewest + int(r.expovariate(1 / 6)))
    made = 0
    for _ in range(wanted * 6):
        if made >= wanted:
            break
        row = r.choices(rows, weights)[0]
        made += row.draw(draft, row.target) is not None
    calls = [node for node in draft.nodes if node.op == "call" and node.name in draft.values]
    loose = [node for node in calls if node.name not in draft.used] or draft.nodes[:1]
    others = [node for node in calls if node.name in draft.used and r.random() < 0.12]
    outputs = tuple(Output(node.name, node.name) for node in (*loose, *others))
    graph = Graph(tuple(draft.nodes), outputs, dict(draft.constants), path=f"case {seed}/{index}")
    graph = pruned(graph)
    inputs = {node.name: draft.inputs[node.name] for node in graph.inputs}
    kept = {node.name for node in graph.nodes}
    return Sample(seed, index, graph, inputs, {name: x for name, x in draft.values.items() if name in kept})


def pruned(graph: Graph) -> Graph:
    """The graph without nodes and constants that no output needs, its outputs each once."""
    needed: set[str] = set()
    pending = [output.node for output in graph.outputs]
    by_name = graph.by_name
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending.extend(references(by_name[name]))
    nodes: tuple[Node, ...] = tuple(node for node in graph.nodes if node.name in needed)
    constants = {key: value for key, value in graph.constants.items() if any(n.target == key for n in nodes)}
    return replace(graph, nodes=nodes, constants=constants, outputs=tuple(dict.fromkeys(graph.outputs)))
