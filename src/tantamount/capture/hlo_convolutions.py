"""HLO's convolutions: dimensions in one order, gaps between elements and what is cut off padded into the operand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tantamount.capture.fields import Place, shown
from tantamount.capture.hlo_rows import Row, Translation
from tantamount.capture.hlo_text import Array
from tantamount.capture.hlo_values import padding
from tantamount.ir.graph import Argument, Ref
from tantamount.ir.types import TensorType

__all__ = ["convolution", "window_of"]

_WINDOW = re.compile(r"\{(?P<fields>[a-z_]+=[\dx_-]+(?: [a-z_]+=[\dx_-]+)*)\}")
_LABELS = re.compile(r"([\dbf]+)_([\dio]+)->([\dbf]+)")


def window_of(step: Translation, known: set[str]) -> Mapping[str, str]:
    """The fields of the attribute ``window``, which has its sizes. Raises :class:`UserError` for others than these."""
    text, place = step.instruction.attributes.get("window", ""), step.place.at("window")
    match = _WINDOW.fullmatch(text)
    fields = dict(part.split("=") for part in match["fields"].split(" ")) if match is not None else {}
    if {*fields} - known or "size" not in fields:
        raise place.wrong(shown(text), f"a window with {', '.join(sorted(known))}", code="hlo-attribute")
    return fields


def convolution(step: Translation, row: Row) -> Any:
    """One or more spatial dimensions, with strides, padding, dilation of both operands, and groups."""
    place = step.place
    rank = len(step.types[0].type.shape)
    labels = _LABELS.fullmatch(step.instruction.attributes.get("dim_labels", ""))
    spatial = "".join(str(k) for k in range(rank - 2))
    if labels is None or rank < 3 or rank > 9:
        raise place.at("dim_labels").wrong(
            shown(step.instruction.attributes.get("dim_labels", "")), "labels of one to seven spatial dimensions, such "
            "as b01f_01io->b01f", code="hlo-attribute",
        )  # fmt: skip
    orders = [
        _order(text, first + spatial, place) for text, first in zip(labels.groups(), ("bf", "oi", "bf"), strict=True)
    ]
    fields = window_of(step, {"size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"})
    count = rank - 2

    def sizes(key: str, default: int) -> tuple[int, ...]:
        parts = fields[key].split("x") if key in fields else [str(default)] * count
        if len(parts) != count or not all(part.isdecimal() for part in parts):
            raise place.at("window").wrong(shown(fields[key]), f"{count} numbers", code="hlo-attribute")
        return tuple(map(int, parts))

    ends = padding(fields["pad"], place.at("window")) if "pad" in fields else ((0, 0, 0),) * count
    given = row.keywords(step, step.array(step.instruction.type))
    features, batches = _count(given, "features", place), _count(given, "batches", place)
    lhs = _Value.of(step, 0).permuted(step, orders[0], "/lhs")
    rhs = _Value.of(step, 1).permuted(step, orders[1], "/rhs")
    if len(ends) != count or sizes("size", 1) != rhs.shape[2:] or (features > 1 and batches > 1):
        raise place.at("window").wrong(shown(fields["size"]), "the sizes of the kernel, and groups of one kind")
    turned = tuple(2 + k for k, back in enumerate(sizes("rhs_reversal", 0)) if back)
    if turned:
        rhs = rhs.made(step, "hlo.reverse", {"dimensions": turned}, rhs.shape, "/reversed")
    if batches > 1:
        lhs = _grouped(step, lhs, batches)
    lhs = _padded(step, lhs, sizes("lhs_dilate", 1), ends)
    kwargs: dict[str, Argument] = {
        "stride": sizes("stride", 1), "low": tuple(max(end[0], 0) for end in ends),
        "high": tuple(max(end[1], 0) for end in ends), "dilation": sizes("rhs_dilate", 1),
        "groups": features * batches, "dtype": given["dtype"],
    }  # fmt: skip
    result = step.array(step.instruction.type)
    shape = tuple(result.type.shape[k] for k in orders[2])
    back = tuple(orders[2].index(k) for k in range(rank))
    if back == tuple(range(rank)):
        return step.emit("hlo.convolution", (Ref(lhs.node), Ref(rhs.node)), kwargs, result)
    made = step.emit("hlo.convolution", (Ref(lhs.node), Ref(rhs.node)), kwargs, _array(result, shape), "/convolution")
    return step.emit("hlo.transpose", (Ref(made.node),), {"dimensions": back}, result)


class _Value:
    """A tensor on its way into a convolution: its node, and its type."""

    def __init__(self, node: str, type_: Array) -> None:
        self.node, self.type = node, type_

    @staticmethod
    def of(step: Translation, operand: int) -> _Value:
        return _Value(step.operands[operand].name, step.types[operand])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.type.shape

    def made(
        self, step: Translation, target: str, kwargs: Mapping[str, Argument], shape: Sequence[int], suffix: str,
        *more: Argument,
    ) -> _Value:  # fmt: skip
        """A node of this operator on the tensor, and on ``more`` operands, as a tensor of that shape."""
        type_ = _array(self.type, shape)
        return _Value(step.emit(target, (Ref(self.node), *more), kwargs, type_, suffix).node, type_)

    def permuted(self, step: Translation, order: tuple[int, ...], suffix: str) -> _Value:
        if order == tuple(range(len(order))):
            return self
        return self.made(step, "hlo.transpose", {"dimensions": order}, [self.shape[k] for k in order], suffix)


def _array(like: Array, shape: Sequence[int]) -> Array:
    return Array(TensorType(tuple(shape), like.type.dtype), None)


def _order(text: str, wanted: str, place: Place) -> tuple[int, ...]:
    """The dimensions of a tensor with these labels, in the order that is wanted."""
    if sorted(text) != sorted(wanted):
        raise place.at("dim_labels").wrong(shown(text), f"each of {wanted} once", code="hlo-attribute")
    return tuple(text.index(label) for label in wanted)


def _count(given: Mapping[str, Argument], name: str, place: Place) -> int:
    found = given.get(name, 1)
    if not isinstance(found, int) or found < 1:
        raise place.wrong(f"{found} groups", "1 or more", code="hlo-attribute")
    return found


def _grouped(step: Translation, x: _Value, groups: int) -> _Value:
    """Groups of samples as groups of channels: (g n, p, ...) as (n, g p, ...)."""
    samples, channels, *rest = x.shape
    if samples % groups:
        raise step.place.wrong(f"{groups} groups of {samples} samples", "a divisor of them", code="hlo-attribute")
    own = samples // groups
    apart = x.made(
        step, "hlo.reshape", {"shape": (groups, own, channels, *rest)}, (groups, own, channels, *rest), "/groups"
    )
    order = (1, 0, *range(2, len(x.shape) + 1))
    apart = apart.permuted(step, order, "/beside")
    shape = (own, groups * channels, *rest)
    return apart.made(step, "hlo.reshape", {"shape": shape}, shape, "/grouped")


def _padded(step: Translation, x: _Value, gaps: tuple[int, ...], ends: Sequence[tuple[int, int, int]]) -> _Value:
    """Zeros between elements, and elements cut off where padding is negative."""
    low = (0, 0, *(min(end[0], 0) for end in ends))
    high = (0, 0, *(min(end[1], 0) for end in ends))
    inner = (0, 0, *(gap - 1 for gap in gaps))
    if min(inner) < 0:
        raise step.place.at("window").wrong("a dilation of 0", "1 or more", code="hlo-attribute")
    if not any((*low, *high, *inner)):
        return x
    shape = [n + max(n - 1, 0) * i + a + b for n, i, a, b in zip(x.shape, inner, low, high, strict=True)]
    if min(shape) < 0 or not prod(x.shape):
        raise step.place.at("window").wrong(
            "padding that leaves nothing", "a tensor with elements", code="hlo-attribute"
        )
    zero = step.emit("hlo.constant", (0.0,), {"shape": (), "dtype": x.type.type.dtype}, _array(x.type, ()), "/zero")
    return x.made(step, "hlo.pad", {"low": low, "high": high, "interior": inner}, shape, "/padded", Ref(zero.node))
