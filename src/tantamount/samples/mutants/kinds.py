"""The mutants of one node: what a person (or a compiler) might write instead of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise

from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.relation import REDUCTIONS
from tantamount.ir.types import DType, TensorType
from tantamount.ops.table import Operator, table

from .edits import Change, Proposal, call, changed, leaves_of, live, ref_type, same_typed, with_literal
from .rewrites import rewrites

__all__ = ["node_mutants"]

_POOLS = ({"elementwise", "activation"},)  # categories whose operators may stand for each other
_MODES = (
    ("none", "tanh"),
    ("floor", "trunc"),
    ("mean", "sum", "amax", "amin", "prod"),
    ("add", "multiply", "maximum", "minimum"),
    ("EQ", "NE", "LT", "LE", "GT", "GE"),
)  # what strings may be exchanged for
_STARTS, _STOPS = ("start", "starts", "start_indices"), ("end", "ends", "stop", "stops", "limit_indices", "limits")
_TINY = 1 + 1e-3
_MANY = 1 << 20  # integers from here on mean "to the end"


def node_mutants(job: Job, seed: int) -> list[Proposal]:
    """Every mutant of every node that an output depends on, on all ranks that have the node, and on one of them."""
    found: list[Proposal] = []
    seen: set[str] = set()
    for rank in range(len(job.implementation)):
        graph = job.implementation[rank]
        for node in live(job, rank):
            if node.name in seen or node.op != "call":
                continue
            seen.add(node.name)
            random_ = random.Random(f"{seed} {node.name}")
            having = frozenset(r for r, g in enumerate(job.implementation) if _same_call(g, node))
            for kind, what, change in _changes(job, graph, node, random_):
                text = f"{node.name} = {node.target}: {what}"
                found.append(_proposal(job, kind, text, having, node.name, change))
                if len(having) > 1:
                    one = random_.choice(sorted(having))
                    text += f", on rank {one} only"
                    found.append(_proposal(job, f"{kind}, one rank", text, frozenset([one]), node.name, change))
    return found


def _same_call(graph: Graph, node: Node) -> bool:
    other = graph.by_name.get(node.name)
    return other is not None and other.op == node.op and other.target == node.target


def _proposal(job: Job, kind: str, what: str, ranks: frozenset[int], name: str, change: Change) -> Proposal:
    return Proposal(kind, what, lambda: changed(job, ranks, name, change))


def _changes(job: Job, graph: Graph, node: Node, random_: random.Random) -> Iterator[tuple[str, str, Change]]:
    row = table().get(node.target)
    collective = row is not None and row.group_parameter is not None
    yield from _operators(graph, node, row)
    yield from _operands(graph, node, random_)
    yield from _bypassed(graph, node)
    yield from _literals(job, node, row)
    if collective and row is not None:
        yield from _collectives(job, graph, node, row)
    for what, change in rewrites(graph, node):
        yield f"rewrite: {what}", "the same written otherwise", change


# ------------------------------------------------------------------------------------------------ operators
@cache
def _pool(category: str) -> tuple[Operator, ...]:
    rows = {id(row): row for row in table().values()}.values()
    group = next((pool for pool in _POOLS if category in pool), {category})
    return tuple(row for row in rows if row.category in group and not row.name.split(".")[-2].endswith("_"))


def _operators(graph: Graph, node: Node, row: Operator | None) -> Iterator[tuple[str, str, Change]]:
    if row is None:
        return
    kind = {"reduction": "reduction", "collective": "collective"}.get(row.category, "operator")
    for other in _pool(row.category):
        if other is not row and _takes(other, node):
            target = other.name
            yield kind, f"{target} instead", lambda g, n, target=target: (replace(n, target=target),)


def _takes(row: Operator, node: Node) -> bool:
    """True if the operator has these attributes, and tensors where the node has them; the type check says the rest."""
    try:
        bound = row.signature.bind(*node.args, **node.kwargs).arguments
    except TypeError:
        return False
    return all(_fits(value, row.parameters[name].kind.rstrip("?")) for name, value in bound.items())


def _fits(value: object, kind: str) -> bool:
    match value:
        case None:
            return True
        case Ref():
            return kind in ("Tensor", "Operand")
        case tuple():
            return kind in ("Tensors", "Integers", "Booleans")
        case str():
            return kind in ("str", "Group")
        case bool() | int() | float():
            return kind in ("Operand", "Scalar", "int", "float", "bool")
        case _:
            return kind in ("DType", "Layout")


# ------------------------------------------------------------------------------------------------ operands
def _operands(graph: Graph, node: Node, random_: random.Random) -> Iterator[tuple[str, str, Change]]:
    refs = [(path, value) for path, value in leaves_of(node) if isinstance(value, Ref)]
    for (p, a), (q, b) in pairwise(refs):
        if a != b and ref_type(graph, a) == ref_type(graph, b):
            yield (
                "operands swapped",
                f"{a.name} and {b.name} exchanged",
                lambda g, n, p=p, q=q, a=a, b=b: (with_literal(with_literal(n, p, b), q, a),),
            )
    for path, value in refs:
        others = [name for name in same_typed(graph, value.name) if name not in (value.name, node.name)]
        later = _between(graph, value.name, node.name, ref_type(graph, value))
        for names in (
            others[-1:],
            random_.sample(others, min(1, len(others))),
            random_.sample(later, min(1, len(later))),
        ):
            for name in names:
                yield (
                    "operand rewired",
                    f"{name} in place of {value.name}",
                    lambda g, n, path=path, name=name: (
                        (with_literal(n, path, Ref(name)),) if name in g.by_name else None
                    ),
                )


def _between(graph: Graph, first: str, last: str, wanted: TensorType | None) -> list[str]:
    names = [node.name for node in graph.nodes]
    return [
        name
        for name in names[names.index(first) + 1 : names.index(last)]
        if graph.by_name[name].type == wanted is not None
    ]


def _bypassed(graph: Graph, node: Node) -> Iterator[tuple[str, str, Change]]:
    for name in dict.fromkeys(references(node)):
        if node.type is not None and graph.by_name[name].type == node.type:
            yield (
                "operator removed",
                f"its operand {name} passed on",
                lambda g, n, name=name: (call(n.name, "aten.alias.default", Ref(name)),),
            )
            return


# ------------------------------------------------------------------------------------------------ literals
def _literals(job: Job, node: Node, row: Operator | None) -> Iterator[tuple[str, str, Change]]:
    named = _parameters(node, row)
    moved = [path for path, name in named.items() if name in (*_STARTS, *_STOPS)]
    if len(moved) > 1 or node.target == "getitem" or {"index"} & set(named.values()):
        paths = moved or [path for path, value in leaves_of(node) if type(value) is int][-1:]
        for step in (1, -1):
            yield "slice moved", f"moved by {step}", lambda g, n, paths=paths, step=step: _shifted(n, paths, step)
    for path, value in leaves_of(node):
        name = named.get(path[:1], "")
        if row is not None and name == row.group_parameter:
            for group in job.mesh.groups:
                if group != value:
                    yield "group", f"group {group} instead of {value}", _put(path, group)
        elif isinstance(value, str):
            if row is not None and row.group_parameter is not None:
                for other in REDUCTIONS:
                    if other != value.lower():
                        yield "reduction of a collective", f"{other} instead of {value}", _put(path, other)
            for mode in next((m for m in _MODES if value in m), ()):
                if mode != value:
                    yield "constant", f"{name or path[0]} = {mode!r} instead of {value!r}", _put(path, mode)
        elif isinstance(value, bool):
            yield "constant", f"{name or path[0]} = {not value}", _put(path, not value)
        elif isinstance(value, DType):
            for dtype in (DType.INT64, DType.BOOL, DType.FLOAT64, DType.FLOAT16):
                if dtype is not value:
                    yield "dtype", f"{dtype} instead of {value}", _put(path, dtype)
        elif isinstance(value, (int, float)):
            for new in _numbers(value):
                yield "constant", f"{name or path[0]} = {new!r} instead of {value!r}", _put(path, new)


def _parameters(node: Node, row: Operator | None) -> dict[tuple[int | str, ...], str]:
    names = list(row.parameters) if row is not None else []
    found: dict[tuple[int | str, ...], str] = {(k,): names[k] for k in range(min(len(names), len(node.args)))}
    return found | {(key,): key for key in node.kwargs}


def _put(path: tuple[int | str, ...], value: Argument) -> Change:
    return lambda graph, node: (with_literal(node, path, value),)


def _shifted(node: Node, paths: list[tuple[int | str, ...]], step: int) -> tuple[Node, ...] | None:
    for path in paths:
        for place, value in leaves_of(node):
            if place[: len(path)] == path and type(value) is int and abs(value) < _MANY:
                node = with_literal(node, place, value + step)
    return (node,)


def _numbers(value: float) -> list[int | float]:
    if isinstance(value, int):
        options: list[int | float] = [value + 1, value - 1, 0, 2 * value, -value]
    elif value == 0.0:
        options = [1.0, 1e-3]
    elif value in (float("inf"), float("-inf")):
        options = [-value, 1e4 if value > 0 else -1e4]
    else:
        options = [2 * value, value * _TINY, -value, value / 2, 0.0, value + 1.0]
    return [new for new in dict.fromkeys(options) if new != value]


# ------------------------------------------------------------------------------------------------ collectives
def _collectives(job: Job, graph: Graph, node: Node, row: Operator) -> Iterator[tuple[str, str, Change]]:
    operand = next((Ref(name) for name in references(node)), None)
    if operand is None or node.type is None:
        return
    before = graph.by_name[operand.name].type
    if before == node.type:
        again = f"{node.name}_once"
        yield "collective removed", "not called", lambda g, n: (call(n.name, "aten.alias.default", operand),)
        yield (
            "collective repeated",
            "called twice",
            lambda g, n: (
                replace(n, name=again),
                replace(n, args=tuple(Ref(again) if item == operand else item for item in n.args)),
            ),
        )
    elif before is not None and before.shape and node.type.shape:
        have, need = before.shape[0], node.type.shape[0]
        if need > have:
            yield (
                "collective removed",
                "own part repeated",
                lambda g, n: (call(n.name, "aten.cat.default", (operand,) * (need // have)),),
            )
        elif need < have:
            yield (
                "collective removed",
                "first part kept",
                lambda g, n: (call(n.name, "aten.slice.Tensor", operand, 0, 0, need),),
            )
            parts = have // need

            def own(g: Graph, n: Node) -> tuple[Node, ...]:
                k = next((r for r, other in enumerate(job.implementation) if other is g), 0) % parts
                return (call(n.name, "aten.slice.Tensor", operand, 0, k * need, (k + 1) * need),)

            yield "collective removed", "own part kept, not reduced", own
