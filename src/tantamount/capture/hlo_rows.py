"""Nodes made of an HLO instruction: the general rule, and opcodes with rules of their own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from tantamount.capture.fields import Place, shown
from tantamount.capture.hlo_text import Array, Computation, HloType, Instruction, Tuple
from tantamount.capture.hlo_values import integers, padding, slices, string
from tantamount.ir.graph import Argument, Ref
from tantamount.ir.types import DType, Kind

__all__ = [
    "HARMLESS", "Decoder", "Row", "Translation", "all_to_all", "bitcast", "collective", "compare", "custom_call",
    "joined", "neutral", "pad", "permute", "rank_number", "reduce", "reducer", "scatter", "slice_", "window", "word",
]  # fmt: skip

# Where the value is, who wrote the program, hints to a compiler, precision: over the reals none of it matters.
HARMLESS = frozenset({
    "metadata", "sharding", "frontend_attributes", "backend_config", "control-predecessors", "origin", "statistics",
    "operand_precision", "result_accuracy", "algorithm",
})  # fmt: skip
_REDUCERS = ("add", "multiply", "maximum", "minimum", "and", "or")


class Translation(Protocol):
    """One instruction being translated, as a row sees it."""

    @property
    def instruction(self) -> Instruction: ...
    @property
    def place(self) -> Place: ...
    @property
    def operands(self) -> tuple[Ref, ...]: ...
    @property
    def types(self) -> tuple[Array, ...]: ...
    @abstractmethod
    def number(self, operand: int) -> bool | int | float | None: ...
    @abstractmethod
    def counts(self, operand: int) -> int | None: ...
    @abstractmethod
    def computation(self, key: str) -> Computation: ...
    @abstractmethod
    def check_attributes(self, known: set[str]) -> None: ...
    @abstractmethod
    def array(self, type_: HloType) -> Array: ...
    @abstractmethod
    def emit(
        self, target: str, args: Sequence[Argument], kwargs: Mapping[str, Argument], type_: Array, suffix: str = ""
    ) -> Any: ...
    @abstractmethod
    def group(self) -> str: ...
    @abstractmethod
    def all_ranks(self) -> str: ...
    @abstractmethod
    def identity(self, opcode: str) -> bool: ...
    @abstractmethod
    def source_targets(self) -> tuple[tuple[int, ...], ...]: ...


Decoder = Callable[[str, Place], Argument]


@dataclass(frozen=True)
class Row:
    """An opcode that is the operator ``hlo.<opcode>`` of its operands.

    ``attributes``: HLO attribute = (parameter, decoder); ``without_effect``: known, changes no value;
    ``result``: which of ``shape`` and ``dtype`` of the printed result the operator needs; ``operands``: how many;
    ``special``: a translation of its own.
    """

    attributes: Mapping[str, tuple[str, Decoder]]
    operands: int | None = None
    result: tuple[str, ...] = ()
    without_effect: frozenset[str] = frozenset()
    special: Callable[[Translation, Row], Any] | None = None

    def translate(self, step: Translation, row: Row) -> Any:
        if self.operands is not None and len(step.operands) != self.operands:
            raise step.place.wrong(f"{len(step.operands)} operands", f"{self.operands}", code="hlo-operands")
        step.check_attributes({*self.attributes, *self.without_effect})
        if self.special is not None:
            return self.special(step, self)
        type_ = step.array(step.instruction.type)
        return step.emit(f"hlo.{step.instruction.opcode}", step.operands, self.keywords(step, type_), type_)

    def keywords(self, step: Translation, type_: Array) -> dict[str, Argument]:
        found: dict[str, Argument] = {}
        for key, (parameter, decode) in self.attributes.items():
            if key in step.instruction.attributes:
                found[parameter] = decode(step.instruction.attributes[key], step.place.at(key))
        if "shape" in self.result:
            found["shape"] = type_.type.shape
        if "dtype" in self.result:
            found["dtype"] = type_.type.dtype
        return found


# ---------------------------------------------------------------------------------------------- decoders
def word(*known: str) -> Decoder:
    """One of some words."""

    def decode(text: str, place: Place) -> Argument:
        if text not in known:
            raise place.wrong(shown(text), f"one of {', '.join(known)}", code="hlo-attribute")
        return text

    return decode


def reducer(step: Translation, key: str, overwrites: bool = False) -> str:
    """The operation ``f(p0, p1)`` that a computation of two numbers is; ``second`` for p1 (a scatter that writes)."""
    computation = step.computation(key)
    root = computation.root
    parameters = {i.name: i.inside.strip() for i in computation.instructions if i.opcode == "parameter"}
    if len(parameters) == 2 and {*parameters.values()} == {"0", "1"}:
        if overwrites and root.opcode == "parameter" and root.inside.strip() == "1":
            return "second"
        plain = not {*root.attributes} - HARMLESS and len(computation.instructions) == 3
        if plain and root.opcode in _REDUCERS and sorted(parameters.get(o, "") for o in root.operands) == ["0", "1"]:
            return root.opcode
    raise step.place.at(key).wrong(
        f"the computation {computation.name} (line {computation.line}), whose root is {root.opcode}",
        f"one instruction on both parameters: {', '.join(_REDUCERS)}", code="hlo-reducer",
        hint="other reductions are not supported",
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------- rows of their own
def slice_(step: Translation, row: Row) -> Any:
    """``slice={[0:4], [1:9:2]}`` as three lists."""
    type_ = step.array(step.instruction.type)
    rows = slices(step.instruction.attributes.get("slice", "{}"), step.place.at("slice"))
    starts, limits, strides = (tuple(r[k] for r in rows) for k in range(3))
    return step.emit(
        "hlo.slice", step.operands, {"start_indices": starts, "limit_indices": limits, "strides": strides}, type_
    )


def pad(step: Translation, row: Row) -> Any:
    """``padding=1_2x0_0_1`` as three lists."""
    type_ = step.array(step.instruction.type)
    rows = padding(step.instruction.attributes.get("padding", ""), step.place.at("padding"))
    low, high, interior = (tuple(r[k] for r in rows) for k in range(3))
    return step.emit("hlo.pad", step.operands, {"low": low, "high": high, "interior": interior}, type_)


def compare(step: Translation, row: Row) -> Any:
    """``type`` follows from the operands, but for TOTALORDER, which tells -0 from 0 and orders NaN."""
    word("FLOAT", "SIGNED", "UNSIGNED")(step.instruction.attributes.get("type", "FLOAT"), step.place.at("type"))
    type_ = step.array(step.instruction.type)
    return step.emit("hlo.compare", step.operands, row.keywords(step, type_), type_)


def joined(step: Translation, row: Row) -> Any:
    """The operands as one list."""
    type_ = step.array(step.instruction.type)
    return step.emit("hlo.concatenate", (step.operands,), row.keywords(step, type_), type_)


def window(step: Translation, row: Row) -> Any:
    """One start index per dimension, behind the tensors."""
    type_, opcode = step.array(step.instruction.type), step.instruction.opcode
    tensors = 1 if opcode == "dynamic-slice" else 2
    if len(step.operands) < tensors:
        raise step.place.wrong(f"{len(step.operands)} operands", f"at least {tensors}", code="hlo-operands")
    starts = [step.number(k) for k in range(tensors, len(step.operands))]
    if opcode == "dynamic-update-slice" and all(isinstance(start, int) for start in starts):
        places = tuple(int(start or 0) for start in starts)
        return step.emit("hlo.update-slice-at", step.operands[:tensors], {"start_indices": places}, type_)
    operands = (*step.operands[:tensors], step.operands[tensors:])
    return step.emit(f"hlo.{opcode}", operands, row.keywords(step, type_), type_)


def _order(array: Array, step: Translation) -> tuple[int, ...]:
    """The dimensions from major to minor in memory; without a printed layout known where only one of them counts."""
    rank = len(array.type.shape)
    text = array.layout
    if text is None and sum(size != 1 for size in array.type.shape) <= 1:
        return tuple(range(rank))
    order = integers("{" + (text or "") + "}", step.place.at("layout")) if ":" not in (text or "") else ()
    if sorted(order) != list(range(rank)):
        raise step.place.wrong(
            f"a bitcast of a tensor with {'no layout' if text is None else f'the layout {{{text}}}'}",
            "printed layouts that permute dimensions, without tiles",
            code="hlo-bitcast",
        )  # fmt: skip
    return order[::-1]


def bitcast(step: Translation, row: Row) -> Any:
    """The same elements in the order of memory: known if the layouts are."""
    type_ = step.array(step.instruction.type)
    if step.types[0].type.dtype is not type_.type.dtype:
        raise step.place.wrong(
            f"a bitcast from {step.types[0].type} to {type_.type}", "one element type", code="hlo-bitcast",
            hint="what the bits of a number mean in another type is not modelled",
        )  # fmt: skip
    orders = {"operand_order": _order(step.types[0], step), "result_order": _order(type_, step)}
    return step.emit("hlo.bitcast", step.operands, {"shape": type_.type.shape, **orders}, type_)


def reduce(step: Translation, row: Row) -> Any:
    """Its computation recognised; an initial value that changes nothing is left out."""
    kind = reducer(step, "to_apply") if len(step.operands) == 2 else ""
    if not kind:
        raise step.place.wrong(
            f"a reduce of {len(step.operands) // 2} tensors at once", "one tensor and its initial value",
            code="hlo-reducer", hint="of pairs, the extreme element and its first position (argmax) is known",
        )  # fmt: skip
    type_, given = step.array(step.instruction.type), step.types[0].type
    operands: tuple[Argument, ...] = step.operands
    if 0 not in given.shape and step.number(1) is not None and step.number(1) == neutral(kind, given.dtype):
        operands = operands[:1]
    return step.emit("hlo.reduce", operands, {**row.keywords(step, type_), "kind": kind}, type_)


def neutral(kind: str, dtype: DType) -> bool | int | float:
    """The value that changes no other one of that type: of integers, an extreme one for maximum and minimum."""
    if kind in ("add", "multiply"):
        return int(kind == "multiply")
    if kind in ("and", "or") or dtype.kind is Kind.BOOL:  # the least pred is false, the greatest true
        return kind in ("and", "minimum") if dtype.kind is Kind.BOOL else -1 if kind == "and" else 0
    if dtype.kind is Kind.FLOAT:
        return inf if kind == "minimum" else -inf
    unsigned = dtype.label.startswith("u")
    low, high = (0, (1 << dtype.bits) - 1) if unsigned else (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1)
    return high if kind == "minimum" else low


def scatter(step: Translation, row: Row) -> Any:
    """Its computation recognised."""
    if len(step.operands) != 3:
        raise step.place.wrong(
            f"{len(step.operands)} operands", "3: a scatter into several tensors is not known", code="hlo-operands"
        )
    type_ = step.array(step.instruction.type)
    kind = reducer(step, "to_apply", overwrites=True)
    return step.emit("hlo.scatter", step.operands, {**row.keywords(step, type_), "kind": kind}, type_)


def _parts(step: Translation) -> list[Array]:
    """The type of each result of a combined collective: as many as operands."""
    type_ = step.instruction.type
    if len(step.operands) == 1 and not isinstance(type_, Tuple):
        return [step.array(type_)]
    parts = [step.array(part) for part in type_.parts] if isinstance(type_, Tuple) else []
    if len(parts) != len(step.operands) or not parts:
        raise step.place.wrong(f"{len(step.operands)} operands for {len(parts)} results", "as many as results")
    return parts


def collective(step: Translation, row: Row) -> Any:
    """all-reduce, all-gather, reduce-scatter: of several tensors, one node for each."""
    parts, group = _parts(step), step.group()
    results: list[Any] = []
    for k, (operand, part) in enumerate(zip(step.operands, parts, strict=True)):
        kwargs = {**row.keywords(step, part), "group": group}
        if "to_apply" in step.instruction.attributes:
            kwargs["kind"] = reducer(step, "to_apply")
        suffix = f"[{k}]" if len(parts) > 1 else ""
        results.append(step.emit(f"hlo.{step.instruction.opcode}", (operand,), kwargs, part, suffix))
    return tuple(results) if isinstance(step.instruction.type, Tuple) else results[0]


def all_to_all(step: Translation, row: Row) -> Any:
    """With ``dimensions`` one tensor cut along a dimension; without, one tensor per member."""
    if "dimensions" in step.instruction.attributes and not isinstance(step.instruction.type, Tuple):
        return collective(step, row)
    parts, count = _parts(step), len(step.operands)
    first = parts[0]
    shape = (1, *first.type.shape)
    if any(part.type != first.type for part in (*parts, *step.types)):
        raise step.place.wrong("tensors of different types", "one type for all that is exchanged")
    if row.keywords(step, first).get("dimension", 0) != 0:
        raise step.place.wrong("a dimension beside several tensors", "one of the two")

    def typed(leading: int) -> Array:
        return Array(type(first.type)((leading, *first.type.shape), first.type.dtype), None)

    lines = [
        step.emit("hlo.reshape", (operand,), {"shape": shape}, typed(1), f"/operand[{k}]")
        for k, operand in enumerate(step.operands)
    ]
    whole = step.emit(
        "hlo.concatenate", (tuple(Ref(x.node) for x in lines),), {"dimension": 0}, typed(count), "/operands"
    )
    kwargs: dict[str, Argument] = {"dimension": 0, "group": step.group()}
    exchanged = step.emit("hlo.all-to-all", (Ref(whole.node),), kwargs, typed(count))
    results: list[Any] = []
    for k in range(count):
        rest = [0] * len(first.type.shape)
        bounds: dict[str, Argument] = {
            "start_indices": (k, *rest), "limit_indices": (k + 1, *first.type.shape),
            "strides": tuple(1 for _ in shape),
        }  # fmt: skip
        line = step.emit("hlo.slice", (Ref(exchanged.node),), bounds, typed(1), f"/result[{k}]")
        results.append(step.emit("hlo.reshape", (Ref(line.node),), {"shape": first.type.shape}, first, f"[{k}]"))
    return tuple(results)


def permute(step: Translation, row: Row) -> Any:
    """Pairs as two lists; all ranks are one group."""
    type_ = step.array(step.instruction.type)
    rows = step.source_targets()
    if any(len(row) != 2 for row in rows):
        raise step.place.at("source_target_pairs").wrong("a row that is no pair", "pairs such as {{0,1},{1,0}}")
    sources, targets = (tuple(row[k] for row in rows) for k in (0, 1))
    kwargs: dict[str, Argument] = {"sources": sources, "targets": targets, "group": step.all_ranks()}
    return step.emit("hlo.collective-permute", step.operands, kwargs, type_)


def rank_number(step: Translation, row: Row) -> Any:
    """The number of the rank, a collective of a 0; or 0."""
    type_ = step.array(step.instruction.type)
    zero: dict[str, Argument] = {"shape": (), "dtype": type_.type.dtype}
    if not step.identity(step.instruction.opcode):
        return step.emit("hlo.constant", (0,), zero, type_)
    like = step.emit("hlo.constant", (0,), zero, type_, "/zero")
    return step.emit("hlo.partition-id", (Ref(like.node),), {"group": step.all_ranks()}, type_)


def custom_call(step: Translation, row: Row) -> Any:
    """The operator named after its target."""
    attributes = step.instruction.attributes
    target = string(attributes.get("custom_call_target", ""), step.place)
    known = f"hlo.custom-call.{target}"
    if target in _PARTITIONING or target.startswith("xla.sdy."):
        raise step.place.wrong(
            f"the custom call {target}", "a program after partitioning", code="hlo-custom-call",
            hint="this text is from before XLA's SPMD partitioner: take the dump after it (see the page on HLO)",
        )  # fmt: skip
    if attributes.get("custom_call_has_side_effect", "false") != "false":
        raise step.place.wrong(f"the custom call {target} with side effects", "a function of its operands")
    type_ = step.array(step.instruction.type)
    config = string(attributes.get("backend_config", '""'), step.place)
    return step.emit(known, step.operands, {"backend_config": config} if config else {}, type_)


_PARTITIONING = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "SPMDInternalOp_RotateRight")
