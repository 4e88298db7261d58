"""Pieces that are spread in ways of their own over the ranks of a stage, and the exchange between two such ways.

Ranks are numbered in the order of the axes, by every layout. Two layouts of as many ranks have a refinement: axes of
which those of either are products, one after the other. On it, what goes from piece to piece is cut by both, and is
brought from the one form into the other: gathered along the axes that cut it in the first alone, and cut along those
that cut it in the second alone.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import mul

import torch

from tantamount.capture.torch.llama.ranks import Ranks, part_of, total, whole_of
from tantamount.errors import UserError

__all__ = ["Moves", "between_step", "in_parts", "moves", "read_beside", "read_layouts", "refined"]

AXES = ("dp", "ep", "cp", "tp")
Cuts = Sequence[tuple[str, int]]  # axes, from the outermost on, each with the dimension that it cuts


def read_layouts(texts: Sequence[str]) -> dict[str, dict[str, int]]:
    """The degrees of kinds of pieces, from texts such as ``head:dp=8,tp=1``. Raises :class:`UserError`."""
    found: dict[str, dict[str, int]] = {}
    for text in texts:
        kind, colon, rest = text.partition(":")
        sizes = _degrees(rest)
        right = colon and sizes
        if not right or kind in found:
            raise UserError(
                "plan-sizes", place="plan new --layout", found=text + (", again" if kind in found else ""),
                needed=f"a kind of pieces, and degrees of {', '.join(AXES)}: head:dp=8,tp=1",
                hint="give each kind once: embedding, head, layer (of models with experts dense and moe)",
            )  # fmt: skip
        found[kind] = sizes
    return found


def read_beside(texts: Sequence[str]) -> tuple[dict[str, int], ...]:
    """The degrees of further pipelines, from texts such as ``dp=8,tp=1``. Raises :class:`UserError`."""
    wrong = next((text for text in texts if not _degrees(text)), None)
    if wrong is not None:
        raise UserError(
            "plan-sizes", place="plan new --beside", found=wrong, needed=f"degrees of {', '.join(AXES)}: dp=8,tp=1",
            hint="give the option once for each further pipeline",
        )  # fmt: skip
    return tuple(map(_degrees, texts))


def _degrees(text: str) -> dict[str, int]:
    """The degrees that a text names; empty if it names something else as well."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    sizes = {axis.strip(): int(size) for axis, _, size in pairs if size.strip().isdecimal() and len(size) < 9}
    return sizes if len(sizes) == len(pairs) and set(sizes) <= set(AXES) and min(sizes.values()) > 0 else {}


def refined(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int] | None:
    """Axes, with sizes, of which the axes of either mesh are products; ``None`` if there are none. Both have as many
    ranks."""
    ends = sorted({*accumulate(one.values(), mul), *accumulate(other.values(), mul)} - {1})
    sizes: list[int] = []
    before = 1
    for end in ends:
        if end % before:
            return None
        sizes.append(end // before)
        before = end
    return {f"axis{k}": size for k, size in enumerate(sizes)}


def in_parts(mesh: Mapping[str, int], fine: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Under every axis of a mesh the axes of a refinement that it is the product of."""
    rest = list(fine.items())
    found: dict[str, tuple[str, ...]] = {}
    for axis, size in mesh.items():
        own: list[tuple[str, int]] = []
        while prod(n for _, n in own) < size:
            own.append(rest.pop(0))
        found[axis] = tuple(name for name, _ in own)
    return found


@dataclass(frozen=True)
class Moves:
    """The way from one form to another: axes that are ``gathered``, from the innermost on, and then such as ``cut``,
    from the outermost on, each with its dimension; of a number that is a sum over ranks, axes that are ``added`` up,
    and those over which it is a sum afterwards, which have ``shares`` of it."""

    gathered: Cuts
    cut: Cuts
    added: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()


def moves(one: Cuts, other: Cuts, sums: tuple[str, ...] = (), others: tuple[str, ...] = ()) -> Moves:
    """The way from a tensor that is cut like ``one`` to ``other``. What both begin with, dimension by dimension, stays
    as it is. ``sums`` and ``others``: the axes over which numbers are sums before and afterwards."""
    gathered: list[tuple[str, int]] = []
    cut: list[tuple[str, int]] = []
    for dim in sorted({dim for _, dim in (*one, *other)}):
        old, new = ([axis for axis, at in cuts if at == dim] for cuts in (one, other))
        same = next((k for k, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        gathered += [(axis, dim) for axis in reversed(old[same:])]
        cut += [(axis, dim) for axis in new[same:]]
    added = tuple(axis for axis in sums if axis not in others)
    return Moves(gathered, cut, added, tuple(axis for axis in others if axis not in sums))


def between_step(there: Moves, back: Moves, ranks: Ranks):
    """The step that brings what goes from a piece to the next one into the form that this has, and its gradient the
    other way. Of what layers add to the loss (``before``) each rank has a share afterwards."""

    def run(
        x: torch.Tensor, d_y: torch.Tensor, before: torch.Tensor | None = None, d_extra: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        out = {"y": _moved(x, there, ranks), "d_x": _moved(d_y, back, ranks)}
        if before is not None and d_extra is not None:
            extra = total(before, ranks.group(*there.added))
            out |= {"extra": extra / prod(map(ranks.size, there.shares)), "d_before": d_extra.clone()}
        return out

    return run


def _moved(x: torch.Tensor, way: Moves, ranks: Ranks) -> torch.Tensor:
    for axis, dim in way.gathered:
        x = whole_of(x, dim, ranks.group(axis))
    for axis, dim in way.cut:
        x = part_of(x, dim, ranks, axis)
    return x.clone()
