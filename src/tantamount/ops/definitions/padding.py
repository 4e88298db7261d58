"""Padding that mirrors, repeats or wraps what is there."""

from __future__ import annotations

from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.table import Integers, operator

__all__ = ["padded_by"]

_JOINING = "joining"


def _around(b: Builder, x: Tensor, k: int, before: int, after: int, mode: str) -> Tensor:
    size = x.shape[k]
    if mode == "replicate":
        wide = list(x.shape)
        parts: list[Tensor] = []
        for width, place in ((before, 0), (after, size - 1)):
            wide[k] = width
            parts.append(b.expand(b.slice(x, k, place, place + 1), wide))
        return b.concat([parts[0], x, parts[1]], k)
    if mode == "reflect":  # the border is not repeated
        if before >= size or after >= size:
            raise ShapeProblem(f"reflections ({before}, {after}) of {size} elements")
        head = b.flip(b.slice(x, k, 1, before + 1), (k,))
        return b.concat([head, x, b.flip(b.slice(x, k, size - 1 - after, size - 1), (k,))], k)
    if before > size or after > size:
        raise ShapeProblem(f"{size} elements wrapped around by ({before}, {after})")
    return b.concat([b.slice(x, k, size - before, size), x, b.slice(x, k, 0, after)], k)


def padded_by(b: Builder, x: Tensor, pad: Integers, mode: str) -> Tensor:
    """x with widths ``pad`` (before, after; from the last dimension on), filled by ``reflect``, ``replicate`` or
    ``circular``."""
    if mode not in ("reflect", "replicate", "circular"):
        raise ShapeProblem(f"padding mode {mode!r}")
    if len(pad) % 2 or len(pad) >= 2 * x.rank or min(pad, default=0) < 0:
        raise ShapeProblem(f"widths {pad} for {x.type}")
    for n in range(len(pad) // 2):
        k = x.rank - 1 - n
        if not x.shape[k]:
            raise ShapeProblem(f"padding of no elements of {x.type}")
        x = _around(b, x, k, pad[2 * n], pad[2 * n + 1], mode)
    return x


def _of_width(b: Builder, x: Tensor, padding: Integers, count: int, mode: str) -> Tensor:
    if len(padding) != 2 * count:
        raise ShapeProblem(f"{len(padding)} widths for {count} dimensions")
    return padded_by(b, x, padding, mode)


@operator("aten.reflection_pad1d.default", category=_JOINING)
def reflection_pad1d(b: Builder, self: Tensor, padding: Integers) -> Tensor:
    """self mirrored at both ends of the last dimension"""
    return _of_width(b, self, padding, 1, "reflect")


@operator("aten.reflection_pad2d.default", category=_JOINING)
def reflection_pad2d(b: Builder, self: Tensor, padding: Integers) -> Tensor:
    """self mirrored at both ends of the last two dimensions"""
    return _of_width(b, self, padding, 2, "reflect")


@operator("aten.reflection_pad3d.default", category=_JOINING)
def reflection_pad3d(b: Builder, self: Tensor, padding: Integers) -> Tensor:
    """self mirrored at both ends of the last three dimensions"""
    return _of_width(b, self, padding, 3, "reflect")


@operator("aten.replication_pad1d.default", category=_JOINING)
def replication_pad1d(b: Builder, self: Tensor, padding: Integers) -> Tensor:
    """self with its first and last element repeated, in the last dimension"""
    return _of_width(b, self, padding, 1, "replicate")


@operator("aten.replication_pad2d.default", category=_JOINING)
def replication_pad2d(b: Builder, self: Tensor, padding: Integers) -> Tensor:
    """self with its border repeated, in the last two dimensions"""
    return _of_width(b, self, padding, 2, "replicate")


@operator("aten.replication_pad3d.default", category=_JOINING)
def replication_pad3d(b: Builder, self: Tensor, padding: Integers) -> Tensor:
    """self with its border repeated, in the last three dimensions"""
    return _of_width(b, self, padding, 3, "replicate")
