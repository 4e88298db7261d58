"""Pipelines beside each other that have degrees of their own: what each does in the place of the parts of the first,
and how their gradients are added up.

Every pipeline adds up its gradients over its own ranks; these are the summands of all, which a part of each adds up. A
rank is sent the slices that it lacks by those who have them.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm, prod
from typing import TYPE_CHECKING, Any

import torch

from tantamount.capture.torch.llama.ranks import Ranks, kept, whole_of
from tantamount.capture.torch.llama.spread import FROZEN, Degrees, Weight, empty, said, tensors
from tantamount.capture.torch.llama.steps import Step, norm_step, reduce_step

if TYPE_CHECKING:
    from tantamount.capture.torch.llama.plan import NewPart

__all__ = ["beside", "layouts_beside", "sent_slices"]

Weights = Mapping[str, Weight]


def layouts_beside(degrees: Degrees) -> dict[str, dict[str, int]]:
    """The axes of the ranks of pipelines, where they are not those of the first, by the name of each."""
    different = dict.fromkeys(tuple(own.inner.items()) for own in degrees.pipelines)
    return {f"beside{k}": dict(inner) for k, inner in enumerate(different) if k}


def beside(
    parts: Sequence[Sequence[NewPart]],
    pieces: Sequence[Mapping[str, Weights]],
    layouts: Mapping[str, Mapping[str, int]],
) -> Iterator[NewPart]:
    """The parts of all pipelines. ``parts[k]`` are those that pipeline k would have alone, ``pieces[k]`` the weights of
    its pieces; ``layouts`` are those of :func:`layouts_beside`."""
    ranks = [prod(one[0].degrees.inner.values()) for one in parts]
    stages = parts[0][0].degrees.pp // len(parts)
    world = stages * sum(ranks) if len({*ranks}) > 1 else 0  # of how many the norm is, where numbers differ
    for finish in ("", "reduce", "update"):
        for number, part in enumerate(parts[0]):
            own = [one[number] for one in parts]
            if part.finish != finish:
                continue
            if finish == "reduce":
                piece = part.table["of"]
                weights = [{w: x for w, x in of[piece].items() if w not in FROZEN} for of in pieces]
                yield from _copied([_own(one, x) for one, x in zip(own, weights, strict=True)], layouts)
                yield from _copied([_sum(one, weights, k, bool(world)) for k, one in enumerate(own)], layouts)
            elif part.table.get("kind") == "once":
                yield _norm(part, world) if world else part
            else:
                yield from _copied(own, layouts)


def _norm(part: NewPart, world: int) -> NewPart:
    """The norm of what all ranks have, each a summand."""
    squares = {"squares": empty()}
    table = {**part.table, "sums": {"squares": "squares"}, "inputs": {"squares": {"world": 'Partial("sum")'}}}
    return replace(
        part, build=lambda ranks: norm_step(part.degrees.clip, {"squares": ("world",)}, ranks), whole=squares,
        local=squares, mesh={"world": world}, table=table,
    )  # fmt: skip


def _copied(parts: Sequence[NewPart], layouts: Mapping[str, Mapping[str, int]]) -> Iterator[NewPart]:
    """The first, and those that run in its place in pipelines that do something else."""
    first = parts[0]
    yield first
    done = [first]
    for number, part in enumerate(parts):
        if any(_alike(part, other) for other in done):
            continue
        done.append(part)
        missing = [tensor for tensor in first.table["outputs"] if tensor not in part.table["outputs"]]
        layout = next((name for name, inner in layouts.items() if inner == part.degrees.inner), "default")
        table = {
            "kind": "copy", "of": first.name, "layout": layout,
            "pipelines": [k for k, other in enumerate(parts) if _alike(part, other)],
            "inputs": part.table["inputs"], "outputs": part.table["outputs"],
            **({"without": missing} if missing else {}),
        }  # fmt: skip
        yield replace(part, name=f"{first.name}_beside{number}", table=table, finish="")


def _alike(one: NewPart, other: NewPart) -> bool:
    """True if two pipelines do the same."""
    return one.degrees == other.degrees and one.table == other.table


# ---------------------------------------------------------------------------------------------- gradients
def _own(part: NewPart, weights: Weights) -> NewPart:
    """The gradients of a piece added up over the ranks of a pipeline: its summands, which ranks of dp have alike."""
    early = part.degrees.zero >= 2

    def build(ranks: Ranks) -> Step:
        step = reduce_step({w: x.sums for w, x in weights.items()}, {}, early, {}, ranks)

        def run(**given: torch.Tensor) -> dict[str, torch.Tensor]:
            added = step(**given)
            found = {w: added[f"g_{w}"] for w in weights}
            if early:
                found = {w: whole_of(x, weights[w].shard or 0, ranks.group("dp")) for w, x in found.items()}
            return {f"s_{w}": x for w, x in found.items()}

        return run

    table = {**part.table, "outputs": {f"s_{w}": said(x.summed) for w, x in weights.items()}}
    return replace(part, name=f"{part.table['of']}_own", build=build, table=table)


def _sum(part: NewPart, weights: Sequence[Weights], pipeline: int, apart: bool) -> NewPart:
    """The summands of all pipelines added up, and in the first of them their squares; ``apart``: of these every rank of
    a stage has a summand."""
    own, degrees = weights[pipeline], part.degrees
    others = [k for k in range(len(weights)) if k != pipeline]
    long = tuple(axis for axis, size in degrees.inner.items() if size > 1)
    counted = {"_".join(("squares", *axes)): axes for axes in sorted({x.squares for x in own.values()})}
    placed = {key: entry for key, entry in part.table["outputs"].items() if key.startswith("squares")}
    if apart:
        placed = {"squares": said(dict.fromkeys(long, 'Partial("sum")'))}

    def squares(made: Mapping[str, torch.Tensor], key: str, ranks: Ranks) -> torch.Tensor:
        found = torch.zeros((), device=next(iter(made.values())).device)
        for w, x in own.items():
            alike = prod(ranks.size(axis) for axis in long if axis not in x.squares) if apart else 1
            if apart or x.squares == counted.get(key):
                found = found + made[w].square().sum() / alike
        return found

    def build(ranks: Ranks) -> Step:
        def run(**given: torch.Tensor) -> dict[str, torch.Tensor]:
            made = {w: given[f"s_{w}"] for w in own}
            for k in others if ranks.sizes else ():
                made = {w: value + given[f"s_{w}_{k}"] for w, value in made.items()}
            if degrees.zero:
                made = {w: kept(value, own[w].shard or 0, ranks.group("dp")) for w, value in made.items()}
            counts = {} if pipeline else {key: squares(made, key, ranks) for key in placed}
            return {**{f"g_{w}": value.clone() for w, value in made.items()}, **counts}

        return run

    def taken(w: str, k: int) -> Any:
        if k == pipeline:
            return {**own[w].summed}
        ranks, dim = sent_slices(weights[k][w], own[w])
        return {**own[w].summed, "name": f"s_{w}_{k}", "sent": {"ranks": ranks, "dim": dim}}

    table = {
        **part.table,
        "inputs": {f"s_{w}": [taken(w, k) for k in range(len(weights))] for w in own},
        "outputs": {**{f"g_{w}": said(x.state) for w, x in own.items()}, **({} if pipeline else placed)},
    }
    local = tensors(own, "summed", "s_")
    local |= {f"s_{w}_{k}": tensor for k in others for w, tensor in tensors(own, "summed").items()}
    return replace(
        part, name=f"{part.table['of']}_sum", build=build, whole=tensors(own, "whole", "s_"), local=local, table=table
    )


def sent_slices(source: Weight, target: Weight) -> tuple[list[str], int]:
    """The slices that ranks of ``target`` are sent by those of ``source``, one text for each, and the dimension that
    both cut. Of several ranks that have one, all are asked in turn."""
    (count, have), (many, need) = _slices(source), _slices(target)
    unit = lcm(count, many)
    texts: list[str] = []
    for rank, k in enumerate(need):
        wanted = range(k * unit // many, (k + 1) * unit // many)
        terms: list[str] = []
        for piece in range(count):
            inside = [u % (unit // count) for u in wanted if u * count // unit == piece]
            holders = [r for r, index in enumerate(have) if index == piece]
            holder = holders[rank % len(holders)]
            each = unit // count
            terms += [f"{holder}"] if len(inside) == each else [f"{holder}[{u}/{each}]" for u in inside]
        texts.append("+".join(terms))
    return texts, next((dim for weight in (source, target) for dim in weight.cut.values()), 0)


def _slices(weight: Weight) -> tuple[int, list[int]]:
    """The number of equal slices that a weight is cut into along one dimension, and for every rank which it has."""
    axes = weight.degrees.inner
    indices = [0]
    for axis, size in axes.items():
        indices = [index * size + k if axis in weight.cut else index for index in indices for k in range(size)]
    return prod(axes[axis] for axis in weight.cut), indices
