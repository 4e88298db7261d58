"""Mutants of captured programs with size symbols: small changes of documents, some of them right at some sizes only."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tantamount.capture.fx_json import parse_graph
from tantamount.capture.programs import Program, Ranks
from tantamount.errors import TantamountError
from tantamount.limits import limits_from_environment
from tantamount.ops.check import check_graph

__all__ = ["mutants"]

_OPERATORS = {
    "aten.add.Tensor": ["aten.sub.Tensor", "aten.mul.Tensor"],
    "aten.sub.Tensor": ["aten.add.Tensor"],
    "aten.mul.Tensor": ["aten.add.Tensor", "aten.div.Tensor"],
    "aten.div.Scalar": ["aten.mul.Scalar"],
    "aten.div.Tensor": ["aten.mul.Tensor"],
    "aten.sum.default": ["aten.mean.default"],
    "aten.mean.default": ["aten.sum.default"],
}


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, list):
        for k, item in enumerate(value):
            yield from _leaves(item, (*path, k))
    else:
        yield path, value


def _set(args: Any, path: tuple[Any, ...], new: Any) -> None:
    for key in path[:-1]:
        args = args[key]
    args[path[-1]] = new


def _sizes(text: str, symbols: dict[str, Any], random_: random.Random) -> str:
    """Another size: one more or less, twice, another symbol, a number that it is at some sizes."""
    hints = {name: entry["hint"] for name, entry in symbols.items()}
    first, *others = random_.sample(sorted(symbols), len(symbols))
    return random_.choice(
        [f"{text} + 1", f"{text} - 1", f"2*({text})", "2", "4", str(hints[first]), first, f"({text})//2", f"{text} - 2"]
        + [text.replace(first, other) for other in others]
    )


def _mutated(node: dict[str, Any], before: list[str], document: dict[str, Any], random_: random.Random) -> str | None:
    """Change one node; what was done, or ``None`` if that does not fit it."""
    args, symbols = node["args"], document["sizes"]["symbols"]
    leaves = [(path, value) for path, value in _leaves(args) if path]
    kind = random_.choice(["size", "size", "number", "operator", "operand", "swap", "shape"])
    if kind == "size":
        found = [(p, v) for p, v in leaves if isinstance(v, dict) and "size" in v]
        if found:
            path, value = random_.choice(found)
            new = _sizes(value["size"], symbols, random_)
            _set(args, path, {"size": new})
            return f"size {value['size']} -> {new}"
    elif kind == "number":
        found = [(p, v) for p, v in leaves if type(v) in (int, float)]
        if found:
            path, value = random_.choice(found)
            size = {"size": random_.choice(sorted(symbols))}
            new = random_.choice([value + 1, value - 1, value * 2, size if isinstance(value, int) else value / 2])
            _set(args, path, new)
            return f"number {value} -> {new}"
    elif kind == "operator" and node["target"] in _OPERATORS:
        old, node["target"] = node["target"], random_.choice(_OPERATORS[node["target"]])
        return f"{old} -> {node['target']}"
    elif kind == "operand":
        found = [(p, v) for p, v in leaves if isinstance(v, dict) and "node" in v]
        if found and before:
            path, value = random_.choice(found)
            _set(args, path, {"node": random_.choice(before)})
            return f"operand {value['node']} -> {args}"
    elif kind == "swap" and len(args) > 1:
        a, b = random_.sample(range(len(args)), 2)
        args[a], args[b] = args[b], args[a]
        return f"operands {a} and {b} swapped"
    return None


def _retyped(document: dict[str, Any], path: str) -> Program | None:
    """The program, with the types of what was computed left open where they changed; ``None`` if it is none."""
    try:
        graph = parse_graph(json.dumps(document), path, limits_from_environment())
        check_graph(graph, None if graph.rank is None else dict.fromkeys(("tp",), 2))
    except TantamountError:
        return None
    return Program(graph, document)


def mutants(ranks: Ranks, seed: int, count: int) -> Iterator[tuple[str, Ranks]]:
    """``count`` mutants that type-check: what was changed, and the programs. The change is on all ranks or on one."""
    random_ = random.Random(seed)
    made = 0
    for _ in range(count * 60):
        if made == count:
            return
        chosen = random_.choice([None, 0, len(ranks.programs) - 1])
        state = random_.getrandbits(64)
        programs: list[Program] = []
        what: str | None = None
        for rank, program in enumerate(ranks.programs):
            if chosen not in (None, rank):
                programs.append(program)
                continue
            own = random.Random(state)
            document = copy.deepcopy(dict(program.document))
            calls = [k for k, node in enumerate(document["nodes"]) if node["op"] == "call_function"]
            k = own.choice(calls)
            node = document["nodes"][k]
            what = _mutated(node, [n["name"] for n in document["nodes"][max(0, k - 12) : k]], document, own)
            new = None if what is None else _retyped(document, f"rank {rank}")
            if new is None:
                break
            what = f"{node['name']}: {what}" + ("" if chosen is None else f" on rank {rank}")
            programs.append(replace(program, graph=new.graph, document=document))
        else:
            made += 1
            yield str(what), replace(ranks, programs=tuple(programs))
