"""The placements of weights on ranks, found by numbers: a checkpoint whose elements are numbered, as one device and as
every rank has loaded it."""

# pyright: basic
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np

from tantamount.capture.fx_json import parse_graph
from tantamount.capture.programs import Program
from tantamount.capture.torch.tiles import Tile, expression_of, placement_of
from tantamount.errors import UserError
from tantamount.ir.mesh import Mesh
from tantamount.limits import limits_from_environment

__all__ = ["Pieces", "in_pieces", "weight_relations"]

Pieces = tuple[int, tuple[tuple[int, int], ...]]
"""A dimension, and the start and stop of every piece along it."""


def weight_relations(
    whole: Mapping[str, Any], held: Sequence[Mapping[str, Any]], mesh: Mesh
) -> tuple[dict[str, Any], dict[str, Pieces]]:
    """The relation of every weight, as a job writes it, from the numbers (from 1 on, each once) of its elements in
    ``whole`` and in what each rank holds.

    Ranks may have a part of a weight in common, and another part not (keys and values of heads that several ranks
    use, beside queries). Relations speak of whole tensors only; such weights are named in the second table, and their
    relation is that of the pieces that :func:`in_pieces` cuts them into."""
    relations: dict[str, Any] = {}
    cut: dict[str, Pieces] = {}
    for name, numbers in whole.items():
        lines = [_lines(f"{name} on rank {rank}", numbers, parts[name]) for rank, parts in enumerate(held)]
        cuts = [_cuts([line[dim] for line in lines]) for dim in range(numbers.ndim)]
        runs = [[_runs(*pair) for pair in zip(line, cuts, strict=True)] for line in lines]
        tiles: list[Tile] = []
        for rank, pieces in enumerate(runs):
            shape = tuple(places[-1][1][1] for places in pieces)
            for piece in product(*pieces):
                tiles.append(Tile(tuple(box for box, _ in piece), rank, name, tuple(at for _, at in piece), shape))
        relation = placement_of(tiles, name, numbers.shape, mesh) or expression_of(tiles, name, numbers.shape)
        if isinstance(relation, dict) and any("[" in equation for equation in relation["equal"]):
            cut[name] = dim, spans = _pieces(name, runs)
            tiles = [_piece(name, tile, dim, span) for tile in tiles for span in spans if tile.inner[dim] == span]
            relation = expression_of(tiles, name, numbers.shape)
        if relation is None:
            raise UserError(
                "capture-vllm", place=name, found="parts on ranks that do not make up the whole", needed="all of it"
            )
        relations[name] = relation
    return relations, cut


def in_pieces(program: Program, cut: Mapping[str, Pieces]) -> Program:
    """The program with some inputs put together from pieces, which are its inputs instead."""
    if not cut:
        return program
    nodes: list[dict[str, Any]] = []
    for node in program.document["nodes"]:
        if node["op"] != "placeholder" or node["name"] not in cut:
            nodes.append(node)
            continue
        dim, spans = cut[node["name"]]
        names = [_name(node["name"], dim, span) for span in spans]
        for name, (start, stop) in zip(names, spans, strict=True):
            shape = [stop - start if k == dim else size for k, size in enumerate(node["shape"])]
            nodes.append({**node, "name": name, "target": name, "shape": shape})
        joined = [[{"node": name} for name in names], dim]
        nodes.append({**node, "op": "call_function", "target": "aten.cat.default", "args": joined, "kwargs": {}})
    document = {**program.document, "nodes": nodes}
    graph = parse_graph(json.dumps(document), program.graph.path, limits_from_environment())
    return replace(program, graph=graph, document=document)


def _name(name: str, dim: int, span: tuple[int, int]) -> str:
    return f"{name}[{':, ' * dim}{span[0]}:{span[1]}]"


def _piece(name: str, tile: Tile, dim: int, span: tuple[int, int]) -> Tile:
    """A part of a rank's tensor, as a tensor of its own."""
    shape = tuple(stop - start for start, stop in tile.inner)
    return replace(tile, name=_name(name, dim, span), inner=tuple((0, size) for size in shape), shape=shape)


def _pieces(name: str, runs: Sequence[Sequence[Sequence[Any]]]) -> Pieces:
    """The pieces that all ranks' tensors consist of, along the one dimension that they are cut along."""
    spans = {tuple(tuple(at for _, at in places) for places in pieces) for pieces in runs}
    along = {dim for pieces in spans for dim, places in enumerate(pieces) if len(places) > 1}
    if len(spans) != 1 or len(along) != 1:
        raise UserError(
            "capture-vllm", place=name, found="parts in common that are not cut alike on all ranks",
            needed="parts along one dimension, of the same sizes on all ranks",
        )  # fmt: skip
    (dim,) = along
    (pieces,) = spans
    return dim, pieces[dim]


def _lines(place: str, whole: Any, part: Any) -> list[Any]:
    """For every dimension of a rank's tensor the indices of the whole that it holds, by the numbers of the elements."""
    order = np.argsort(whole, axis=None)
    at = np.searchsorted(whole.reshape(-1)[order], part)
    source = np.unravel_index(order[np.minimum(at, whole.size - 1)], whole.shape)
    lines = [index[tuple(slice(None) if k == dim else 0 for k in range(part.ndim))] for dim, index in enumerate(source)]
    known = part.min() > 0 and len(np.unique(whole)) == whole.size
    if not known or not np.array_equal(whole[np.ix_(*lines)], part):
        raise UserError(
            "capture-vllm", place=place, found="elements that no block of one weight explains",
            needed="blocks of a weight, without padding", hint="take a vocabulary of a multiple of 64 times the ranks",
        )  # fmt: skip
    return lines


def _cuts(lines: Sequence[Any]) -> set[int]:
    """The indices of the whole at which some rank's part begins or ends."""
    return {edge for line in lines for span, _ in _runs(line, set()) for edge in span}


def _runs(line: Any, cuts: set[int]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The runs in which indices go up by one, without crossing a cut: (start, stop) of the indices, and of their
    places."""
    breaks = [k for k in range(1, len(line)) if line[k] != line[k - 1] + 1 or int(line[k]) in cuts]
    return [((int(line[a]), int(line[a]) + b - a), (a, b)) for a, b in pairwise([0, *breaks, len(line)])]
