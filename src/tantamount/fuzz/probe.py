"""The operators that a backend has, by element types, found by probes: programs of one call each, run once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

from tantamount.fuzz.backends.base import Backend, Compiler
from tantamount.fuzz.draft import ALL_DTYPES, Draft, Policy, counted
from tantamount.fuzz.generate import pruned
from tantamount.fuzz.samplers import SAMPLERS
from tantamount.ir.graph import Graph, Output, references
from tantamount.ir.types import DType
from tantamount.semantics.reference import Array

__all__ = ["probe"]


def probe(backend: Backend, compiler: Compiler) -> Iterator[tuple[str, tuple[str, ...]]]:
    """For each operator the element types of operands with which the backend takes it."""
    for target in SAMPLERS:
        if backend.targets is None or target in backend.targets:
            found = [
                dtype.label
                for dtype in ALL_DTYPES
                if dtype in backend.dtypes and _works(target, dtype, backend, compiler)
            ]
            if found:
                yield target, tuple(found)


def _works(target: str, dtype: DType, backend: Backend, compiler: Compiler) -> bool:
    return any(compiler.run(graph, inputs).ok for graph, inputs in islice(_programs(target, dtype, backend), 3))


def _programs(target: str, dtype: DType, backend: Backend) -> Iterator[tuple[Graph, dict[str, Array]]]:
    policy = Policy(dtypes=backend.dtypes, empty=False, wrap=False, limits=False)
    for seed in range(40):
        draft = Draft(Random(f"{target}/{dtype}/{seed}"), policy)
        draft.dtypes = (dtype,)
        sizes = ((3,), (3, 4), (2, 3, 4), (1, 3, 5, 5), ())[seed % 5]
        draft.leaf(sizes, dtype, constant=False)
        name = SAMPLERS[target].draw(draft, target)
        if name is None or name not in draft.values:
            continue
        graph = pruned(Graph(tuple(draft.nodes), (Output(name, name),), dict(draft.constants), path="probe"))
        call = graph.by_name[name]
        source = graph.by_name[next(iter(references(call)))] if call.target == "getitem" else call
        first = [draft.values[other].dtype for other in references(source)]
        if dtype in counted(call.target, first) and graph.inputs:
            yield graph, {node.name: draft.inputs[node.name] for node in graph.inputs}
