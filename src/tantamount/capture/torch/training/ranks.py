"""The programs of the ranks of one pipeline stage, found on as few ranks as show them, and their parts of tensors."""

# pyright: basic
from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Any

from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from tantamount.capture.programs import Program
from tantamount.capture.stated import placement_text
from tantamount.capture.torch.programs import trace_rank
from tantamount.capture.torch.relations import axes_of_ranks
from tantamount.capture.torch.training.buffers import Call, without_buffers
from tantamount.capture.torch.training.rewriting import without_detours
from tantamount.errors import InternalError, UserError
from tantamount.ir.mesh import Mesh

__all__ = ["Placed", "Side", "axes_of", "capture_side", "in_order"]

ALL = 8  # of so many ranks every one is captured

Placed = Mapping[str, str]  # axis -> placement; an axis that is not named has replicas


@dataclass(frozen=True)
class Side:
    """The programs of the ranks: one, or along ``axis`` (or two, as ``dp+tp``) one for each coordinate. ``inputs`` and
    ``outputs`` are the placements of DTensors. ``order``: pairs of axes of which the first has the larger blocks where
    both cut the same dimension. ``captured`` of ``world`` ranks were captured."""

    programs: tuple[Program, ...]
    axis: str
    inputs: Mapping[str, Placed]
    outputs: Mapping[str, Placed]
    order: frozenset[tuple[str, str]]
    groups: Mapping[str, tuple[str, ...]]
    captured: int
    world: int


def capture_side(build: Callable[[int], Any], axes: Mapping[str, int], place: str) -> Side:
    """The programs of a mesh of ranks; ``build`` as in :func:`tantamount.capture_ranks`.

    All of at most 8 ranks are captured. Of more, those with coordinates 0, 1 and the last along every axis, and if
    programs differ along an axis, every coordinate along it: that the others run what these do is an assumption.
    Raises :class:`UserError` for ranks whose programs differ along more than one axis."""
    mesh = Mesh(dict(axes))
    seen = _found(build, mesh, place, apart=True) or _found(build, mesh, place, apart=False)
    if seen is None:
        raise InternalError(f"{place}: programs that nothing was done to")
    axis, ranks, found = seen
    order: set[tuple[str, str]] = set()
    inputs: dict[str, Placed] = {}
    outputs: dict[str, Placed] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for _, _, given, made, names in found.values():
        groups |= {name: tuple(name.split("+")) for name in names.values() if name != "self"}
        for leaves, table in ((given, inputs), (made, outputs)):
            for leaf in leaves:
                if leaf.layout is not None:
                    placed = _placed(leaf.layout, axes, order, f"{place}: {leaf.name}")
                    if table.setdefault(leaf.name, placed) != placed:
                        raise UserError(
                            "capture-placement", place=f"{place}: {leaf.name}", found=f"{table[leaf.name]} on one rank,"
                            f" {placed} on another", needed="one placement of a tensor on all ranks",
                        )  # fmt: skip
    programs = tuple(found[rank][0] for rank in ranks)
    return Side(programs, axis, inputs, outputs, frozenset(order), groups, len(found), mesh.world_size)


_Found = tuple[Program, str, list[Any], list[Any], dict[str, str]]


def _found(
    build: Callable[[int], Any], mesh: Mesh, place: str, *, apart: bool
) -> tuple[str, list[int], dict[int, _Found]] | None:
    """The axis along which programs differ, the ranks that stand for its coordinates, and what was captured of ranks;
    with buffers taken ``apart``, or ``None`` if not all ranks take the same ones apart in the same way."""
    found: dict[int, _Found] = {}
    calls: set[tuple[tuple[object, ...], ...]] = set()

    def look(rank: int) -> str:
        if rank not in found:
            own: list[Call] = []

            def simplified(graph: fx.Graph) -> None:
                without_detours(graph)
                own.extend(without_buffers(graph) if apart else ())

            program, traced, names = trace_rank(build, rank, mesh.axes, simplified)
            text = json.dumps({**program.document, "rank": None}, sort_keys=True)
            found[rank] = program, text, list(traced.inputs), list(traced.outputs), names
            calls.add(tuple((names.get(call.group, call.group), call.number, call.part, call.what) for call in own))
        return found[rank][1]

    for rank in _chosen(mesh):
        look(rank)
    if len(calls) > 1:
        return None
    axis = _differing(mesh, {rank: text for rank, (_, text, *_) in found.items()}, place)
    ranks = [0]
    if axis:
        ranks = [0]
        for name in axis.split("+"):
            ranks = [_with(mesh, rank, name, k) for rank in ranks for k in range(mesh.axes[name])]
        for rank in ranks:
            look(rank)
    return None if len(calls) > 1 else (axis, ranks, found)


def _chosen(mesh: Mesh) -> Iterator[int]:
    if mesh.world_size <= ALL:
        yield from range(mesh.world_size)
        return
    yield 0
    for axis, size in mesh.axes.items():
        yield from dict.fromkeys(_with(mesh, 0, axis, k) for k in (1, size - 1) if 0 < k < size)
    yield mesh.world_size - 1


def _with(mesh: Mesh, rank: int, axis: str, k: int) -> int:
    at = list(mesh.coordinates(rank))
    at[mesh.names.index(axis)] = k
    return mesh.rank(tuple(at))


def _differing(mesh: Mesh, texts: Mapping[int, str], place: str) -> str:
    """The axis along which programs differ, or two of them, as ``dp+tp``; empty if all are one."""
    if len(set(texts.values())) == 1:
        return ""
    names = mesh.names
    for axes in (*((axis,) for axis in names), *combinations(names, 2)):
        if len(axes) > 1 and prod(mesh.axes[axis] for axis in axes) > ALL:
            continue
        by: dict[tuple[int, ...], set[str]] = {}
        for rank, text in texts.items():
            at = mesh.coordinates(rank)
            by.setdefault(tuple(at[names.index(axis)] for axis in axes), set()).add(text)
        if all(len(own) == 1 for own in by.values()):
            return "+".join(axes)
    raise UserError(
        "plan-ranks", place=place, found=f"programs that differ along more than one axis of {dict(mesh.axes)}",
        needed=f"ranks that run one program, along one axis one for each coordinate, or along two of {ALL} ranks",
    )  # fmt: skip


def _placed(layout: Any, axes: Mapping[str, int], order: set[tuple[str, str]], place: str) -> Placed:
    """The placements of a DTensor by the names of axes. Where two axes cut the same dimension, ``order`` gets which one
    comes first: the mesh's, or where a strided shard says so, the other."""
    found: dict[str, str] = {}
    cuts: dict[int, list[tuple[tuple[str, ...], int]]] = {}
    for along, placement in zip(axes_of(layout.spec.mesh, axes, place), layout.spec.placements, strict=True):
        strided = type(placement).__name__ == "_StridedShard"
        text = f"Shard({placement.dim})" if strided else placement_text(placement)
        if text is None:
            raise UserError(
                "capture-placement", place=place, found=f"placement {placement}",
                needed="Replicate, Shard, Partial, or what FSDP makes of Shard",
            )  # fmt: skip
        found |= dict.fromkeys(along, text)
        if text.startswith("Shard"):
            cuts.setdefault(placement.dim, []).append((along, placement.split_factor if strided else 1))
            order.update(combinations(along, 2))
    for cut in cuts.values():
        for k, (along, factor) in enumerate(cut):
            later = [other for others, _ in cut[k + 1 :] for other in others]
            if factor == 1:
                order.update(product(along, later))
            elif factor == prod(axes[other] for other in later):
                order.update(product(later, along))
            else:
                raise UserError(
                    "capture-placement", place=place, found=f"placements {layout.spec.placements}",
                    needed="strided shards whose factor is what the axes after them cut",
                )  # fmt: skip
    return {name: text for name, text in found.items() if text != "Replicate()"}


def axes_of(mesh: Any, axes: Mapping[str, int], place: str) -> list[tuple[str, ...]]:
    """The axes that each dimension of a device mesh goes along, larger blocks first: those whose ranks are its own,
    whatever its name. Raises :class:`UserError` if there are none."""
    whole = Mesh(dict(axes))
    found: list[tuple[str, ...]] = []
    for k, name in enumerate(mesh.mesh_dim_names or ("",) * mesh.ndim):
        with _disable_current_modes():  # these tensors are numbers of ranks, also in a trace
            ranks = mesh._layout.remap_to_tensor(mesh._rank_map)  # of all meshes that this is one of
            lines: list[list[int]] = ranks.movedim(k + 1, -1).flatten(0, -2).tolist()
        if axes.get(name) == len(lines[0]) == 1:
            found.append((name,))
            continue
        along = {axes_of_ranks(whole, tuple(line), line[0]) for line in lines}
        if len(along) > 1 or None in along:
            raise UserError(
                "capture-mesh", place=place, found=f"the mesh {mesh}", needed=f"axes of {dict(axes)}",
                hint="slice the mesh that is handed in: mesh['tp']",
            )  # fmt: skip
        found += [one for one in along if one is not None]
    return found


def in_order(axes: Sequence[str], order: frozenset[tuple[str, str]]) -> list[str]:
    """The axes, every one after those that cut the same dimensions into larger blocks. Ranks are known by their
    coordinates, so this order is free. Raises :class:`UserError` where there is none."""
    left, found = list(axes), list[str]()
    while left:
        free = next((axis for axis in left if not any((other, axis) in order for other in left if other != axis)), None)
        if free is None:
            raise UserError(
                "capture-placement", place="mesh", found=f"tensors cut by {', '.join(left)} in different orders",
                needed="one order of the axes for all tensors that two of them cut along one dimension",
            )  # fmt: skip
        left.remove(free)
        found.append(free)
    return found
