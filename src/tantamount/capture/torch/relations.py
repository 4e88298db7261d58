"""Layouts of DTensors as relations that a job can state, and the mesh that all ranks share."""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, product
from typing import Any

from tantamount.capture.stated import placement_text
from tantamount.capture.torch.placements import Layout
from tantamount.capture.torch.tiles import Tile, expression_of
from tantamount.errors import UserError
from tantamount.ir.mesh import Mesh

__all__ = ["axes_of_ranks", "group_names", "mesh_of", "relation"]

_Block = tuple[int, int]  # start and stop of a part of a dimension


def mesh_of(layouts: Sequence[Layout], world_size: int, given: Mapping[str, int] | None) -> Mesh:
    """The mesh: as given, else the DTensors' own if one covers all ranks, else one axis."""
    if given is not None:
        return Mesh(dict(given))
    whole = [root for layout in layouts if (root := _root(layout.spec.mesh)).size() == world_size]
    for mesh in sorted(whole, key=lambda found: -found.ndim):
        if mesh.mesh.flatten().tolist() == list(range(world_size)):
            names = mesh.mesh_dim_names or tuple(f"dim{k}" for k in range(mesh.ndim))
            return Mesh(dict(zip(names, mesh.mesh.shape, strict=True)))
    return Mesh({"rank": world_size})


def _root(mesh: Any) -> Any:
    """The mesh that a mesh is a part of: what ``mesh["tp"]`` was taken from."""
    find = getattr(mesh, "_get_root_mesh", None)
    return mesh if find is None else find()


def group_names(mesh: Mesh, rank: int, groups: Mapping[str, tuple[int, ...]], used: set[str]) -> dict[str, str]:
    """A name that is the same on all ranks for every process group that a rank's graph uses: its mesh axes."""
    names: dict[str, str] = {}
    for name in sorted(used):
        if name not in groups:
            continue
        members = groups[name]
        axes = axes_of_ranks(mesh, members, rank)
        if axes is None:
            raise UserError(
                "capture-group", place=f"rank {rank}, process group {name}",
                found=f"ranks {list(members)}", needed=f"ranks along axes of the mesh {dict(mesh.axes)}",
                hint='say the mesh: capture_ranks(..., mesh={"dp": 2, "tp": 4}); ranks are numbered row-major',
            )  # fmt: skip
        names[name] = "+".join(axes) or "self"
    return names


def axes_of_ranks(mesh: Mesh, ranks: tuple[int, ...], one: int) -> tuple[str, ...] | None:
    """The axes along which these ranks are those that ``one`` of them is with, in their order, or ``None``."""
    return next((axes for axes in _subsets(mesh) if _members(mesh, axes, one) == ranks), None)


def axes_of_name(label: str) -> tuple[str, ...]:
    """The axes that a name made by :func:`group_names` stands for."""
    return () if label == "self" else tuple(label.split("+"))


def _subsets(mesh: Mesh) -> Iterator[tuple[str, ...]]:
    names = mesh.names
    for bits in range(1 << len(names)):
        yield tuple(name for k, name in enumerate(names) if bits >> k & 1)


def _members(mesh: Mesh, axes: tuple[str, ...], rank: int) -> tuple[int, ...]:
    return Mesh(mesh.axes, {"group": axes}).members("group", rank)


# ---------------------------------------------------------------------------------------------- placements
def relation(layout: Layout, mesh: Mesh, world_size: int) -> Any:
    """The relation of a DTensor: one placement per mesh axis, or an expression where a dimension is cut in another
    order."""
    own = layout.spec.mesh
    axes = _axes(own, mesh)
    if any(type(placement).__name__ == "_StridedShard" for placement in layout.spec.placements):
        return _expression(layout, axes, mesh, world_size)
    by_axis = {axis: placement_text(placement) for axis, placement in zip(axes, layout.spec.placements, strict=True)}
    found = [by_axis.get(axis, "Replicate()") for axis in mesh.names]
    return found[0] if len(found) == 1 or all(text == "Replicate()" for text in found) else found


def _axes(own: Any, mesh: Mesh) -> list[str]:
    """The axes of the whole mesh that those of a DTensor's mesh are."""
    names = own.mesh_dim_names
    if names and all(name in mesh.axes for name in names):
        return list(names)
    if own.size() == mesh.world_size and own.ndim == len(mesh.axes):
        return list(mesh.names)
    raise UserError(
        "capture-mesh", place="a DTensor", found=f"the mesh {own}", needed=f"axes of the mesh {dict(mesh.axes)}",
        hint="name the dimensions of device meshes, and give capture_ranks the whole mesh",
    )  # fmt: skip


def _expression(layout: Layout, axes: Sequence[str], mesh: Mesh, world_size: int) -> Any:
    """A concatenation of pieces of ranks, dimension by dimension; replicas are stated to be equal."""
    tiles: list[Tile] = []
    for rank in range(world_size):
        blocks = _blocks(layout, axes, mesh, rank)
        local = tuple(sum(stop - start for start, stop in held) for held in blocks)
        for pairs in product(*map(_placed, blocks)):
            tiles.append(Tile(tuple(box for box, _ in pairs), rank, "", tuple(at for _, at in pairs), local))
    return expression_of(tiles, "", layout.shape)


def _placed(blocks: Sequence[_Block]) -> list[tuple[_Block, _Block]]:
    """Blocks that follow each other, with where they are in the rank's tensor."""
    stops = list(accumulate((stop - start for start, stop in blocks), initial=0))
    return list(zip(blocks, pairwise(stops), strict=True))


def _blocks(layout: Layout, axes: Sequence[str], mesh: Mesh, rank: int) -> tuple[tuple[_Block, ...], ...]:
    """For every dimension the parts of the whole that a rank holds, in order."""
    coordinate = dict(zip(mesh.names, mesh.coordinates(rank), strict=True))
    held: list[list[_Block]] = [[(0, size)] for size in layout.shape]
    for axis, placement in zip(axes, layout.spec.placements, strict=True):
        if placement.is_replicate():
            continue
        if placement.is_partial():
            raise UserError(
                "capture-placement", place="a DTensor", found=f"placements {layout.spec.placements}",
                needed="no Partial beside a strided shard",
            )  # fmt: skip
        factor = getattr(placement, "split_factor", 1)
        held[placement.dim] = _cut(held[placement.dim], factor, mesh.axes[axis], coordinate[axis])
    return tuple(tuple(blocks) for blocks in held)


def _cut(blocks: list[_Block], factor: int, parts: int, index: int) -> list[_Block]:
    """The ``index``-th of ``parts`` of each of ``factor`` chunks, one after the other."""
    size = sum(stop - start for start, stop in blocks)
    out: list[_Block] = []
    chunk = -(-size // factor)
    for k in range(factor):
        low, high = min(k * chunk, size), min((k + 1) * chunk, size)
        piece = -(-(high - low) // parts)
        start, stop = min(low + index * piece, high), min(low + (index + 1) * piece, high)
        out += _window(blocks, start, stop)
    return out


def _window(blocks: list[_Block], start: int, stop: int) -> list[_Block]:
    """Positions ``start..stop`` of what the blocks hold."""
    out: list[_Block] = []
    at = 0
    for low, high in blocks:
        a, b = max(start, at), min(stop, at + high - low)
        if a < b:
            out.append((low + a - at, low + b - at))
        at += high - low
    return out
