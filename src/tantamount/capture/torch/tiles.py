"""A tensor as the parts of it that ranks hold, and the relation that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tantamount.ir.mesh import Mesh
from tantamount.ir.types import Shape

__all__ = ["Box", "Tile", "expression_of", "placement_of"]

Box = tuple[tuple[int, int], ...]
"""Start and stop in every dimension."""


@dataclass(frozen=True)
class Tile:
    """``whole[box]`` is ``name[inner]`` of a rank, whose shape is ``shape``."""

    box: Box
    rank: int
    name: str
    inner: Box
    shape: Shape


def placement_of(tiles: Sequence[Tile], name: str, shape: Shape, mesh: Mesh) -> Any:
    """One placement per mesh axis (one alone for one axis, or for replicas), if every rank holds one part, cut
    evenly, of a tensor of the same name; else ``None``."""
    held = {tile.rank: tile for tile in tiles if tile.name == name and _is_all(tile)}
    if len(held) != mesh.world_size or len(held) != len(tiles):
        return None
    choices = [None, *range(len(shape))]
    for dims in product(choices, repeat=len(mesh.axes)):
        if all(tile.box == _part(shape, dims, mesh, rank) for rank, tile in held.items()):
            texts = ["Replicate()" if dim is None else f"Shard({dim})" for dim in dims]
            return texts[0] if len(texts) == 1 or not any(dim is not None for dim in dims) else texts
    return None


def _part(shape: Shape, dims: Sequence[int | None], mesh: Mesh, rank: int) -> Box | None:
    """The part of a rank, the first mesh axis cutting first; ``None`` if sizes do not divide."""
    box = [(0, size) for size in shape]
    for dim, size, index in zip(dims, mesh.axes.values(), mesh.coordinates(rank), strict=True):
        if dim is not None:
            start, stop = box[dim]
            if (stop - start) % size:
                return None
            step = (stop - start) // size
            box[dim] = start + index * step, start + (index + 1) * step
    return tuple(box)


def expression_of(tiles: Sequence[Tile], name: str, shape: Shape) -> Any:
    """A concatenation of parts of ranks, dimension by dimension; parts that several hold are stated to be equal.
    ``None`` if the parts do not make up a grid."""
    first: dict[Box, Tile] = {}
    for tile in tiles:
        first.setdefault(tile.box, tile)
    text = _assembled(first, name, shape, 0)
    if text is None:
        return None
    equal = [" == ".join(_text(tile, name) for tile in held) for held in _replicas(tiles) if len(held) > 1]
    return {"relation": text, "equal": equal} if equal else text


def _replicas(tiles: Sequence[Tile]) -> list[list[Tile]]:
    """The tensors that several ranks hold: whole tensors that are made alike, and parts of others."""
    tensors: dict[tuple[int, str], list[Tile]] = {}
    for tile in tiles:
        tensors.setdefault((tile.rank, tile.name), []).append(tile)
    alike: dict[frozenset[tuple[Box, Box]], list[Tile]] = {}
    for (rank, label), held in tensors.items():
        all_of_it = tuple((0, size) for size in held[0].shape)
        whole = Tile(held[0].box, rank, label, all_of_it, held[0].shape)
        alike.setdefault(frozenset((tile.box, tile.inner) for tile in held), []).append(whole)
    parts: dict[Box, list[Tile]] = {}
    for group in alike.values():
        for tile in tensors[group[0].rank, group[0].name]:
            parts.setdefault(tile.box, []).append(tile)
    return [*alike.values(), *parts.values()]


def _assembled(tiles: Mapping[Box, Tile], name: str, shape: Shape, dim: int) -> str | None:
    if dim == len(shape):
        return _text(next(iter(tiles.values())), name)
    slabs: dict[tuple[int, int], dict[Box, Tile]] = {}
    for box, tile in tiles.items():
        slabs.setdefault(box[dim], {})[box] = tile
    cuts = sorted(slabs)
    if [start for start, _ in cuts] + [shape[dim]] != [0, *(stop for _, stop in cuts)]:
        return None
    parts = [_assembled(slabs[cut], name, shape, dim + 1) for cut in cuts]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    return found[0] if len(found) == 1 else f"concat({', '.join(found)}, dim={dim})"


def _is_all(tile: Tile) -> bool:
    return tile.inner == tuple((0, size) for size in tile.shape)


def _text(tile: Tile, name: str) -> str:
    """The part in the language of relations; the tensor's name is understood if it is that of the whole."""
    quoted = "" if tile.name == name else ', "' + tile.name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    cut = "" if _is_all(tile) else f"[{', '.join(f'{start}:{stop}' for start, stop in tile.inner)}]"
    return f"rank({tile.rank}{quoted}){cut}"
