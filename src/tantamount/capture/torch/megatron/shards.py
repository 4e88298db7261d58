"""The places of a model's parameters in the parameters of the whole, as Megatron's checkpoints have it.

``sharded_state_dict()`` says of every local tensor which slice of which global tensor it is: the parts of column and
row parallel weights, the two halves of a gated unit, the layers of a stage, the experts of a rank. Two models that
make the same checkpoint are the same model cut differently.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tantamount.capture.torch.tiles import Box, Tile, expression_of, placement_of
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import Shape

__all__ = ["Piece", "pieces_of", "relations_of"]


@dataclass(frozen=True)
class Piece:
    """``name[inner]``, of a parameter of this shape, is ``key[where]`` of the checkpoint; ``where`` may begin with
    dimensions that the parameter does not have (its layer, its expert)."""

    name: str
    shape: Shape
    inner: Box
    key: str
    where: Box


def pieces_of(model: Any) -> tuple[Piece, ...]:
    """All pieces of a Megatron-Core model's parameters; Megatron's parallel state must be initialised."""
    mapping = import_module("megatron.core.dist_checkpointing.mapping")
    parameters = dict(model.named_parameters())
    found: list[Piece] = []
    for name, entry in model.sharded_state_dict().items():
        parts = entry.build() if isinstance(entry, mapping.ShardedTensorFactory) else entry
        whole = parameters.get(name)
        if whole is None:
            continue
        for part in _leaves(parts):
            if isinstance(part, mapping.ShardedTensor):
                extra = part.prepend_axis_num
                sizes = (1,) * extra + tuple(part.local_shape)
                where = tuple((at, at + size) for at, size in zip(part.global_offset, sizes, strict=True))
                found.append(Piece(name, tuple(whole.shape), _inside(part.data, whole), part.key, where))
    return tuple(found)


def _leaves(parts: Any) -> Iterator[Any]:
    if isinstance(parts, Mapping):
        parts = list(parts.values())
    if isinstance(parts, list | tuple):
        for part in parts:
            yield from _leaves(part)
    else:
        yield parts


def _inside(part: Any, whole: Any) -> Box:
    """The box of a contiguous tensor that a view of it covers."""
    at = part.storage_offset() - whole.storage_offset()
    box: list[tuple[int, int]] = []
    for size, stride in zip(part.shape, whole.stride(), strict=True):
        start, at = divmod(at, stride)
        box.append((start, start + size))
    return tuple(box)


def relations_of(
    whole: Sequence[Piece], ranks: Sequence[Sequence[Piece]], mesh: Mesh, prefix: str = ""
) -> dict[str, Any]:
    """The relation of every parameter of the whole to those of the ranks that have a part of it, as a job writes it;
    ``prefix`` goes before the names of both (``"grad "`` for their gradients, which lie as they do)."""
    tiles: dict[str, list[Tile]] = {}
    shapes = {piece.name: piece.shape for piece in whole}
    for piece in whole:
        for rank, held in enumerate(ranks):
            tiles.setdefault(piece.name, []).extend(
                tile for part in held if (tile := _tile(piece, part, rank, prefix)) is not None
            )
    found: dict[str, Any] = {}
    for name, held in tiles.items():
        label = prefix + name
        relation = placement_of(held, label, shapes[name], mesh) or expression_of(held, label, shapes[name])
        if relation is not None:
            found[label] = relation
    return found


def _tile(piece: Piece, part: Piece, rank: int, prefix: str) -> Tile | None:
    """The part of a piece of the whole that a rank's piece holds."""
    if piece.key != part.key or len(piece.where) != len(part.where):
        return None
    common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(piece.where, part.where, strict=True)]
    if any(start >= stop for start, stop in common):
        return None
    return Tile(_moved(common, piece), rank, prefix + part.name, _moved(common, part), part.shape)


def _moved(common: Sequence[tuple[int, int]], piece: Piece) -> Box:
    """Positions in the checkpoint as positions in the parameter."""
    extra = len(piece.where) - len(piece.inner)
    moves = [own - there for (own, _), (there, _) in zip(piece.inner, piece.where[extra:], strict=True)]
    return tuple((start + by, stop + by) for (start, stop), by in zip(common[extra:], moves, strict=True))
