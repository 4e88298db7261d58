"""The same programs on fewer ranks: long axes of the mesh, along which ranks run one program, made short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tantamount.effort import Effort
from tantamount.errors import Unsupported, UserError
from tantamount.ir.job import Job
from tantamount.ops.check import check_graph
from tantamount.ops.classes import RankClass
from tantamount.reduction.folded import folded
from tantamount.reduction.reduce import NotReduced, sketch
from tantamount.reduction.relations import check_relations

__all__ = ["LONG", "long_axes", "shortened"]

LONG = 4  # axes of so many ranks or fewer are as short as they get


def long_axes(classes: Sequence[RankClass]) -> list[str]:
    """The axes of the mesh, along which ranks run one program, that can be made short."""
    return [axis for axis, size in classes[0].mesh.axes.items() if size > LONG]


def shortened(job: Job, axes: Sequence[str], effort: Effort, ranks: int = 2) -> Job:
    """The job with those of ``axes`` that are longer than :data:`LONG` made ``ranks`` long: all at once, or else one
    after the other, those that can be. Types and relations fit; that it computes something alike is not checked. Its
    numbers are told as those of ``job``.

    What programs do with one piece for every rank is seen as a view and a permutation first."""
    small = start = folded(job, LONG)
    axes = [axis for axis in axes if axis not in job.counted]
    for axis in (axes, *([axis] for axis in axes)):
        try:
            shorter = sketch(small, axis, effort, ranks, outputs=True)
        except NotReduced:
            continue
        if axis is axes and any(shorter.mesh.axes[one] > LONG for one in axes):
            continue
        if not check_relations(shorter) and _is_typed(shorter):
            small = shorter
            if axis is axes:
                break
    return job if small is start else replace(small, larger=job)


def _is_typed(job: Job) -> bool:
    """True if every node has the type that is on record: a size that a sketch took for a number may not fit."""
    sizes = {group: job.mesh.group_size(group) for group in job.mesh.groups}
    try:
        check_graph(job.specification, None)
        for graph in {id(graph): graph for graph in job.implementation}.values():
            check_graph(graph, sizes)
    except (UserError, Unsupported):
        return False
    return True
