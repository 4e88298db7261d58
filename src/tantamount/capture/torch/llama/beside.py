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

from tantamount.capture.torch.llama.ranks import Ranks
from tantamount.capture.torch.llama.spread import FROZEN, Weight, said, tensors
from tantamount.capture.torch.llama.steps import Step, reduce_step

if TYPE_CHECKING:
    from tantamount.capture.torch.llama.plan import NewPart

__all__ = ["beside", "layout_of", "sent_slices"]

Weights = Mapping[str, Weight]


def layout_of(pipeline: int) -> str:
    """The name of the axes of a pipeline's ranks."""
    return f"beside{pipeline}" if pipeline else "default"


def beside(parts: Sequence[Sequence[NewPart]], pieces: Sequence[Mapping[str, Weights]]) -> Iterator[NewPart]:
    """The parts of all pipelines. ``parts[k]`` are those that pipeline k would have alone, ``pieces[k]`` the weights of
    its pieces."""
    for kind in ("", "reduce", "update"):
        for number, part in enumerate(parts[0]):
            if part.finish != kind:
                continue
            own = [one[number] for one in parts]
            if kind == "reduce":
                piece = part.table["of"]
                weights = [{w: x for w, x in of[piece].items() if w not in FROZEN} for of in pieces]
                yield from _copied([_own(one, x) for one, x in zip(own, weights, strict=True)])
                yield from _copied([_sum(one, weights, k) for k, one in enumerate(own)])
            else:
                yield from _copied(own) if part.table.get("kind") != "once" else own[:1]


def _copied(parts: Sequence[NewPart]) -> Iterator[NewPart]:
    """The first, and the others in its place."""
    first, *others = parts
    yield first
    for number, part in enumerate(others, 1):
        missing = [tensor for tensor in first.table["outputs"] if tensor not in part.table["outputs"]]
        table = {
            "kind": "copy", "of": first.name, "pipelines": [number], "layout": layout_of(number),
            "inputs": part.table["inputs"], "outputs": part.table["outputs"],
            **({"without": missing} if missing else {}),
        }  # fmt: skip
        yield replace(part, name=f"{first.name}_{layout_of(number)}", table=table, finish="")


# ---------------------------------------------------------------------------------------------- gradients
def _own(part: NewPart, weights: Weights) -> NewPart:
    """The gradients of a piece added up over the ranks of a pipeline: its summands."""

    def build(ranks: Ranks) -> Step:
        step = reduce_step({w: x.sums for w, x in weights.items()}, {}, False, {}, ranks)
        return lambda **given: {f"s_{name[2:]}": value for name, value in step(**given).items()}

    table = {**part.table, "outputs": {f"s_{w}": said(x.state) for w, x in weights.items()}}
    return replace(part, name=f"{part.table['of']}_own", build=build, table=table, varies=())


def _sum(part: NewPart, weights: Sequence[Weights], pipeline: int) -> NewPart:
    """The summands of all pipelines added up, and in the first of them their squares."""
    own = weights[pipeline]
    others = [k for k in range(len(weights)) if k != pipeline]
    squares = {key: entry for key, entry in part.table["outputs"].items() if key.startswith("squares")}
    counted = {
        key: tuple(axis for axis in entry if axis != "copy") if isinstance(entry, dict) else ()
        for key, entry in squares.items()
    }
    of = (
        {key: {(): [w for w, x in own.items() if x.squares == axes]} for key, axes in counted.items()}
        if not pipeline
        else {}
    )

    def build(ranks: Ranks) -> Step:
        step = reduce_step(dict.fromkeys(own, ()), of, False, {}, ranks)

        def run(**given: torch.Tensor) -> dict[str, torch.Tensor]:
            whole = {w: given[f"s_{w}"] for w in own}
            for k in others if ranks.sizes else ():
                whole = {w: value + given[f"s_{w}_{k}"] for w, value in whole.items()}
            return step(**{f"d_{w}": value for w, value in whole.items()})

        return run

    def taken(w: str, k: int) -> Any:
        if k == pipeline:
            return {**own[w].state}
        ranks, dim = sent_slices(weights[k][w], own[w])
        return {**own[w].state, "name": f"s_{w}_{k}", "sent": {"ranks": ranks, "dim": dim}}

    table = {
        **part.table,
        "inputs": {f"s_{w}": [taken(w, k) for k in range(len(weights))] for w in own},
        "outputs": {**{f"g_{w}": said(x.state) for w, x in own.items()}, **({} if pipeline else squares)},
    }
    local = tensors(own, "state", "s_")
    local |= {f"s_{w}_{k}": tensor for k in others for w, tensor in tensors(own, "state").items()}
    return replace(
        part, name=f"{part.table['of']}_sum", build=build, whole=tensors(own, "whole", "s_"), local=local, table=table,
        varies=(),
    )  # fmt: skip


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
