"""Process groups that a program spells out as rank numbers, found again as axes of the job's mesh."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, permutations

from tantamount.capture.fields import Place, shown
from tantamount.ir.graph import Graph
from tantamount.ir.mesh import Mesh

__all__ = ["check_alone", "with_groups"]


def with_groups(mesh: Mesh, graphs: tuple[Graph, ...], place: Place) -> Mesh:
    """The mesh with the groups that the graphs spell out. Raises :class:`UserError` if a graph is for another number of
    ranks, or has groups that are not the lines of the mesh along some of its axes, members in row-major order."""
    groups = dict(mesh.groups)
    for graph in {id(graph): graph for graph in graphs}.values():
        if graph.ranks is not None and graph.ranks != mesh.world_size:
            raise place.wrong(
                f"a mesh of {mesh.world_size} ranks for {graph.path}, which is for {graph.ranks}",
                "as many ranks as the program is for", code="mesh-size",
            )  # fmt: skip
        for name, instances in graph.groups.items():
            axes = mesh.names if not instances else _axes(mesh, instances)
            if axes is None:
                sizes = " x ".join(f"{axis}={size}" for axis, size in mesh.axes.items()) or "no axes"
                raise place.wrong(
                    f"the ranks {shown(name)} of {graph.path} in the mesh {sizes}",
                    "groups that are the lines of the mesh along some of its axes", code="mesh-groups",
                    hint="cut the mesh into more axes, so that each of the program's groups lies along some of them",
                )  # fmt: skip
            if groups.setdefault(name, axes) != axes:
                raise place.wrong(f"the group {shown(name)} in [impl.groups]", "names that no program spells out")
    return replace(mesh, groups=groups)


def _axes(mesh: Mesh, instances: tuple[tuple[int, ...], ...]) -> tuple[str, ...] | None:
    """The axes, in an order, along which the mesh falls into exactly these lists of ranks."""
    wanted = set(instances)
    size = len(instances[0])
    if sorted(chain.from_iterable(instances)) != list(range(mesh.world_size)):
        return None
    long = [axis for axis in mesh.names if mesh.axes[axis] > 1]
    for count in range(len(long) + 1):
        for axes in permutations(long, count):
            trial = Mesh(mesh.axes, {"": axes})
            if trial.group_size("") == size and all(trial.members("", row[0]) == row for row in wanted):
                return axes
    return None


def check_alone(graph: Graph, place: Place) -> None:
    """A specification is one rank: refuse one whose groups have several."""
    for name, instances in graph.groups.items():
        if any(len(row) > 1 for row in instances) or (not instances and (graph.ranks or 1) > 1):
            raise place.wrong(
                f"collectives between the ranks {shown(name)} in {graph.path}", "the program of one device",
                code="specification-ranks",
            )  # fmt: skip
