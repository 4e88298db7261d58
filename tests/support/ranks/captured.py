"""The table of cases, captured, and the graphs of the ranks executed: what real processes are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import tantamount as tt
from support.ranks.cases import RANKS, Built, Case
from support.ranks.processes import tensors_of
from tantamount.ops.check import check_graph
from tantamount.semantics.interpret import interpret_ranks

__all__ = ["bundle", "differences", "title"]

MESH = {"a": 2, "b": 2}


def title(one: Case) -> str:
    """The name of a case in the file of outcomes."""
    return f"{one.group}: {one.name}"


def bundle(cases: Sequence[Case]) -> Callable[[int], Built]:
    """One program that runs several cases one after the other."""

    def build(rank: int) -> Built:
        built = [one.build(rank) for one in cases]

        def function(*args: Any) -> Any:
            return [one.function(*own) for one, own in zip(built, args, strict=True)]

        modules = {f"{k}.{prefix}": module for k, one in enumerate(built) for prefix, module in one.modules.items()}
        optimizers = tuple(optimizer for one in built for optimizer in one.optimizers)
        return Built(function, tuple(one.args for one in built), modules, optimizers)

    return build


def differences(cases: Sequence[Case], real: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Where the captured ranks give other numbers than the real ones gave: no lines where all agree.

    Every gradient and every new value must be an output of the graph, and nothing that the graph does not give may have
    changed. Raises :class:`UserError` where a case cannot be captured."""
    inputs: dict[int, list[np.ndarray]] = {}  # a rank that waits for objects of another is built once more
    outcome: dict[int, dict[str, Any]] = {}
    built: list[Built] = []

    def build(rank: int) -> Any:
        one = bundle(cases)(rank)
        built.append(one)
        inputs[rank] = [np.asarray(tensor) for tensor in tensors_of(one)]
        outcome[rank] = _joined(cases, real[rank], one)
        return one.function, one.args, {"modules": one.modules, "optimizers": list(one.optimizers)}

    ranks = tt.capture_ranks(build, RANKS, mesh=cases[0].mesh or MESH)
    graphs = [program.graph for program in ranks.programs]
    given = [
        {node.name: value for node, value in zip(graph.inputs, inputs[rank], strict=True)}
        for rank, graph in enumerate(graphs)
    ]
    found = interpret_ranks(graphs, ranks.mesh, given)
    for rank, (graph, values) in enumerate(zip(graphs, found, strict=True)):
        outputs = {output.name: np.asarray(values[output.node]) for output in graph.outputs}
        yield from (f"rank {rank}: {line}" for line in _compared(graph, outputs, given[rank], outcome[rank]))


def _joined(cases: Sequence[Case], real: Mapping[str, Any], built: Built) -> dict[str, Any]:
    """The outcomes of the cases as that of the bundle: state of all first (modules, optimizers), then arguments."""
    own = [real[title(one)] for one in cases]
    assert not any(outcome["error"] for outcome in own), [outcome["error"] for outcome in own]
    counts = [_counts(one) for one in cases]
    whole: dict[str, Any] = {"results": [r for outcome in own for r in outcome["results"]]}
    for key in ("gradients", "values"):
        parts: list[list[Any]] = [[], [], []]
        for outcome, (modules, optimizers) in zip(own, counts, strict=True):
            parts[0] += outcome[key][:modules]
            parts[1] += outcome[key][modules : modules + optimizers]
            parts[2] += outcome[key][modules + optimizers :]
        whole[key] = [x for part in parts for x in part]
    return whole


def _counts(one: Case) -> tuple[int, int]:
    """How many tensors of the state of a case are its modules', and its optimizers'."""
    from support.ranks.processes import state_of

    entries = state_of(one.build(0)).entries
    optimizers = sum(entry.name.startswith("optimizer:") or entry.name.startswith("optimizer") for entry in entries)
    return len(entries) - optimizers, optimizers


def _compared(
    graph: Any, outputs: dict[str, np.ndarray], inputs: Mapping[str, np.ndarray], real: Mapping[str, Any]
) -> Iterable[str]:
    results = [np.asarray(x) for x in real["results"]]
    names = [output.name for output in graph.outputs][: len(results)]
    for name, wanted in zip(names, results, strict=True):
        yield from _unlike(name, outputs.pop(name), wanted)
    for node, gradient, value in zip(graph.inputs, real["gradients"], real["values"], strict=True):
        name = node.name
        grad, new = outputs.pop(f"grad {name}", None), outputs.pop(f"new {name}", None)
        if (grad is None) != (gradient is None):
            yield f"grad {name}: {'only real processes' if grad is None else 'only the graph'} have it"
        elif grad is not None:
            yield from _unlike(f"grad {name}", grad, np.asarray(gradient))
        yield from _unlike(f"new {name}", inputs[name] if new is None else new, np.asarray(value))
    yield from (f"{name}: only the graph has it" for name in outputs)


def _unlike(name: str, found: np.ndarray, wanted: np.ndarray) -> Iterable[str]:
    if found.shape != wanted.shape or not np.allclose(found.astype(float), wanted.astype(float), rtol=1e-4, atol=1e-5):
        yield f"{name}: {found.tolist()}, but {wanted.tolist()} in real processes"


def refusal(one: Case) -> None:
    """Capture a case that should be refused, and look its operators up."""

    def build(rank: int) -> Any:
        built = one.build(rank)
        return built.function, built.args, {"modules": built.modules, "optimizers": list(built.optimizers)}

    ranks = tt.capture_ranks(build, RANKS, mesh=one.mesh or MESH)
    sizes = {group: ranks.mesh.group_size(group) for group in ranks.mesh.groups}
    for program in ranks.programs:
        check_graph(program.graph, sizes)
