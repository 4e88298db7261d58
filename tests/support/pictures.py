"""Reports with pictures, made by hand: as large, or as hostile, as a test wants."""

from __future__ import annotations

from dataclasses import dataclass, replace

from support.reports import STATISTICS
from tantamount.answers import Answer
from tantamount.ir.graph import Graph, Node, Output, Ref, Source
from tantamount.ir.types import DType, TensorType
from tantamount.verdict import Link, Mismatch, OutputReport, Picture, ProgramPicture, Relation, Verdict

__all__ = ["Pictured", "chain", "large", "picture_report"]


@dataclass(frozen=True)
class Pictured(Answer):
    """A report with a picture that no proof is behind."""

    drawn: Picture | None = None

    def picture(self) -> Picture | None:
        return self.drawn


_TYPE = TensorType((4, 8), DType.FLOAT32)


def chain(count: int, modules: bool, text: str = "x = f(x)") -> Graph:
    """A program of ``count`` operators, each of which reads one or two before it: layers of thirty with three modules
    each, if there are ``modules``."""
    nodes = [Node("x", "input", "x", type=_TYPE)]
    for k in range(count):
        source = None
        if modules:
            module = f"model.layers.{k // 30}.{('norm', 'attention', 'mlp')[k % 30 // 10]}"
            source = Source("model.py", 10 + k % 30, f"{module}: forward", text)
        before = [nodes[-1], nodes[max(0, len(nodes) - 7)]] if k % 3 == 0 else [nodes[-1]]
        args = tuple(Ref(node.name) for node in before)
        nodes.append(Node(f"node_{k}", "call", "aten.add.Tensor", args, type=_TYPE, source=source))
    return Graph(tuple(nodes), (Output("y", nodes[-1].name),))


def picture_report(
    specification: Graph, implementations: dict[tuple[int, ...], Graph], mismatch: Mismatch | None = None
) -> Pictured:
    """Both programs, related tensor by tensor up to the mismatch."""
    last = specification.nodes[-1].name
    names = [node.name for node in specification.nodes]
    matched = names[: names.index(mismatch.specification)] if mismatch is not None else names
    links = [
        Link(name, k, name, "Shard(0)")
        for k, graph in enumerate(implementations.values())
        for name in matched
        if name in graph.by_name
    ]

    def side(graph: Graph, ranks: tuple[int, ...]) -> ProgramPicture:
        return ProgramPicture(graph, ranks, {node.name: f"{node.name}[i, j] = x[i, j]" for node in graph.nodes})

    picture = Picture(
        side(specification, ()),
        tuple(side(graph, ranks) for ranks, graph in implementations.items()),
        tuple(links),
        {"y": (last, tuple(last if last in graph.by_name else None for graph in implementations.values()))},
    )
    verdict = Verdict.PROVED if mismatch is None else Verdict.REFUTED
    relation = Relation("y", "Shard(0)", last) if mismatch is None else None
    return Pictured(
        job="job.toml",
        verdict=verdict,
        outputs=(OutputReport("y", verdict, relation, "Shard(0)", "" if relation else "y differs"),),
        outputs_total=1,
        assumptions=(),
        relations=(),
        mismatch=mismatch,
        counterexample=None,
        statistics=replace(STATISTICS, ranks=sum(map(len, implementations))),
        drawn=picture,
    )


def large(count: int, modules: bool) -> Pictured:
    """Two programs of ``count`` operators that part in the middle."""
    graph = chain(count, modules)
    name = f"node_{count // 2}"
    mismatch = Mismatch(
        name, "aten.add.Tensor", "another operand", name, "aten.add.Tensor", headline="node reads another operand"
    )
    return picture_report(graph, {(0, 1): graph}, mismatch)
