"""Rows of HLO instructions whose computation compares elements, or that look at windows: sort, topk, reductions of
pairs (argmax), reduce-window. A computation is recognised by what it computes, written out as one expression."""

from __future__ import annotations

from math import inf
from typing import Any

from tantamount.capture.hlo_convolutions import window_of
from tantamount.capture.hlo_rows import HARMLESS, Row, Translation, neutral, reducer
from tantamount.capture.hlo_text import Array, Computation, Tuple
from tantamount.capture.hlo_values import boolean, integer, integers, padding
from tantamount.ir.graph import Argument

__all__ = ["extreme_of_pairs", "reduce_window", "sort", "topk"]

_Expression = Any  # a parameter's number, the text of a constant, or an opcode with what it is of
_MOST = 64  # instructions of a computation that is written out


def _expression(computation: Computation) -> _Expression:
    """The root as one nested tuple: ``(opcode, direction, operands ...)``; ``None`` for a computation with attributes
    that are not known, or of many instructions."""
    if len(computation.instructions) > _MOST:
        return None
    found: dict[str, _Expression] = {}
    for one in computation.instructions:
        if {*one.attributes} - HARMLESS - {"direction", "type"}:
            return None
        if one.opcode == "parameter":
            found[one.name] = int(one.inside) if one.inside.strip().isdecimal() else None
        elif one.opcode == "constant":
            found[one.name] = one.inside.strip()
        else:
            found[one.name] = (one.opcode, one.attributes.get("direction", ""), *(found.get(o) for o in one.operands))
    return found.get(computation.root.name)


# ---------------------------------------------------------------------------------------------- orders
def _key(p: int) -> tuple[_Expression, ...]:
    """The ways in which a comparator reads an element: as it is, or with one NaN and one 0."""
    zero = ("select", "", ("compare", "EQ", p, "0"), "0", p)
    return p, ("select", "", ("compare", "NE", p, p), "nan", zero)


def sort(step: Translation, row: Row) -> Any:
    """The operands in the order of the first one: equal elements keep theirs, or nothing tells them apart."""
    found = _expression(step.computation("to_apply"))
    directions = {
        ("compare", direction, a, b): direction
        for direction in ("LT", "GT")
        for a, b in zip(_key(0), _key(1), strict=True)
    }
    direction = next((way for known, way in directions.items() if known == found), None)
    stable = boolean(step.instruction.attributes.get("is_stable", "false"), step.place.at("is_stable"))
    dims = integers(step.instruction.attributes.get("dimensions", "{}"), step.place.at("dimensions"))
    several = len(step.operands) > 1
    signed = several and step.types[0].type.dtype.is_float and _tells_zeros_apart(step, found)
    if direction is None or len(dims) != 1 or (several and not stable) or signed:
        raise step.place.wrong(
            f"a sort by {step.computation('to_apply').name}"
            + (", which puts -0 before 0" if signed else "" if stable else ", which is not stable"),
            "the order of the first operand, stable, by < or > of its elements", code="hlo-reducer",
        )  # fmt: skip
    kwargs: dict[str, Argument] = {"dimension": dims[0], "descending": direction == "GT"}
    types = _types(step, len(step.operands))
    results = [
        step.emit("hlo.sort", (step.operands[0], operand), kwargs, type_, f"[{k}]" if len(types) > 1 else "")
        for k, (operand, type_) in enumerate(zip(step.operands, types, strict=True))
    ]
    return tuple(results) if isinstance(step.instruction.type, Tuple) else results[0]


def _tells_zeros_apart(step: Translation, found: _Expression) -> bool:
    """True of a comparator in the total order that reads elements as they are: others make every zero one."""
    type_ = step.computation("to_apply").root.attributes.get("type")
    return type_ == "TOTALORDER" and found is not None and found[2:] == (0, 1)


def topk(step: Translation, row: Row) -> Any:
    """The k greatest (least) elements of the last dimension, the first ones of equal ones, and their positions."""
    attributes = step.instruction.attributes
    kwargs: dict[str, Argument] = {
        "k": integer(attributes.get("k", ""), step.place.at("k")),
        "largest": boolean(attributes.get("largest", "true"), step.place.at("largest")),
    }
    values, places = _types(step, 2)
    return (
        step.emit("hlo.topk-values", step.operands, kwargs, values, "[0]"),
        step.emit("hlo.topk-places", step.operands, {**kwargs, "dtype": places.type.dtype}, places, "[1]"),
    )


def _types(step: Translation, count: int) -> list[Array]:
    """The types of as many results."""
    type_ = step.instruction.type
    parts = list(type_.parts) if isinstance(type_, Tuple) else [type_]
    if len(parts) != count:
        raise step.place.wrong(f"{len(parts)} results", f"{count}", code="hlo-operands")
    return [step.array(part) for part in parts]


# ---------------------------------------------------------------------------------------------- reductions of pairs
def extreme_of_pairs(step: Translation, row: Row) -> Any:
    """The greatest (least) element along a dimension and its first position: two tensors, of which the second counts
    the positions, reduced by the computation that JAX writes for ``argmax`` (``argmin``)."""
    found = _expression(step.computation("to_apply"))
    kinds = {_pair(way, nan): kind for way, kind in (("GT", "maximum"), ("LT", "minimum")) for nan in (True, False)}
    kind = next((kind for known, kind in kinds.items() if known == found), None)
    dims = integers(step.instruction.attributes.get("dimensions", "{}"), step.place.at("dimensions"))
    neither = kind is None or len(dims) != 1 or step.number(3) != 0
    if neither or step.number(2) != neutral(kind or "", step.types[0].type.dtype) or step.counts(1) != dims[0]:
        raise step.place.wrong(
            "a reduce of 2 tensors at once", "the extreme element along one dimension and its first position",
            code="hlo-reducer", hint="other reductions of pairs are not supported",
        )  # fmt: skip
    kwargs: dict[str, Argument] = {"dimension": dims[0], "kind": kind or ""}
    values, places = _types(step, 2)
    return (
        step.emit("hlo.extreme-value", step.operands[:1], kwargs, values, "[0]"),
        step.emit("hlo.extreme-place", step.operands[:1], {**kwargs, "dtype": places.type.dtype}, places, "[1]"),
    )


def _pair(direction: str, nan: bool) -> _Expression:
    """``(a, i), (b, j)`` to the pair with the element that compares so (or is a NaN), or with the first place if both
    are equal."""
    before = ("compare", direction, 0, 2)
    if nan:
        before = ("or", "", before, ("compare", "NE", 0, 0))
    first = ("and", "", ("compare", "EQ", 0, 2), ("compare", "LT", 1, 3))
    return "tuple", "", ("select", "", before, 0, 2), ("select", "", ("or", "", before, first), 1, 3)


# ---------------------------------------------------------------------------------------------- windows
def _log_add_exp() -> _Expression:
    """``log(exp(a) + exp(b))`` as JAX writes it: the sum where the difference is no number."""
    apart = ("subtract", "", 0, 1)
    small = ("exponential", "", ("negate", "", ("abs", "", apart)))
    whole = ("add", "", ("maximum", "", 0, 1), ("log-plus-one", "", small))
    return "select", "", ("compare", "NE", apart, apart), ("add", "", 0, 1), whole


def reduce_window(step: Translation, row: Row) -> Any:
    """Its computation recognised; what lies beyond the tensor must change nothing."""
    fields, place = window_of(step, {"size", "stride", "pad"}), step.place.at("window")
    type_, given = step.array(step.instruction.type), step.types[0].type
    rank = len(given.shape)
    if len(step.operands) != 2:
        raise place.wrong(f"{len(step.operands)} operands", "one tensor and an initial value", code="hlo-operands")
    ends = padding(fields["pad"], place) if "pad" in fields else ((0, 0, 0),) * rank
    size, stride = _sizes(fields["size"]), _sizes(fields["stride"]) if "stride" in fields else (1,) * rank
    of_logs = given.dtype.is_float and _expression(step.computation("to_apply")) == _log_add_exp()
    kind = "log-add-exp" if of_logs else reducer(step, "to_apply")
    if step.number(1) is None or step.number(1) != (-inf if of_logs else neutral(kind, given.dtype)):
        raise step.place.wrong(
            "an initial value that changes the result", f"the one that does not, for {kind}", code="hlo-reducer"
        )
    kwargs: dict[str, Argument] = {
        "size": size, "stride": stride, "low": tuple(end[0] for end in ends), "high": tuple(end[1] for end in ends),
        "kind": kind,
    }  # fmt: skip
    return step.emit("hlo.reduce-window", step.operands[:1], kwargs, type_)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in text.split("x"))
