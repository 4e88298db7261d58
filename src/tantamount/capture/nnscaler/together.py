"""The ranks that a rank communicates with, and the assumptions about whoever runs the modules."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from tantamount.capture.nnscaler.modules import GeneratedModule
from tantamount.capture.nnscaler.statements import Call, Function
from tantamount.verdict import Assumption

__all__ = ["components", "outside", "ranks_in", "said_of_runtime"]


def components(modules: Sequence[GeneratedModule]) -> list[tuple[tuple[int, ...], bool]]:
    """For every rank the ranks that its segments communicate with, directly or not, and whether all their collectives
    are over exactly these."""
    groups = [{ranks for ranks, _ in _spoken(module)} for module in modules]
    parent = list(range(len(modules)))

    def root(rank: int) -> int:
        while parent[rank] != rank:
            parent[rank] = parent[parent[rank]]
            rank = parent[rank]
        return rank

    for rank, own in enumerate(groups):
        for group in own:
            for member in group:
                parent[root(member)] = root(rank)
    members: dict[int, list[int]] = {}
    for rank in range(len(modules)):
        members.setdefault(root(rank), []).append(rank)
    return [(tuple(members[root(r)]), groups[r] <= {tuple(members[root(r)])}) for r in range(len(modules))]


def outside(module: GeneratedModule, world: int) -> Generator[str]:
    """Collectives over ranks that there are not, or that their own rank is not among."""
    found = [*_spoken(module, "")]
    found += [(reducer.ranks, reducer.line) for reducer in module.reducers.values()]
    for ranks, line in found:
        if module.rank not in ranks or not all(0 <= r < world for r in ranks):
            yield f"{module.path}:{line}: rank {module.rank} of {world} calls a collective of ranks {list(ranks)}"


def _spoken(module: GeneratedModule, kind: str = "segment") -> Generator[tuple[tuple[int, ...], int]]:
    """The groups of the collectives in functions of a kind, with their lines."""
    for name, function in module.functions.items():
        if name.startswith(kind):
            yield from ranks_in(function)


def ranks_in(function: Function) -> Generator[tuple[tuple[int, ...], int]]:
    """The groups of the collectives in a function, and in those that it defines, with their lines."""
    for statement in function.body:
        call = statement.value
        if isinstance(call, Call):
            ranks = call.kwargs.get("ranks")
            if isinstance(ranks, tuple):
                yield tuple(r for r in ranks if isinstance(r, int)), statement.line
    for inner in function.inner.values():
        yield from ranks_in(inner)


def said_of_runtime(modules: Sequence[GeneratedModule], unit: int) -> tuple[Assumption, ...]:
    """The assumptions about whoever runs the modules, of which the modules themselves do not speak. ``unit``: ranks
    with equal data."""
    units, count = len(modules) // unit, modules[0].microbatches
    data = (
        f"the k-th of {count} samples that a rank takes is the k-th microbatch"
        if count > 1
        else "a rank takes one sample"
    )
    if units > 1:
        data += f", other rows of the batch on each {unit} ranks ({units} units)"
    if unit > 1:
        data += f", and the same on all {unit} ranks of a unit"
    version = f"nnScaler's runtime {modules[0].version} does what docs/plan.md says of its calls; reducers have the "
    runtime = version + "defaults of the constructor, and buffers the values that the model gives them"
    if any(reducer.scattered for module in modules for reducer in module.reducers.values()):
        runtime += "; of reduced gradients a rank uses its part only (zero_use_reduce_scatter)"
    found = [
        Assumption("data-loader", data, (modules[0].path,)),
        Assumption("nnscaler-runtime", runtime, (modules[0].path,)),
    ]
    if modules[0].arguments:
        loop = (
            "the training loop clears gradients, calls the module once and then the backward pass of its first result, "
        )
        loop += "and its optimizer calls the reducers"
        found.append(Assumption("nnscaler-runtime", loop, (modules[0].path,)))
    return tuple(found)
